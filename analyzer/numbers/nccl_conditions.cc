#include "analyzer/numbers/nccl_conditions.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

namespace traintrace {
namespace {

constexpr std::string_view kVersion = "nccl-version";
constexpr const char* kLibrary = "NCCL";
constexpr std::string_view kVariables = "env.NCCL_";
// They say what is logged, who looks on, and where ranks meet.
constexpr std::string_view kHarmless[] = {"env.NCCL_DEBUG", "env.NCCL_PROFILER_PLUGIN",
                                          "env.NCCL_RAS_", "env.NCCL_COMM_ID"};

bool counts(const std::string& fact) {
  return fact == kVersion ||
         (fact.starts_with(kVariables) &&
          std::none_of(std::begin(kHarmless), std::end(kHarmless),
                       [&](std::string_view harmless) { return fact.starts_with(harmless); }));
}

std::string name_of(const std::string& fact) {
  return fact == kVersion ? kLibrary : fact.substr(fact.find('.') + 1);
}

const ProcessTrace& trace_of(const Run& run, const Member& member) {
  return run.processes[member.process];
}

// By name and rank; the version comes first.
using Conditions = std::map<std::string, std::map<Rank, std::string>>;

Conditions conditions_of(const Run& run, const Communicator& communicator) {
  Conditions conditions;
  for (const Member& member : communicator.members) {
    for (const auto& [fact, value] : trace_of(run, member).facts) {
      if (counts(fact)) {
        conditions[name_of(fact)].emplace(member.rank, value);
      }
    }
  }
  return conditions;
}

// Ranks by their number in it; empty: not known of all.
std::string order_in(const Communicator& communicator) {
  std::vector<std::pair<int, Rank>> members;
  members.reserve(communicator.members.size());
  for (const Member& member : communicator.members) {
    members.emplace_back(member.local_rank, member.rank);
  }
  std::sort(members.begin(), members.end());
  std::string text;
  for (const auto& [number, rank] : members) {
    if (number < 0 || std::ssize(members) != communicator.size) {
      return "";
    }
    text += fmt::format("{}{}", text.empty() ? "" : ",", rank.value);
  }
  return text;
}

// "0-3 on node1, 4-7 on node2"
std::string hosts_in(const Run& run, const Communicator& communicator) {
  std::map<std::string, Ranks> by_host;
  for (const Member& member : communicator.members) {
    insert(by_host[trace_of(run, member).host], member.rank);
  }
  std::vector<std::pair<Ranks, std::string>> hosts;
  hosts.reserve(by_host.size());
  for (const auto& [host, ranks] : by_host) {
    hosts.emplace_back(ranks, host);
  }
  std::sort(hosts.begin(), hosts.end());
  std::string text;
  for (const auto& [ranks, host] : hosts) {
    text += fmt::format("{}{} on {}", text.empty() ? "" : ", ", rank_list(ranks), host);
  }
  return text;
}

// Of the ranks that both have: those with the same two values together.
void compare(const std::string& name, const std::map<Rank, std::string>& a,
             const std::map<Rank, std::string>& b, const Ranks& both,
             std::vector<ConditionDiff>& all) {
  std::map<std::pair<std::string, std::string>, Ranks> by_values;
  for (const Rank rank : both) {
    const auto value = [&](const std::map<Rank, std::string>& values) {
      const auto found = values.find(rank);
      return found == values.end() ? std::string() : found->second;
    };
    if (value(a) != value(b)) {
      insert(by_values[{value(a), value(b)}], rank);
    }
  }
  for (auto& [values, ranks] : by_values) {
    all.push_back({name, ranks, values.first, values.second});
  }
}

Ranks members_of_both(const Communicator& a, const Communicator& b) {
  Ranks both;
  for (const Member& member : a.members) {
    if (std::any_of(b.members.begin(), b.members.end(),
                    [&](const Member& other) { return other.rank == member.rank; })) {
      insert(both, member.rank);
    }
  }
  return both;
}

}  // namespace

std::vector<ConditionDiff> nccl_conditions_diff(const Run& run_a, const Communicator& a,
                                                const Run& run_b, const Communicator& b) {
  std::vector<ConditionDiff> all;
  const Ranks both = members_of_both(a, b);
  Conditions of_a = conditions_of(run_a, a);
  Conditions of_b = conditions_of(run_b, b);
  std::set<std::string> names;
  for (const Conditions* const conditions : {&of_a, &of_b}) {
    for (const auto& [name, values] : *conditions) {
      names.insert(name);
    }
  }
  for (const std::string& name : names) {
    compare(name, of_a[name], of_b[name], both, all);
  }
  for (const auto& [name, of_one, of_other] :
       {std::tuple("order of ranks", order_in(a), order_in(b)),
        std::tuple("hosts", hosts_in(run_a, a), hosts_in(run_b, b))}) {
    if (of_one != of_other && !of_one.empty() && !of_other.empty()) {
      all.push_back({name, {}, of_one, of_other});
    }
  }
  return all;
}

std::string nccl_conditions_text(const Run& run, const Communicator& communicator) {
  std::string text;
  for (const auto& [name, values] : conditions_of(run, communicator)) {
    const std::string& value = values.begin()->second;
    if (std::all_of(values.begin(), values.end(),
                    [&](const auto& of_rank) { return of_rank.second == value; })) {
      text += fmt::format("{}{}{}{}", text.empty() ? "" : ", ", name, name == kLibrary ? " " : "=",
                          value);
    }
  }
  return text;
}

}  // namespace traintrace
