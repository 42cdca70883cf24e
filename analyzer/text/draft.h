// The processes of a text while it is being read.
#pragma once

#include <deque>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "analyzer/reader/process_trace.h"

namespace traintrace {

struct Draft {
  ProcessTrace trace;
  std::string name;
  uint32_t groups = 0;                            // opened so far
  bool from_ranks = false;                        // gets the defaults of the `ranks` line
  std::map<std::string, uint32_t> communicators;  // label -> index
  std::map<std::string, uint32_t> calls;          // name -> index
  std::map<std::string, uint32_t> stacks;         // frames as written -> id
  // Entries that no return was seen for, by thread; innermost last.
  std::map<uint32_t, std::vector<size_t>> open_events;

  // The call of that name, taken from calls.def at its first use.  Nothing: it has none such.
  std::optional<uint32_t> call(std::string_view call_name);
  // "3", "3=FRAME,FRAME", "FRAME,FRAME".  Nothing: not understood.
  std::optional<uint32_t> stack(std::string_view text);
  ThreadText& thread(uint32_t serial);
  std::optional<uint8_t> local_rank() const;
  uint8_t device() const;  // what stories assume of calls: the local rank, else 0
};

// What a line is read against.
struct DraftSet {
  TimeNs start = 1'700'000'000'000'000'000;
  std::deque<Draft> all;  // addresses stay
  // Of the current run:
  int run = 0;
  std::string run_name;
  size_t first_of_run = 0;
  std::map<std::string, Draft*, std::less<>> by_name;
  std::vector<Draft*> current;  // whom the following lines describe
  TimeNs latest = 0;            // time that occurred
  std::optional<TimeNs> end;

  std::string problem;  // of the line being read; empty: none

  // A word that it quotes may be as long as the file.
  bool fail(std::string message) {
    constexpr size_t kMostBytes = 200;
    if (problem.empty()) {
      if (message.size() > kMostBytes) {
        message.resize(kMostBytes);
        message += "..";
      }
      problem = std::move(message);
    }
    return false;
  }
  Draft* add(const std::string& name);  // null after fail(): the name is taken
  bool note_time(TimeNs time) {
    latest = latest == 0 || time > latest ? time : latest;
    return true;
  }
};

}  // namespace traintrace
