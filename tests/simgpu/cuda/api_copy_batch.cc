// Batches of copies.  They run one after the other, which is an order that the documentation
// allows.
#include <cudaTypedefs.h>

#include <algorithm>
#include <type_traits>

#include "cuda/copy.h"
#include "cuda/copy_submit.h"
#include "cuda/old_names.h"
#include "cuda/per_thread.h"

namespace simgpu {
namespace {

constexpr size_t kNoIndex = SIZE_MAX;  // the failure is not about one copy

struct Attributes {
  const CUmemcpyAttributes* list;
  const size_t* first_copies;
  size_t count;
};

bool known_order(CUmemcpySrcAccessOrder order) {
  return order >= CU_MEMCPY_SRC_ACCESS_ORDER_STREAM && order <= CU_MEMCPY_SRC_ACCESS_ORDER_ANY;
}

bool right(const Attributes& attributes, size_t copies) {
  if (!attributes.list || !attributes.first_copies || attributes.count == 0 ||
      attributes.count > copies || attributes.first_copies[0] != 0) {
    return false;
  }
  for (size_t i = 0; i < attributes.count; ++i) {
    const bool rising = i == 0 || attributes.first_copies[i] > attributes.first_copies[i - 1];
    if (!known_order(attributes.list[i].srcAccessOrder) || !rising ||
        attributes.first_copies[i] >= copies) {
      return false;
    }
  }
  return true;
}

// The default stream has no batches.
CUresult find_batch_stream(CUstream handle, std::shared_ptr<Stream>& stream) {
  SIMGPU_TRY(find_stream(handle, stream));
  return stream->legacy ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

CUresult copy_batch(const CUdeviceptr* to, const CUdeviceptr* from, const size_t* bytes,
                    size_t count, const Attributes& attributes, CUstream handle, size_t& failed) {
  failed = kNoIndex;
  std::shared_ptr<Stream> stream;
  SIMGPU_TRY(find_batch_stream(handle, stream));
  if (!to || !from || !bytes || count == 0 || !right(attributes, count)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  // Nothing is copied if anything is wrong.
  for (failed = 0; failed < count; ++failed) {
    CopyPlan plan;
    SIMGPU_TRY(plan_copy(linear_copy(to[failed], from[failed], bytes[failed]), plan));
  }
  size_t attribute = 0;
  for (failed = 0; failed < count; ++failed) {
    while (attribute + 1 < attributes.count && attributes.first_copies[attribute + 1] <= failed) {
      ++attribute;
    }
    SIMGPU_TRY(copy_async(linear_copy(to[failed], from[failed], bytes[failed]), *stream,
                          attributes.list[attribute].srcAccessOrder));
  }
  failed = kNoIndex;
  return CUDA_SUCCESS;
}

// One operand of a 3D copy.
struct Operand {
  CUmemorytype type = CU_MEMORYTYPE_UNIFIED;
  CUdeviceptr address = 0;
  CUarray array = nullptr;
  size_t x_bytes = 0, y = 0, z = 0, pitch = 0, height = 0;
};

CUresult read_operand(const CUmemcpy3DOperand& from, const CUextent3D& extent, size_t element_bytes,
                      Operand& out) {
  if (from.type == CU_MEMCPY_OPERAND_TYPE_ARRAY) {
    out.type = CU_MEMORYTYPE_ARRAY;
    out.array = from.op.array.array;
    out.x_bytes = from.op.array.offset.x * element_bytes;
    out.y = from.op.array.offset.y;
    out.z = from.op.array.offset.z;
    return CUDA_SUCCESS;
  }
  const auto& pointer = from.op.ptr;
  if (from.type != CU_MEMCPY_OPERAND_TYPE_POINTER ||
      (pointer.rowLength && pointer.rowLength < extent.width) ||
      (pointer.layerHeight && pointer.layerHeight < extent.height)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  out.address = pointer.ptr;
  out.pitch = (pointer.rowLength ? pointer.rowLength : extent.width) * element_bytes;
  out.height = pointer.layerHeight ? pointer.layerHeight : extent.height;
  return CUDA_SUCCESS;
}

// An array's element size counts for both operands; bytes if there is none.
CUresult element_size(const CUDA_MEMCPY3D_BATCH_OP& op, size_t& bytes) {
  bytes = 0;
  for (const CUmemcpy3DOperand* operand : {&op.src, &op.dst}) {
    if (operand->type != CU_MEMCPY_OPERAND_TYPE_ARRAY) {
      continue;
    }
    const std::shared_ptr<Array> array = find_array(operand->op.array.array);
    if (!array || (bytes && bytes != array->element_bytes)) {
      return CUDA_ERROR_INVALID_VALUE;
    }
    bytes = array->element_bytes;
  }
  bytes = std::max(bytes, size_t{1});
  return CUDA_SUCCESS;
}

CUresult copy_of(const CUDA_MEMCPY3D_BATCH_OP& op, CUDA_MEMCPY3D& copy) {
  if (op.extent.width == 0 || op.extent.height == 0 || op.extent.depth == 0 ||
      !known_order(op.srcAccessOrder)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  size_t bytes = 0;
  Operand from, to;
  SIMGPU_TRY(element_size(op, bytes));
  SIMGPU_TRY(read_operand(op.src, op.extent, bytes, from));
  SIMGPU_TRY(read_operand(op.dst, op.extent, bytes, to));
  copy = {};
  copy.srcMemoryType = from.type;
  copy.srcDevice = from.address;
  copy.srcArray = from.array;
  copy.srcXInBytes = from.x_bytes;
  copy.srcY = from.y;
  copy.srcZ = from.z;
  copy.srcPitch = from.pitch;
  copy.srcHeight = from.height;
  copy.dstMemoryType = to.type;
  copy.dstDevice = to.address;
  copy.dstArray = to.array;
  copy.dstXInBytes = to.x_bytes;
  copy.dstY = to.y;
  copy.dstZ = to.z;
  copy.dstPitch = to.pitch;
  copy.dstHeight = to.height;
  copy.WidthInBytes = op.extent.width * bytes;
  copy.Height = op.extent.height;
  copy.Depth = op.extent.depth;
  return CUDA_SUCCESS;
}

CUresult copy_batch_3d(size_t count, const CUDA_MEMCPY3D_BATCH_OP* list, unsigned long long flags,
                       CUstream handle, size_t& failed) {
  failed = kNoIndex;
  std::shared_ptr<Stream> stream;
  SIMGPU_TRY(find_batch_stream(handle, stream));
  if (count == 0 || !list || flags) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  std::vector<CUDA_MEMCPY3D> copies(count);
  for (failed = 0; failed < count; ++failed) {
    CopyPlan plan;
    SIMGPU_TRY(copy_of(list[failed], copies[failed]));
    SIMGPU_TRY(plan_copy(copies[failed], plan));
  }
  for (failed = 0; failed < count; ++failed) {
    SIMGPU_TRY(copy_async(copies[failed], *stream, list[failed].srcAccessOrder));
  }
  failed = kNoIndex;
  return CUDA_SUCCESS;
}

}  // namespace
}  // namespace simgpu

using namespace simgpu;

extern "C" CUresult cuMemcpyBatchAsync(CUdeviceptr* to, CUdeviceptr* from, size_t* bytes,
                                       size_t count, CUmemcpyAttributes* attributes,
                                       size_t* first_copies, size_t attribute_count,
                                       CUstream stream) {
  SIMGPU_CONTEXT_ENTER();
  size_t failed = 0;
  return copy_batch(to, from, bytes, count, {attributes, first_copies, attribute_count}, stream,
                    failed);
}

extern "C" CUresult cuMemcpy3DBatchAsync(size_t count, CUDA_MEMCPY3D_BATCH_OP* list,
                                         unsigned long long flags, CUstream stream) {
  SIMGPU_CONTEXT_ENTER();
  size_t failed = 0;
  return copy_batch_3d(count, list, flags, stream, failed);
}

// Of CUDA 13.2.
extern "C" CUresult cuMemcpyWithAttributesAsync(CUdeviceptr to, CUdeviceptr from, size_t bytes,
                                                CUmemcpyAttributes* attributes, CUstream stream) {
  SIMGPU_CONTEXT_ENTER();
  size_t first = 0, failed = 0;
  return copy_batch(&to, &from, &bytes, 1, {attributes, &first, 1}, stream, failed);
}

// CUDA 12.8's versions also say which copy is wrong.
extern "C" CUresult simgpu_old_cuMemcpyBatchAsync(CUdeviceptr* to, CUdeviceptr* from, size_t* bytes,
                                                  size_t count, CUmemcpyAttributes* attributes,
                                                  size_t* first_copies, size_t attribute_count,
                                                  size_t* failed, CUstream stream) {
  SIMGPU_CONTEXT_ENTER();
  size_t index = 0;
  const CUresult result = copy_batch(to, from, bytes, count,
                                     {attributes, first_copies, attribute_count}, stream, index);
  if (failed && result != CUDA_SUCCESS) {
    *failed = index;
  }
  return result;
}

extern "C" CUresult simgpu_old_cuMemcpy3DBatchAsync(size_t count, CUDA_MEMCPY3D_BATCH_OP* list,
                                                    size_t* failed, unsigned long long flags,
                                                    CUstream stream) {
  SIMGPU_CONTEXT_ENTER();
  size_t index = 0;
  const CUresult result = copy_batch_3d(count, list, flags, stream, index);
  if (failed && result != CUDA_SUCCESS) {
    *failed = index;
  }
  return result;
}

SIMGPU_PER_THREAD(cuMemcpyWithAttributesAsync, cuMemcpyWithAttributesAsync_ptsz);
SIMGPU_PER_THREAD(cuMemcpyBatchAsync, cuMemcpyBatchAsync_v2_ptsz);
SIMGPU_PER_THREAD(cuMemcpy3DBatchAsync, cuMemcpy3DBatchAsync_v2_ptsz);
SIMGPU_PER_THREAD(simgpu_old_cuMemcpyBatchAsync, cuMemcpyBatchAsync_ptsz);
SIMGPU_PER_THREAD(simgpu_old_cuMemcpy3DBatchAsync, cuMemcpy3DBatchAsync_ptsz);

#undef cuMemcpyBatchAsync
#undef cuMemcpy3DBatchAsync
static_assert(
    std::is_same_v<PFN_cuMemcpyBatchAsync_v12080, decltype(&simgpu_old_cuMemcpyBatchAsync)>);
static_assert(
    std::is_same_v<PFN_cuMemcpy3DBatchAsync_v12080, decltype(&simgpu_old_cuMemcpy3DBatchAsync)>);
SIMGPU_OLD_NAME(cuMemcpyBatchAsync, simgpu_old_cuMemcpyBatchAsync);
SIMGPU_OLD_NAME(cuMemcpy3DBatchAsync, simgpu_old_cuMemcpy3DBatchAsync);
