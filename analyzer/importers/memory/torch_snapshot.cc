#include "analyzer/importers/memory/torch_snapshot.h"

#include <algorithm>
#include <map>
#include <vector>

#include "analyzer/importers/flight/flight_stacks.h"
#include "analyzer/importers/json_value.h"
#include "analyzer/importers/memory/memory_trace.h"
#include "analyzer/importers/memory/snapshot_entry.h"
#include "analyzer/importers/pickle.h"
#include "analyzer/importers/whole_file.h"

namespace traintrace {
namespace {

constexpr const char* kReport = "reportMemoryUsageToProfiler";
constexpr const char* kFailure = "reportOutOfMemoryToProfiler";
constexpr int64_t kMostDevices = 128;
constexpr size_t kMostFailures = 16;
constexpr size_t kMostHeld = 32768;

struct Piece {
  uint64_t bytes = 0;
  uint32_t stack = 0;
  uint32_t call = 0;
  TimeNs time = 0;
  bool last = true;  // it is there at the end of the history
};
using Pieces = std::map<uint64_t, Piece>;  // by address

uint64_t sum(const Pieces& pieces) {
  uint64_t bytes = 0;
  for (const auto& [address, piece] : pieces) {
    bytes += piece.bytes;
  }
  return bytes;
}

struct DeviceState {
  Pieces segments;
  Pieces blocks;  // in use
  uint64_t reserved = 0;
  uint64_t allocated = 0;
};

class SnapshotReader {
 public:
  explicit SnapshotReader(const std::string& file) : memory_(file, "torch-snapshot") {}

  ProcessTrace read(const Value& segments, const Value* traces, const Value* settings) {
    for (const Value& segment : segments.list()) {
      read_segment(segment);
    }
    int device = 0;
    for (const Value& history : traces == nullptr ? std::span<const Value>() : traces->list()) {
      if (device < kMostDevices) {
        read_history(history, device++);
      }
    }
    const std::string_view conf = settings == nullptr
                                      ? std::string_view()
                                      : snapshot_text(*settings, "PYTORCH_CUDA_ALLOC_CONF");
    if (!conf.empty()) {
      memory_.trace.facts["env.PYTORCH_CUDA_ALLOC_CONF"] = conf;
    }
    for (const auto& [device, state] : devices_) {
      entries_[device];
    }
    for (auto& [device, entries] : entries_) {
      undo(device, entries);
    }
    write_tables();
    write_events();
    memory_.finish();
    return std::move(memory_.trace);
  }

 private:
  // Frames of C++ below Python's are the allocator's and the interpreter's.
  uint32_t stack_of(const Value* frames) {
    const uint32_t known = stacks_.add(frames, memory_.trace);
    const uint32_t id = known == 0 ? kNoFrames : known;
    StackText& stack = memory_.trace.stacks[id];
    if (stack.native.empty()) {
      const auto is_python = [](const PythonFrameText& frame) {
        return frame.file.ends_with(".py") || frame.file.starts_with('<');
      };
      if (std::any_of(stack.python.begin(), stack.python.end(), is_python)) {
        std::erase_if(stack.python,
                      [&](const PythonFrameText& frame) { return !is_python(frame); });
      }
      memory_.mark_as_torch(stack);
    }
    return id;
  }

  void read_segment(const Value& segment) {
    const auto device = static_cast<int64_t>(snapshot_number(segment, "device"));
    const uint64_t address = snapshot_number(segment, "address");
    const uint64_t bytes = snapshot_number(segment, "total_size");
    if (device >= kMostDevices || address == 0 || bytes == 0 || bytes > INT64_MAX - address) {
      return;
    }
    DeviceState& state = devices_[static_cast<int>(device)];
    const Value* const expandable = segment.find("is_expandable");
    const bool mapped = expandable != nullptr && expandable->as_bool();
    state.segments[address] = {bytes, stack_of(segment.find("frames")),
                               memory_.call(mapped ? "cuMemMap" : "cudaMalloc")};
    const Value* const blocks = segment.find("blocks");
    uint64_t at = address;
    for (const Value& block : blocks == nullptr ? std::span<const Value>() : blocks->list()) {
      const uint64_t size = snapshot_number(block, "size");
      if (size == 0 || size > address + bytes - at) {
        return;
      }
      if (snapshot_text(block, "state") == "active_allocated") {
        read_block(state, block, at, size);
      }
      at += size;
    }
  }

  // Older versions tell the frames in a history of who had it.
  void read_block(DeviceState& state, const Value& block, uint64_t address, uint64_t size) {
    const Value* frames = block.find("frames");
    const Value* const history = block.find("history");
    if (frames == nullptr && history != nullptr && !history->list().empty()) {
      frames = history->list().front().find("frames");
    }
    state.blocks[address] = {size, stack_of(frames), memory_.call(kReport)};
  }

