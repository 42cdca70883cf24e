#include "analyzer/top/live_process.h"

#include <algorithm>
#include <map>

#include "analyzer/memory/blocks.h"
#include "analyzer/reader/files/trace_memory.h"
#include "analyzer/reader/sections/elements.h"

namespace traintrace {
namespace {

// All processes of a job have the same: some hundred kilobytes of names.
std::shared_ptr<const Schema> schema_of(const TraceBytes& file, const Layout& layout) {
  constexpr uint64_t kMostBytes = 16 << 20;
  static std::map<std::string, std::weak_ptr<const Schema>> known;
  const format::Section* const section = layout.section(format::kSchema);
  std::string text(section == nullptr ? 0 : std::min(section->bytes, kMostBytes), '\0');
  text.resize(
      section == nullptr ? 0 : file.read(section->offset, std::as_writable_bytes(std::span(text))));
  std::weak_ptr<const Schema>& place = known[text];
  std::shared_ptr<const Schema> schema = place.lock();
  if (schema == nullptr) {
    size_t bad_lines = 0;
    schema = std::make_shared<const Schema>(parse_schema(text, bad_lines));
    place = schema;
  }
  return schema;
}

std::string text_of(const char* chars, size_t size) {
  return {chars, std::find(chars, chars + size, '\0')};
}

}  // namespace

LiveProcess::LiveProcess(TraceBytes file, Layout layout, std::shared_ptr<const Schema> schema)
    : file_(std::move(file)), layout_(std::move(layout)), schema_(std::move(schema)) {}

Result<LiveProcess> LiveProcess::open(const ProcessTrace& tables) {
  Result<TraceBytes> file = open_newest(tables.source);
  if (!file) {
    return file.error();
  }
  std::vector<ReadError> problems;
  Result<Layout> layout = read_layout(*file, problems);
  if (!layout) {
    return layout.error();
  }
  std::shared_ptr<const Schema> schema = schema_of(*file, *layout);
  return LiveProcess(std::move(*file), std::move(*layout), std::move(schema));
}

const CallSchema& LiveProcess::call(uint16_t id) const {
  static const CallSchema unknown{"?", "", "", {}};
  const uint32_t index =
      id < schema_->index_of_id.size() ? schema_->index_of_id[id] : Schema::kNoCall;
  return index == Schema::kNoCall ? unknown : schema_->calls[index];
}

bool LiveProcess::read_header() {
  std::vector<ReadError> problems;
  Result<Layout> layout = read_layout(file_, problems);
  // What is copied in place of this file belongs to another process.
  if (!layout || layout->header.pid != header().pid ||
      layout->header.start_time != header().start_time) {
    return false;
  }
  layout_ = std::move(*layout);
  clock_.emplace(layout_.header);
  return true;
}

// Elements are taken from the front on: what lies half as far again behind the last one in use is
// looked at too.
template <class T, class InUse, class Same, class Take>
void LiveProcess::read_used(format::SectionKind kind, size_t& extent, InUse in_use, Same same,
                            Take take) {
  constexpr size_t kAtLeast = 16;
  const format::Section* const whole = layout_.section(kind);
  if (whole == nullptr || whole->element_bytes == 0) {
    return;
  }
  for (bool again = true; again;) {
    format::Section part = *whole;
    const size_t elements = extent + extent / 2 + kAtLeast;
    part.bytes = std::min<uint64_t>(part.bytes, elements * part.element_bytes);
    const size_t before = extent;
    read_elements<T>(file_, part, in_use, same, [&](uint64_t index, const T& element) {
      extent = std::max(extent, static_cast<size_t>(index) + 1);
      if (index < before) {
        take(index, element);
      }
    });
    // Those that are new are read with the rest, in one go.
    again = extent != before;
    if (again) {
      take.clear();
    }
  }
}

namespace {

// A list that read_used can begin anew.
template <class T, class Make>
struct Collect {
  std::vector<T>& into;
  Make make;
  void clear() { into.clear(); }
  template <class Element>
  void operator()(uint64_t index, const Element& element) {
    if (std::optional<T> made = make(index, element)) {
      into.push_back(std::move(*made));
    }
  }
};
template <class T, class Make>
Collect(std::vector<T>&, Make) -> Collect<T, Make>;

}  // namespace

void LiveProcess::read_threads(LiveSample& sample) {
  const auto make = [&](uint64_t, const format::Thread& from) -> std::optional<LiveThread> {
    if (from.ended_ticks != 0) {
      return std::nullopt;
    }
    LiveThread thread{from.tid, text_of(from.name, sizeof from.name), from.events, from.queries, {},
                      {}};
    // The call of NCCL is the outer one.
    for (const size_t layer : {1, 0}) {
      const format::OpenCall& open = from.open[layer];
      if (open.enter_ticks != 0) {
        thread.open = {open.call, open.stack, clock_->ns(open.enter_ticks)};
        break;
      }
    }
    if (from.last_call_ticks != 0) {
      thread.last = {from.last_call, from.last_stack,
                     clock_->ns(std::max(from.last_call_ticks, from.last_query_ticks))};
    }
    return thread;
  };
  read_used<format::Thread>(
      format::kThreads, threads_, [](const format::Thread& thread) { return thread.serial != 0; },
      [](const format::Thread& a, const format::Thread& b) {
        return a.serial == b.serial && a.open[0].enter_ticks == b.open[0].enter_ticks &&
               a.open[1].enter_ticks == b.open[1].enter_ticks;
      },
      Collect{sample.threads, make});
}

void LiveProcess::read_communicators(LiveSample& sample) {
  const auto make = [&](uint64_t index,
                        const format::Communicator& from) -> std::optional<LiveCommunicator> {
    if ((from.flags & format::kNoColor) != 0) {
      return std::nullopt;
    }
    return LiveCommunicator{from.id,
                            text_of(from.name, sizeof from.name),
                            from.size,
                            from.device,
                            from.collectives,
                            clock_->ns(from.last_ticks),
                            (from.flags & (format::kDestroyed | format::kAborted)) != 0,
                            static_cast<size_t>(index)};
  };
  read_used<format::Communicator>(
      format::kCommunicators, communicators_,
      [](const format::Communicator& element) { return element.used != 0; },
      [](const format::Communicator& a, const format::Communicator& b) {
        return a.id == b.id && a.operations == b.operations;
      },
      Collect{sample.communicators, make});
}

uint64_t LiveProcess::allocated_by_calls() const {
  constexpr uint64_t kFreed = 1;
  uint64_t bytes = 0;
  if (const format::Section* const section = layout_.section(format::kAllocations)) {
    read_elements<format::Allocation>(
        file_, *section,
        [](const format::Allocation& allocation) { return allocation.address > kFreed; },
        [](const format::Allocation& a, const format::Allocation& b) {
          return a.address == b.address && a.ticks == b.ticks;
        },
        [&](uint64_t, const format::Allocation& allocation) {
          const auto kind = kind_of_call(call(allocation.call).name);
          bytes = sum_of(bytes, kind && on_device(*kind) ? allocation.bytes : 0);
        });
  }
  return bytes;
}

void LiveProcess::read_memory(LiveSample& sample) {
  constexpr uint64_t kDevices = 16;  // of 128 that could be: one process has a few
  if (const format::Section* const whole = layout_.section(format::kTensorDevices)) {
    format::Section part = *whole;
    part.bytes = std::min<uint64_t>(part.bytes, kDevices * part.element_bytes);
    read_elements<format::TensorDevice>(
        file_, part, [](const format::TensorDevice& device) { return device.ticks != 0; },
        [](const format::TensorDevice& a, const format::TensorDevice& b) {
          return a.ticks == b.ticks;
        },
        [&](uint64_t index, const format::TensorDevice& device) {
          sample.memory.push_back(
              {static_cast<int>(index), device.allocated, device.reserved, device.peak_allocated});
        });
  }
  // The table of all allocations is large, and not read each time.  Processes take turns.
  constexpr int kEvery = 8;
  if (sample.memory.empty() && (samples_ + header().pid) % kEvery == 0) {
    last_memory_.clear();
  }
  if (sample.memory.empty() && last_memory_.empty()) {
    const uint64_t bytes = allocated_by_calls();
    last_memory_.push_back({-1, bytes, bytes, 0});
  }
  if (sample.memory.empty()) {
    sample.memory = last_memory_;
  }
}

std::optional<LiveSample> LiveProcess::sample() {
  if (!read_header()) {
    return std::nullopt;
  }
  ++samples_;
  const format::FileHeader& now = header();
  LiveSample sample;
  sample.last_alive = clock_->ns(now.last_alive_ticks);
  if (now.exit_kind != format::kNotExited) {
    sample.exited = clock_->ns(now.exit_ticks);
    sample.exit_status = now.exit_status & 0xff;
  }
  sample.gone = now.version >= 4 && now.gone_how != format::kNotSeenGone;
  sample.wait_status =
      now.version >= 4 && now.gone_how == format::kSeenGoneStatus ? now.gone_status : -1;
  sample.is_copy = now.version >= 4 && now.copy_state != format::kIsMemory;
  read_threads(sample);
  read_communicators(sample);
  read_memory(sample);
  return sample;
}

bool LiveProcess::is_finished(const format::Operation& operation) const {
  if ((operation.flags & format::kFinished) != 0) {
    return true;
  }
  const format::Section* const streams = layout_.section(format::kStreams);
  if (streams == nullptr || operation.stream == 0 || operation.position == 0 ||
      operation.position == format::kNeverReached ||
      uint64_t{operation.stream} * streams->element_bytes > streams->bytes) {
    return false;
  }
  std::byte bytes[sizeof(format::Stream)] = {};
  file_.read(streams->offset + uint64_t{operation.stream - 1} * streams->element_bytes,
             std::span(bytes).first(std::min<size_t>(sizeof bytes, streams->element_bytes)));
  return value_from<format::Stream>(bytes).completed >= operation.position;
}

std::vector<LiveOperation> LiveProcess::operations(const LiveCommunicator& communicator) const {
  const format::Section* const whole = layout_.section(format::kOperations);
  if (whole == nullptr) {
    return {};
  }
  const uint64_t bytes = uint64_t{format::kRecentOperations} * whole->element_bytes;
  format::Section part = *whole;
  part.offset += communicator.element * bytes;
  part.bytes = (communicator.element + 1) * bytes <= whole->bytes ? bytes : 0;
  std::vector<format::Operation> found;
  read_elements<format::Operation>(
      file_, part, [](const format::Operation& operation) { return operation.enter_ticks != 0; },
      [](const format::Operation& a, const format::Operation& b) {
        return a.enter_ticks == b.enter_ticks && a.index_low == b.index_low;
      },
      [&](uint64_t, const format::Operation& operation) { found.push_back(operation); });
  std::sort(found.begin(), found.end(),
            [](const auto& a, const auto& b) { return a.enter_ticks < b.enter_ticks; });
  std::vector<LiveOperation> operations;
  for (const format::Operation& from : found) {
    LiveOperation& to = operations.emplace_back();
    to.sequence = from.sequence;
    to.enter = clock_->ns(from.enter_ticks);
    to.count = from.count;
    to.call = from.call;
    to.stack = from.stack;
    to.collective = call(from.call).kind == "collective";
    to.runs = (from.flags & (format::kCaptured | format::kFailed)) == 0;
  }
  if (!found.empty()) {  // nobody asks about the others
    operations.back().finished = is_finished(found.back());
  }
  return operations;
}

}  // namespace traintrace
