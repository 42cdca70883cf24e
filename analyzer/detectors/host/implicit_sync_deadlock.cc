// A rank is inside a call that waits for its whole device, and so for an operation that its peers
// cannot finish before it comes.
#include <fmt/format.h>

#include <algorithm>

#include "analyzer/detectors/detectors.h"
#include "analyzer/detectors/hang/hang_finding.h"
#include "analyzer/detectors/hang/tense.h"
#include "analyzer/model/communicators.h"
#include "analyzer/model/process/activity.h"
#include "analyzer/model/process/open_calls.h"
#include "analyzer/model/waiting/hang_cause.h"

namespace traintrace {
namespace {

// What the rank has put on its device, and its peers are missing from.
const Wait* held_in(const Run& run, Rank rank, const Ranks& cycle) {
  for (const Wait& wait : run.waits.waits) {
    const auto is_rank = [&](const Waiter& waiter) { return waiter.rank == rank; };
    const auto in_cycle = [&](const Awaited& awaited) { return contains(cycle, awaited.rank); };
    if (std::any_of(wait.waiters.begin(), wait.waiters.end(), is_rank) &&
        std::any_of(wait.awaited.begin(), wait.awaited.end(), in_cycle)) {
      return &wait;
    }
  }
  return nullptr;
}

Ranks awaited_in(const Wait& wait) {
  Ranks ranks;
  for (const Awaited& awaited : wait.awaited) {
    ranks.push_back(awaited.rank);
  }
  return ranks;
}

std::string inside_text(const Run& run, Rank rank) {
  const RankState& state = *state_of(run, rank);
  const ProcessTrace& trace = trace_of(run, state);
  const auto open = open_cuda_call(run, state);
  const auto place = user_place(trace, rank, open->stack);
  return fmt::format("rank {} is inside {}{}", rank.value, open->call,
                     place ? " at " + place_text(*place) : "");
}

// What the call waits for, of the rank's own: "ncclAllReduce #11 on communicator dp (4 ranks)";
// empty: not known.
std::string own_text(const Run& run, const Hang& hang, Rank rank) {
  if (const Wait* const own = held_in(run, rank, hang.roots)) {
    return operation_text(run, *own);
  }
  const auto held = held_by_others(run, hang, rank);
  return held ? fmt::format("{} #{} on communicator {}",
                            call_name(trace_of(run, *state_of(run, rank)), held->own->call),
                            held->own->sequence,
                            label_of(run, run.communicators[held->communicator]))
              : "";
}

// Who is waited for in what: the call waits for the first, the others for the rank in the second.
std::string chain_text(const Run& run, const Hang& hang, Rank rank) {
  const Wait* const own = held_in(run, rank, hang.roots);
  const std::string first = own_text(run, hang, rank);
  std::string text = inside_text(run, rank) + ", which waits for all work of its GPU" +
                     (first.empty() ? "" : ", " + first + " too");
  for (const Wait& wait : run.waits.waits) {
    const auto is_rank = [&](const Awaited& awaited) { return awaited.rank == rank; };
    if (&wait != own && std::any_of(wait.awaited.begin(), wait.awaited.end(), is_rank)) {
      return text +
             fmt::format("; {} for it in {}", waiting_text(run, wait), operation_text(run, wait));
    }
  }
  return text;
}

// Why that operation does not end, and since when the rank waits; empty: not known.
std::string not_begun_text(const Run& run, const Hang& hang, Rank rank) {
  const auto open = open_cuda_call(run, *state_of(run, rank));
  const std::string text = fmt::format("rank {} has been inside {} since {}", rank.value,
                                       open->call, run_time(run, open->since));
  if (const Wait* const own = held_in(run, rank, hang.roots)) {
    return fmt::format("{}: {} not begun {}", text,
                       ranks_text(awaited_in(*own)) + (own->awaited.size() == 1 ? " has" : " have"),
                       operation_text(run, *own));
  }
  const std::string held = own_text(run, hang, rank);
  return held.empty()
             ? text
             : fmt::format("{}: the others have enqueued {} after what they wait in", text, held);
}

void put_places(const Run& run, const Ranks& ranks, Finding& finding) {
  std::vector<CodePlace> places;
  for (const Rank rank : ranks) {
    const ProcessTrace& trace = trace_of(run, *state_of(run, rank));
    if (const auto place =
            user_place(trace, rank, open_cuda_call(run, *state_of(run, rank))->stack)) {
      places.push_back(*place);
    }
  }
  std::erase_if(finding.where, [&](const CodePlace& place) { return contains(ranks, place.rank); });
  finding.where.insert(finding.where.begin(), places.begin(), places.end());
}

bool is_in_nccl_too(const Run& run, Rank rank) {
  return blocked_in_nccl(run, *state_of(run, rank)) != 0;
}

void put_blame(const Run& run, const Hang& hang, const Ranks& ranks, Finding& finding) {
  const bool cycle = hang.fate == Fate::kCycle;
  Ranks others;
  std::copy_if(finding.victims.begin(), finding.victims.end(), std::back_inserter(others),
               [&](Rank rank) { return !contains(ranks, rank); });
  finding.sides = {ranks, others};
  if (cycle && std::any_of(ranks.begin(), ranks.end(),
                           [&](Rank rank) { return is_in_nccl_too(run, rank); })) {
    finding.certainty = Certainty::kPossible;
    finding.title += "; no culprit: a further thread is inside NCCL, which may be why";
  } else if (ranks.size() < others.size() ||
             (!cycle && !held_by_others(run, hang, ranks.front()))) {
    finding.culprits = ranks;
    finding.victims = others;
  } else {
    finding.title += "; no culprit: as many are inside such a call as are not";
  }
}

Finding implicit_sync_finding(const Run& run, const Hang& hang) {
  const bool cycle = hang.fate == Fate::kCycle;
  const Ranks ranks = cycle ? inside_implicit_sync(run, hang) : hang.roots;
  Finding finding = hang_finding(run, hang, "host.implicit-sync-deadlock");
  finding.title = chain_text(run, hang, ranks.front());
  finding.certainty = Certainty::kLikely;  // for what a call waits is CUDA's affair
  put_places(run, ranks, finding);
  put_blame(run, hang, ranks, finding);
  for (size_t i = 0; i < std::min<size_t>(ranks.size(), 8); ++i) {
    if (i > 0) {
      finding.evidence.push_back(chain_text(run, hang, ranks[i]));
    }
    finding.evidence.push_back(not_begun_text(run, hang, ranks[i]));
  }
  finding.advice =
      "allocate, free, load and synchronise the device before the first of these operations is "
      "put on a stream, or after the last; wait for single streams and events instead";
  return finding;
}

}  // namespace

std::vector<Finding> find_implicit_sync(const Run& run) {
  std::vector<Finding> findings;
  for (const Hang& hang : run.waits.hangs) {
    if (cause_of(run, hang) == Cause::kImplicitSync) {
      findings.push_back(implicit_sync_finding(run, hang));
    }
  }
  return findings;
}

}  // namespace traintrace
