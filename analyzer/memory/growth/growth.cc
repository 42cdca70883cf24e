#include "analyzer/memory/growth/growth.h"

#include <algorithm>
#include <set>
#include <tuple>
#include <unordered_map>

#include "analyzer/memory/allocator/workspaces.h"
#include "analyzer/memory/field_value.h"
#include "analyzer/memory/growth/first_pass.h"
#include "analyzer/memory/growth/full_tables.h"
#include "analyzer/memory/growth/left_by_step.h"
#include "analyzer/memory/growth/model_blocks.h"
#include "analyzer/memory/growth/nameless.h"
#include "analyzer/memory/growth/optimizer_state.h"
#include "analyzer/memory/growth/regular_growth.h"
#include "analyzer/memory/growth/replacements.h"
#include "analyzer/model/elapsed.h"
#include "analyzer/model/process/activity.h"
#include "analyzer/model/process/code_place.h"
#include "analyzer/reader/sections/stored_reports.h"
#include "analyzer/thresholds.h"

namespace traintrace {
namespace {

// Follows addresses through the records, in the order in which calls were entered.
class SeriesFollower {
 public:
  explicit SeriesFollower(CallPaths& paths) : paths_(paths) {}

  struct Live {
    uint32_t stack = 0;  // its path
    TimeNs born = 0;
    uint64_t bytes = 0;
  };
  SeriesBuilder series;
  TimeNs last_request = 0;

  template <class OnFree>
  void see(const CallRecord& event, FieldValues values, const CallSchema& schema, OnFree on_free) {
    const uint64_t address = field_value(values, schema, "address").value_or(0);
    if (schema.kind == "tensor-block") {
      const auto change = static_cast<int64_t>(field_value(values, schema, "change").value_or(0));
      if (change > 0) {
        request(event, static_cast<uint64_t>(change));
        take(tensors_, address, event, static_cast<uint64_t>(change));
      } else if (change < 0) {
        give(tensors_, address, event, on_free);
      }
    } else if (schema.kind == "alloc" && kind_of_call(schema.name)) {
      const uint64_t bytes = field_value(values, schema, "bytes").value_or(0);
      request(event, bytes);
      if (event.result == 0) {
        take(calls_, address, event, bytes);
      }
    } else if (schema.kind == "free" && event.result == 0 &&
               !field_value(values, schema, "bytes")) {
      give(calls_, address, event, on_free);
    }
  }

 private:
  using Blocks = std::unordered_map<uint64_t, Live>;

  void request(const CallRecord& event, uint64_t bytes) {
    if (bytes > kSmallestTensor) {
      last_request = std::max(last_request, event.enter);
    }
  }
  void take(Blocks& blocks, uint64_t address, const CallRecord& event, uint64_t bytes) {
    if (address == 0) {
      return;  // an old version of PyTorch, which does not say
    }
    Live& block = blocks[address];
    if (block.born != 0) {
      series.remove(block.stack, block.bytes);  // its free was not recorded
    }
    block = {paths_.of(event.stack), event.enter, bytes};
    series.add({block.stack, event.call, event.device, bytes, event.enter});
  }
  template <class OnFree>
  void give(Blocks& blocks, uint64_t address, const CallRecord& event, OnFree on_free) {
    const auto block = blocks.find(address);
    if (block != blocks.end()) {
      series.remove(block->second.stack, block->second.bytes);
      on_free(block->second, event.enter);
      blocks.erase(block);
    }
  }

