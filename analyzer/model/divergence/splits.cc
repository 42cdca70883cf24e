#include "analyzer/model/divergence/splits.h"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "analyzer/model/elapsed.h"
#include "analyzer/model/process/ending.h"
#include "analyzer/model/sequences.h"
#include "analyzer/model/waiting/waits.h"

namespace traintrace {
namespace {

using Call = std::pair<std::string, uint64_t>;  // the name that the child got, and the line

// By rank, in order: members of the children.
using SplitsOf = std::map<Rank, std::vector<Member>>;

SplitsOf splits_of(const Run& run, CommunicatorId parent) {
  SplitsOf found;
  for (const Communicator& child : run.communicators) {
    for (const Member& member : child.parent == parent ? child.members : std::vector<Member>{}) {
      if (text_of(run, member).origin == format::kSplit) {
        found[member.rank].push_back(member);
      }
    }
  }
  for (auto& [rank, splits] : found) {
    std::sort(splits.begin(), splits.end(), [&](const Member& a, const Member& b) {
      return text_of(run, a).ordinal < text_of(run, b).ordinal;
    });
  }
  return found;
}

bool are_as_many(const SplitsOf& splits) {
  return std::all_of(splits.begin(), splits.end(), [&](const auto& entry) {
    return entry.second.size() == splits.begin()->second.size();
  });
}

// Whose name and line are not known, tells nothing.
std::vector<Call> calls_of(const Run& run, const std::vector<Member>& splits) {
  std::vector<Call> calls;
  for (const Member& member : splits) {
    const CommunicatorText& text = text_of(run, member);
    calls.emplace_back(text.name, site_of(run.processes[member.process], text.created_stack));
  }
  return calls;
}

bool is_known(const std::vector<Call>& calls) {
  return std::all_of(calls.begin(), calls.end(),
                     [](const Call& call) { return call.second != 0 || !call.first.empty(); });
}

// Where the longer one first has something that the shorter one has not, if that is all that they
// differ in and it is not at the end: what is at the end may still come.
std::optional<size_t> gap_in(const std::vector<Call>& shorter, const std::vector<Call>& longer) {
  std::optional<size_t> gap;
  size_t at = 0;
  for (size_t i = 0; i < longer.size() && at < shorter.size(); ++i) {
    if (shorter[at] == longer[i]) {
      ++at;
    } else if (!gap) {
      gap = i;
    }
  }
  return at == shorter.size() && shorter.size() < longer.size() ? gap : std::nullopt;
}

bool is_over(const Run& run, const Ranks& ranks) {
  return std::all_of(ranks.begin(), ranks.end(), [&](Rank rank) {
    return exited_normally(run, *state_of(run, rank)) ||
           exited_abnormally(run, *state_of(run, rank));
  });
}

void add_waits(const Run& run, SplitMismatch& mismatch) {
  const Communicator& parent = run.communicators[mismatch.parent];
  for (const Wait& wait : run.waits.waits) {
    const Communicator& communicator = run.communicators[wait.communicator];
    if (communicator.parent != parent.id && communicator.id != parent.id) {
      continue;
    }
    for (const Waiter& waiter : wait.waiters) {
      insert(mismatch.waiting, waiter.rank);
      mismatch.waited = std::max(mismatch.waited, elapsed(waiter.since, waiter.until));
    }
  }
}

class Splits {
 public:
  Splits(const Run& run, size_t parent, const SplitsOf& splits)
      : run_(run), parent_(parent), splits_(splits) {
    for (const auto& [rank, calls] : splits) {
      insert(by_calls_[calls_of(run, calls)], rank);
    }
  }

  std::vector<SplitMismatch> mismatches() const {
    const auto most = std::max_element(
        by_calls_.begin(), by_calls_.end(),
        [](const auto& a, const auto& b) { return a.second.size() < b.second.size(); });
    std::vector<SplitMismatch> found;
    const auto size = static_cast<size_t>(std::max(run_.communicators[parent_].size, 0));
    if (2 * most->second.size() <= size || size == 0 || !is_known(most->first)) {
      return found;
    }
    for (const auto& [calls, ranks] : by_calls_) {
      if (auto mismatch = compare(calls, ranks, most->first, most->second)) {
        found.push_back(std::move(*mismatch));
      }
    }
    return found;
  }

 private:
  std::optional<SplitMismatch> compare(const std::vector<Call>& calls, const Ranks& ranks,
                                       const std::vector<Call>& normal, const Ranks& others) const {
    SplitMismatch mismatch;
    mismatch.extra = calls.size() > normal.size();
    const auto gap = mismatch.extra ? gap_in(normal, calls) : gap_in(calls, normal);
    if (!gap || !is_known(calls)) {
      return std::nullopt;
    }
    mismatch.parent = parent_;
    mismatch.called = splits_.at((mismatch.extra ? ranks : others).front())[*gap];
    mismatch.ordinal = text_of(run_, mismatch.called).ordinal;
    mismatch.length = mismatch.extra ? calls.size() - normal.size() : normal.size() - calls.size();
    mismatch.deviants = ranks;
    mismatch.others = others;
    add_waits(run_, mismatch);
    // Else what they left out may still come, in another order.
    const bool decided = mismatch.waited >= run_.hang_after || is_over(run_, ranks);
    return decided ? std::optional(mismatch) : std::nullopt;
  }

  const Run& run_;
  size_t parent_;
  const SplitsOf& splits_;
  std::map<std::vector<Call>, Ranks> by_calls_;
};

std::vector<SplitMismatch> mismatches_of(const Run& run, size_t parent) {
  const SplitsOf splits = splits_of(run, run.communicators[parent].id);
  // Equal numbers in another order are legal, if the colors fit.
  return are_as_many(splits) ? std::vector<SplitMismatch>{}
                             : Splits(run, parent, splits).mismatches();
}

}  // namespace

std::vector<SplitMismatch> split_mismatches(const Run& run) {
  std::vector<SplitMismatch> found;
  for (size_t i = 0; i < run.communicators.size(); ++i) {
    std::vector<SplitMismatch> here = mismatches_of(run, i);
    std::move(here.begin(), here.end(), std::back_inserter(found));
  }
  return found;
}

bool is_of_split_mismatch(const Run& run, size_t communicator) {
  const Communicator& own = run.communicators[communicator];
  for (size_t i = 0; i < run.communicators.size(); ++i) {
    const bool concerned = i == communicator || run.communicators[i].id == own.parent;
    if (concerned && !mismatches_of(run, i).empty()) {
      return true;
    }
  }
  return false;
}

bool is_split_mismatch(const Run& run, const Hang& hang) {
  return is_of_split_mismatch(run, run.waits.waits[hang.wait].communicator);
}

}  // namespace traintrace