  void read_history(const Value& history, int device) {
    std::vector<SnapshotEntry>& entries = entries_[device];
    for (const Value& record : history.list()) {
      memory_.note_time(snapshot_time(record));
      if (auto entry = snapshot_entry(record)) {
        entry->stack = stack_of(record.find("frames"));
        entries.push_back(*entry);
      }
    }
  }

  // From the end of a device's history to its beginning: what there was after each entry.
  void undo(int device, std::vector<SnapshotEntry>& entries) {
    DeviceState& last = devices_[device];
    last.reserved = sum(last.segments);
    last.allocated = sum(last.blocks);
    DeviceState state = last;
    TensorDeviceText& totals = memory_.trace.tensor_devices.emplace_back();
    totals.device = device;
    totals.allocated = last.allocated;
    totals.reserved = last.reserved;
    for (auto entry = entries.rbegin(); entry != entries.rend(); ++entry) {
      entry->allocated = state.allocated;
      entry->reserved = state.reserved;
      totals.peak_allocated = std::max(totals.peak_allocated, state.allocated);
      totals.peak_reserved = std::max(totals.peak_reserved, state.reserved);
      totals.allocations += entry->action == SnapshotAction::kAlloc ? 1 : 0;
      totals.frees += entry->action == SnapshotAction::kFree ? 1 : 0;
      undo(device, *entry, state);
    }
    totals.peak_allocated = std::max(totals.peak_allocated, state.allocated);
    totals.peak_reserved = std::max(totals.peak_reserved, state.reserved);
    totals.before = state.allocated;
    totals.change = static_cast<int64_t>(last.allocated - state.allocated);
  }

  void undo(int device, SnapshotEntry& entry, DeviceState& state) {
    DeviceState& last = devices_[device];
    switch (entry.action) {
      case SnapshotAction::kAlloc:
        entry.bytes = snapshot_rounded(entry.bytes);
        take_away(state.blocks, last.blocks, state.allocated, entry);
        break;
      case SnapshotAction::kFree:
        entry.bytes = snapshot_rounded(entry.bytes);
        put_back(state.blocks, state.allocated, entry, memory_.call(kReport));
        break;
      case SnapshotAction::kSegmentAlloc:
      case SnapshotAction::kMap:
        take_away(state.segments, last.segments, state.reserved, entry);
        break;
      case SnapshotAction::kSegmentFree:
      case SnapshotAction::kUnmap:
        put_back(state.segments, state.reserved, entry, memory_.call("cudaMalloc"));
        break;
      case SnapshotAction::kOom:
        keep_failure(device, entry, state);
        break;
    }
  }

  // What is live at the end knows its size there, and gets to know when it came.
  static void take_away(Pieces& pieces, Pieces& last, uint64_t& total, SnapshotEntry& entry) {
    const auto found = pieces.find(entry.address);
    if (found == pieces.end()) {
      return;
    }
    entry.bytes = found->second.bytes;
    total -= found->second.bytes;
    if (found->second.last) {
      last[entry.address].time = entry.time;
    }
    pieces.erase(found);
  }
  static void put_back(Pieces& pieces, uint64_t& total, const SnapshotEntry& entry, uint32_t call) {
    if (pieces.try_emplace(entry.address, Piece{entry.bytes, entry.stack, call, 0, false}).second) {
      total += entry.bytes;
    }
  }

  void keep_failure(int device, const SnapshotEntry& entry, const DeviceState& state) {
    if (memory_.trace.out_of_memory.size() == kMostFailures) {
      return;
    }
    OutOfMemoryText& failure = memory_.trace.out_of_memory.emplace_back();
    failure.time = entry.time;
    failure.bytes = entry.bytes;
    failure.allocated = state.allocated;
    failure.reserved = state.reserved;
    failure.free = entry.device_free;
    failure.asked = entry.time;
    failure.stack = entry.stack;
    failure.call = memory_.call(kFailure);
    failure.device = MemoryTrace::device_number(device);
    hold(failure, state.segments);
    hold(failure, state.blocks);
    std::stable_sort(
        failure.held.begin(), failure.held.end(),
        [](const HeldBlockText& a, const HeldBlockText& b) { return a.address < b.address; });
  }
  static void hold(OutOfMemoryText& failure, const Pieces& pieces) {
    for (const auto& [address, piece] : pieces) {
      if (failure.held.size() == kMostHeld) {
        ++failure.not_held;
      } else {
        failure.held.push_back({address, piece.bytes, piece.stack, piece.call, failure.device});
      }
    }
  }

  void write_tables() {
    ProcessTrace& trace = memory_.trace;
    for (const auto& [device, state] : devices_) {
      const uint8_t number = MemoryTrace::device_number(device);
      for (const auto& [address, piece] : state.segments) {
        trace.allocations.push_back(
            {address, piece.bytes, 0, piece.time, piece.stack, piece.call, number});
      }
      for (const auto& [address, piece] : state.blocks) {
        trace.tensor_blocks.push_back({address, piece.bytes, piece.time, piece.stack, number});
      }
    }
    for (TensorDeviceText& totals : trace.tensor_devices) {
      totals.time = trace.last_alive;
    }
    const auto by_time = [](const auto& a, const auto& b) { return a.time < b.time; };
    std::stable_sort(trace.tensor_blocks.begin(), trace.tensor_blocks.end(), by_time);
    std::stable_sort(trace.out_of_memory.begin(), trace.out_of_memory.end(), by_time);
    uint32_t count = 0;
    for (OutOfMemoryText& failure : trace.out_of_memory) {
      failure.number = ++count;
    }
  }

