// Traces that exist, but on the disk of a host that cannot be reached from here.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>

#include "analyzer/detectors/detectors.h"
#include "analyzer/detectors/trace/trace_finding.h"
#include "analyzer/reader/elsewhere_hosts.h"
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

// A host of which there are traces has the name, too.
bool is_another(const Run& run, const ElsewhereTrace& there) {
  return std::any_of(run.processes.begin(), run.processes.end(), [&](const ProcessTrace& here) {
    return here.host == there.host && !here.boot.empty() && !there.boot.empty() &&
           here.boot != there.boot;
  });
}

// Empty: their names do not tell them apart.
std::string node_list(const Run& run, const ElsewhereHosts& hosts) {
  constexpr size_t kMostNames = 8;
  const std::vector<std::string> names = hosts.names();
  return names.empty() || names.size() > kMostNames || is_another(run, run.elsewhere.front())
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

std::string advice_for(const Run& run, const ElsewhereHosts& hosts) {
  const std::string folder = shared_folder(run);
  return fmt::format(
      "collect them on their hosts, into the folder that is analyzed here: srun --nodes={} "
      "--ntasks-per-node=1{} traintrace collect {} (or ssh HOST, kubectl exec, mpirun), then "
      "analyze it again; with TRAINTRACE_COLLECT={} the next job does it itself",
      hosts.count(), node_list(run, hosts), folder, folder);
}

}  // namespace

std::vector<Finding> find_traces_elsewhere(const Run& run) {
  if (run.elsewhere.empty()) {
    return {};
  }
  const ElsewhereHosts hosts(run.elsewhere);
  std::map<ElsewhereHosts::Host, HostTraces> by_host;
  Ranks all;
  for (const ElsewhereTrace& trace : run.elsewhere) {
    HostTraces& there = by_host[ElsewhereHosts::host_of(trace)];
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
                  run.elsewhere.size() == 1 ? "is" : "are", hosts.text());
  finding.values = {{"trace_count", static_cast<int64_t>(run.elsewhere.size())},
                    {"host_count", static_cast<int64_t>(hosts.count())}};
  std::vector<std::string> lines;
  lines.reserve(by_host.size());
  for (const auto& [host, traces] : by_host) {
    lines.push_back(line_about(hosts.label(host), traces));
  }
  finding.evidence = cut(std::move(lines));
  finding.sides = all.empty() ? std::vector<Ranks>() : std::vector<Ranks>{all};
  finding.advice = advice_for(run, hosts);
  return {finding};
}

}  // namespace traintrace
