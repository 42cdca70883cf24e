// What was read last, as text for node_exporter's textfile collector.
#pragma once

#include <string>

#include "analyzer/telemetry/telemetry_file.h"

namespace traintrace {

// Metrics traintrace_gpu_.. with labels gpu, uuid and pci.  No timestamps: the collector refuses
// them.  `hung`: queries that have not returned.
std::string prometheus_text(const TelemetryFile& file, size_t hung);

}  // namespace traintrace
