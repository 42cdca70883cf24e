#include "analyzer/reader/read_trace.h"

#include <algorithm>
#include <optional>

#include "analyzer/reader/definitions.h"
#include "analyzer/reader/events.h"
#include "analyzer/reader/gpu_progress.h"
#include "analyzer/reader/layout.h"
#include "analyzer/reader/pointer_file.h"
#include "analyzer/reader/tables.h"
#include "analyzer/reader/this_machine.h"

namespace traintrace {
namespace {

void read_identity(const Layout& layout, const TraceClock& clock, ProcessTrace& trace) {
  const format::FileHeader& header = layout.header;
  trace.host = std::string(header.host, std::find(header.host, std::end(header.host), '\0'));
  trace.pid = header.pid;
  trace.parent_pid = header.parent_pid;
  trace.start_time = header.start_time;
  trace.armed = clock.ns(header.armed_ticks);
  trace.last_alive = clock.ns(header.last_alive_ticks);
  if (header.exit_kind == format::kExit || header.exit_kind == format::kFastExit) {
    trace.exit_kind = static_cast<format::ExitKind>(header.exit_kind);
    trace.exit_status = header.exit_status;
    trace.exited = clock.ns(header.exit_ticks);
  }
  trace.running_now = is_running(header);
}

Schema read_schema(const TraceBytes& file, const Layout& layout, std::vector<ReadError>& problems) {
  constexpr uint64_t kMostBytes = 16 << 20;
  const format::Section* section = layout.section(format::kSchema);
  if (section == nullptr) {
    problems.push_back(file.error(0, "expected a section with the names of calls"));
    return {};
  }
  std::vector<std::byte> text(std::min(section->bytes, kMostBytes));
  const size_t got = file.read(section->offset, text);
  size_t bad_lines = 0;
  Schema schema = parse_schema({reinterpret_cast<const char*>(text.data()), got}, bad_lines);
  if (bad_lines != 0) {
    problems.push_back(
        file.error(section->offset, "expected lines `call ID NAME LIBRARY KIND FIELD..`, found " +
                                        std::to_string(bad_lines) + " others"));
  }
  return schema;
}

Result<ProcessTrace> read_native(const TraceBytes& file, const ReadOptions& options) {
  ProcessTrace trace;
  trace.source = file.path();
  const Result<Layout> layout = read_layout(file, trace.errors);
  if (!layout) {
    return layout.error();
  }
  const TraceClock clock(layout->header);
  if (!clock.rate_known()) {
    trace.errors.push_back(file.error(0, "expected two clock anchors: times are estimates"));
  }
  read_identity(*layout, clock, trace);
  ReadContext context{file,  *layout, clock, read_schema(file, *layout, trace.errors),
                      trace, {},      {},    {}};
  read_tables(context);
  read_events(context, options);
  // Last: what the others refer to was defined before they were recorded.
  read_definitions(context);
  read_gpu_progress(context);
  trace.calls = std::move(context.schema.calls);
  return trace;
}

}  // namespace

Result<ProcessTrace> read_trace(const std::string& path, const ReadOptions& options) {
  std::string target = path;
  if (const auto pointer = read_pointer_file(path)) {
    if (!*pointer) {
      return pointer->error();
    }
    target = **pointer;
  }
  const Result<TraceBytes> file = TraceBytes::open(target);
  if (!file) {
    return file.error();
  }
  return read_native(*file, options);
}

}  // namespace traintrace
