// Runs every collective with every data type and reduction and checks the values, element by
// element.
#pragma once
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>

#include <algorithm>

#include "tests/nccl_world.h"

namespace nccl_test {

inline constexpr size_t kSmall = 33;      // takes the tree, and does not divide by the ranks
inline constexpr size_t kMiddle = 5'003;  // per block: several chunks where they are small
inline constexpr size_t kLarge = 70'001;  // takes the ring with every type
inline constexpr size_t kMaxElementBytes = 8;
inline constexpr int kMaxRanks = 8;
inline constexpr size_t kPeriod = 24;  // of input(), expected() and mark() in their element

inline constexpr ncclDataType_t kTypes[] = {
    ncclInt8,    ncclUint8,   ncclInt32,   ncclUint32,   ncclInt64,      ncclUint64,
    ncclFloat16, ncclFloat32, ncclFloat64, ncclBfloat16, ncclFloat8e4m3, ncclFloat8e5m2};

inline size_t bytes_of(ncclDataType_t type) {
  constexpr size_t kBytes[] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1};
  return kBytes[type];
}
inline bool is_integer(ncclDataType_t type) {
  return type <= ncclUint64;
}

template <class T>
void put(void* at, T value) {
  memcpy(at, &value, sizeof value);
}

inline void encode(ncclDataType_t type, double value, void* at) {
  switch (type) {
    case ncclInt8:
      return put(at, static_cast<int8_t>(value));
    case ncclUint8:
      return put(at, static_cast<uint8_t>(value));
    case ncclInt32:
      return put(at, static_cast<int32_t>(value));
    case ncclUint32:
      return put(at, static_cast<uint32_t>(value));
    case ncclInt64:
      return put(at, static_cast<int64_t>(value));
    case ncclUint64:
      return put(at, static_cast<uint64_t>(value));
    case ncclFloat16:
      return put(at, __half_raw(__float2half(static_cast<float>(value))));
    case ncclFloat32:
      return put(at, static_cast<float>(value));
    case ncclFloat64:
      return put(at, value);
    case ncclBfloat16:
      return put(at, __nv_bfloat16_raw(__float2bfloat16(static_cast<float>(value))));
    case ncclFloat8e4m3:
      return put(at, __nv_cvt_double_to_fp8(value, __NV_SATFINITE, __NV_E4M3));
    default:
      return put(at, __nv_cvt_double_to_fp8(value, __NV_SATFINITE, __NV_E5M2));
  }
}

// What a call reduces with.
enum class Op { kSum, kProd, kMin, kMax, kAvg, kScaleByHost, kScaleByDevice };
inline constexpr Op kOps[] = {Op::kSum, Op::kProd,        Op::kMin,          Op::kMax,
                              Op::kAvg, Op::kScaleByHost, Op::kScaleByDevice};

// Inputs are chosen so that every partial result is exact in every type: e5m2 holds integers to 8.
inline double input(Op op, int rank, size_t i) {
  switch (op) {
    case Op::kProd:
      return (i + static_cast<size_t>(rank)) % kMaxRanks == 3 ? 2 : 1;
    case Op::kMin:
    case Op::kMax:
      return static_cast<double>((i * 7 + static_cast<size_t>(rank) * 3) % 8);
    default:
      return static_cast<double>((i / 3 + static_cast<size_t>(rank)) % 2);
  }
}

inline double expected(Op op, ncclDataType_t type, int ranks, size_t i) {
  double result = input(op, 0, i);
  for (int rank = 1; rank < ranks; ++rank) {
    const double other = input(op, rank, i);
    result = op == Op::kProd  ? result * other
             : op == Op::kMin ? std::min(result, other)
             : op == Op::kMax ? std::max(result, other)
                              : result + other;
  }
  if (op == Op::kAvg) {
    result /= ranks;
    return is_integer(type) ? static_cast<double>(static_cast<int64_t>(result)) : result;
  }
  return op == Op::kScaleByHost || op == Op::kScaleByDevice ? 2 * result : result;
}

// What rank `from` sends to `to` in functions that only move data.
inline double mark(int from, int to, size_t i) {
  return static_cast<double>((i + static_cast<size_t>(from) * 3 + static_cast<size_t>(to) * 5) % 8);
}

