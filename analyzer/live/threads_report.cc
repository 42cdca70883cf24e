#include "analyzer/live/threads_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <string_view>
#include <tuple>

#include "analyzer/model/process/threads_now.h"
#include "analyzer/text/printable.h"

namespace traintrace {
namespace {

using OrderedJson = nlohmann::ordered_json;

constexpr std::string_view kOwnRole = "traintrace";  // of the recorder's own threads (waiting.cc)

struct Group {
  Ranks ranks;
  const ThreadNow* thread = nullptr;
  size_t threads = 0;
  bool steady = true;
};

std::string base_name(const std::string& path) {
  return path.substr(path.rfind('/') + 1);
}

std::string frame_text(const FrameNow& frame) {
  const std::string function = frame.function.empty() ? "?" : frame.function;
  if (!frame.file.empty()) {
    return fmt::format("{} at {}:{}", function, frame.file, frame.line);
  }
  return frame.module.empty() ? function
                              : fmt::format("{} ({})", function, base_name(frame.module));
}

std::string who(const ThreadNow& thread) {
  return thread.role.empty() ? fmt::format("thread \"{}\"", thread.name) : thread.role + " thread";
}

std::string key_of(const ThreadNow& thread) {
  std::string key = who(thread) + '\n' + doing_text(thread);
  for (const auto* frames : {&thread.python, &thread.native}) {
    for (const FrameNow& frame : *frames) {
      key += '\n' + frame_text(frame);
    }
  }
  return key;
}

Ranks among(const Ranks& ranks, const Ranks& culprits) {
  Ranks both;
  std::copy_if(ranks.begin(), ranks.end(), std::back_inserter(both),
               [&](Rank rank) { return contains(culprits, rank); });
  return both;
}

// " (culprit)", " (culprit: rank 2)"; empty: none of them is one.
std::string culprits_text(const Ranks& ranks, const Ranks& culprits) {
  const Ranks both = among(ranks, culprits);
  return both.empty() ? ""
         : both.size() == ranks.size()
             ? (both.size() == 1 ? " (culprit)" : " (culprits)")
             : fmt::format(" (culprit{}: {})", both.size() == 1 ? "" : "s", ranks_text(both));
}

// The main thread, and those that run Python or are in a call of the vendors'.
bool is_worth_frames(const ThreadNow& thread) {
  return thread.role == "main" || !thread.python.empty() || thread.waiting == Waiting::kNccl ||
         thread.waiting == Waiting::kCuda;
}

void add_frames(const std::vector<FrameNow>& frames, size_t most, std::string& out) {
  for (size_t i = 0; i < std::min(frames.size(), most); ++i) {
    out += fmt::format("      {}\n", printable(frame_text(frames[i])));
  }
  if (frames.size() > most) {
    out += fmt::format("      .. {} more\n", frames.size() - most);
  }
}

// By role: the main thread first; then by the first rank.
std::vector<Group> groups_of(const Run& run) {
  std::map<std::string, Group> by_key;
  for (const RankState& state : run.ranks) {
    for (const ThreadNow& thread : trace_of(run, state).now) {
      if (thread.role == kOwnRole) {
        continue;  // the recorder's, which no job waits for
      }
      Group& group = by_key[key_of(thread)];
      insert(group.ranks, state.rank);
      group.thread = group.thread == nullptr ? &thread : group.thread;
      group.steady = group.steady && thread.steady;
      ++group.threads;
    }
  }
  std::vector<Group> groups;
  groups.reserve(by_key.size());
  for (auto& [key, group] : by_key) {
    groups.push_back(std::move(group));
  }
  std::stable_sort(groups.begin(), groups.end(), [](const Group& a, const Group& b) {
    const auto order = [](const Group& group) {
      return std::tuple(group.thread->role != "main", !is_worth_frames(*group.thread),
                        group.ranks.front());
    };
    return order(a) < order(b);
  });
  return groups;
}

void add_others(const std::vector<Group>& groups, std::string& out) {
  std::map<std::string, size_t> names;
  for (const Group& group : groups) {
    if (!is_worth_frames(*group.thread)) {
      names[fmt::format("{} {}", who(*group.thread), doing_text(*group.thread))] += group.threads;
    }
  }
  for (const auto& [name, count] : names) {
    out += fmt::format("  and {} x {}\n", count, printable(name));
  }
}

std::string collapsed_frame(const FrameNow& frame) {
  std::string text =
      frame.python ? fmt::format("{} ({}:{})", frame.function, base_name(frame.file), frame.line)
      : frame.function.empty() ? base_name(frame.module)
                               : frame.function;
  std::replace(text.begin(), text.end(), ';', ':');
  std::replace(text.begin(), text.end(), '\n', ' ');
  return printable(text);
}

OrderedJson json_of(const std::vector<FrameNow>& frames) {
  OrderedJson list = OrderedJson::array();
  for (const FrameNow& frame : frames) {
    OrderedJson json = {{"function", frame.function}};
    if (!frame.file.empty()) {
      json["file"] = frame.file;
      json["line"] = frame.line;
    }
    if (!frame.python) {
      json["module"] = frame.module;
    }
    list.push_back(std::move(json));
  }
  return list;
}

}  // namespace

std::string threads_text(const Run& run, const Ranks& culprits) {
  constexpr size_t kMostPython = 12;
  constexpr size_t kMostNative = 6;
  const std::vector<Group> groups = groups_of(run);
  std::string out;
  for (const Group& group : groups) {
    const ThreadNow& thread = *group.thread;
    if (is_worth_frames(thread)) {
      out += fmt::format("{} {}{}: {} {}{}\n", among(group.ranks, culprits).empty() ? ' ' : '>',
                         ranks_text(group.ranks), culprits_text(group.ranks, culprits),
                         printable(who(thread)), printable(doing_text(thread)),
                         group.steady ? "" : " (moved between the two samples)");
      add_frames(thread.python, kMostPython, out);
      if (!thread.python.empty() && !thread.native.empty()) {
        out += "      -- native\n";
      }
      add_frames(thread.native, thread.python.empty() ? kMostPython : kMostNative, out);
    }
  }
  add_others(groups, out);
  return out;
}

std::string threads_collapsed(const Run& run) {
  std::string out;
  for (const RankState& state : run.ranks) {
    for (const ThreadNow& thread : trace_of(run, state).now) {
      out += fmt::format("rank {};{}", state.rank.value, printable(who(thread)));
      const std::vector<FrameNow>& frames = thread.python.empty() ? thread.native : thread.python;
      for (auto frame = frames.rbegin(); frame != frames.rend(); ++frame) {
        out += ';' + collapsed_frame(*frame);
      }
      out += " 1\n";
    }
  }
  return out;
}

OrderedJson threads_json(const Run& run) {
  OrderedJson list = OrderedJson::array();
  for (const RankState& state : run.ranks) {
    const ProcessTrace& trace = trace_of(run, state);
    for (const ThreadNow& thread : trace.now) {
      list.push_back({{"rank", state.rank.value},
                      {"host", trace.host},
                      {"pid", thread.pid != 0 ? thread.pid : trace.pid},
                      {"tid", thread.tid},
                      {"name", thread.name},
                      {"role", thread.role},
                      {"state", std::string(1, thread.state)},
                      {"waits_for", waiting_text(thread.waiting)},
                      {"waits_on", thread.waiting_on},
                      {"timed", thread.timed},
                      {"holds_gil", thread.holds_gil},
                      {"steady", thread.steady},
                      {"ran", thread.ran},
                      {"python", json_of(thread.python)},
                      {"native", json_of(thread.native)}});
    }
  }
  return list;
}

}  // namespace traintrace
