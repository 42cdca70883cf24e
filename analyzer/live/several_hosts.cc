#include "analyzer/live/several_hosts.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <tuple>

#include "analyzer/text/dump_parser.h"
#include "analyzer/text/dump_printer.h"

namespace traintrace {
namespace {

using Json = nlohmann::json;

auto identity(const ProcessTrace& trace) {
  return std::tie(trace.host, trace.pid, trace.start_time);
}

// The better one of the same process comes first.
bool comes_before(const ProcessTrace& a, const ProcessTrace& b) {
  if (identity(a) != identity(b)) {
    return identity(a) < identity(b);
  }
  return std::tuple(a.now.size(), a.running_now.has_value(), a.last_alive) >
         std::tuple(b.now.size(), b.running_now.has_value(), b.last_alive);
}

// Of files that are so small only: they travel as they are.
constexpr uint64_t kMostTelemetryBytes = 64 << 20;

std::vector<std::string> telemetry_of(const JobNow& now) {
  std::vector<std::string> texts;
  for (const std::string& path : now.traces.telemetry) {
    std::error_code problem;
    const uint64_t bytes = std::filesystem::file_size(path, problem);
    if (!problem && bytes <= kMostTelemetryBytes) {
      std::ifstream file(path, std::ios::binary);
      texts.emplace_back(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
    }
  }
  return texts;
}

// Where hosts share a folder each sends the same file, one of them longer than the other.
void add_telemetry_text(const std::string& text, std::vector<std::string>& texts) {
  for (std::string& known : texts) {
    if (known.starts_with(text) || text.starts_with(known)) {
      known = std::max(known, text);
      return;
    }
  }
  texts.push_back(text);
}

void add(const Json& part, JobNow& now) {
  now.looked_at += part.value("looked_at", 0);
  now.unrecorded += part.value("unrecorded", 0);
  for (const char* list : {"limits", "problems"}) {
    for (const std::string& text : part.value(list, std::vector<std::string>())) {
      now.limits.push_back(text);
    }
  }
  for (const std::string& text : part.value("telemetry", std::vector<std::string>())) {
    add_telemetry_text(text, now.telemetry_texts);
  }
  const auto stops = part.value("stops_ns", std::vector<int64_t>());
  now.stops_ns.insert(now.stops_ns.end(), stops.begin(), stops.end());
  Result<DumpText> dump = parse_dump(part.value("traces", ""), "of a host");
  if (!dump) {
    now.limits.push_back("what a host sent cannot be read: " + dump.error().message);
    return;
  }
  std::move(dump->processes.begin(), dump->processes.end(),
            std::back_inserter(now.traces.processes));
}

}  // namespace

std::string packed(const JobNow& now, const std::string& problem) {
  std::string traces;
  print_dump(now.traces.processes, {}, [&](std::string_view text) { traces += text; });
  Json part = {{"looked_at", now.looked_at},    {"unrecorded", now.unrecorded},
               {"limits", now.limits},          {"problems", Json::array()},
               {"stops_ns", now.stops_ns},      {"traces", traces},
               {"telemetry", telemetry_of(now)}};
  if (!problem.empty()) {
    part["problems"].push_back(problem);
  }
  return part.dump(-1, ' ', false, Json::error_handler_t::replace);
}

JobNow unpacked(const std::vector<std::string>& texts) {
  JobNow now;
  for (const std::string& text : texts) {
    const Json part = Json::parse(text, nullptr, false);
    if (part.is_object()) {
      add(part, now);
    }
  }
  std::vector<ProcessTrace>& all = now.traces.processes;
  std::sort(all.begin(), all.end(), comes_before);
  all.erase(std::unique(all.begin(), all.end(),
                        [](const ProcessTrace& a, const ProcessTrace& b) {
                          return identity(a) == identity(b);
                        }),
            all.end());
  std::sort(now.stops_ns.begin(), now.stops_ns.end());
  return now;
}

}  // namespace traintrace
