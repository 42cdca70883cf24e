#include "analyzer/memory/growth/replacements.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <unordered_map>

#include "analyzer/memory/field_value.h"
#include "analyzer/model/elapsed.h"
#include "analyzer/model/process/activity.h"
#include "analyzer/reader/sections/stored_reports.h"
#include "analyzer/thresholds.h"

namespace traintrace {
namespace {

struct Place {
  uint32_t path = 0;
  MemoryKind kind = MemoryKind::kTensor;
  auto operator<=>(const Place&) const = default;  // NOLINT(modernize-use-nullptr)
};

struct Block {
  Place place;
  uint8_t device = 0;
  TimeNs born = 0;
  uint64_t bytes = 0;
};

// Of one place, while another grew.
struct Change {
  std::vector<Births> let_go;  // by step: what was there before that
  uint64_t freed = 0;          // bytes of it
  uint64_t made = 0;           // bytes of what came since and was not freed
};

// What others let go from the birth of the oldest copy that a group kept to that of the newest.
class Window {
 public:
  Window(const GrowingGroup& group, const Steps& steps) : group_(group), steps_(steps) {}

  void made(const Block& block) {
    if (concerns(block) && is_within(block.born)) {
      Change& change = changes_[block.place];
      change.made = sum_of(change.made, block.bytes);
    }
  }
  void freed(const Block& block, TimeNs time) {
    if (!concerns(block) || !is_within(time)) {
      return;
    }
    Change& change = changes_[block.place];
    if (block.born >= group_.growth.since) {
      change.made -= std::min(change.made, block.bytes);
      return;
    }
    change.freed = sum_of(change.freed, block.bytes);
    const int64_t step = steps_.number_at(time);
    if (!change.let_go.empty() && change.let_go.back().step == step) {
      ++change.let_go.back().copies;
    } else {
      change.let_go.push_back({step});
    }
  }

  // Bytes by which each place became less; not what all went at once, as the end of a phase does.
  std::map<Place, uint64_t> became_less() const {
    std::map<Place, uint64_t> less;
    const int64_t start = steps_.number_at(group_.growth.since) - 1;
    const int64_t end = steps_.number_at(group_.growth.newest);
    for (const auto& [place, change] : changes_) {
      if (change.freed > change.made &&
          grows_throughout(change.let_go, start, end, BeginsWhen::kEarly)) {
        less[place] = change.freed - change.made;
      }
    }
    return less;
  }

 private:
  bool concerns(const Block& block) const {
    const BlockGroup& group = group_.group;
    return block.place.kind == group.kind && block.place.path != group.stack &&
           (group.device < 0 || block.device == format::kNoDevice ||
            group.device == static_cast<int>(block.device));
  }
  bool is_within(TimeNs time) const {
    return time >= group_.growth.since && time <= group_.growth.newest;
  }

  const GrowingGroup& group_;
  const Steps& steps_;
  std::map<Place, Change> changes_;
};

// Follows addresses through the records, in the order in which calls were entered.
class BlockFollower {
 public:
  BlockFollower(CallPaths& paths, std::vector<Window>& windows)
      : paths_(paths), windows_(windows) {}

  void see(const CallRecord& event, FieldValues values, const CallSchema& schema) {
    const uint64_t address = field_value(values, schema, "address").value_or(0);
    if (schema.kind == "tensor-block") {
      const auto change = static_cast<int64_t>(field_value(values, schema, "change").value_or(0));
      if (change > 0) {
        take(tensors_, address, event, MemoryKind::kTensor, static_cast<uint64_t>(change));
      } else if (change < 0) {
        give(tensors_, address, event);
      }
    } else if (const auto kind = schema.kind == "alloc" && event.result == 0
                                     ? kind_of_call(schema.name)
                                     : std::nullopt) {
      take(calls_, address, event, *kind, field_value(values, schema, "bytes").value_or(0));
    } else if (schema.kind == "free" && event.result == 0 &&
               !field_value(values, schema, "bytes")) {
      give(calls_, address, event);
    }
  }

 private:
  using Blocks = std::unordered_map<uint64_t, Block>;

  void take(Blocks& blocks, uint64_t address, const CallRecord& event, MemoryKind kind,
            uint64_t bytes) {
    if (address == 0) {
      return;
    }
    const Block& block =
        blocks[address] = {{paths_.of(event.stack), kind}, event.device, event.enter, bytes};
    for (Window& window : windows_) {
      window.made(block);
    }
  }
  void give(Blocks& blocks, uint64_t address, const CallRecord& event) {
    const auto block = blocks.find(address);
    if (block == blocks.end()) {
      return;
    }
    for (Window& window : windows_) {
      window.freed(block->second, event.enter);
    }
    blocks.erase(block);
  }

  CallPaths& paths_;
  std::vector<Window>& windows_;
  Blocks tensors_, calls_;
};

}  // namespace

void set_replacements_aside(const ProcessTrace& trace, const Steps& steps, CallPaths& paths,
                            std::vector<GrowingGroup>& growing) {
  std::vector<Window> windows;
  windows.reserve(growing.size());
  for (const GrowingGroup& group : growing) {
    windows.emplace_back(group, steps);
  }
  BlockFollower follower(paths, windows);
  each_event(trace, [&](const CallRecord& event, FieldValues values) {
    const CallSchema* const schema = schema_of(trace, event.call);
    if (schema != nullptr && !event.enter_lost && event.returned) {
      follower.see(event, values, *schema);
    }
  });
  std::map<Place, uint64_t> taken;  // of what became less, by what took its place
  std::vector<size_t> order(growing.size());
  for (size_t i = 0; i < order.size(); ++i) {
    order[i] = i;
  }
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return growing[a].growth.bytes > growing[b].growth.bytes;
  });
  std::vector<bool> aside(growing.size());
  for (const size_t i : order) {
    const uint64_t mostly = growing[i].growth.bytes / kMostlyReplaced;
    const std::map<Place, uint64_t> less = windows[i].became_less();
    uint64_t left = 0;
    for (const auto& [place, bytes] : less) {
      left = sum_of(left, bytes - std::min(bytes, taken[place]));
    }
    if (left <= mostly) {
      continue;
    }
    aside[i] = true;
    uint64_t needed = growing[i].growth.bytes;
    for (const auto& [place, bytes] : less) {
      const uint64_t free = bytes - std::min(bytes, taken[place]);
      const uint64_t part = std::min(free, needed);
      taken[place] += part;
      needed -= part;
    }
  }
  std::vector<GrowingGroup> rest;
  for (size_t i = 0; i < growing.size(); ++i) {
    if (!aside[i]) {
      rest.push_back(std::move(growing[i]));
    }
  }
  growing = std::move(rest);
}

}  // namespace traintrace
