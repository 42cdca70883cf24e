#include "analyzer/reader/host_clocks.h"

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <numeric>
#include <tuple>
#include <utility>

#include "analyzer/reader/read_trace.h"
#include "analyzer/reader/trace_clock.h"
#include "analyzer/thresholds.h"

namespace traintrace {
namespace {

constexpr const char* kProcessBoottime = "boottime-of-process";

// Which of them are the same, as pairs are found to be.
class Sames {
 public:
  explicit Sames(size_t count) : same_(count) { std::iota(same_.begin(), same_.end(), size_t{0}); }

  size_t first_of(size_t one) {
    while (same_[one] != one) {
      one = same_[one] = same_[same_[one]];
    }
    return one;
  }
  void unite(size_t a, size_t b) {
    const size_t first = first_of(a);
    const size_t second = first_of(b);
    same_[std::max(first, second)] = std::min(first, second);
  }

 private:
  std::vector<size_t> same_;
};

// An older trace tells no boot time at all: its times are by the system's clock, as those of all
// that are told by the machine's own.
bool is_of_machine(const BootTold& told) {
  return told.by == BoottimeOf::kMachine || told.booted == 0;
}

void unite_told_by_machine(std::span<const BootTold> processes, Sames& sames) {
  std::map<std::string_view, size_t> first;  // by boot
  for (size_t i = 0; i < processes.size(); ++i) {
    if (is_of_machine(processes[i])) {
      sames.unite(first.try_emplace(processes[i].boot, i).first->second, i);
    }
  }
}

// Neither clock was moved between the two, or both by as much, which nobody does.
void unite_that_agree(std::span<const BootTold> processes, Sames& sames) {
  std::vector<std::tuple<std::string_view, TimeNs, size_t>> moments;
  for (size_t i = 0; i < processes.size(); ++i) {
    for (const TimeNs booted : {processes[i].booted_at_first, processes[i].booted}) {
      if (booted != 0) {
        moments.emplace_back(processes[i].boot, booted, i);
      }
    }
  }
  std::sort(moments.begin(), moments.end());
  for (size_t i = 1; i < moments.size(); ++i) {
    const auto& [boot, booted, process] = moments[i - 1];
    const auto& [next_boot, next_booted, next] = moments[i];
    TimeNs apart = 0;
    if (boot == next_boot && !__builtin_sub_overflow(next_booted, booted, &apart) &&
        apart <= kClockSkewTolerated) {
      sames.unite(process, next);
    }
  }
}

}  // namespace

std::string boot_text(const uint64_t (&boot_id)[2]) {
  if (boot_id[0] == 0 && boot_id[1] == 0) {
    return "";
  }
  char text[33] = {};
  std::snprintf(text, sizeof text, "%016" PRIx64 "%016" PRIx64, boot_id[0], boot_id[1]);
  return text;
}

BoottimeOf boottime_of(const format::FileHeader& header) {
  return (header.keep_flags & format::kMachineBoottime) != 0 ? BoottimeOf::kMachine
                                                             : BoottimeOf::kProcess;
}

BoottimeOf boottime_of(const ProcessTrace& trace) {
  return trace.facts.contains(kProcessBoottime) ? BoottimeOf::kProcess : BoottimeOf::kMachine;
}

void note_boottime(BoottimeOf boottime, ProcessTrace& trace) {
  if (boottime == BoottimeOf::kProcess && trace.booted != 0) {
    trace.facts[kProcessBoottime] = "yes";
  }
}

std::vector<size_t> one_clock(std::span<const BootTold> processes) {
  Sames sames(processes.size());
  unite_told_by_machine(processes, sames);
  unite_that_agree(processes, sames);
  std::map<size_t, size_t> numbers;
  std::vector<size_t> clocks;
  for (size_t i = 0; i < processes.size(); ++i) {
    clocks.push_back(numbers.try_emplace(sames.first_of(i), numbers.size()).first->second);
  }
  return clocks;
}

HostClocks::HostClocks(std::span<const std::string> paths) {
  std::vector<BootTold> told;
  std::vector<std::pair<std::string, uint64_t>> traces;  // path, newest heartbeat
  for (const std::string& path : paths) {
    const Result<format::FileHeader> header = read_trace_header(path);
    const std::string boot = header ? boot_text(header->boot_id) : "";
    if (boot.empty()) {
      continue;
    }
    told.push_back({boot, boottime_of(*header),
                    booted_at(header->first_anchor, header->anchor_boottime_ns[0]),
                    TraceClock(*header).booted()});
    traces.emplace_back(path, header->anchor_boottime_ns[1 + (header->anchor_index & 1)]);
  }
  const std::vector<size_t> clocks = one_clock(told);
  std::map<size_t, std::pair<uint64_t, TimeNs>> newest;  // by clock: heartbeat, booted
  for (size_t i = 0; i < told.size(); ++i) {
    auto& known = newest[clocks[i]];
    if (told[i].booted != 0 && traces[i].second > known.first) {
      known = {traces[i].second, told[i].booted};
    }
  }
  for (size_t i = 0; i < traces.size(); ++i) {
    booted_[traces[i].first] = newest[clocks[i]].second;
  }
}

TimeNs HostClocks::booted(const std::string& path) const {
  const auto found = booted_.find(path);
  return found == booted_.end() ? 0 : found->second;
}

}  // namespace traintrace
