// What NCCL and PyTorch say of themselves, beside what was recorded: it supports findings, and is
// never the ground of one.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "analyzer/reader/result.h"

namespace traintrace {

// A process, or its side of a communicator.
struct Witness {
  std::string host;           // as the tool writes it: a name or an address
  int pid = 0;                // 0: not said
  std::optional<int> rank;    // in the job, where that is said
  uint64_t communicator = 0;  // NCCL's hash of it; 0: not said
  uint64_t handle = 0;        // ncclComm_t; 0: not said
  int local_rank = -1;
  int size = -1;
  std::string says;  // "41 AllReduce launched"
};

struct Testimony {
  std::string file;
  std::string source;  // "NCCL RAS"
  std::vector<Witness> witnesses;
};

// Of damaged files: nobody would read more.
inline constexpr size_t kMostWitnesses = 1 << 16;

// What NCCL's RAS service answers to "SET FORMAT json" (NCCL 2.28 and later).
bool looks_like_ras(std::string_view bytes);
Result<Testimony> read_ras(std::string_view bytes, const std::string& file);

// Lines that NCCL_DEBUG=INFO, NCCL_DEBUG_SUBSYS=INIT,COLL writes, also among others.
bool looks_like_nccl_log(std::string_view bytes);
Result<Testimony> read_nccl_log(std::string_view bytes, const std::string& file);

// Whether a file's first bytes look like one of the two.
bool may_testify(const std::string& path);

// Those, and dumps of Flight Recorder that lie beside traces.  Of the others, those that cannot be
// used are in `errors`.
std::vector<Testimony> read_testimonies(std::span<const std::string> paths,
                                        std::vector<ReadError>& errors);

}  // namespace traintrace
