#include "analyzer/exporters/perfetto.h"

#include "analyzer/exporters/collapsed.h"

namespace traintrace {

std::string perfetto_trace(std::span<const ProcessTrace> processes) {
  PerfettoWriter out;
  for (const ProcessTrace& trace : processes) {
    add_memory(trace, out.process(process_label(trace), trace.pid), out);
  }
  return out.finish();
}

}  // namespace traintrace
