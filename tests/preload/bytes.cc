// How much a call moves or takes, where it does not say so in one number.
#include <cuda.h>
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <string>

#include "support/process.h"
#include "support/raw_trace.h"
#include "support/roles.h"

namespace {

using preload::Folder;
using preload::RawTrace;
namespace format = traintrace::format;

cudaMemcpy3DBatchOp copy_of(cudaMemcpy3DOperandType type, size_t width, size_t height) {
  cudaMemcpy3DBatchOp copy = {};
  copy.src.type = type;
  copy.dst.type = cudaMemcpyOperandTypePointer;
  copy.extent = {width, height, 1};
  return copy;
}

ROLE(bytes) {
  void* allocated = nullptr;
  cudaStream_t stream = nullptr;
  if (cudaMalloc(&allocated, 8192) != cudaSuccess || cudaStreamCreate(&stream) != cudaSuccess) {
    return 1;
  }
  auto* const memory = static_cast<char*>(allocated);
  void* to[] = {memory, memory + 100, memory + 200};
  const void* from[] = {memory + 4096, memory + 5000, memory + 6000};
  const size_t sizes[] = {10, 20, 30};
  cudaMemcpyAttributes attributes = {};
  attributes.srcAccessOrder = cudaMemcpySrcAccessOrderStream;
  size_t first = 0;
  if (cudaMemcpyBatchAsync(to, from, sizes, 3, &attributes, &first, 1, stream) != cudaSuccess) {
    return 2;
  }
  // Whether it succeeds or not, this much was asked for.
  cudaMemcpy3DBatchOp copies[] = {copy_of(cudaMemcpyOperandTypePointer, 64, 4),
                                  copy_of(cudaMemcpyOperandTypeArray, 1000, 1),
                                  copy_of(cudaMemcpyOperandTypePointer, 3, 1)};
  cudaMemcpy3DBatchAsync(3, copies, 0, stream);
  cudaArray_t array = nullptr;
  const cudaChannelFormatDesc format = {32, 32, 32, 32, cudaChannelFormatKindFloat};
  CUarray driver_array = nullptr;
  CUDA_ARRAY3D_DESCRIPTOR description = {};
  description.Width = 8;
  description.Height = 4;
  description.Depth = 2;
  description.Format = CU_AD_FORMAT_HALF;
  description.NumChannels = 2;
  return cudaMallocArray(&array, &format, 64, 32) == cudaSuccess &&
                 cuArray3DCreate(&driver_array, &description) == CUDA_SUCCESS
             ? 0
             : 3;
}

uint64_t bytes_of(const RawTrace& trace, const std::string& call) {
  for (const format::Allocation& allocation : trace.allocations) {
    if (trace.calls.at(allocation.call).name == call) {
      return allocation.bytes;
    }
  }
  return 0;
}

TEST(Bytes, OfBatchesAndArrays) {
  const Folder folder;
  preload::Program program = preload::self("bytes");
  program.environment = {{"TRAINTRACE_DIR", folder.path()}, {"TRAINTRACE_RING_MB", "1"}};
  const preload::Outcome outcome = preload::run(program);
  ASSERT_TRUE(outcome.exited_with(0)) << outcome.status << outcome.errors;
  const RawTrace trace = preload::read_raw(folder.traces().at(0));
  const auto batch = trace.of("cudaMemcpyBatchAsync", format::kEnter);
  const auto batch_3d = trace.of("cudaMemcpy3DBatchAsync", format::kEnter);
  ASSERT_EQ(batch.size(), 1u);
  ASSERT_EQ(batch_3d.size(), 1u);
  EXPECT_EQ(trace.value(batch[0], "bytes"), 60u);
  EXPECT_EQ(trace.value(batch_3d[0], "bytes"), 64u * 4 + 3);
  EXPECT_EQ(bytes_of(trace, "cudaMallocArray"), 64u * 32 * 16);
  EXPECT_EQ(bytes_of(trace, "cuArray3DCreate_v2"), 8u * 4 * 2 * 2 * 2);
}

}  // namespace