  CallPaths& paths_;
  Blocks tensors_, calls_;
};

// Where there is no series: what is live, as if nothing had ever been freed.
StackMemoryText series_of_live(const BlockGroup& group) {
  StackMemoryText memory;
  for (const auto& [time, bytes] : group.blocks) {
    memory.samples.push_back({time, memory.last_bytes, memory.last_blocks});
    memory.last = time;
    memory.last_bytes = sum_of(memory.last_bytes, bytes);
    ++memory.last_blocks;
  }
  if (!memory.samples.empty()) {  // the newest was left, too, as far as is known
    memory.samples.push_back({memory.last, memory.last_bytes, memory.last_blocks});
  }
  return memory;
}

// How many steps it is from one copy to the next; 0: not always as many, or samples are so far
// apart, and each tells of as many copies as steps lie between them.
int64_t distance_of(std::span<const Births> births) {
  int64_t distance = 0;
  for (size_t i = 1; i < births.size(); ++i) {
    const int64_t steps = elapsed(births[i - 1].step, births[i].step);
    if (steps != 0 && distance != 0 && steps != distance) {
      return 0;
    }
    distance = steps != 0 ? steps : distance;
  }
  const bool may_be_of_each = std::all_of(births.begin(), births.end(), [&](const Births& each) {
    return distance > 1 && each.copies % static_cast<uint64_t>(distance) == 0;
  });
  return may_be_of_each ? 0 : distance;
}

Owner owner_of_stack(const ProcessTrace& trace, uint32_t stack, bool tensors) {
  const bool in_job = user_place(trace, {0}, stack).has_value();
  if (tensors) {  // whoever asked PyTorch for a tensor owns it, if it was the job at all
    return in_job ? Owner::kJob : Owner::kTorch;
  }
  // Without a cache of its own PyTorch takes each tensor from CUDA.
  const Owner owner = owner_of(trace, stack);
  return owner == Owner::kTorch && trace.tensor_devices.empty() && in_job ? Owner::kJob : owner;
}

// As live_groups and tensor_groups have them, without blocks: what that stack allocated is not live
// any more.
std::optional<BlockGroup> group_of(const ProcessTrace& trace, const StackMemoryText& memory) {
  const CallSchema* const schema = schema_of(trace, memory.call);
  const bool tensors = schema != nullptr && schema->kind == "tensor-block";
  const auto kind =
      tensors ? std::optional(MemoryKind::kTensor) : kind_of_call(call_name(trace, memory.call));
  if (schema == nullptr || !kind) {
    return std::nullopt;
  }
  BlockGroup group;
  group.stack = memory.stack;
  group.call = tensors ? 0 : memory.call;
  group.device = memory.device == format::kNoDevice ? -1 : memory.device;
  group.kind = *kind;
  group.owner = owner_of_stack(trace, memory.stack, tensors);
  return group;
}

// PyTorch keeps pinned memory that is freed, to use it again: what it asks for with each step is
// held by the job, as tensors are.  So are gradients, which autograd's threads allocate.
bool can_leak(const ProcessTrace& trace, const BlockGroup& group) {
  if (group.kind == MemoryKind::kTensor && has_no_line(trace, group.stack)) {
    return true;
  }
  if (group.kind == MemoryKind::kPinned && group.owner == Owner::kTorch) {
    return user_place(trace, {0}, group.stack).has_value();
  }
  return group.owner == Owner::kJob &&
         (on_device(group.kind) || group.kind == MemoryKind::kPinned ||
          group.kind == MemoryKind::kTensor);
}

// One for each thread and stream that multiplied, and kept: streams are handed out in turn from
// pools of 32 for each of at most 4 priorities (c10/cuda/CUDAStream.cpp), so that these are no more
// and more.
bool are_workspaces(const ProcessTrace& trace, uint32_t stack, const StackMemoryText& memory) {
  constexpr uint64_t kMostStreams = uint64_t{4} * 32 + 1;
  const uint64_t bytes = memory.last_blocks == 0 ? 0 : memory.last_bytes / memory.last_blocks;
  return memory.last_blocks <= kMostStreams && is_cublas_workspace(trace, stack, bytes);
}

}  // namespace

bool grows_throughout(std::span<const Births> births, int64_t start, int64_t end,
                      BeginsWhen begins) {
  const int64_t length = elapsed(start, end);
  if (births.empty() || length < kFewestGrowthSteps) {
    return false;
  }
  const int64_t first = births.front().step;
  const int64_t span = elapsed(first, end);
  const bool is_early = elapsed(start, first) <= length / kGrowthBegins;
  if (first > end || (!is_early && (begins == BeginsWhen::kEarly || span < kFewestGrowthSteps))) {
    return false;
  }
  uint64_t copies = 0;
  uint64_t late = 0;
  int64_t steps = 1;  // in which a copy was left
  int64_t gap = 1;    // the longest between two of them
  int64_t last = first;
  for (const Births& each : births) {
    copies = sum_of(copies, each.copies);
    late = 2 * elapsed(first, each.step) >= span ? sum_of(late, each.copies) : late;
    gap = std::max(gap, elapsed(last, each.step));
    steps += each.step != last ? 1 : 0;
    last = each.step;
  }
  const int64_t windows = std::min<int64_t>(steps / kStepsPerWindow, kGrowthWindows);
  if (copies < kFewestCopies || windows < kFewestGrowthWindows ||
      elapsed(last, end) > kGrowthPauses * gap + 1 ||
      100 * late < kGrowthGoesOn * (copies - late)) {
    return false;
  }
  std::vector<bool> has(static_cast<size_t>(windows));
  for (const Births& each : births) {
    const int64_t window = elapsed(first, each.step) * windows / (span + 1);
    has[static_cast<size_t>(std::clamp<int64_t>(window, 0, windows - 1))] = true;
  }
  // The newest copies are not told from those that are in use: the last window may be theirs.
  return std::all_of(has.begin(), has.end() - 1, [](bool each) { return each; });
}

bool has_gathered(const StackMemoryText& memory) {
  const size_t fewest = std::min(kFewestCopies, kFewestRounds);
  return memory.last_blocks >= fewest || memory.enlargings >= fewest;
}

namespace {

// What PyTorch runs there is no training: what it keeps of a text, so as not to compute it again,
// grows up to the text's end.
bool only_infers(const ProcessTrace& trace, const Steps& steps) {
  return only_goes_forward(trace, steps) &&
         std::none_of(trace.communicators.begin(), trace.communicators.end(),
                      [](const CommunicatorText& text) { return text.operations != 0; });
}

}  // namespace

GrowthJudge::GrowthJudge(const ProcessTrace& trace, const MemoryHistory& history)
    : trace_(trace), history_(history), paths_(trace) {
  is_preparation_ = is_preparation(trace, history.steps) || may_be_first_pass(trace, history.steps);
  only_infers_ = only_infers(trace, history.steps);
  if (all_since_armed(trace)) {
    follow();
  }
  for (const OutOfMemoryText& failure : trace.out_of_memory) {
    last_request_ = std::max(last_request_, failure.time);
  }
  start_ = first_step(trace, history);
  end_ = last_known_step();
  if (end_ < static_cast<int64_t>(history.steps.starts.size())) {
    // By time alone, as that is: of both numbers are no more than an estimate.
    start_ = std::min(start_, history.steps.number_at(trace.armed));
  }
}

// Where what is live counts, and the table of it was full before much of that came: the last step
// of what it has.
int64_t GrowthJudge::last_known_step() const {
  auto last = static_cast<int64_t>(history_.steps.starts.size());
  if (!series_.empty()) {
    return last;
  }
  if (const auto full = tables_full_since(trace_)) {
    last = std::min(last, history_.steps.number_at(*full));
  }
  return last;
}

void GrowthJudge::follow() {
  SeriesFollower follower(paths_);
  const TimeNs last_step = history_.steps.last();
  bool is_last = false;  // the last step: what is freed in it may be the end of the process
  each_event(trace_, [&](const CallRecord& event, FieldValues values) {
    const CallSchema* schema = schema_of(trace_, event.call);
    if (!is_last && event.enter > last_step) {
      is_last = true;
      follower.series.count_frees();
    }
    if (schema != nullptr && !event.enter_lost && event.returned) {
      follower.see(event, values, *schema, [&](const SeriesFollower::Live& block, TimeNs time) {
        if (time <= last_step) {
          return;
        }
        if (block.born <= last_step) {
          freed_late_[block.stack].push_back({block.born, time});
        }
        if (Freed& newest = newest_freed_[block.stack]; block.born >= newest.born) {
          newest = {block.born, time};
        }
      });
    }
  });
  if (!is_last) {
    follower.series.count_frees();
  }
  series_ = follower.series.finish();
  last_request_ = follower.last_request;
}

// The job freed them and went on to ask for more memory: it has hold of such blocks.
bool GrowthJudge::are_let_go(uint32_t path, uint64_t left) const {
  const auto freed = freed_late_.find(path);
  if (freed == freed_late_.end()) {
    return false;
  }
  const auto on_purpose =
      std::count_if(freed->second.begin(), freed->second.end(),
                    [&](const Freed& block) { return block.freed < last_request_; });
  return static_cast<uint64_t>(on_purpose) >= left / kLetGoOnPurpose;
}

// So with what is made anew, and larger, again and again: that the one before it is freed then says
// nothing.
bool GrowthJudge::is_newest_let_go(uint32_t path) const {
  const auto newest = newest_freed_.find(path);
  const auto series = series_.find(path);
  return newest != newest_freed_.end() && series != series_.end() &&
         newest->second.born >= series->second.last && newest->second.freed < last_request_;
}

GrowthJudge::Pattern GrowthJudge::pattern_of(std::vector<LeftOver> all, std::vector<Round> rounds,
                                             Weigh weigh) const {
  const Steps& steps = history_.steps;
  const int64_t start = start_;
  Pattern pattern{std::move(all), {}, 0, 0, std::move(rounds)};
  for (const LeftOver& each : pattern.all) {
    // What was allocated before the first step is not of the steps.
    if (const int64_t step = steps.number_at(each.time); step > start) {
      pattern.since = pattern.births.empty() ? each.time : pattern.since;
      pattern.births.push_back({step, weigh == Weigh::kBytes ? each.bytes : each.blocks});
      pattern.pieces = sum_of(pattern.pieces, each.blocks);
    }
  }
  if (!grows_by_rounds(pattern.rounds, start, end_)) {
    pattern.rounds.clear();
  }
  return pattern;
}

bool GrowthJudge::grows(const Pattern& pattern, BeginsWhen begins) const {
  return !pattern.births.empty() &&
         (!pattern.rounds.empty() || grows_throughout(pattern.births, start_, end_, begins));
}

// Whether each step allocated and freed it, up to one from which on it was kept.
bool GrowthJudge::began_to_grow(const StackMemoryText& memory, const Pattern& pattern) const {
  if (pattern.births.empty()) {
    return false;
  }
  const Earlier earlier = earlier_than(memory, pattern.since);
  const int64_t steps = elapsed(start_, pattern.births.front().step);
  return earlier.allocations + 1 >= static_cast<uint64_t>(std::max<int64_t>(steps, 0)) &&
         earlier.most_blocks <= pattern.pieces / kGrowthOutgrows;
}

std::optional<GrowthJudge::Pattern> GrowthJudge::growing_blocks(
    uint32_t path, const StackMemoryText& memory) const {
  const int64_t start = start_;
  Pattern pattern =
      pattern_of(left_over(memory), rounds_of(memory, history_.steps, start), Weigh::kBlocks);
  // Then those that are left are all that there ever were, and may begin late.
  const bool none_freed = memory.allocations != 0 && memory.allocations == memory.last_blocks;
  const bool any_time = none_freed || began_to_grow(memory, pattern);
  if (!grows(pattern, any_time ? BeginsWhen::kAny : BeginsWhen::kEarly) ||
      are_let_go(path, pattern.pieces)) {
    return std::nullopt;
  }
  return pattern;
}

// The larger it is, the fewer additions are seen: PyTorch rounds sizes to 2 MiB.  So they are
// weighed by their bytes.
std::optional<GrowthJudge::Pattern> GrowthJudge::growing_block(
    uint32_t path, const StackMemoryText& memory) const {
  const int64_t start = start_;
  std::vector<LeftOver> added = added_to_one(memory);
  added.erase(added.begin(), added.begin() + (added.empty() ? 0 : 1));  // what it began with
  Pattern pattern = pattern_of(std::move(added), rounds_of_additions(memory, history_.steps, start),
                               Weigh::kBytes);
  const bool is_enough = !pattern.rounds.empty() || pattern.pieces >= kFewestCopies;
  if (!is_enough || !grows(pattern, BeginsWhen::kEarly) || works_through(memory) ||
      is_newest_let_go(path) || only_infers_) {
    return std::nullopt;
  }
  return pattern;
}

// Whether what comes and goes is enlarged about as often.  Then steps compute something of all of
// it: it is their input, as where batches become longer and longer, or the keys of one long text.
bool GrowthJudge::works_through(const StackMemoryText& memory) const {
  return std::any_of(series_.begin(), series_.end(), [&](const auto& entry) {
    const StackMemoryText& other = entry.second;
    return other.samples.back().blocks == 0 &&
           kWorkedThrough * other.enlargings >= memory.enlargings;
  });
}

std::optional<Growth> GrowthJudge::growth_of(const BlockGroup& group) const {
  const Steps& steps = history_.steps;
  if (steps.starts.size() < static_cast<size_t>(kFewestGrowthSteps) || is_preparation_) {
    return std::nullopt;
  }
  const uint32_t path = paths_.of(group.stack);
  const auto found = series_.find(path);
  const StackMemoryText memory = found != series_.end() ? found->second : series_of_live(group);
  const std::optional<Pattern> blocks = growing_blocks(path, memory);
  const std::optional<Pattern> pattern = blocks ? blocks : growing_block(path, memory);
  if (!pattern || is_bounded_history(trace_, group.stack) ||
      are_workspaces(trace_, group.stack, memory) ||
      is_of_model(trace_, paths_, group, memory.last)) {
    return std::nullopt;
  }
  const int64_t first = pattern->births.front().step;
  Growth growth;
  growth.since = pattern->since;
  growth.newest = memory.last;
  if (const std::vector<Round>& rounds = pattern->rounds; !rounds.empty()) {
    growth.every = elapsed(rounds[0].step, rounds[1].step);
    growth.bytes_per_round = rounds[0].bytes;
  } else if (const int64_t distance = distance_of(pattern->births); blocks && distance > 1) {
    growth.every = distance;
    growth.bytes_per_round =
        bytes_per_step(left_by_step(steps, pattern->all, first)) * static_cast<uint64_t>(distance);
  }
  growth.step_count =
      static_cast<uint64_t>(elapsed(first, static_cast<int64_t>(steps.starts.size())));
  growth.since_step = history_.whole ? first : 0;
  // How many there were before those that are recorded is an estimate.
  const auto left_in = left_by_step(steps, pattern->all, std::max<int64_t>(first, 1));
  growth.bytes_per_step = bytes_per_step(left_in);
  if (growth.bytes_per_step == 0) {
    growth.bytes_per_step = bytes_per_step(left_by_step(steps, pattern->all, first));
  } else if (growth.every == 1 && becomes_more(left_in)) {
    growth.first_bytes = left_in[1].second;
    growth.last_bytes = left_in.end()[-2].second;
  }
  // Partly freed, as where an exception unwinds: then what was there before counts.
  const uint64_t left = blocks ? pattern->pieces : 1;
  const bool is_live = group.blocks.size() >= left - left / kFewFreed;
  const uint64_t last_bytes = blocks ? memory.last_bytes : memory.newest;
  growth.bytes = is_live ? group.bytes : last_bytes;
  growth.blocks = is_live ? group.blocks.size() : blocks ? memory.last_blocks : 1;
  growth.pieces = blocks ? growth.blocks : pattern->pieces;
  return growth;
}

void GrowthJudge::add_groups(const std::vector<BlockGroup>& from,
                             std::vector<BlockGroup>& groups) const {
  std::map<std::tuple<uint32_t, MemoryKind, int>, size_t> places;
  for (const BlockGroup& group : from) {
    const uint32_t path = paths_.of(group.stack);
    const auto [place, is_new] =
        places.emplace(std::tuple(path, group.kind, group.device), groups.size());
    if (is_new) {
      groups.push_back(group);
      groups.back().stack = path;
      continue;
    }
    BlockGroup& same = groups[place->second];
    same.bytes = sum_of(same.bytes, group.bytes);
    same.let_go += group.let_go;
    const auto middle = static_cast<std::ptrdiff_t>(same.blocks.size());
    same.blocks.insert(same.blocks.end(), group.blocks.begin(), group.blocks.end());
    std::inplace_merge(same.blocks.begin(), same.blocks.begin() + middle, same.blocks.end());
  }
}

// Of what is live, and of each path that has a series.
std::vector<BlockGroup> GrowthJudge::groups() const {
  std::vector<BlockGroup> groups;
  add_groups(live_groups(trace_), groups);
  add_groups(series_.empty() ? tensor_groups_before_end(trace_) : tensor_groups(trace_), groups);
  std::set<uint32_t> live;
  for (const BlockGroup& group : groups) {
    live.insert(group.stack);
  }
  for (const auto& [stack, memory] : series_) {
    const bool gathered = has_gathered(memory) && !live.contains(stack);
    const auto group = gathered ? group_of(trace_, memory) : std::nullopt;
    if (group) {
      groups.push_back(*group);
    }
  }
  return groups;
}

std::vector<GrowingGroup> GrowthJudge::growing() const {
  std::vector<GrowingGroup> growing;
  for (const BlockGroup& group : groups()) {
    const auto growth = can_leak(trace_, group) ? growth_of(group) : std::nullopt;
    if (growth) {
      growing.push_back({group, *growth});
    }
  }
  if (!growing.empty() && !series_.empty()) {
    set_replacements_aside(trace_, history_.steps, paths_, growing);
  }
  place_nameless(trace_, paths_, growing);
  return growing;
}

}  // namespace traintrace
