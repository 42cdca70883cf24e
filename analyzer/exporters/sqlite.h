// A run as tables of SQLite (docs/sql.md).
#pragma once

#include <span>

#include "analyzer/detectors/finding.h"
#include "analyzer/exporters/exported_process.h"
#include "analyzer/exporters/sqlite_file.h"
#include "analyzer/model/divergence/narrow_divergences.h"

namespace traintrace {

void write_sqlite(std::span<const ExportedProcess> processes, std::span<const Finding> findings,
                  const ReadEvents& read_events, SqliteFile& file);

}  // namespace traintrace
