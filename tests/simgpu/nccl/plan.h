// What one kernel of a communicator does: first its collectives one by one, then all sends and
// receives at the same time.
#pragma once
#include <nccl.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

namespace simgpu::nccl {

enum class Function : uint8_t {
  kBroadcast,
  kReduce,
  kAllGather,
  kReduceScatter,
  kAllReduce,
  kSend,
  kRecv
};
enum class Algorithm : uint8_t { kRing, kTree };

// A reduction as one rank applies it.  PreMulSum multiplies the rank's own input first; Avg is
// PreMulSum by 1/ranks for floating point, and a sum divided at the end for integers.
struct Reduction {
  enum class Kind : uint8_t { kSum, kProd, kMax, kMin, kPreMulSum, kSumPostDiv };
  Kind kind = Kind::kSum;
  const void* device_scalar = nullptr;  // read when the kernel runs, instead of `scalar`
  alignas(8) unsigned char scalar[8] = {};
  uint64_t divisor = 1;
};

struct Operation {
  Function function;
  const void* send = nullptr;
  void* receive = nullptr;
  size_t count = 0;  // elements, as in the call
  ncclDataType_t type = ncclInt8;
  Reduction reduction{};
  int root = 0;  // or the peer
  Algorithm algorithm = Algorithm::kRing;
  void* call_event = nullptr;  // of a profiler plugin
  void* task_event = nullptr;
};

struct Plan {
  ncclComm_t comm;
  uint32_t epoch;  // of the communicator when it was launched
  bool captured;   // belongs to a graph: runs any number of times
  std::vector<Operation> collectives;
  std::vector<Operation> transfers;
};

size_t type_bytes(ncclDataType_t type);
bool is_float(ncclDataType_t type);

inline bool reduces(Function function) {
  return function == Function::kAllReduce || function == Function::kReduce ||
         function == Function::kReduceScatter;
}

inline bool is_transfer(Function function) {
  return function == Function::kSend || function == Function::kRecv;
}

}  // namespace simgpu::nccl