// Elements value(0) to value(count - 1). Each block of `block` elements repeats its first kPeriod.
template <class Value>
std::vector<char> encoded(ncclDataType_t type, size_t count, size_t block, Value value) {
  const size_t bytes = bytes_of(type);
  std::vector<char> result(count * bytes);
  for (size_t first = 0; first < count; first += block) {
    char* const at = &result[first * bytes];
    const size_t whole = std::min(block, count - first);
    size_t done = std::min(whole, kPeriod);
    for (size_t i = 0; i < done; ++i) {
      encode(type, value(first + i), at + i * bytes);
    }
    for (; done < whole; done *= 2) {
      memcpy(at + done * bytes, at, std::min(done, whole - done) * bytes);
    }
  }
  return result;
}

// One rank with buffers for `ranks` blocks of the largest size.
struct Member : Rank {
  char* send = nullptr;
  char* receive = nullptr;
  char* scalar = nullptr;
  ncclRedOp_t made = ncclSum;

  void allocate(int ranks) {
    const size_t bytes = kLarge * kMaxElementBytes * static_cast<size_t>(ranks);
    CUDA_OK(cudaSetDevice(device));
    CUDA_OK(cudaMalloc(reinterpret_cast<void**>(&send), bytes));
    CUDA_OK(cudaMalloc(reinterpret_cast<void**>(&receive), bytes));
    CUDA_OK(cudaMalloc(reinterpret_cast<void**>(&scalar), kMaxElementBytes));
  }
  // Elements i of `into` become value(i); see encoded().
  template <class Value>
  void fill(char* into, ncclDataType_t type, size_t count, size_t block, Value value) const {
    const std::vector<char> host = encoded(type, count, block, value);
    CUDA_OK(cudaMemcpyAsync(into, host.data(), host.size(), cudaMemcpyHostToDevice, stream));
    CUDA_OK(cudaStreamSynchronize(stream));
  }
  template <class Value>
  void check(const char* what, const char* buffer, ncclDataType_t type, size_t count, size_t block,
             Value value) const {
    const std::vector<char> wanted = encoded(type, count, block, value);
    std::vector<char> host(wanted.size());
    CUDA_OK(cudaMemcpyAsync(host.data(), buffer, host.size(), cudaMemcpyDeviceToHost, stream));
    CUDA_OK(cudaStreamSynchronize(stream));
    if (host != wanted) {
      const auto differs = std::mismatch(host.begin(), host.end(), wanted.begin()).first;
      fprintf(stderr, "rank %d: %s, type %d, count %zu: element %zu is wrong\n", rank, what, type,
              count, static_cast<size_t>(differs - host.begin()) / bytes_of(type));
      _exit(1);
    }
  }
  ncclRedOp_t reduction(Op op, ncclDataType_t type) {
    if (op == Op::kScaleByHost) {
      char two[kMaxElementBytes];
      encode(type, 2, two);
      NCCL_OK(ncclRedOpCreatePreMulSum(&made, two, type, ncclScalarHostImmediate, comm));
      return made;
    }
    if (op == Op::kScaleByDevice) {
      fill(scalar, type, 1, 1, [](size_t) { return 2; });
      NCCL_OK(ncclRedOpCreatePreMulSum(&made, scalar, type, ncclScalarDevice, comm));
      return made;
    }
    constexpr ncclRedOp_t kBuiltin[] = {ncclSum, ncclProd, ncclMin, ncclMax, ncclAvg};
    return kBuiltin[static_cast<int>(op)];
  }
  void drop_reduction(Op op) const {
    if (op >= Op::kScaleByHost) {
      NCCL_OK(ncclRedOpDestroy(made, comm));
    }
  }
};

// The ranks that one thread drives.
class Team {
 public:
  Team(std::vector<Member> members, int ranks) : members_(std::move(members)), ranks_(ranks) {
    for (Member& member : members_) {
      member.allocate(ranks);
    }
  }