  void write_events() {
    std::vector<std::pair<int, const SnapshotEntry*>> all;
    for (const auto& [device, entries] : entries_) {
      for (const SnapshotEntry& entry : entries) {
        all.emplace_back(device, &entry);
      }
    }
    std::stable_sort(all.begin(), all.end(),
                     [](const auto& a, const auto& b) { return a.second->time < b.second->time; });
    for (const auto& [device, entry] : all) {
      write_event(device, *entry);
    }
  }

  void write_event(int device, const SnapshotEntry& entry) {
    const uint64_t minus = uint64_t{0} - entry.bytes;
    const auto add = [&](const char* name, MemoryTrace::Values values) {
      memory_.add(name, entry.time, device, entry.stack, values);
    };
    switch (entry.action) {
      case SnapshotAction::kAlloc:
      case SnapshotAction::kFree:
        add(kReport, {{"address", entry.address},
                      {"change", entry.action == SnapshotAction::kAlloc ? entry.bytes : minus},
                      {"allocated", entry.allocated},
                      {"reserved", entry.reserved}});
        break;
      case SnapshotAction::kSegmentAlloc:
        add("cudaMalloc", {{"address", entry.address}, {"bytes", entry.bytes}});
        break;
      case SnapshotAction::kSegmentFree:
        add("cudaFree", {{"address", entry.address}});
        break;
      case SnapshotAction::kMap:
        add("cuMemMap", {{"address", entry.address}, {"bytes", entry.bytes}});
        break;
      case SnapshotAction::kUnmap:
        add("cuMemUnmap", {{"address", entry.address}, {"bytes", entry.bytes}});
        break;
      case SnapshotAction::kOom:
        add(kFailure,
            {{"bytes", entry.bytes}, {"allocated", entry.allocated}, {"reserved", entry.reserved}});
        break;
    }
  }

  static constexpr uint32_t kNoFrames = 0xffff'fff0;  // the stack of what has no frames

  MemoryTrace memory_;
  FlightStacks stacks_;
  std::map<int, DeviceState> devices_;
  std::map<int, std::vector<SnapshotEntry>> entries_;
};

}  // namespace

namespace {

bool is_json(std::string_view head) {
  const size_t first = json_begin(head);
  return first != head.npos && (head[first] == '{' || head[first] == '[');
}

// As a key of a pickle, behind its length, or of JSON.
bool has_key(std::string_view head, std::string_view key) {
  const size_t at = head.find(key);
  return at != head.npos && at > 0 &&
         (head[at - 1] == '"' || head[at - 1] == '\0' ||
          static_cast<size_t>(head[at - 1]) == key.size());
}

}  // namespace

bool looks_like_torch_snapshot(std::string_view head) {
  constexpr std::string_view kKeys[] = {"segments", "host_segments", "device_traces",
                                        "allocator_settings", "external_annotations"};
  return (looks_like_pickle(head) || is_json(head)) &&
         (std::any_of(std::begin(kKeys), std::end(kKeys),
                      [&](std::string_view key) { return has_key(head, key); }) ||
          (has_key(head, "address") && has_key(head, "total_size")));
}

Result<ProcessTrace> torch_snapshot_trace(const Value& root, const std::string& file) {
  const bool is_list = root.kind() == Value::Kind::kList;  // torch.cuda.memory_snapshot()
  const Value* const segments = is_list ? &root : root.find("segments");
  const bool holds_others = is_list && (root.list().empty() || !root.list()[0].find("total_size"));
  if (segments == nullptr || segments->kind() != Value::Kind::kList || holds_others) {
    return ReadError{file, 0, "expected a snapshot of PyTorch's memory: a list of segments", true};
  }
  return SnapshotReader(file).read(*segments, is_list ? nullptr : root.find("device_traces"),
                                   is_list ? nullptr : root.find("allocator_settings"));
}

Result<ProcessTrace> read_torch_snapshot(const std::string& path) {
  Result<WholeFile> file = read_whole_file(path);
  if (!file) {
    return file.error();
  }
  ValueArena arena;
  const Result<Value> root = looks_like_pickle(file->bytes())
                                 ? read_pickle(file->bytes(), path, arena)
                                 : read_json(file->bytes(), path, arena);
  if (!root) {
    return root.error();
  }
  Result<ProcessTrace> trace = torch_snapshot_trace(*root, path);
  if (trace && trace->last_alive == 0) {
    trace->armed = trace->last_alive = file->modified();
  }
  return trace;
}

}  // namespace traintrace
