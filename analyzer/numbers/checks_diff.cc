#include "analyzer/numbers/checks_diff.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>

#include "analyzer/model/elapsed.h"

namespace traintrace {
namespace {

// "dp of ranks 0-3", and which one of those.
using CommunicatorKey = std::pair<std::string, size_t>;
using OperationKey = std::tuple<CommunicatorKey, bool, int32_t, int32_t, uint64_t>;

std::vector<CommunicatorKey> communicator_keys(const Run& run) {
  std::map<std::string, size_t> known;
  std::vector<CommunicatorKey> keys;
  for (const Communicator& communicator : run.communicators) {
    Ranks ranks = communicator.absent;
    for (const Member& member : communicator.members) {
      insert(ranks, member.rank);
    }
    const std::string text = communicator.name + " of " + rank_list(ranks);
    keys.emplace_back(text, known[text]++);
  }
  return keys;
}

OperationKey key_in(const std::vector<CommunicatorKey>& communicators, const Check& check) {
  const bool message = is_message(check.operation);
  const bool receive = check.operation == format::kCheckedReceive;
  return {communicators[check.communicator], message,
          !message ? -1 : (receive ? check.peer : check.member),
          !message ? -1 : (receive ? check.member : check.peer), check.sequence};
}

// Ranks whose buffers of that side differ; parts that one run lacks are not compared.
Ranks different_ranks(std::span<const Check> a, std::span<const Check> b) {
  Ranks ranks;
  for (const Check& check : a) {
    const auto other = std::find_if(b.begin(), b.end(), [&](const Check& one) {
      return one.rank == check.rank && one.part == check.part;
    });
    if (other != b.end() && has_sums(check) && has_sums(*other) &&
        other->tally.hash != check.tally.hash) {
      insert(ranks, check.rank);
    }
  }
  return ranks;
}

bool has_all_inputs(const Run& run, std::span<const Check> inputs) {
  Ranks ranks;
  for (const Check& check : inputs) {
    insert(ranks, check.rank);
  }
  const bool message = !inputs.empty() && is_message(inputs.front().operation);
  const bool one_gives =
      !inputs.empty() && (inputs.front().operation == format::kCheckedBroadcast ||
                          inputs.front().operation == format::kCheckedScatter);
  return !inputs.empty() &&
         (message || one_gives ||
          std::ssize(ranks) == run.communicators[inputs.front().communicator].size);
}

class ChecksComparison {
 public:
  ChecksComparison(const Run& run_a, const Checks& a, const Run& run_b, const Checks& b)
      : run_a_(run_a), a_(a), run_b_(run_b), b_(b) {
    const std::vector<CommunicatorKey> communicators = communicator_keys(run_b);
    for (const CheckedOperation& operation : b.operations) {
      of_b_.emplace(key_in(communicators, b.all[operation.first]), &operation);
    }
  }

  ChecksDiff result() {
    pair_up();
    ChecksDiff diff;
    const auto first =
        std::find_if(pairs_.begin(), pairs_.end(), [](const Pair& pair) { return pair.differs(); });
    diff.same = static_cast<size_t>(first - pairs_.begin());
    if (first != pairs_.end()) {
      diff.first = difference(earliest(*first));
    }
    return diff;
  }

 private:
  struct Pair {
    const CheckedOperation* a;
    const CheckedOperation* b;
    Ranks inputs, results;  // of which they differ
    bool inputs_known;

    bool differs() const { return !inputs.empty() || (!results.empty() && inputs_known); }
  };

  Pair compared(const CheckedOperation& a, const CheckedOperation& b) const {
    const auto side = [&](format::CheckedSide which) {
      return std::pair(side_of(checks_of(a_, a), which), side_of(checks_of(b_, b), which));
    };
    const auto [inputs_a, inputs_b] = side(format::kCheckedInput);
    const auto [results_a, results_b] = side(format::kCheckedOutput);
    return {&a, &b, different_ranks(inputs_a, inputs_b), different_ranks(results_a, results_b),
            has_all_inputs(run_a_, inputs_a) && has_all_inputs(run_b_, inputs_b)};
  }

  bool are_alike(const CheckedOperation& a, const CheckedOperation& b) const {
    const Check& of_a = a_.all[a.first];
    const Check& of_b = b_.all[b.first];
    return a.agrees && b.agrees && of_a.operation == of_b.operation && of_a.type == of_b.type &&
           of_a.reduction == of_b.reduction && of_a.count == of_b.count;
  }

  // In the order of A, up to the first that are different calls.
  void pair_up() {
    const std::vector<CommunicatorKey> communicators = communicator_keys(run_a_);
    std::vector<const CheckedOperation*> of_a;
    for (const CheckedOperation& operation : a_.operations) {
      of_a.push_back(&operation);
    }
    std::stable_sort(of_a.begin(), of_a.end(),
                     [](const auto* one, const auto* other) { return one->time < other->time; });
    for (const CheckedOperation* const operation : of_a) {
      const auto other = of_b_.find(key_in(communicators, a_.all[operation->first]));
      if (other == of_b_.end()) {
        continue;
      }
      if (!are_alike(*operation, *other->second)) {
        return;
      }
      pairs_.push_back(compared(*operation, *other->second));
    }
  }

