// Who held the memory of a GPU, when, and what lay where.
#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <set>

#include "analyzer/detectors/memory/memory_finding.h"
#include "analyzer/memory/allocator/shortage.h"
#include "analyzer/memory/holders/owner_text.h"
#include "analyzer/memory/memory_life.h"
#include "analyzer/model/waiting/hang_cause.h"
#include "analyzer/page/memory_bands.h"
#include "analyzer/page/page_data.h"

namespace traintrace {
namespace {

constexpr size_t kMostRanks = 8;
constexpr size_t kMostPoints = 400;
constexpr size_t kMostBands = 9;
constexpr size_t kMostBlocks = 3000;
constexpr size_t kMostStacks = 300;
constexpr uint64_t kUnnoticed = 50;  // one part in so many of a peak

bool is_on(const LiveBlock& block, int device) {
  return is_in_use(block) && block.device == device && block.device >= 0;
}

// Of PyTorch's allocator that device's blocks, else what calls hold.
std::set<int> devices_of(const MemoryLife& life) {
  std::set<int> devices;
  for (const auto* const blocks : {&life.before, &life.live}) {
    for (const LiveBlock& block : *blocks) {
      devices.insert(block.device);
    }
  }
  for (const MemoryEvent& event : life.events) {
    devices.insert(event.block.device);
  }
  devices.erase(-1);
  return devices;
}

struct Curve {
  std::vector<TimeNs> times;
  std::vector<std::map<std::string, uint64_t>> held;
  std::vector<LiveBlock> at_peak;
  TimeNs peak_time = 0;
  uint64_t peak = 0;
};

class Replay {
 public:
  Replay(const MemoryBands& bands, int device) : bands_(bands), device_(device) {}

  void take(const LiveBlock& block) {
    if (is_on(block, device_)) {
      live_[{block.holder, block.address}] = block;
      total_ += block.bytes;
      held_[name(block)] += block.bytes;
    }
  }
  void give(const LiveBlock& block) {
    const auto found = live_.find({block.holder, block.address});
    if (found == live_.end()) {
      return;
    }
    total_ -= std::min(total_, found->second.bytes);
    uint64_t& bytes = held_[name(found->second)];
    bytes -= std::min(bytes, found->second.bytes);
    live_.erase(found);
  }
  uint64_t total() const { return total_; }
  const std::map<std::string, uint64_t>& held() const { return held_; }
  std::vector<LiveBlock> live() const {
    std::vector<LiveBlock> blocks;
    for (const auto& [key, block] : live_) {
      blocks.push_back(block);
    }
    return blocks;
  }

 private:
  const std::string& name(const LiveBlock& block) {
    std::string& known = names_[{block.stack, block.owner}];
    if (known.empty()) {
      known = bands_.of(block);
    }
    return known;
  }

