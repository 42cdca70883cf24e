// Stream-ordered allocation.
#include "cuda/capture.h"
#include "cuda/graph_memory.h"
#include "cuda/per_thread.h"
#include "cuda/pool.h"

namespace simgpu {
namespace {

// Keeps what was freed until its stream has got there: an imported mapping, or the pool, which may
// be destroyed before.
class FreeMark : public Work {
 public:
  explicit FreeMark(RangePtr range) : range_(std::move(range)) {}
  CUgraphNodeType type() const override { return CU_GRAPH_NODE_TYPE_MEM_FREE; }
  CUresult run(Run&) const override {
    if (!range_->owner) {
      forget_imported(*range_);
    }
    return CUDA_SUCCESS;
  }

 private:
  const RangePtr range_;
};

// While a stream is captured its allocations belong to the graph; the pool only says where.
CUresult capture_alloc(Stream& stream, const CUmemPoolProps& properties, size_t bytes,
                       CUdeviceptr* address) {
  CUDA_MEM_ALLOC_NODE_PARAMS parameters = {};
  parameters.poolProps = properties;
  parameters.poolProps.handleTypes = CU_MEM_HANDLE_TYPE_NONE;
  parameters.poolProps.maxSize = 0;
  parameters.bytesize = bytes;
  std::shared_ptr<const Work> work;
  SIMGPU_TRY(make_alloc_work(parameters, work));
  SIMGPU_TRY(submit(stream, std::move(work)));
  *address = parameters.dptr;
  return CUDA_SUCCESS;
}

CUresult alloc_async(CUdeviceptr* address, size_t bytes, CUmemoryPool handle, Stream& stream) {
  const std::shared_ptr<Pool> pool = find_pool(handle);
  if (!address || bytes == 0 || !pool || handle->file >= 0) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (stream.capturing.load(std::memory_order_acquire)) {
    return capture_alloc(stream, pool->properties(), bytes, address);
  }
  RangePtr range;
  Ticket after;
  SIMGPU_TRY(pool->allocate(bytes, stream.queue, stream.context, handle, range, after));
  if (after.queue) {
    submit_now(stream, nullptr, {after});
  }
  *address = range->base;
  return CUDA_SUCCESS;
}

CUresult capture_free(Stream& stream, CUdeviceptr address) {
  std::shared_ptr<const Work> work;
  SIMGPU_TRY(make_free_work(address, work));
  return submit(stream, std::move(work));
}

CUresult free_async(CUdeviceptr address, Stream& stream) {
  const RangePtr range = address_map().find(address);
  if (!range || range->base != address) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (stream.capturing.load(std::memory_order_acquire)) {
    return capture_free(stream, address);
  }
  if (range->kind == RangeKind::kGraph) {
    return submit(stream, free_graph_memory_work(address));
  }
  const auto same = [&](const Range& other) { return other.id == range->id; };
  if (range->kind != RangeKind::kPool || !address_map().remove(address, same)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  Ticket ticket;
  const CUresult result = submit(stream, std::make_shared<FreeMark>(range), &ticket);
  if (result != CUDA_SUCCESS) {
    address_map().insert(range);
  } else if (range->owner) {
    range->owner->give_after(address, ticket);
  }
  return result;
}

}  // namespace
}  // namespace simgpu

using namespace simgpu;

extern "C" CUresult cuMemAllocAsync(CUdeviceptr* address, size_t bytes, CUstream handle) {
  SIMGPU_CONTEXT_ENTER();
  std::shared_ptr<Stream> stream;
  SIMGPU_TRY(find_stream(handle, stream));
  return alloc_async(address, bytes, current_pool(stream->context->device), *stream);
}

extern "C" CUresult cuMemAllocFromPoolAsync(CUdeviceptr* address, size_t bytes, CUmemoryPool pool,
                                            CUstream handle) {
  SIMGPU_CONTEXT_ENTER();
  std::shared_ptr<Stream> stream;
  SIMGPU_TRY(find_stream(handle, stream));
  return alloc_async(address, bytes, pool, *stream);
}

extern "C" CUresult cuMemFreeAsync(CUdeviceptr address, CUstream handle) {
  SIMGPU_CONTEXT_ENTER();
  std::shared_ptr<Stream> stream;
  SIMGPU_TRY(find_stream(handle, stream));
  return free_async(address, *stream);
}

SIMGPU_PER_THREAD(cuMemAllocAsync, cuMemAllocAsync_ptsz);
SIMGPU_PER_THREAD(cuMemAllocFromPoolAsync, cuMemAllocFromPoolAsync_ptsz);
SIMGPU_PER_THREAD(cuMemFreeAsync, cuMemFreeAsync_ptsz);