  struct FirstOfRank {
    const Pair* pair = nullptr;
    TimeNs time = 0;  // by the rank's own clock
  };

  // Of each rank, the operation that differs and that it called first.
  std::map<Rank, FirstOfRank> first_differences() const {
    std::map<Rank, FirstOfRank> firsts;
    for (const Pair& pair : pairs_) {
      for (const Check& check : checks_of(a_, *pair.a)) {
        FirstOfRank& first = firsts[check.rank];
        if (pair.differs() && (first.pair == nullptr || check.time < first.time)) {
          first = {&pair, check.time};
        }
      }
    }
    return firsts;
  }

  // Clocks of hosts may differ: of the same rank the order of calls counts.  Where ranks called two
  // of them in different orders, neither is earlier than the other.
  const Pair& earliest(const Pair& pair) const {
    const std::map<Rank, FirstOfRank> firsts = first_differences();
    const Pair* best = &pair;
    std::set<const Pair*> seen;
    while (seen.insert(best).second) {
      for (const Check& check : checks_of(a_, *best->a)) {
        const FirstOfRank& first = firsts.at(check.rank);
        if (first.pair != nullptr && !seen.contains(first.pair)) {
          best = first.pair;
          break;
        }
      }
    }
    return *best;
  }

  // When the first of these ranks called it.
  static TimeNs first_call(const Checks& checks, const CheckedOperation& operation,
                           const Ranks& ranks) {
    std::optional<TimeNs> first;
    for (const Check& check : checks_of(checks, operation)) {
      if (contains(ranks, check.rank) && (!first || check.time < *first)) {
        first = check.time;
      }
    }
    return first.value_or(operation.time);
  }

  // What the rank called before that operation; empty: nothing that was checked.
  std::string call_before(Rank rank, const CheckedOperation& operation) const {
    const Check* before = nullptr;
    const std::vector<uint32_t>& own = a_.of_rank.at(rank);
    for (const uint32_t number : own) {
      if (number >= operation.first && number < operation.first + operation.count) {
        break;
      }
      before = &a_.all[number];
    }
    return before == nullptr ? "" : operation_text(run_a_, *before);
  }

  ValueDiff difference(const Pair& pair) const {
    ValueDiff diff;
    const bool input = !pair.inputs.empty();
    diff.kind = input ? DiffedValue::kInput : DiffedValue::kResult;
    diff.ranks = input ? pair.inputs : pair.results;
    const format::CheckedSide which = input ? format::kCheckedInput : format::kCheckedOutput;
    const auto of_rank = [&](const Checks& checks, const CheckedOperation& operation) {
      const std::span<const Check> all = side_of(checks_of(checks, operation), which);
      const auto first = std::find_if(all.begin(), all.end(), [&](const Check& check) {
        return check.rank == diff.ranks.front();
      });
      return first == all.end() ? all : member_side(all, first->member);
    };
    const std::span<const Check> a = of_rank(a_, *pair.a);
    const std::span<const Check> b = of_rank(b_, *pair.b);
    diff.place = place_text(a_.sites[a.front().site].place);
    diff.operation = operation_text(run_a_, a.front());
    diff.number = a.front().sequence;
    // Others may have called it long before: what these ranks did until then comes first.
    diff.since_a = elapsed(run_a_.start, first_call(a_, *pair.a, diff.ranks));
    diff.since_b = elapsed(run_b_.start, first_call(b_, *pair.b, diff.ranks));
    diff.a = fmt::format("norm {:.9g}", whole(a).norm());
    diff.b = b.empty() ? "" : fmt::format("norm {:.9g}", whole(b).norm());
    if (input) {
      diff.before = call_before(diff.ranks.front(), *pair.a);
    } else {
      const Communicator& of_a = run_a_.communicators[a.front().communicator];
      const Check& other = b_.all[pair.b->first];
      diff.conditions =
          nccl_conditions_diff(run_a_, of_a, run_b_, run_b_.communicators[other.communicator]);
      diff.same_conditions = diff.conditions.empty() ? nccl_conditions_text(run_a_, of_a) : "";
    }
    return diff;
  }

  const Run& run_a_;
  const Checks& a_;
  const Run& run_b_;
  const Checks& b_;
  std::map<OperationKey, const CheckedOperation*> of_b_;
  std::vector<Pair> pairs_;
};

}  // namespace

ChecksDiff diff_checks(const Run& run_a, const Checks& a, const Run& run_b, const Checks& b) {
  return ChecksComparison(run_a, a, run_b, b).result();
}

}  // namespace traintrace
