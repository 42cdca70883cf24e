// Two ranks that train on the same data, where other ranks have data of their own.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <tuple>
#include <utility>

#include "analyzer/detectors/framework_calls.h"
#include "analyzer/detectors/numeric/numeric.h"
#include "analyzer/detectors/trace/trace_finding.h"
#include "analyzer/model/elapsed.h"
#include "analyzer/numbers/batches.h"
#include "analyzer/text/units.h"
#include "analyzer/thresholds.h"

namespace traintrace {
namespace {

Ranks members_of(const Communicator& communicator) {
  Ranks ranks = communicator.absent;
  for (const Member& member : communicator.members) {
    insert(ranks, member.rank);
  }
  return ranks;
}

bool lie_in(const Ranks& some, const Ranks& all) {
  return std::includes(all.begin(), all.end(), some.begin(), some.end());
}

Ranks ranks_of(const PlaceBatches& all) {
  Ranks ranks;
  for (const BatchSeries* const series : all) {
    insert(ranks, series->rank);
  }
  return ranks;
}

// Whether every communicator is of all these ranks: tensor parallelism over all of them, or data
// parallelism whose sampler gives all the same.
bool have_no_groups(const Run& run, const Ranks& ranks) {
  return std::all_of(
      run.communicators.begin(), run.communicators.end(), [&](const Communicator& communicator) {
        return members_of(communicator).size() <= 1 || lie_in(ranks, members_of(communicator));
      });
}

bool have_group(const Run& run, const Ranks& ranks) {
  return std::any_of(run.communicators.begin(), run.communicators.end(),
                     [&](const Communicator& communicator) {
                       const Ranks members = members_of(communicator);
                       return members.size() > 1 && lie_in(members, ranks);
                     });
}

using RankPair = std::pair<Rank, Rank>;  // the lesser one first

// Those that exchanged as many messages as there are batches in a row that count as shared.
std::set<RankPair> message_pairs(const Run& run) {
  std::map<RankPair, uint64_t> counts;
  for (const Communicator& communicator : run.communicators) {
    for (const Member& member : communicator.members) {
      for (const PeerText& peer : run.processes[member.process].peers) {
        const Member* const other =
            peer.communicator == member.element + 1 ? member_at(communicator, peer.peer) : nullptr;
        if (other != nullptr && other->rank != member.rank) {
          counts[std::minmax(member.rank, other->rank)] += peer.operations;
        }
      }
    }
  }
  std::set<RankPair> pairs;
  for (const auto& [pair, count] : counts) {
    if (count >= 2 * kFewestSame) {  // of each message both ends
      pairs.insert(pair);
    }
  }
  return pairs;
}

// Whether messages connect them, by way of others than these.
bool are_linked(const std::set<RankPair>& pairs, const Ranks& ranks, const Ranks& others) {
  std::set<Rank> reached = {ranks.front()};
  for (size_t before = 0; before != reached.size();) {
    before = reached.size();
    for (const auto& [a, b] : pairs) {
      const bool joins = !contains(others, a) && !contains(others, b) &&
                         (reached.contains(a) || reached.contains(b));
      if (joins) {
        reached.insert({a, b});
      }
    }
  }
  return std::all_of(ranks.begin(), ranks.end(), [&](Rank rank) { return reached.contains(rank); });
}

constexpr const char* kOwnNumber =
    "see that the sampler is given each rank's own number (DistributedSampler's rank and "
    "num_replicas) and that ranks do not share a random seed where they should not";

int64_t clamped(uint64_t value) {
  return static_cast<int64_t>(std::min<uint64_t>(value, INT64_MAX));
}

Finding same_finding(const SameBatches& same) {
  Finding finding = numeric_finding("numeric.same-data");
  const BatchSeries& series = *same.series;
  finding.certainty = Certainty::kPossible;
  if (series.place) {
    finding.where.push_back(*series.place);
  }
  finding.values = {{"same_count", static_cast<int64_t>(same.count)},
                    {"first_number", static_cast<int64_t>(same.first + 1)},
                    {"batch_bytes", clamped(series.sizes[same.first])}};
  finding.title = fmt::format("{} send the same batches to their GPUs at {}: {} changing ones",
                              ranks_text(same.ranks), place_text(series), same.count);
  return finding;
}

void add_set(const Run& run, const SameBatches& same, Finding& finding) {
  const BatchSeries& series = *same.series;
  finding.sides.push_back(same.ranks);
  finding.evidence.push_back(fmt::format(
      "rank {}: {} of {} batches, number {} to {}, from +{} to +{}, are those of {}",
      series.rank.value, same.count, series.hashes.size(), same.first + 1, same.last + 1,
      duration_text(elapsed(run.start, series.times[same.first])),
      duration_text(elapsed(run.start, series.times[same.last])), ranks_text(same.ranks)));
}

// `all`: sets of ranks without one in common, of one place.
Finding of_some(const Run& run, const std::vector<SameBatches>& all, const Ranks& senders) {
  Finding finding = same_finding(all.front());
  size_t count = 0;
  std::vector<std::string> further;
  for (const SameBatches& same : all) {
    add_set(run, same, finding);
    count += same.ranks.size();
    if (&same != &all.front()) {
      further.push_back(ranks_text(same.ranks));
    }
  }
  finding.evidence = cut(std::move(finding.evidence));
  if (!further.empty()) {
    finding.title +=
        fmt::format("; so do {}, with batches of theirs", fmt::join(further, ", and "));
  }
  if (count < senders.size()) {
    finding.title += "; other ranks send their own";
  }
  finding.advice = kOwnNumber;
  return finding;
}

bool is_of_data_parallelism(FrameworkCall call) {
  switch (call) {
    case FrameworkCall::kDataParallel:
    case FrameworkCall::kGradientBucket:
    case FrameworkCall::kGatherUnit:
    case FrameworkCall::kReduceUnit:
    case FrameworkCall::kMegatronBucket:
      return true;
    case FrameworkCall::kNone:
    case FrameworkCall::kMessages:
    case FrameworkCall::kPipeline:
      return false;
  }
  return false;
}

// Whether the rank sent several batches of its own between the two of `shared` that lie around that
// time: what it computed then is of those, as between two evaluations on the same data.
bool has_own_data_at(const BatchSeries& shared, const PlaceBatches& own, TimeNs time) {
  const auto next = std::upper_bound(shared.times.begin(), shared.times.end(), time);
  if (next == shared.times.begin() || next == shared.times.end()) {
    return false;
  }
  return std::any_of(own.begin(), own.end(), [&](const BatchSeries* series) {
    const auto& times = series->times;
    const auto begin = std::upper_bound(times.begin(), times.end(), *(next - 1));
    return std::lower_bound(begin, times.end(), *next) - begin > 1;
  });
}

// How many collectives exchanged gradients or parameters while these batches were sent.  0: there
// were others, too, as tensor parallelism has in its forward pass; but for those of one number,
// which are a loss, a norm or a barrier.
size_t gradient_collectives(const ProcessTrace& trace, const SameBatches& same,
                            const Numbers& numbers) {
  const BatchSeries& series = *same.series;
  const auto exchanges = numbers.exchanges.find(series.rank);
  if (exchanges == numbers.exchanges.end()) {
    return 0;
  }
  const PlaceBatches own = own_batches(numbers, series.rank);
  std::map<std::tuple<uint32_t, uint32_t, int>, bool> known;  // by call, stack and type
  size_t count = 0;
  for (const Exchange& exchange : exchanges->second) {
    if (exchange.enter < series.times[same.first] || exchange.enter > series.times[same.last]) {
      continue;
    }
    const auto [is_data_parallel, is_new] =
        known.try_emplace({exchange.call, exchange.stack, exchange.data_type});
    if (is_new) {
      OperationText operation;
      operation.call = exchange.call;
      operation.stack = exchange.stack;
      operation.data_type = exchange.data_type;
      operation.collective = exchange.collective;
      is_data_parallel->second = is_of_data_parallelism(framework_call_of(trace, operation).call);
    }
    if (!is_data_parallel->second) {
      return 0;
    }
    count += has_own_data_at(series, own, exchange.enter) ? 0 : 1;
  }
  return count;
}

Finding of_all(const Run& run, const SameBatches& same, const Numbers& numbers) {
  Finding finding = same_finding(same);
  add_set(run, same, finding);
  const BatchSeries& series = *same.series;
  const size_t gradients = gradient_collectives(run.processes[series.process], same, numbers);
  if (gradients >= kFewestSame) {
    finding.title += "; data parallelism needs different ones";
    finding.evidence.push_back(
        fmt::format("all {} collectives that are known of rank {} meanwhile exchange gradients or "
                    "parameters of data parallelism, so no other kind of it shares the batches",
                    gradients, series.rank.value));
    finding.advice = kOwnNumber;
    return finding;
  }
  finding.severity = Severity::kInfo;
  finding.advice =
      "right with tensor parallelism over all ranks, and where each rank evaluates the whole set; "
      "with data parallelism, give each rank's sampler its own number";
  return finding;
}

bool have_any_in_common(const Ranks& a, const Ranks& b) {
  return std::any_of(a.begin(), a.end(), [&](Rank rank) { return contains(b, rank); });
}

Ranks without(const Ranks& all, const Ranks& some) {
  Ranks others;
  std::set_difference(all.begin(), all.end(), some.begin(), some.end(), std::back_inserter(others));
  return others;
}

std::optional<Finding> same_data_of(const Run& run, const PlaceBatches& all,
                                    const Numbers& numbers) {
  const Ranks senders = ranks_of(all);
  std::vector<SameBatches> wrong;
  for (const SameBatches& same : same_batches(all, numbers)) {
    const bool is_part = std::any_of(wrong.begin(), wrong.end(), [&](const SameBatches& other) {
      return have_any_in_common(other.ranks, same.ranks);
    });
    if (same.ranks.size() < senders.size()) {
      if (!is_part && !may_share_data(run, same.ranks, without(senders, same.ranks))) {
        wrong.push_back(same);
      }
    } else if (wrong.empty() && same.ranks.size() == run.ranks.size() &&
               have_no_groups(run, same.ranks)) {
      return of_all(run, same, numbers);
    }
  }
  return wrong.empty() ? std::nullopt : std::optional(of_some(run, wrong, senders));
}

}  // namespace

bool may_share_data(const Run& run, const Ranks& ranks, const Ranks& others) {
  return have_group(run, ranks) || are_linked(message_pairs(run), ranks, others);
}

std::vector<Finding> find_same_data(const Run& run, const Numbers& numbers) {
  std::vector<Finding> findings;
  for (const PlaceBatches& all : batches_by_place(numbers)) {
    if (auto finding = same_data_of(run, all, numbers)) {
      findings.push_back(std::move(*finding));
    }
  }
  return findings;
}

}  // namespace traintrace
