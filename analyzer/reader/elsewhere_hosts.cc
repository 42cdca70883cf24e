#include "analyzer/reader/elsewhere_hosts.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace traintrace {
namespace {

using Host = ElsewhereHosts::Host;

// Of one machine, these are its containers.
bool are_one_machine(const std::set<Host>& hosts) {
  return std::all_of(hosts.begin(), hosts.end(),
                     [&](const Host& host) { return host.boot == hosts.begin()->boot; });
}

}  // namespace

ElsewhereHosts::ElsewhereHosts(std::span<const ElsewhereTrace> traces) {
  for (const ElsewhereTrace& trace : traces) {
    hosts_.insert(host_of(trace));
    by_name_[trace.host].insert(host_of(trace));
  }
}

std::string ElsewhereHosts::label(const Host& host) const {
  constexpr size_t kShown = 8;  // of 32 digits
  if (has_own_name(host.name) || host.boot.empty()) {
    return host.name;
  }
  return are_one_machine(by_name_.at(host.name))
             ? fmt::format("{} (PID namespace {})", host.name, host.pid_namespace)
             : fmt::format("{} (boot id {}.., PID namespace {})", host.name,
                           host.boot.substr(0, kShown), host.pid_namespace);
}

std::string ElsewhereHosts::text() const {
  constexpr size_t kMostNames = 4;
  const std::string& first = by_name_.begin()->first;
  if (hosts_.size() == 1) {
    return first;
  }
  if (by_name_.size() == 1) {
    return fmt::format("{} {}, all called {}", hosts_.size(),
                       are_one_machine(hosts_) ? "containers" : "hosts", first);
  }
  std::vector<std::string> all;
  for (const auto& [name, hosts] : by_name_) {
    all.push_back(hosts.size() == 1 ? name : fmt::format("{} x {}", hosts.size(), name));
  }
  return fmt::format("{} hosts ({})", hosts_.size(),
                     all.size() > kMostNames ? fmt::format("{}, .., {}", all.front(), all.back())
                                             : fmt::format("{}", fmt::join(all, ", ")));
}

std::vector<std::string> ElsewhereHosts::names() const {
  std::vector<std::string> names;
  for (const auto& [name, hosts] : by_name_) {
    if (hosts.size() > 1) {
      return {};
    }
    names.push_back(name);
  }
  return names;
}

}  // namespace traintrace
