// run: devices=4 name=all_reduce.4_devices -- all_reduce -g 4 -b 8 -e 256K -f 8
// run: devices=4 name=all_reduce.4_threads -- all_reduce -t 4 -b 8 -e 256K -f 8
// run: devices=4 ranks=4 name=all_reduce.4_processes -- all_reduce -b 8 -e 256K -f 8
// run: devices=4 ranks=2 name=all_reduce.graph -- all_reduce -t 2 -b 1K -e 64K -f 8 -G 2
// run: devices=1 name=all_reduce.alone -- all_reduce -b 8 -e 64K -f 8
// run: devices=4 ranks=4 name=sendrecv.4_processes -- sendrecv -b 8 -e 4M -f 32
// run: devices=4 name=sendrecv.4_devices -- sendrecv -g 4 -b 8 -e 256K -f 8 -G 1
// run: devices=4 ranks=2 name=alltoall.2_by_2 -- alltoall -g 2 -b 64 -e 256K -f 8
// run: devices=4 name=alltoall.4_threads -- alltoall -t 4 -b 64 -e 256K -f 8 -G 1
// Measures a collective as benchmarks of NCCL do: for each size warm-up rounds, rounds that are
// timed, one that is checked; optionally the rounds are a graph.  The options:
// common/perf_options.h.
#include <nccl.h>

#include <barrier>
#include <chrono>
#include <memory>
#include <thread>

#include "common/buffer.h"
#include "common/member.h"
#include "common/nccl_ranks.h"
#include "common/perf_options.h"

namespace {

// A collective of `count` floats per rank and peer, what it brings, and which share of its bytes
// crosses a link.
struct Operation {
  const char* name;
  bool per_peer;  // the size is shared out among all peers
  ncclResult_t (*run)(const float* send, float* receive, size_t count, const Member&, int size);
  float (*expected)(int rank, int size, size_t count, size_t i);
  double (*bus_factor)(int size);
};

float value_at(int rank, size_t i) {
  return static_cast<float>((static_cast<size_t>(rank) * 5 + i) % 16);
}

constexpr Operation kOperations[] = {
    {"all_reduce", false,
     [](const float* send, float* receive, size_t count, const Member& m, int) {
       return ncclAllReduce(send, receive, count, ncclFloat, ncclSum, m.comm, m.stream);
     },
     [](int, int size, size_t, size_t i) {
       float sum = 0;
       for (int rank = 0; rank < size; ++rank) {
         sum += value_at(rank, i);
       }
       return sum;
     },
     [](int size) { return 2.0 * (size - 1) / size; }},
    {"sendrecv", false,
     [](const float* send, float* receive, size_t count, const Member& m, int size) {
       NCCL_CHECK(ncclGroupStart());
       NCCL_CHECK(ncclSend(send, count, ncclFloat, (m.rank + 1) % size, m.comm, m.stream));
       NCCL_CHECK(
           ncclRecv(receive, count, ncclFloat, (m.rank + size - 1) % size, m.comm, m.stream));
       return ncclGroupEnd();
     },
     [](int rank, int size, size_t, size_t i) { return value_at((rank + size - 1) % size, i); },
     [](int) { return 1.0; }},
    {"alltoall", true,
     [](const float* send, float* receive, size_t count, const Member& m, int size) {
       NCCL_CHECK(ncclGroupStart());
       for (int peer = 0; peer < size; ++peer) {
         const size_t offset = static_cast<size_t>(peer) * count;
         NCCL_CHECK(ncclSend(send + offset, count, ncclFloat, peer, m.comm, m.stream));
         NCCL_CHECK(ncclRecv(receive + offset, count, ncclFloat, peer, m.comm, m.stream));
       }
       return ncclGroupEnd();
     },
     [](int rank, int, size_t count, size_t i) {
       return value_at(static_cast<int>(i / count), static_cast<size_t>(rank) * count + i % count);
     },
     [](int size) { return (size - 1.0) / size; }},
};

struct Shared {
  PerfOptions options;
  const Operation* operation;
  ncclUniqueId id;
  int size;
  std::barrier<>* threads;
};

// What one thread does, with one or several devices.
class Worker {
 public:
  Worker(const Shared& shared, int thread) : shared_(shared) {
    const PerfOptions& options = shared.options;
    const int first = thread * options.devices;
    const int ranks_per_process = options.threads * options.devices;
    NCCL_CHECK(ncclGroupStart());
    members_.resize(static_cast<size_t>(options.devices));
    for (int i = 0; i < options.devices; ++i) {
      Member& member = members_[static_cast<size_t>(i)];
      member.rank = world_rank() * ranks_per_process + first + i;
      member.device = (local_rank() * ranks_per_process + first + i) % device_count();
      open_stream(member);
      send_.emplace_back(options.end_bytes / sizeof(float));
      receive_.emplace_back(options.end_bytes / sizeof(float));
      NCCL_CHECK(ncclCommInitRank(&member.comm, shared.size, shared.id, member.rank));
    }
    NCCL_CHECK(ncclGroupEnd());
  }
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;
  ~Worker() {
    for (const Member& member : members_) {
      close(member);
    }
  }