  void run_everything() {
    for (const ncclDataType_t type : kTypes) {
      for (const Op op : kOps) {
        for (const bool in_place : {false, true}) {
          all_reduce(type, op, kSmall, in_place);
          all_reduce(type, op, kLarge, in_place);
          reduce_scatter(type, op, in_place);
          reduce(type, op, in_place);
        }
      }
      for (const bool in_place : {false, true}) {
        broadcast(type, in_place);
        all_gather(type, in_place);
        gather(type, in_place);
        scatter(type, in_place);
      }
      all_to_all(type);
      neighbours(type);
    }
  }

  void leave() {
    for (Member& member : members_) {
      member.leave();
    }
  }

 private:
  // Runs one call on each of this thread's ranks as a group, then waits for all.
  template <class CallOf>
  void together(CallOf call) {
    NCCL_OK(ncclGroupStart());
    for (Member& member : members_) {
      NCCL_OK(call(member));
    }
    NCCL_OK(ncclGroupEnd());
    for (const Member& member : members_) {
      member.sync();
    }
  }

  void all_reduce(ncclDataType_t type, Op op, size_t count, bool in_place) {
    for (const Member& m : members_) {
      m.fill(in_place ? m.receive : m.send, type, count, count,
             [&](size_t i) { return input(op, m.rank, i); });
    }
    together([&](Member& m) {
      return ncclAllReduce(in_place ? m.receive : m.send, m.receive, count, type,
                           m.reduction(op, type), m.comm, m.stream);
    });
    for (const Member& m : members_) {
      m.drop_reduction(op);
      m.check("ncclAllReduce", m.receive, type, count, count,
              [&](size_t i) { return expected(op, type, ranks_, i); });
    }
  }

  void reduce_scatter(ncclDataType_t type, Op op, bool in_place) {
    const size_t count = kMiddle;
    for (const Member& m : members_) {
      m.fill(m.send, type, count * size_t(ranks_), count * size_t(ranks_),
             [&](size_t i) { return input(op, m.rank, i); });
    }
    const auto result = [&](const Member& m) {
      return in_place ? m.send + size_t(m.rank) * count * bytes_of(type) : m.receive;
    };
    together([&](Member& m) {
      return ncclReduceScatter(m.send, result(m), count, type, m.reduction(op, type), m.comm,
                               m.stream);
    });
    for (const Member& m : members_) {
      m.drop_reduction(op);
      m.check("ncclReduceScatter", result(m), type, count, count,
              [&](size_t i) { return expected(op, type, ranks_, size_t(m.rank) * count + i); });
    }
  }

  void reduce(ncclDataType_t type, Op op, bool in_place) {
    const int root = static_cast<int>(type) % ranks_;
    for (const Member& m : members_) {
      m.fill(in_place ? m.receive : m.send, type, kMiddle, kMiddle,
             [&](size_t i) { return input(op, m.rank, i); });
    }
    together([&](Member& m) {
      return ncclReduce(in_place ? m.receive : m.send, m.rank == root ? m.receive : nullptr,
                        kMiddle, type, m.reduction(op, type), root, m.comm, m.stream);
    });
    for (const Member& m : members_) {
      m.drop_reduction(op);
      if (m.rank == root) {
        m.check("ncclReduce", m.receive, type, kMiddle, kMiddle,
                [&](size_t i) { return expected(op, type, ranks_, i); });
      }
    }
  }

  void broadcast(ncclDataType_t type, bool in_place) {
    const int root = (static_cast<int>(type) + 1) % ranks_;
    for (const Member& m : members_) {
      m.fill(in_place ? m.receive : m.send, type, kLarge, kLarge,
             [&](size_t i) { return mark(m.rank, 0, i); });
    }
    together([&](Member& m) {
      return in_place ? ncclBcast(m.receive, kLarge, type, root, m.comm, m.stream)
                      : ncclBroadcast(m.rank == root ? m.send : nullptr, m.receive, kLarge, type,
                                      root, m.comm, m.stream);
    });
    for (const Member& m : members_) {
      m.check("ncclBroadcast", m.receive, type, kLarge, kLarge,
              [&](size_t i) { return mark(root, 0, i); });
    }
  }

