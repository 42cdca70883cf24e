// Metrics in the text format of Prometheus, in files for node_exporter's textfile collector.
#pragma once

#include <string>
#include <string_view>

namespace traintrace {

// What stands between the quotes of a label: as it is printed, with \ and " escaped.
std::string label_value(const std::string& text);

// The lines # HELP and # TYPE; `type`: gauge or counter.
std::string head_of_metric(std::string_view name, std::string_view type, std::string_view help);

// Writes it beside `path` and renames it there, so that nobody reads half of it.  Readable for all,
// as the exporter is another user.  False: `problem` says why not.
bool write_for_prometheus(const std::string& path, const std::string& text, std::string& problem);

}  // namespace traintrace
