// Traces that exist, but on the disk of a host that cannot be reached from here.
#include <fmt/format.h>

#include <filesystem>
#include <map>
#include <set>

#include "analyzer/detectors/detectors.h"
#include "analyzer/detectors/trace/trace_finding.h"
#include "analyzer/reader/files/pointer_file.h"
#include "analyzer/text/shell_word.h"

namespace traintrace {
namespace {

struct HostTraces {
  Ranks ranks;
  size_t count = 0;
  std::set<std::string> folders;
};

std::string folder_of(const std::string& path) {
  return path.substr(0, path.rfind('/'));
}

// "ranks 8-15 are on node017 in /tmp/traintrace-1000"
std::string line_about(const std::string& host, const HostTraces& traces) {
  return fmt::format("{} {} on {} in {}",
                     traces.ranks.empty()
                         ? fmt::format("{} trace{}", traces.count, traces.count == 1 ? "" : "s")
                         : ranks_text(traces.ranks),
                     traces.count == 1 ? "is" : "are", host, fmt::join(traces.folders, ", "));
}

// The report has one line for 1,024 ranks.
std::string hosts_text(const std::map<std::string, HostTraces>& hosts) {
  std::set<std::string> names;
  for (const auto& [host, traces] : hosts) {
    names.insert(host);
  }
  return names.size() == 1 ? *names.begin()
                           : fmt::format("{} hosts ({})", names.size(), host_list(names));
}

std::string node_list(const std::map<std::string, HostTraces>& hosts) {
  constexpr size_t kMostNames = 8;
  std::vector<std::string> names;
  names.reserve(hosts.size());
  for (const auto& [host, traces] : hosts) {
    names.push_back(host);
  }
  return names.size() > kMostNames
             ? ""
             : " --nodelist=" + shell_word(fmt::format("{}", fmt::join(names, ",")));
}

// Where their pointers lie, as other hosts see it if they share it.
std::string shared_folder(const Run& run) {
  std::error_code ignored;
  const std::string named = folder_of_pointer(run.elsewhere.front());
  const auto whole = std::filesystem::absolute(named, ignored).lexically_normal();
  return named.empty() ? "FOLDER" : shell_word(whole.string());
}

std::string advice_for(const std::map<std::string, HostTraces>& hosts, const std::string& folder) {
  return fmt::format(
      "collect them on their hosts, into the folder that is analyzed here: srun --nodes={} "
      "--ntasks-per-node=1{} traintrace collect {} (or ssh HOST, kubectl exec, mpirun), then "
      "analyze it again; with TRAINTRACE_COLLECT={} the next job does it itself",
      hosts.size(), node_list(hosts), folder, folder);
}

}  // namespace

std::vector<Finding> find_traces_elsewhere(const Run& run) {
  if (run.elsewhere.empty()) {
    return {};
  }
  std::map<std::string, HostTraces> hosts;
  Ranks all;
  for (const ElsewhereTrace& trace : run.elsewhere) {
    HostTraces& there = hosts[trace.host];
    ++there.count;
    there.folders.insert(folder_of(trace.path));
    if (trace.rank >= 0) {
      insert(there.ranks, Rank{trace.rank});
      insert(all, Rank{trace.rank});
    }
  }
  Finding finding = trace_finding(run, "trace.elsewhere", &Doubts::missing_traces);
  finding.title =
      fmt::format("the trace{} of {} {} not here but on {}", run.elsewhere.size() == 1 ? "" : "s",
                  all.empty() ? fmt::format("{} processes", run.elsewhere.size()) : ranks_text(all),
                  run.elsewhere.size() == 1 ? "is" : "are", hosts_text(hosts));
  finding.values = {{"trace_count", static_cast<int64_t>(run.elsewhere.size())},
                    {"host_count", static_cast<int64_t>(hosts.size())}};
  std::vector<std::string> lines;
  lines.reserve(hosts.size());
  for (const auto& [host, traces] : hosts) {
    lines.push_back(line_about(host, traces));
  }
  finding.evidence = cut(std::move(lines));
  finding.sides = all.empty() ? std::vector<Ranks>() : std::vector<Ranks>{all};
  finding.advice = advice_for(hosts, shared_folder(run));
  return {finding};
}

}  // namespace traintrace