  void measure(size_t bytes) {
    const size_t count = bytes / sizeof(float) / (shared_.operation->per_peer ? peers() : 1);
    const size_t used = shared_.operation->per_peer ? count * peers() : count;
    fill(used);
    for (int i = 0; i < shared_.options.warm_ups; ++i) {
      round(count);
    }
    wait_for(members_);
    shared_.threads->arrive_and_wait();
    const double seconds = shared_.options.graph_launches ? time_graph(count) : time_rounds(count);
    fill(used);
    round(count);
    wait_for(members_);
    const size_t wrong = count_wrong(count, used);
    CHECK(wrong == 0, "%zu of %zu values are wrong", wrong, used);
    if (members_[0].rank == 0) {
      const double rate = static_cast<double>(used * sizeof(float)) / seconds / 1e9;
      printf("%12zu %12zu %8s %10.2f us %8.3f %8.3f %6zu\n", used * sizeof(float), count, "float",
             seconds * 1e6, rate, rate * shared_.operation->bus_factor(shared_.size), wrong);
    }
  }

 private:
  size_t peers() const { return static_cast<size_t>(shared_.size); }

  void fill(size_t used) {
    for (size_t m = 0; m < members_.size(); ++m) {
      CUDA_CHECK(cudaSetDevice(members_[m].device));
      std::vector<float> values(used);
      for (size_t i = 0; i < used; ++i) {
        values[i] = value_at(members_[m].rank, i);
      }
      CUDA_CHECK(
          cudaMemcpy(send_[m].data(), values.data(), used * sizeof(float), cudaMemcpyHostToDevice));
      CUDA_CHECK(cudaMemset(receive_[m].data(), 0xff, used * sizeof(float)));
      CUDA_CHECK(cudaStreamSynchronize(nullptr));
    }
  }

  void round(size_t count) {
    NCCL_CHECK(ncclGroupStart());
    for (size_t m = 0; m < members_.size(); ++m) {
      NCCL_CHECK(shared_.operation->run(send_[m].data(), receive_[m].data(), count, members_[m],
                                        shared_.size));
    }
    NCCL_CHECK(ncclGroupEnd());
  }

  // Both: seconds per round.
  double time_rounds(size_t count) {
    const auto start = std::chrono::steady_clock::now();
    for (int i = 0; i < shared_.options.rounds; ++i) {
      round(count);
    }
    wait_for(members_);
    return since(start) / shared_.options.rounds;
  }

  double time_graph(size_t count) {
    for (const Member& member : members_) {
      CUDA_CHECK(cudaStreamBeginCapture(member.stream, cudaStreamCaptureModeThreadLocal));
    }
    for (int i = 0; i < shared_.options.rounds; ++i) {
      round(count);
    }
    std::vector<cudaGraphExec_t> graphs(members_.size());
    for (size_t m = 0; m < members_.size(); ++m) {
      cudaGraph_t graph = nullptr;
      CUDA_CHECK(cudaSetDevice(members_[m].device));
      CUDA_CHECK(cudaStreamEndCapture(members_[m].stream, &graph));
      CUDA_CHECK(cudaGraphInstantiate(&graphs[m], graph, 0));
      CUDA_CHECK(cudaGraphDestroy(graph));
    }
    const auto start = std::chrono::steady_clock::now();
    for (int i = 0; i < shared_.options.graph_launches; ++i) {
      for (size_t m = 0; m < members_.size(); ++m) {
        CUDA_CHECK(cudaSetDevice(members_[m].device));
        CUDA_CHECK(cudaGraphLaunch(graphs[m], members_[m].stream));
      }
    }
    wait_for(members_);
    const double seconds = since(start);
    for (cudaGraphExec_t graph : graphs) {
      CUDA_CHECK(cudaGraphExecDestroy(graph));
    }
    return seconds / shared_.options.graph_launches / shared_.options.rounds;
  }

  static double since(std::chrono::steady_clock::time_point start) {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  }

  size_t count_wrong(size_t count, size_t used) const {
    size_t wrong = 0;
    for (size_t m = 0; m < members_.size(); ++m) {
      CUDA_CHECK(cudaSetDevice(members_[m].device));
      const std::vector<float> values = receive_[m].values();
      for (size_t i = 0; i < used; ++i) {
        wrong += values[i] != shared_.operation->expected(members_[m].rank, shared_.size, count, i);
      }
    }
    return wrong;
  }

  const Shared& shared_;
  std::vector<Member> members_;
  std::vector<DeviceBuffer<float>> send_, receive_;
};

void run_thread(const Shared& shared, int thread) {
  Worker worker(shared, thread);
  const PerfOptions& options = shared.options;
  for (size_t bytes = options.begin_bytes; bytes <= options.end_bytes; bytes *= options.factor) {
    worker.measure(bytes);
  }
}

const Operation* operation_named(const std::string& name) {
  for (const Operation& operation : kOperations) {
    if (operation.name == name) {
      return &operation;
    }
  }
  FAIL("there is no operation '%s'", name.c_str());
}

}  // namespace

int main(int argc, char** argv) {
  Shared shared{};
  shared.options = perf_options(argc, argv);
  shared.operation = operation_named(shared.options.operation);
  shared.id = shared_unique_id();
  shared.size = world_size() * shared.options.threads * shared.options.devices;
  std::barrier<> barrier(shared.options.threads);
  shared.threads = &barrier;
  if (world_rank() == 0) {
    printf("# %s, %d ranks\n%12s %12s %8s %13s %8s %8s %6s\n", shared.operation->name, shared.size,
           "bytes", "count", "type", "time", "GB/s", "bus GB/s", "wrong");
  }
  std::vector<std::thread> threads;
  threads.reserve(static_cast<size_t>(shared.options.threads));
  for (int thread = 0; thread < shared.options.threads; ++thread) {
    threads.emplace_back(run_thread, std::cref(shared), thread);
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  return 0;
}