  const MemoryBands& bands_;
  int device_;
  std::map<std::pair<Holder, uint64_t>, LiveBlock> live_;
  std::map<std::string, uint64_t> held_;
  std::map<std::pair<uint32_t, Owner>, std::string> names_;
  uint64_t total_ = 0;
};

void play(const MemoryLife& life, Replay& replay,
          const std::function<void(size_t, TimeNs)>& after) {
  for (const LiveBlock& block : life.before) {
    replay.take(block);
  }
  for (size_t i = 0; i < life.events.size(); ++i) {
    const MemoryEvent& event = life.events[i];
    event.taken ? replay.take(event.block) : replay.give(event.block);
    after(i, event.time);
  }
}

// Two passes: the first finds when most was in use, the second keeps what it was.
Curve curve_of(const MemoryBands& bands, int device, const MemoryLife& life, TimeNs until) {
  Curve curve;
  size_t worst = 0;
  Replay first(bands, device);
  play(life, first, [&](size_t i, TimeNs time) {
    if (first.total() > curve.peak && (until == 0 || time <= until)) {
      curve.peak = first.total();
      curve.peak_time = time;
      worst = i;
    }
  });
  const size_t every = std::max<size_t>(life.events.size() / kMostPoints, 1);
  Replay second(bands, device);
  play(life, second, [&](size_t i, TimeNs time) {
    const bool is_worst = i == worst && curve.peak > 0;
    if (i % every == 0 || i + 1 == life.events.size() || is_worst) {
      curve.times.push_back(time);
      curve.held.push_back(second.held());
    }
    if (is_worst) {
      curve.at_peak = second.live();
    }
  });
  return curve;
}

std::vector<std::string> bands_of(const Curve& curve) {
  std::map<std::string, uint64_t> most;
  for (const auto& held : curve.held) {
    for (const auto& [name, bytes] : held) {
      most[name] = std::max(most[name], bytes);
    }
  }
  std::vector<std::pair<uint64_t, std::string>> order;
  order.reserve(most.size());
  for (const auto& [name, bytes] : most) {
    order.emplace_back(bytes, name);
  }
  std::sort(order.rbegin(), order.rend());
  std::vector<std::string> bands;
  for (size_t i = 0; i < std::min(order.size(), kMostBands); ++i) {
    bands.push_back(order[i].second);
  }
  return bands;
}

PageJson over_time(const Run& run, const Curve& curve) {
  const std::vector<std::string> bands = bands_of(curve);
  PageJson json = {{"t", PageJson::array()}, {"bands", bands}, {"bytes", PageJson::array()}};
  for (const TimeNs time : curve.times) {
    json["t"].push_back(page_us(run, time));
  }
  const std::set<std::string> named(bands.begin(), bands.end());
  for (const std::string& band : bands) {
    PageJson bytes = PageJson::array();
    for (const auto& held : curve.held) {
      const auto found = held.find(band);
      bytes.push_back(found == held.end() ? 0 : found->second);
    }
    json["bytes"].push_back(std::move(bytes));
  }
  PageJson rest = PageJson::array();
  uint64_t most = 0;
  for (const auto& held : curve.held) {
    uint64_t sum = 0;
    for (const auto& [name, bytes] : held) {
      sum += named.contains(name) ? 0 : bytes;
    }
    most = std::max(most, sum);
    rest.push_back(sum);
  }
  if (most > 0) {
    json["bands"].push_back("the rest");
    json["bytes"].push_back(std::move(rest));
  }
  return json;
}

// Bytes by stack, outermost frame first, for a flame graph.
PageJson flames(const ProcessTrace& trace, const std::vector<LiveBlock>& blocks, TextTable& texts) {
  std::map<std::pair<std::string, uint32_t>, std::pair<uint64_t, uint64_t>> sums;
  for (const LiveBlock& block : blocks) {
    auto& [bytes, count] = sums[{owner_text(trace, block), block.stack}];
    bytes += block.bytes;
    ++count;
  }
  std::vector<std::pair<uint64_t, decltype(sums)::const_iterator>> order;
  for (auto sum = sums.cbegin(); sum != sums.cend(); ++sum) {
    order.emplace_back(sum->second.first, sum);
  }
  std::stable_sort(order.begin(), order.end(),
                   [](const auto& a, const auto& b) { return a.first > b.first; });
  order.resize(std::min(order.size(), kMostStacks));
  PageJson list = PageJson::array();
  for (const auto& [bytes, sum] : order) {
    PageJson frames = PageJson::array();
    if (sum->first.first != "unknown") {
      frames.push_back(texts.index(sum->first.first));
    }
    if (const auto stack = trace.stacks.find(sum->first.second); stack != trace.stacks.end()) {
      const auto& python = stack->second.python;
      for (auto frame = python.rbegin(); frame != python.rend(); ++frame) {
        if (is_user_file(frame->file)) {
          frames.push_back(
              texts.index(place_text({{}, frame->file, frame->line, frame->function, ""})));
        }
      }
    }
    list.push_back({{"b", bytes}, {"n", sum->second.second}, {"f", std::move(frames)}});
  }
  return list;
}

PageJson block_map(const MemoryBands& bands, std::vector<LiveBlock> blocks, TextTable& texts) {
  std::sort(blocks.begin(), blocks.end(),
            [](const LiveBlock& a, const LiveBlock& b) { return a.address < b.address; });
  blocks.resize(std::min(blocks.size(), kMostBlocks));
  PageJson list = PageJson::array();
  const uint64_t base = blocks.empty() ? 0 : blocks.front().address;
  for (const LiveBlock& block : blocks) {
    list.push_back({block.address - base, block.bytes, texts.index(bands.of(block))});
  }
  return list;
}

// What was live when memory ran out, where that was kept.
std::vector<LiveBlock> held_blocks(const ProcessTrace& trace, const OutOfMemoryText& failure) {
  std::vector<LiveBlock> blocks;
  for (const HeldBlockText& held : failure.held) {
    LiveBlock block;
    block.address = held.address;
    block.bytes = held.bytes;
    block.stack = held.stack;
    block.call = held.call;
    block.device = held.device;
    block.owner = owner_of(trace, held.stack);
    // Of a segment and the blocks in it the blocks count, which come behind it.
    if (!blocks.empty() && held.address < blocks.back().address + blocks.back().bytes) {
      blocks.pop_back();
    }
    blocks.push_back(block);
  }
  return blocks;
}

PageJson failure_json(const Run& run, const ProcessTrace& trace, Rank rank,
                      const OutOfMemoryText& failure) {
  // The one that was never got over, of as many as were tried since.
  const CallRecord* const first = out_of_memory(run, rank);
  const TimeNs time = first != nullptr ? std::min(first->enter, failure.time) : failure.time;
  PageJson json = {{"t", page_us(run, time)},
                   {"last", page_us(run, failure.time)},
                   {"bytes", failure.bytes},
                   {"place", page_place(trace, rank, failure.stack)}};
  const Shortage shortage = shortage_of(trace, failure);
  if (failure.reserved > failure.allocated) {
    json["cached"] = failure.reserved - failure.allocated;
  }
  if (failure.total != 0) {
    json["free"] = failure.free;
    json["total"] = failure.total;
  } else {  // the job had not asked: what is known of the device from elsewhere
    if (shortage.free) {
      json["free"] = *shortage.free;
    }
    if (shortage.total) {
      json["total"] = *shortage.total;
    }
  }
  return json;
}

// As PyTorch's allocator itself counts it; 0: it does not.
uint64_t counted_peak(const ProcessTrace& trace, int device) {
  uint64_t most = 0;
  for (const TensorDeviceText& own : trace.tensor_devices) {
    most = own.device == device ? std::max(most, own.peak_allocated) : most;
  }
  return most;
}

void add_device(const Run& run, const RankState& state, const ProcessTrace& trace, int device,
                const MemoryLife& life, TextTable& texts, PageJson& list) {
  const OutOfMemoryText* failure = nullptr;
  for (const OutOfMemoryText& own : trace.out_of_memory) {
    failure = own.device == device ? &own : failure;
  }
  const MemoryBands bands(trace, state.rank, stacks_on(life, failure, device));
  Curve curve = curve_of(bands, device, life, failure == nullptr ? 0 : failure->time);
  // What is held at the last change is held until the process is seen last.
  if (failure == nullptr && !curve.times.empty() && curve.times.back() < state.last_seen) {
    curve.times.push_back(state.last_seen);
    curve.held.push_back(curve.held.back());
  }
  std::vector<LiveBlock> blocks = failure != nullptr ? held_blocks(trace, *failure) : curve.at_peak;
  if (blocks.empty()) {
    blocks = curve.at_peak;
  }
  if (blocks.empty()) {
    std::copy_if(life.live.begin(), life.live.end(), std::back_inserter(blocks),
                 [&](const LiveBlock& block) { return is_on(block, device); });
  }
  if (blocks.empty() && failure == nullptr) {
    return;
  }
  PageJson own = {{"rank", state.rank.value},
                  {"device", device},
                  {"owners", page_json(owners_of_device(run, state.process, device))},
                  {"peak", curve.peak},
                  {"peak_at", page_us(run, curve.peak_time)}};
  const uint64_t counted = counted_peak(trace, device);
  if (failure == nullptr && counted > curve.peak + curve.peak / kUnnoticed) {
    own["own_peak"] = counted;
  }
  if (failure != nullptr) {
    own["failed"] = failure_json(run, trace, state.rank, *failure);
  }
  own["curve"] = over_time(run, curve);
  own["flames"] = flames(trace, blocks, texts);
  own["blocks"] = block_map(bands, std::move(blocks), texts);
  list.push_back(std::move(own));
}

// Where the calls are not recorded any more, at least when what is left was taken.
MemoryLife with_births(MemoryLife life) {
  if (life.events.empty()) {
    for (const LiveBlock& block : life.live) {
      life.events.push_back({block.time, block.stack, true, block});
    }
    std::stable_sort(life.events.begin(), life.events.end(),
                     [](const MemoryEvent& a, const MemoryEvent& b) { return a.time < b.time; });
    std::erase_if(life.before, [&](const LiveBlock& block) {
      return std::any_of(life.live.begin(), life.live.end(), [&](const LiveBlock& other) {
        return other.holder == block.holder && other.address == block.address;
      });
    });
  }
  return life;
}

// Whom findings about memory name, then those with failures, then the first ones.
std::vector<const RankState*> chosen(const Run& run, const std::vector<Finding>& findings) {
  std::set<Rank> named;
  for (const Finding& finding : findings) {
    if (finding.code.starts_with("memory.") || finding.code == "run.oom-then-hang") {
      named.insert(finding.culprits.begin(), finding.culprits.end());
    }
  }
  std::vector<const RankState*> order;
  for (const RankState& state : run.ranks) {
    order.push_back(&state);
  }
  std::stable_sort(order.begin(), order.end(), [&](const RankState* a, const RankState* b) {
    const auto weight = [&](const RankState* state) {
      return std::pair(!named.contains(state->rank), trace_of(run, *state).out_of_memory.empty());
    };
    return weight(a) < weight(b);
  });
  order.resize(std::min(order.size(), kMostRanks));
  return order;
}

}  // namespace

PageJson page_memory(const Run& run, const std::vector<Finding>& findings,
                     const PageOptions& options, TextTable& texts) {
  PageJson list = PageJson::array();
  std::set<size_t> seen;
  for (const RankState* const state : chosen(run, findings)) {
    const ProcessTrace& tables = trace_of(run, *state);
    if (!seen.insert(state->process).second) {
      continue;
    }
    const ProcessTrace* const events =
        tables.events.empty() && options.read_events ? options.read_events(tables) : nullptr;
    const ProcessTrace& trace = events == nullptr ? tables : *events;
    const MemoryLife life = with_births(memory_life(trace));
    std::set<int> devices = devices_of(life);
    for (const OutOfMemoryText& failure : trace.out_of_memory) {
      devices.insert(failure.device);
    }
    for (const int device : devices) {
      add_device(run, *state, trace, device, life, texts, list);
    }
  }
  return list;
}

}  // namespace traintrace
