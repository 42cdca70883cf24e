// What NCCL and PyTorch say of themselves, beside what was recorded: it supports findings, or says
// which of two codes fits (comm.proxy-error), and is never the ground of one.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "analyzer/reader/result.h"

namespace traintrace {

// NCCL's thread that moves a process's data over the network ended with an error.
struct ProxyFailure {
  int result = 0;                        // ncclResult_t
  std::string warning;                   // what that thread had said before; may be empty
  std::string peer;                      // the address in it; may be empty
  std::string peer_host;                 // which host says it has that address; may be empty
  std::optional<int> completion_status;  // ibv_wc_status, where the warning has one
  std::optional<int64_t> warned;         // ns since the epoch as if the host's zone were UTC's
};

// An exception that nothing caught, and the innermost line of the user's code that it came through.
struct RaisedException {
  std::string text;  // "KeyError: 'label'"
  std::string file;  // empty: no such line
  int line = 0;
  std::string function;
};

// A process, or its side of a communicator.
struct Witness {
  std::string host;           // as the tool writes it: a name or an address
  int pid = 0;                // 0: not said
  std::optional<int> rank;    // in the job, where that is said
  std::optional<int> task;    // of Slurm: a rank only where Slurm started the ranks
  uint64_t communicator = 0;  // NCCL's hash of it; 0: not said
  uint64_t handle = 0;        // ncclComm_t; 0: not said
  int local_rank = -1;
  int size = -1;
  std::string who;   // "Slurm tasks 0-3 on node017", where no rank is known; may be empty
  std::string says;  // "41 AllReduce launched"
  // "killed because the host's memory ran out": what ended it came from outside; else empty.
  std::string outer_cause;
  std::optional<int64_t> ended;  // ns since the epoch, by the teller's clock
  std::optional<ProxyFailure> proxy_failure;
  std::optional<RaisedException> raised;
};

struct Testimony {
  std::string file;
  std::string source;  // "NCCL RAS"
  std::vector<Witness> witnesses;
  std::vector<std::string> conclusions = {};  // what they say together, as far as it is certain
  std::vector<std::string> advice = {};
  enum class Of : uint8_t { kMoments, kFailures, kStops };
  // What these processes did at some moment; how they failed; how they were ended from outside as a
  // whole, which may have been meant.
  Of is_of = Of::kMoments;
};

// Of damaged files: nobody would read more.
inline constexpr size_t kMostWitnesses = 1 << 16;

// What NCCL's RAS service answers: text (ncclras, NCCL 2.24 and later), or JSON after "SET FORMAT
// json" (2.28 and later).
bool looks_like_ras(std::string_view bytes);
Result<Testimony> read_ras(std::string_view bytes, const std::string& file);

// Lines that NCCL_DEBUG=INFO, NCCL_DEBUG_SUBSYS=INIT,COLL,NET writes, or WARN, also among others.
bool looks_like_nccl_log(std::string_view bytes);
Result<Testimony> read_nccl_log(std::string_view bytes, const std::string& file);

// Whether a file looks like one of these, or like a log of PyTorch's watchdogs or torchrun.
bool may_testify(const std::string& path);

// Those, and dumps of Flight Recorder that lie beside traces.  Of the others, those that cannot be
// used are in `errors`.
std::vector<Testimony> read_testimonies(std::span<const std::string> paths,
                                        std::vector<ReadError>& errors);

}  // namespace traintrace