  void all_gather(ncclDataType_t type, bool in_place) {
    const size_t count = kMiddle;
    const auto own = [&](const Member& m) {
      return in_place ? m.receive + size_t(m.rank) * count * bytes_of(type) : m.send;
    };
    for (const Member& m : members_) {
      m.fill(own(m), type, count, count, [&](size_t i) { return mark(m.rank, 0, i); });
    }
    together(
        [&](Member& m) { return ncclAllGather(own(m), m.receive, count, type, m.comm, m.stream); });
    for (const Member& m : members_) {
      m.check("ncclAllGather", m.receive, type, count * size_t(ranks_), count,
              [&](size_t i) { return mark(static_cast<int>(i / count), 0, i % count); });
    }
  }

  void gather(ncclDataType_t type, bool in_place) {
    const size_t count = kMiddle;
    const int root = static_cast<int>(type) % ranks_;
    const auto own = [&](const Member& m) {
      const bool inside = in_place && m.rank == root;
      return inside ? m.receive + size_t(root) * count * bytes_of(type) : m.send;
    };
    for (const Member& m : members_) {
      m.fill(own(m), type, count, count, [&](size_t i) { return mark(m.rank, 1, i); });
    }
    together([&](Member& m) {
      return ncclGather(own(m), m.rank == root ? m.receive : nullptr, count, type, root, m.comm,
                        m.stream);
    });
    for (const Member& m : members_) {
      if (m.rank == root) {
        m.check("ncclGather", m.receive, type, count * size_t(ranks_), count,
                [&](size_t i) { return mark(static_cast<int>(i / count), 1, i % count); });
      }
    }
  }

  void scatter(ncclDataType_t type, bool in_place) {
    const size_t count = kMiddle;
    const int root = static_cast<int>(type) % ranks_;
    const auto result = [&](const Member& m) {
      const bool inside = in_place && m.rank == root;
      return inside ? m.send + size_t(root) * count * bytes_of(type) : m.receive;
    };
    for (const Member& m : members_) {
      m.fill(m.send, type, count * size_t(ranks_), count * size_t(ranks_),
             [&](size_t i) { return mark(m.rank, 2, i); });
    }
    together([&](Member& m) {
      return ncclScatter(m.rank == root ? m.send : nullptr, result(m), count, type, root, m.comm,
                         m.stream);
    });
    for (const Member& m : members_) {
      m.check("ncclScatter", result(m), type, count, count,
              [&](size_t i) { return mark(root, 2, size_t(m.rank) * count + i); });
    }
  }

  void all_to_all(ncclDataType_t type) {
    const size_t count = kMiddle;
    for (const Member& m : members_) {
      m.fill(m.send, type, count * size_t(ranks_), count,
             [&](size_t i) { return mark(m.rank, static_cast<int>(i / count), i % count); });
    }
    together(
        [&](Member& m) { return ncclAlltoAll(m.send, m.receive, count, type, m.comm, m.stream); });
    for (const Member& m : members_) {
      m.check("ncclAlltoAll", m.receive, type, count * size_t(ranks_), count,
              [&](size_t i) { return mark(static_cast<int>(i / count), m.rank, i % count); });
    }
  }

  // Sends round the ring, to oneself where there is only one rank.
  void neighbours(ncclDataType_t type) {
    for (const Member& m : members_) {
      m.fill(m.send, type, kLarge, kLarge, [&](size_t i) { return mark(m.rank, 3, i); });
    }
    together([&](Member& m) {
      NCCL_OK(ncclRecv(m.receive, kLarge, type, (m.rank + ranks_ - 1) % ranks_, m.comm, m.stream));
      return ncclSend(m.send, kLarge, type, (m.rank + 1) % ranks_, m.comm, m.stream);
    });
    for (const Member& m : members_) {
      const int from = (m.rank + ranks_ - 1) % ranks_;
      m.check("ncclSend, ncclRecv", m.receive, type, kLarge, kLarge,
              [&](size_t i) { return mark(from, 3, i); });
    }
  }

  std::vector<Member> members_;
  const int ranks_;
};

inline void run_one_rank(const ncclUniqueId& id, int ranks, int rank) {
  Team team({Member{Rank::join(id, ranks, rank)}}, ranks);
  team.run_everything();
  team.leave();
}

}  // namespace nccl_test
