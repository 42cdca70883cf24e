// run: ranks=1 devices=1 name=1
// run: ranks=2 devices=2 name=2
// run: ranks=4 devices=4 name=4
// A process for each device: every collective, out of place and in place, each value checked.
#include <nccl.h>

#include <algorithm>

#include "common/buffer.h"
#include "common/nccl_ranks.h"

namespace {

constexpr size_t kCount = 1031;  // per rank; no multiple of anything

struct World {
  ncclComm_t comm;
  cudaStream_t stream;
  int rank;
  int size;
  size_t all() const { return kCount * static_cast<size_t>(size); }
};

// What rank r holds at position i.
int value_at(int rank, size_t i) {
  return (rank + 1) * 1000 + static_cast<int>(i % 997);
}
int sum_at(const World& world, size_t i) {
  int sum = 0;
  for (int rank = 0; rank < world.size; ++rank) {
    sum += value_at(rank, i);
  }
  return sum;
}

std::vector<int> input(const World& world, size_t count) {
  std::vector<int> values(count);
  for (size_t i = 0; i < count; ++i) {
    values[i] = value_at(world.rank, i);
  }
  return values;
}

// Runs `collective(send, receive)` on a send and a receive buffer of their own, then in place: the
// two lie in one buffer, `send_offset` or `receive_offset` apart, as each collective documents it.
// `expected(i)` is what is received; nothing is checked where `receives` is false.
template <class Collective, class Expected>
void both_ways(const World& world, const char* name, size_t send_count, size_t receive_count,
               size_t send_offset, size_t receive_offset, bool receives, Collective collective,
               Expected expected) {
  const std::vector<int> values = input(world, send_count);
  const DeviceBuffer<int> send(values);
  const DeviceBuffer<int> receive(std::vector<int>(receive_count, -1));
  NCCL_CHECK(collective(send.data(), receive.data()));
  CUDA_CHECK(cudaStreamSynchronize(world.stream));
  if (receives) {
    check_values(std::string(name) + " out of place", receive.values(), expected);
  }
  check_values(std::string(name) + ", what was sent", send.values(),
               [&](size_t i) { return values[i]; });

  std::vector<int> together(std::max(send_offset + send_count, receive_offset + receive_count), -1);
  std::copy(values.begin(), values.end(), together.begin() + static_cast<long>(send_offset));
  const DeviceBuffer<int> buffer(together);
  NCCL_CHECK(collective(buffer.data() + send_offset, buffer.data() + receive_offset));
  CUDA_CHECK(cudaStreamSynchronize(world.stream));
  if (receives) {
    check_values(std::string(name) + " in place", buffer.values().data() + receive_offset,
                 receive_count, expected);
  }
}

void reductions(const World& world) {
  const auto sum = [&](size_t i) { return sum_at(world, i); };
  both_ways(
      world, "all-reduce", kCount, kCount, 0, 0, true,
      [&](const int* send, int* receive) {
        return ncclAllReduce(send, receive, kCount, ncclInt32, ncclSum, world.comm, world.stream);
      },
      sum);
  const size_t mine = kCount * static_cast<size_t>(world.rank);
  both_ways(
      world, "reduce-scatter", world.all(), kCount, 0, mine, true,
      [&](const int* send, int* receive) {
        return ncclReduceScatter(send, receive, kCount, ncclInt32, ncclSum, world.comm,
                                 world.stream);
      },
      [&](size_t i) { return sum_at(world, mine + i); });
  for (int root = 0; root < world.size; ++root) {
    both_ways(
        world, "reduce", kCount, kCount, 0, 0, world.rank == root,
        [&](const int* send, int* receive) {
          return ncclReduce(send, receive, kCount, ncclInt32, ncclSum, root, world.comm,
                            world.stream);
        },
        sum);
  }
}

void from_root(const World& world, int root) {
  const size_t mine = kCount * static_cast<size_t>(world.rank);
  const bool is_root = world.rank == root;
  both_ways(
      world, "broadcast", kCount, kCount, 0, 0, true,
      [&](const int* send, int* receive) {
        return ncclBroadcast(send, receive, kCount, ncclInt32, root, world.comm, world.stream);
      },
      [&](size_t i) { return value_at(root, i); });
  both_ways(
      world, "scatter", world.all(), kCount, 0, is_root ? mine : 0, true,
      [&](const int* send, int* receive) {
        return ncclScatter(send, receive, kCount, ncclInt32, root, world.comm, world.stream);
      },
      [&](size_t i) { return value_at(root, mine + i); });
  both_ways(
      world, "gather", kCount, world.all(), is_root ? mine : 0, 0, is_root,
      [&](const int* send, int* receive) {
        return ncclGather(send, receive, kCount, ncclInt32, root, world.comm, world.stream);
      },
      [&](size_t i) { return value_at(static_cast<int>(i / kCount), i % kCount); });
  const DeviceBuffer<int> buffer(input(world, kCount));
  NCCL_CHECK(ncclBcast(buffer.data(), kCount, ncclInt32, root, world.comm, world.stream));
  CUDA_CHECK(cudaStreamSynchronize(world.stream));
  check_values("bcast", buffer.values(), [&](size_t i) { return value_at(root, i); });
}

void exchanges(const World& world) {
  const size_t mine = kCount * static_cast<size_t>(world.rank);
  both_ways(
      world, "all-gather", kCount, world.all(), mine, 0, true,
      [&](const int* send, int* receive) {
        return ncclAllGather(send, receive, kCount, ncclInt32, world.comm, world.stream);
      },
      [&](size_t i) { return value_at(static_cast<int>(i / kCount), i % kCount); });
  // Not in place: the documentation does not allow it.
  const DeviceBuffer<int> send(input(world, world.all())), receive(world.all());
  NCCL_CHECK(
      ncclAlltoAll(send.data(), receive.data(), kCount, ncclInt32, world.comm, world.stream));
  CUDA_CHECK(cudaStreamSynchronize(world.stream));
  check_values("all-to-all", receive.values(),
               [&](size_t i) { return value_at(static_cast<int>(i / kCount), mine + i % kCount); });
}

}  // namespace

int main() {
  select_device();
  World world{world_communicator(), nullptr, world_rank(), world_size()};
  CUDA_CHECK(cudaStreamCreateWithFlags(&world.stream, cudaStreamNonBlocking));
  reductions(world);
  for (int root = 0; root < world.size; ++root) {
    from_root(world, root);
  }
  exchanges(world);
  CUDA_CHECK(cudaStreamDestroy(world.stream));
  finish(world.comm);
  printf("nccl_collectives: rank %d of %d\n", world.rank, world.size);
  return 0;
}
