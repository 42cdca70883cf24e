// What was read last, as text for node_exporter's textfile collector.
#pragma once

#include <string>

#include "analyzer/telemetry/telemetry_file.h"

namespace traintrace {

// Metrics traintrace_gpu_.. with labels gpu, uuid and pci.  No timestamps: the collector refuses
// them.  `hung`: queries that have not returned.
std::string prometheus_text(const TelemetryFile& file, size_t hung);

// Writes it beside `path` and renames it there, so that nobody reads half of it.  Readable for all,
// as the exporter is another user.  False: `problem` says why not.
bool write_for_prometheus(const std::string& path, const std::string& text, std::string& problem);

}  // namespace traintrace
