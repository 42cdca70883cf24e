// On which hosts traces lie that cannot be reached from here.  Hosts may have one name, as
// containers have that are all "localhost", and each its own /tmp.
#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "analyzer/reader/result.h"

namespace traintrace {

class ElsewhereHosts {
 public:
  struct Host {
    std::string name;
    std::string boot;
    uint64_t pid_namespace = 0;

    auto operator<=>(const Host&) const = default;  // NOLINT(modernize-use-nullptr)
  };

  explicit ElsewhereHosts(std::span<const ElsewhereTrace> traces);

  static Host host_of(const ElsewhereTrace& trace) {
    return {trace.host, trace.boot, trace.pid_namespace};
  }
  size_t count() const { return hosts_.size(); }
  // "node1"; where several have that name, with what tells them apart.
  std::string label(const Host& host) const;
  // "node1", "4 hosts (n0, n1, n2, n3)", "128 hosts (n000, .., n127)", "4 hosts, all called
  // localhost"
  std::string text() const;
  // Empty where a name stands for several of them.
  std::vector<std::string> names() const;

 private:
  bool has_own_name(const std::string& name) const { return by_name_.at(name).size() == 1; }

  std::set<Host> hosts_;
  std::map<std::string, std::set<Host>> by_name_;
};

}  // namespace traintrace
