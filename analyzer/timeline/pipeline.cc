#include "analyzer/timeline/pipeline.h"
#include "analyzer/thresholds.h"

#include <algorithm>
#include <array>
#include <map>
#include <tuple>
#include <utility>

#include "analyzer/timeline/collectives/messages.h"
#include "analyzer/timeline/idle.h"
#include "analyzer/timeline/spans.h"
#include "analyzer/timeline/steps.h"

namespace traintrace {
namespace {

enum Way : size_t { kSend, kReceive };

using LinkKey = std::tuple<uint64_t, int32_t, int32_t>;  // communicator, rank, peer

// All that goes between a rank and another one.
struct Traffic {
  std::array<size_t, 2> begins = {};  // how many steps begin so
  std::array<bool, 2> goes = {};
  bool is_exchange = false;  // a step begins with both ways in one kernel
};

LinkKey key_of(const PeerMessage& message) {
  return {message.communicator, message.rank, message.peer};
}

// The first launch of each step that the job marked.
std::vector<uint64_t> first_launches(const Timeline& timeline) {
  std::vector<uint64_t> launches;
  size_t step = 0;
  for (const HostCall& call : timeline.calls) {
    if (call.correlation == 0 || step == timeline.step_starts.size() ||
        call.start_ns < timeline.step_starts[step]) {
      continue;
    }
    launches.push_back(call.correlation);
    while (step < timeline.step_starts.size() && timeline.step_starts[step] <= call.start_ns) {
      ++step;
    }
  }
  return launches;
}

// In the order of their launches, as are correlations: on the GPU messages may queue up.  What was
// launched before the first mark is the rest of a step, which may begin with a gradient.
std::map<LinkKey, Traffic> traffic_of(const Timeline& timeline) {
  struct First {
    size_t step;  // 0: before the first mark
    Way way;
    uint64_t correlation;
  };
  const std::vector<uint64_t> launches = first_launches(timeline);
  std::map<LinkKey, std::vector<First>> firsts;
  std::map<LinkKey, Traffic> links;
  for (const PeerMessage& message : timeline.messages) {
    const auto step = static_cast<size_t>(
        std::upper_bound(launches.begin(), launches.end(), message.correlation) - launches.begin());
    const Way way = message.receives ? kReceive : kSend;
    Traffic& traffic = links[key_of(message)];
    traffic.goes[way] = true;
    std::vector<First>& of_link = firsts[key_of(message)];
    if (of_link.empty() || of_link.back().step != step) {
      of_link.push_back({step, way, message.correlation});
    } else if (of_link.back().correlation == message.correlation && of_link.back().way != way) {
      traffic.is_exchange = true;
    }
  }
  for (auto& [key, traffic] : links) {
    const std::vector<First>& of_link = firsts[key];
    for (const First& first : of_link) {
      traffic.begins[first.way] += first.step > 0 || of_link.size() == 1 ? 1 : 0;
    }
  }
  return links;
}

StageLink link_of(const LinkKey& key) {
  return {std::get<0>(key), std::get<1>(key), std::get<2>(key)};
}

struct Neighbours {
  std::optional<StageLink> previous, next;
  bool ambiguous = false;
};

// The first message of a step goes on to the next stage, and gradients come back.
Neighbours neighbours_of(const Timeline& timeline) {
  Neighbours found;
  for (const auto& [key, traffic] : traffic_of(timeline)) {
    if (traffic.is_exchange || !traffic.goes[kSend] || !traffic.goes[kReceive]) {
      continue;
    }
    const auto [sends, receives] = traffic.begins;
    std::optional<StageLink>& link = sends > receives ? found.next : found.previous;
    found.ambiguous = found.ambiguous || sends == receives || link.has_value();
    link = link_of(key);
  }
  return found;
}

// The stages from the first to the last, as indices of timelines; empty: it is no whole chain.
std::vector<size_t> chain_from(size_t first, const std::vector<Neighbours>& all,
                               const std::map<LinkKey, size_t>& by_previous) {
  std::vector<size_t> chain = {first};
  while (const std::optional<StageLink>& next = all[chain.back()].next) {
    const auto found = by_previous.find({next->communicator, next->peer, next->rank});
    if (found == by_previous.end() || all[found->second].ambiguous || chain.size() > all.size()) {
      return {};
    }
    chain.push_back(found->second);
  }
  return chain;
}

std::vector<uint64_t> launches_of_computing(const Timeline& timeline) {
  std::vector<uint64_t> launches;
  for (const GpuWork& work : timeline.work) {
    if (work.kind == WorkKind::kCompute) {
      launches.push_back(work.correlation);
    }
  }
  std::sort(launches.begin(), launches.end());
  return launches;
}

// How often something came or went, in however many pieces: another time there was computing in
// between, as launched.  None: not equally often both ways.
std::optional<int64_t> turns_of(const Timeline& timeline, const PipelineStage& stage) {
  struct Count {
    int64_t turns = 0;
    int64_t computed = -1;  // kernels before the last
  };
  std::map<LinkKey, std::array<Count, 2>> counts;
  for (const auto& link : {stage.previous, stage.next}) {
    if (link) {
      counts[{link->communicator, link->rank, link->peer}] = {};
    }
  }
  const std::vector<uint64_t> computing = launches_of_computing(timeline);
  for (const PeerMessage& message : timeline.messages) {
    const auto link = counts.find(key_of(message));
    if (link == counts.end()) {
      continue;
    }
    const int64_t computed =
        std::lower_bound(computing.begin(), computing.end(), message.correlation) -
        computing.begin();
    Count& count = link->second[message.receives ? kReceive : kSend];
    count.turns += count.computed != computed ? 1 : 0;
    count.computed = computed;
  }
  const int64_t turns = counts.begin()->second[kSend].turns;
  const bool equal = std::all_of(counts.begin(), counts.end(), [&](const auto& link) {
    return link.second[kSend].turns == turns && link.second[kReceive].turns == turns;
  });
  return equal ? std::optional(turns) : std::nullopt;
}

// The same on all stages.
std::optional<int64_t> micro_batches_of(std::span<const Timeline> timelines,
                                        const std::vector<size_t>& chain,
                                        const std::vector<std::optional<PipelineStage>>& stages) {
  if (chain.size() < kFewestToCount) {
    return std::nullopt;
  }
  std::optional<int64_t> result;
  for (const size_t index : chain) {
    const std::optional<int64_t> turns = turns_of(timelines[index], *stages[index]);
    const auto steps = static_cast<int64_t>(count_steps(timelines[index]));
    if (!turns || steps < 2 || *turns % steps != 0 || (result && *result != *turns / steps)) {
      return std::nullopt;
    }
    result = *turns / steps;
  }
  return result;
}

bool is_of_stage(std::span<const PeerMessage> messages, const PipelineStage& stage) {
  const auto is_on = [](const PeerMessage& message, const std::optional<StageLink>& link) {
    return link && message.communicator == link->communicator && message.rank == link->rank &&
           message.peer == link->peer;
  };
  return std::any_of(messages.begin(), messages.end(), [&](const PeerMessage& message) {
    return is_on(message, stage.previous) || is_on(message, stage.next);
  });
}

}  // namespace

std::vector<std::optional<PipelineStage>> find_stages(std::span<const Timeline> timelines) {
  std::vector<Neighbours> all;
  std::map<LinkKey, size_t> by_previous;
  for (const Timeline& timeline : timelines) {
    all.push_back(neighbours_of(timeline));
    if (const std::optional<StageLink>& previous = all.back().previous) {
      by_previous[{previous->communicator, previous->rank, previous->peer}] = all.size() - 1;
    }
  }
  std::vector<std::optional<PipelineStage>> stages(timelines.size());
  for (size_t first = 0; first < all.size(); ++first) {
    if (all[first].previous || !all[first].next || all[first].ambiguous) {
      continue;
    }
    const std::vector<size_t> chain = chain_from(first, all, by_previous);
    for (size_t i = 0; i < chain.size(); ++i) {
      const Neighbours& each = all[chain[i]];
      stages[chain[i]] = PipelineStage{static_cast<int>(i), static_cast<int>(chain.size()),
                                       each.previous, each.next, std::nullopt};
    }
    const std::optional<int64_t> micro_batches = micro_batches_of(timelines, chain, stages);
    for (const size_t index : chain) {
      stages[index]->micro_batches = micro_batches;
    }
  }
  return stages;
}

int64_t bubble_ns(const Timeline& timeline, const PipelineStage& stage,
                  std::span<const GpuWork> work) {
  std::vector<Span> messages, computing;
  for (const GpuWork& each : work) {
    if (each.kind == WorkKind::kCompute) {
      computing.push_back({each.start_ns, each.end_ns});
    } else if (is_of_stage(messages_of(timeline, each.correlation), stage)) {
      messages.push_back({each.start_ns, each.end_ns});
    }
  }
  const Spans exposed = united(std::move(messages));
  int64_t sum = length_ns(exposed) - common_ns(exposed, united(std::move(computing)));
  visit_idle(timeline, work, [&](const IdleCharge& charge) {
    if (!is_hosts(charge.cause) && charge.cause != IdleCause::kUnattributed &&
        is_of_stage(messages_of(timeline, charge.next->correlation), stage)) {
      sum += charge.ns;
    }
  });
  return sum;
}

double schedule_share(int stages, int64_t micro_batches) {
  return static_cast<double>(stages - 1) / static_cast<double>(micro_batches + stages - 1);
}

}  // namespace traintrace
