#include "cuda/stream_work.h"

#include <time.h>

namespace simgpu {
namespace {

class HostWork final : public Work {
 public:
  explicit HostWork(const CUDA_HOST_NODE_PARAMS& parameters) : parameters_(parameters) {}
  CUgraphNodeType type() const override { return CU_GRAPH_NODE_TYPE_HOST; }
  CUresult run(Run& run) const override {
    parameters_.fn(parameters_.userData);
    run.ends_now();
    return CUDA_SUCCESS;
  }
  const CUDA_HOST_NODE_PARAMS& parameters() const { return parameters_; }

 private:
  CUDA_HOST_NODE_PARAMS parameters_;
};

class EmptyWork final : public Work {
 public:
  CUgraphNodeType type() const override { return CU_GRAPH_NODE_TYPE_EMPTY; }
  CUresult run(Run&) const override { return CUDA_SUCCESS; }
};

// The condition of CUstreamWaitValue_flags, on 32 or 64 bits.
template <class Value>
bool holds(Value seen, Value wanted, unsigned flags) {
  switch (flags & 3) {
    case CU_STREAM_WAIT_VALUE_GEQ:
      return static_cast<std::make_signed_t<Value>>(seen - wanted) >= 0;
    case CU_STREAM_WAIT_VALUE_EQ:
      return seen == wanted;
    case CU_STREAM_WAIT_VALUE_AND:
      return (seen & wanted) != 0;
    default:
      return ~(seen | wanted) != 0;
  }
}

// The memory may be written by the host, another stream or another process: polled, ever less
// often.
template <class Value>
void wait_value(uint64_t address, Value wanted, unsigned flags, const Fault& fault) {
  const auto* word = reinterpret_cast<const Value*>(address);
  int64_t pause_ns = 1000;
  while (!holds(__atomic_load_n(word, __ATOMIC_ACQUIRE), wanted, flags)) {
    if (fault.cancelled.load(std::memory_order_relaxed)) {
      return;
    }
    const timespec pause = {0, pause_ns};
    nanosleep(&pause, nullptr);
    pause_ns = std::min<int64_t>(pause_ns * 2, 100'000);
  }
}

class MemopWork final : public Work {
 public:
  explicit MemopWork(std::vector<CUstreamBatchMemOpParams> operations)
      : operations_(std::move(operations)) {}
  CUgraphNodeType type() const override { return CU_GRAPH_NODE_TYPE_BATCH_MEM_OP; }
  const std::vector<CUstreamBatchMemOpParams>& operations() const { return operations_; }

  CUresult run(Run& run) const override {
    for (const CUstreamBatchMemOpParams& operation : operations_) {
      execute(operation, run.fault);
    }
    run.ends_now();
    return CUDA_SUCCESS;
  }

 private:
  static void execute(const CUstreamBatchMemOpParams& operation, const Fault& fault) {
    const auto& wait = operation.waitValue;
    const auto& write = operation.writeValue;
    switch (operation.operation) {
      case CU_STREAM_MEM_OP_WAIT_VALUE_32:
        return wait_value<cuuint32_t>(wait.address, wait.value, wait.flags, fault);
      case CU_STREAM_MEM_OP_WAIT_VALUE_64:
        return wait_value<cuuint64_t>(wait.address, wait.value64, wait.flags, fault);
      case CU_STREAM_MEM_OP_WRITE_VALUE_32:
        return __atomic_store_n(reinterpret_cast<cuuint32_t*>(write.address), write.value,
                                __ATOMIC_RELEASE);
      case CU_STREAM_MEM_OP_WRITE_VALUE_64:
        return __atomic_store_n(reinterpret_cast<cuuint64_t*>(write.address), write.value64,
                                __ATOMIC_RELEASE);
      default:  // barrier, flush of remote writes: memory is coherent here
        return;
    }
  }

  std::vector<CUstreamBatchMemOpParams> operations_;
};

bool supported(const CUstreamBatchMemOpParams& operation) {
  const bool wide = operation.operation == CU_STREAM_MEM_OP_WAIT_VALUE_64 ||
                    operation.operation == CU_STREAM_MEM_OP_WRITE_VALUE_64;
  switch (operation.operation) {
    case CU_STREAM_MEM_OP_WAIT_VALUE_32:
    case CU_STREAM_MEM_OP_WAIT_VALUE_64:
    case CU_STREAM_MEM_OP_WRITE_VALUE_32:
    case CU_STREAM_MEM_OP_WRITE_VALUE_64:
      return operation.waitValue.address != 0 && operation.waitValue.address % (wide ? 8 : 4) == 0;
    case CU_STREAM_MEM_OP_FLUSH_REMOTE_WRITES:
    case CU_STREAM_MEM_OP_BARRIER:
      return true;
    default:
      return false;
  }
}

}  // namespace

CUresult make_host_work(const CUDA_HOST_NODE_PARAMS& parameters,
                        std::shared_ptr<const Work>& work) {
  if (!parameters.fn) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  work = std::make_shared<HostWork>(parameters);
  return CUDA_SUCCESS;
}

bool host_params_of(const Work& work, CUDA_HOST_NODE_PARAMS& parameters) {
  const auto* host = dynamic_cast<const HostWork*>(&work);
  if (host) {
    parameters = host->parameters();
  }
  return host != nullptr;
}

CUresult make_memop_work(const CUstreamBatchMemOpParams* operations, unsigned count,
                         std::shared_ptr<const Work>& work) {
  if (!operations || count == 0 || count > 256) {  // 256: the documented limit
    return CUDA_ERROR_INVALID_VALUE;
  }
  std::vector<CUstreamBatchMemOpParams> copy(operations, operations + count);
  for (const CUstreamBatchMemOpParams& operation : copy) {
    if (!supported(operation)) {
      return CUDA_ERROR_INVALID_VALUE;
    }
  }
  work = std::make_shared<MemopWork>(std::move(copy));
  return CUDA_SUCCESS;
}

std::vector<CUstreamBatchMemOpParams> memops_of(const Work& work) {
  const auto* memops = dynamic_cast<const MemopWork*>(&work);
  return memops ? memops->operations() : std::vector<CUstreamBatchMemOpParams>{};
}

std::shared_ptr<const Work> empty_work() {
  static const auto& work = *new std::shared_ptr<const Work>(std::make_shared<EmptyWork>());
  return work;
}

}  // namespace simgpu
