// One line of NCCL's log.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace traintrace {

enum class LogLevel : uint8_t { kInfo, kWarning };

// NCCL's src/debug.cc writes, after whatever a launcher puts before it, and since 2.26 the time of
// warnings:
//   HOST:PID:TID [DEVICE] NCCL INFO TEXT
//   [2026-08-12 01:37:03] HOST:PID:TID [DEVICE] FILE:LINE (FUNCTION) NCCL WARN TEXT
// The function since 2.29.  HOST is empty in some containers.
struct NcclLogLine {
  std::string_view host;
  int pid = 0;
  int thread = 0;
  LogLevel level = LogLevel::kInfo;
  std::string_view
      time;  // "2026-08-12 01:37:03", by the host's clock and in its zone; may be empty
  std::string_view text;
};

// Views of `line`.  Nothing: NCCL did not write it.
std::optional<NcclLogLine> nccl_log_line(std::string_view line);

// "2026-08-12 01:37:03" in ns since the epoch, as if it were UTC.
std::optional<int64_t> time_of(const NcclLogLine& line);

// "proxy.cc:878 -> 6 [Progress Thread]": an error has reached the end of the thread that moves the
// data, and becomes the communicator's asynchronous error.  The ncclResult_t.  "[Proxy Thread]"
// before 2.19.
std::optional<int> result_of_progress(std::string_view text);

// "10.0.35.1" of "NET/IB : Got completion from peer 10.0.35.1<49189> with status=12 ..", or empty.
std::string_view peer_address(std::string_view text);

// 12 of the same: an ibv_wc_status (libibverbs, verbs.h).  Older versions write "with error 12,".
std::optional<int> completion_status(std::string_view text);

// Calls function(interface's address) for each "eth0:10.0.35.1<0>" of a line about what is used.
template <class Function>
void for_each_own_address(std::string_view text, Function&& function) {
  if (text.find(" Using ") == text.npos) {
    return;
  }
  for (size_t end = text.find('<'); end != text.npos; end = text.find('<', end + 1)) {
    const std::string_view word = text.substr(0, end).substr(text.rfind(' ', end) + 1);
    if (const size_t colon = word.find(':'); colon != word.npos && colon + 1 < word.size()) {
      function(word.substr(colon + 1));
    }
  }
}

}  // namespace traintrace
