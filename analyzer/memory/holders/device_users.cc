#include "analyzer/memory/holders/device_users.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <string_view>

#include "analyzer/model/elapsed.h"
#include "analyzer/reader/sections/stored_reports.h"

namespace traintrace {
namespace {

// PyTorch asks within the call that fails.
constexpr TimeNs kAskedWithin = 2'000'000'000;

// What stands before `end`, which is left out; empty: no number, or no such end.
std::optional<uint64_t> take_number(std::string_view& text, char end) {
  uint64_t value = 0;
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const auto length = static_cast<size_t>(stop - text.data());
  if (error != std::errc() || (length < text.size() && text[length] != end)) {
    return std::nullopt;
  }
  text.remove_prefix(std::min(length + 1, text.size()));
  return value;
}

const std::string* answer_about(const ProcessTrace& trace, uint8_t device) {
  for (const std::string& key :
       {fmt::format("gpu-{}-processes", device), std::string("gpu-processes")}) {
    if (const auto fact = trace.facts.find(key); fact != trace.facts.end()) {
      return &fact->second;
    }
  }
  return nullptr;
}

std::optional<Rank> rank_of(const Run& run, const std::string& host, uint64_t pid) {
  const auto state = std::find_if(run.ranks.begin(), run.ranks.end(), [&](const RankState& each) {
    const ProcessTrace& trace = trace_of(run, each);
    return trace.host == host && static_cast<uint64_t>(trace.pid) == pid;
  });
  return state == run.ranks.end() ? std::nullopt : std::optional(state->rank);
}

TimeNs moved(const Run& run, size_t process) {
  return process < run.clock_of.size() ? run.clocks[run.clock_of[process]].moved : 0;
}

}  // namespace

DeviceUsers device_users(const Run& run, const RankState& state, const OutOfMemoryText& failure) {
  const ProcessTrace& trace = trace_of(run, state);
  const std::string* const answer = answer_about(trace, failure.device);
  if (answer == nullptr) {
    return {};
  }
  std::string_view text = *answer;
  const auto asked = take_number(text, ' ');
  const auto time = asked ? static_cast<TimeNs>(*asked) + moved(run, state.process) : 0;
  const auto [first, last] = std::minmax(time, failure.time);
  if (!asked || elapsed(first, last) > kAskedWithin) {
    return {};
  }
  DeviceUsers users;
  while (!text.empty()) {
    const auto pid = take_number(text, ':');
    const auto bytes = pid ? take_number(text, ' ') : std::nullopt;
    if (!bytes) {
      break;
    }
    if (*pid == static_cast<uint64_t>(trace.pid)) {
      users.names_own = true;
    } else {
      users.others.push_back(
          {*pid, *bytes == 0 ? std::nullopt : bytes, rank_of(run, trace.host, *pid)});
    }
  }
  std::stable_sort(users.others.begin(), users.others.end(),
                   [](const DeviceUser& a, const DeviceUser& b) { return a.bytes > b.bytes; });
  return users;
}

std::string user_text(const DeviceUser& user) {
  return user.rank ? fmt::format("process {}, rank {} of this job", user.pid, user.rank->value)
                   : fmt::format("process {}, which was not recorded", user.pid);
}

}  // namespace traintrace
