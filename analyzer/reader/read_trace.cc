#include "analyzer/reader/read_trace.h"

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <cstring>
#include <optional>

#include "analyzer/reader/files/brought.h"
#include "analyzer/reader/files/pointer_file.h"
#include "analyzer/reader/files/trace_memory.h"
#include "analyzer/reader/files/within.h"
#include "analyzer/reader/host_clocks.h"
#include "analyzer/reader/sections/definitions.h"
#include "analyzer/reader/sections/events.h"
#include "analyzer/reader/sections/gpu_progress.h"
#include "analyzer/reader/sections/layout.h"
#include "analyzer/reader/sections/tables.h"
#include "analyzer/reader/this_machine.h"

namespace traintrace {
namespace {

// On the same line as the trace's other times.
void read_gone(const format::FileHeader& header, ProcessTrace& trace) {
  if (header.gone_how != format::kSeenGone && header.gone_how != format::kSeenGoneStatus) {
    return;
  }
  TimeNs gone = 0;
  const bool known = header.gone_boottime_ns != 0 && trace.booted != 0 &&
                     !__builtin_add_overflow(trace.booted, header.gone_boottime_ns, &gone);
  gone = known ? gone : static_cast<TimeNs>(header.gone_realtime_ns);
  trace.gone = gone > 0 ? gone : std::max<TimeNs>(trace.last_alive, 1);
  trace.wait_status = header.gone_how == format::kSeenGoneStatus ? header.gone_status : -1;
}

void read_machine(const format::FileHeader& header, const TraceClock& clock, ProcessTrace& trace) {
  trace.boot = boot_text(header.boot_id);
  trace.booted_at_first = booted_at(header.first_anchor, header.anchor_boottime_ns[0]);
  trace.booted = clock.booted();
  note_boottime(boottime_of(header), trace);
}

void read_identity(const Layout& layout, const TraceClock& clock, ProcessTrace& trace) {
  const format::FileHeader& header = layout.header;
  trace.host = std::string(header.host, std::find(header.host, std::end(header.host), '\0'));
  trace.pid = header.pid;
  trace.parent_pid = header.parent_pid;
  trace.start_time = header.start_time;
  trace.run_key = header.version < 4 ? 0 : header.run_key;
  trace.armed = clock.ns(header.armed_ticks);
  trace.last_alive = clock.ns(header.last_alive_ticks);
  if (header.exit_kind == format::kExit || header.exit_kind == format::kFastExit) {
    trace.exit_kind = static_cast<format::ExitKind>(header.exit_kind);
    trace.exit_status = header.exit_status & 0xff;  // what its parent is told
    trace.exited = clock.ns(header.exit_ticks);
  }
  read_machine(header, clock, trace);
  read_gone(header, trace);
  trace.running_now = is_running(header);
  trace.halt = trace.running_now == true ? halt_of(trace.pid) : Halt::kNot;
}

// What the keeper knows and the process did not.
void note_copy(const format::FileHeader& header, ProcessTrace& trace) {
  if (header.version < 4) {
    return;
  }
  const auto end = std::find(header.not_in_folder, std::end(header.not_in_folder), '\0');
  if (end != header.not_in_folder) {
    trace.facts.emplace("not-in-folder", std::string(header.not_in_folder, end));
  }
  if (header.collect_problem != 0) {
    trace.facts.emplace("not-collected", std::strerror(header.collect_problem));
  }
}

// Of a process that was there when its trace was collected nothing newer is known: it is silent
// since, whether this machine still has it or not.
void note_pack(const std::string& path, ProcessTrace& trace) {
  const std::optional<format::PackHead> head = pack_around(path);
  if (head) {
    trace.running_now =
        (head->flags & format::kPackGone) != 0 ? std::optional(false) : std::nullopt;
    trace.halt = Halt::kNot;
    trace.facts.erase("not-collected");  // of an attempt before this one
  }
}

bool lies_in_memory_tables(const Layout& layout, const PackedBytes& part) {
  return part.bytes != 0 &&
         std::any_of(layout.sections.begin(), layout.sections.end(), [&](const auto& section) {
           const bool of_memory =
               section.kind == format::kAllocations || section.kind == format::kTensorBlocks ||
               section.kind == format::kTensorDevices || section.kind == format::kHeldBlocks;
           return of_memory && part.offset >= section.offset &&
                  part.offset + part.bytes <= section.offset + section.bytes;
         });
}

// Who waits for whom is told by other tables.
void note_damage(const TraceBytes& file, const std::string& path,
                 const std::vector<ReadError>& damages, ProcessTrace& trace) {
  std::vector<ReadError> ignored;
  const Result<Layout> layout = read_layout(file, ignored);
  const bool only_memory =
      layout && !damages.empty() && trace.errors.size() == damages.size() &&
      std::all_of(damages.begin(), damages.end(), [&](const ReadError& damage) {
        return !damage.truncated &&
               lies_in_memory_tables(*layout, trace_bytes_at(path, damage.offset));
      });
  if (only_memory) {
    trace.facts.emplace("damaged", "memory");
  }
}

// What its own host says of a trace that was brought here.
void note_host(const std::string& path, ProcessTrace& trace) {
  if (const auto brought = brought_file(path)) {
    trace.running_now = brought->running_now;
    trace.halt = brought->halt;
  }
}

Schema read_schema(const TraceBytes& file, const Layout& layout, const ReadOptions& options,
                   std::vector<ReadError>& problems) {
  constexpr uint64_t kMostBytes = 16 << 20;
  const format::Section* section = layout.section(format::kSchema);
  if (section == nullptr) {
    problems.push_back(file.error(0, "expected a section with the names of calls"));
    return {};
  }
  std::vector<std::byte> text(std::min(section->bytes, kMostBytes));
  const size_t got = file.read(section->offset, text);
  size_t bad_lines = 0;
  const std::string_view lines(reinterpret_cast<const char*>(text.data()), got);
  Schema schema = options.lean ? lean_schema(lines, bad_lines) : parse_schema(lines, bad_lines);
  if (!options.first_calls.empty()) {
    schema.put_first(options.first_calls);
  }
  if (bad_lines != 0) {
    problems.push_back(
        file.error(section->offset, "expected lines `call ID NAME LIBRARY KIND FIELD..`, found " +
                                        std::to_string(bad_lines) + " others"));
  }
  return schema;
}

// Those in which no frame of a stack is.
void drop_unused_modules(ProcessTrace& trace) {
  std::vector<uint64_t> addresses;
  for (const auto& [id, stack] : trace.stacks) {
    addresses.insert(addresses.end(), stack.native.begin(), stack.native.end());
  }
  std::sort(addresses.begin(), addresses.end());
  std::erase_if(trace.modules, [&](const ModuleText& module) {
    const auto first = std::lower_bound(addresses.begin(), addresses.end(), module.begin);
    return first == addresses.end() || *first >= module.end;
  });
  trace.modules.shrink_to_fit();
}

// Tables are read without knowing how much of them is in use: of a thousand processes what was
// reserved would be a third of all.
void hold_no_more(ProcessTrace& trace) {
  trace.calls.shrink_to_fit();
  trace.threads.shrink_to_fit();
  trace.peers.shrink_to_fit();
  trace.streams.shrink_to_fit();
  trace.host_functions.shrink_to_fit();
  trace.allocations.shrink_to_fit();
  trace.tensor_blocks.shrink_to_fit();
  for (CommunicatorText& communicator : trace.communicators) {
    communicator.checkpoints.shrink_to_fit();
    communicator.recent.shrink_to_fit();
  }
  trace.communicators.shrink_to_fit();
}

Result<TraceBytes> open_trace(const std::string& path) {
  if (const auto pointer = read_pointer_file(path)) {
    return *pointer ? open_newest(**pointer) : pointer->error();
  }
  return open_newest(path);
}

Result<ProcessTrace> read_native(const TraceBytes& file, const ReadOptions& options) {
  ProcessTrace trace;
  trace.source = file.path();
  const Result<Layout> layout = read_layout(file, trace.errors);
  if (!layout) {
    return layout.error();
  }
  const TraceClock clock(layout->header, options.booted);
  if (!clock.rate_known()) {
    trace.errors.push_back(file.error(0, "expected two clock anchors: times are estimates"));
  }
  read_identity(*layout, clock, trace);
  ReadContext context{file,  *layout, clock, read_schema(file, *layout, options, trace.errors),
                      trace, {},      {},    {}};
  read_tables(context, options);
  read_events(context, options);
  // Last: what the others refer to was defined before they were recorded.
  read_definitions(context);
  note_copy(layout->header, trace);
  read_gpu_progress(context);
  trace.calls = std::move(context.schema.calls);
  if (options.lean && !options.events) {
    drop_unused_modules(trace);
  }
  if (options.lean) {
    hold_no_more(trace);
  }
  return trace;
}

}  // namespace

Result<ProcessTrace> read_trace(const std::string& path, const ReadOptions& options) {
  if (options.events) {
    bring_events(path);
  }
  const std::string trace_path = is_pack(path) ? trace_in_pack(path) : path;
  const Result<TraceBytes> file = open_trace(trace_path);
  if (!file) {
    return file.error();
  }
  Result<ProcessTrace> trace = read_native(*file, options);
  const std::vector<ReadError> damages = file->problems();
  if (!trace && !damages.empty()) {  // which is why
    ReadError error = damages.front();
    error.fatal = true;
    return error;
  }
  if (trace && file->is_within()) {
    trace->errors.insert(trace->errors.end(), damages.begin(), damages.end());
    note_damage(*file, trace_path, damages, *trace);
    note_pack(trace_path, *trace);
    note_host(path, *trace);
  }
  return trace;
}

Result<format::FileHeader> read_trace_header(const std::string& path) {
  std::vector<ReadError> ignored;
  const Result<TraceBytes> file = open_trace(is_pack(path) ? trace_in_pack(path) : path);
  const Result<Layout> layout = file ? read_layout(*file, ignored) : file.error();
  if (!layout) {
    return layout.error();
  }
  return layout->header;
}

}  // namespace traintrace
