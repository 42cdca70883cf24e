// run: devices=1 name=ptx -- ptx
// run: devices=1 name=opaque -- opaque
// The driver's API alone: a module from an image in memory, its function by name, parameters as
// pointers and as one buffer.  The image is PTX text; an image that nobody can read is refused by a
// real driver, and taken by simgpu as a module that has what it is asked for.
#include <cuda.h>
#include <simgpu.h>

#include <cstring>
#include <string>
#include <vector>

#include "common/check_driver.h"

namespace {

constexpr char kPtx[] = R"(
.version 7.0
.target sm_70
.address_size 64
.visible .entry vector_add(.param .u64 pa, .param .u64 pb, .param .u64 pc, .param .u32 pn)
{
  .reg .pred %p;
  .reg .f32 %f<4>;
  .reg .b32 %r<6>;
  .reg .b64 %rd<8>;
  ld.param.u64 %rd1, [pa];
  ld.param.u64 %rd2, [pb];
  ld.param.u64 %rd3, [pc];
  ld.param.u32 %r1, [pn];
  mov.u32 %r2, %ctaid.x;
  mov.u32 %r3, %ntid.x;
  mov.u32 %r4, %tid.x;
  mad.lo.s32 %r5, %r2, %r3, %r4;
  setp.ge.s32 %p, %r5, %r1;
  @%p bra done;
  mul.wide.s32 %rd4, %r5, 4;
  add.s64 %rd5, %rd1, %rd4;
  add.s64 %rd6, %rd2, %rd4;
  add.s64 %rd7, %rd3, %rd4;
  ld.global.f32 %f1, [%rd5];
  ld.global.f32 %f2, [%rd6];
  add.f32 %f3, %f1, %f2;
  st.global.f32 [%rd7], %f3;
done:
  ret;
}
)";

constexpr int kCount = 10'000;
constexpr size_t kBytes = kCount * sizeof(float);

struct Parameters {
  CUdeviceptr a, b, c;
  int count;
};

void launch_with_pointers(CUfunction function, Parameters parameters, CUstream stream) {
  void* pointers[] = {&parameters.a, &parameters.b, &parameters.c, &parameters.count};
  CU_CHECK(cuLaunchKernel(function, (kCount + 255) / 256, 1, 1, 256, 1, 1, 0, stream, pointers,
                          nullptr));
}

void launch_with_buffer(CUfunction function, Parameters parameters, CUstream stream) {
  size_t bytes = sizeof parameters;
  void* extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, &parameters, CU_LAUNCH_PARAM_BUFFER_SIZE, &bytes,
                   CU_LAUNCH_PARAM_END};
  CU_CHECK(
      cuLaunchKernel(function, (kCount + 255) / 256, 1, 1, 256, 1, 1, 0, stream, nullptr, extra));
}

void check_sum(CUdeviceptr c, float expected_step) {
  std::vector<float> values(kCount);
  CU_CHECK(cuMemcpyDtoH(values.data(), c, kBytes));
  for (size_t i = 0; i < values.size(); ++i) {
    CHECK(values[i] == expected_step * static_cast<float>(i), "value %zu is %g", i,
          static_cast<double>(values[i]));
  }
  CU_CHECK(cuMemsetD32(c, 0, kCount));
}

void add(CUfunction function) {
  CUstream stream;
  CU_CHECK(cuStreamCreate(&stream, CU_STREAM_DEFAULT));
  std::vector<float> a(kCount), b(kCount);
  for (size_t i = 0; i < a.size(); ++i) {
    a[i] = static_cast<float>(i);
    b[i] = static_cast<float>(2 * i);
  }
  Parameters parameters{0, 0, 0, kCount};
  for (CUdeviceptr* pointer : {&parameters.a, &parameters.b, &parameters.c}) {
    CU_CHECK(cuMemAlloc(pointer, kBytes));
  }
  CU_CHECK(cuMemcpyHtoDAsync(parameters.a, a.data(), kBytes, stream));
  CU_CHECK(cuMemcpyHtoDAsync(parameters.b, b.data(), kBytes, stream));
  launch_with_pointers(function, parameters, stream);
  CU_CHECK(cuStreamSynchronize(stream));
  check_sum(parameters.c, 3);
  launch_with_buffer(function, {parameters.a, parameters.a, parameters.c, kCount}, stream);
  CU_CHECK(cuStreamSynchronize(stream));
  check_sum(parameters.c, 2);
  // The program's own mistakes.
  CU_EXPECT(CUDA_ERROR_INVALID_VALUE,
            cuLaunchKernel(function, 1, 1, 1, 5000, 1, 1, 0, stream, nullptr, nullptr));
  for (const CUdeviceptr pointer : {parameters.a, parameters.b, parameters.c}) {
    CU_CHECK(cuMemFree(pointer));
  }
  CU_CHECK(cuStreamDestroy(stream));
}

}  // namespace

int main(int argc, char** argv) {
  simgpu::kernel(
      "vector_add", +[](simgpu::Grid, const float* a, const float* b, float* c, int count) {
        for (int i = 0; i < count; ++i) {
          c[i] = a[i] + b[i];
        }
      });
  CU_CHECK(cuInit(0));
  CUdevice device = 0;
  CU_CHECK(cuDeviceGet(&device, 0));
  CUcontext context = nullptr;
  CU_CHECK(cuCtxCreate(&context, nullptr, 0, device));

  const bool opaque = argc > 1 && !strcmp(argv[1], "opaque");
  const char nonsense[] = "no image of any kind, but long enough to look at its beginning";
  CUmodule module = nullptr;
  const CUresult loaded = cuModuleLoadData(&module, opaque ? nonsense : kPtx);
  if (opaque && loaded == CUDA_ERROR_INVALID_IMAGE) {
    printf("the driver is not simgpu\n");
    return 0;
  }
  CU_CHECK(loaded);
  CUfunction function = nullptr;
  CU_CHECK(cuModuleGetFunction(&function, module, "vector_add"));
  add(function);
  CU_CHECK(cuModuleUnload(module));
  CU_CHECK(cuCtxDestroy(context));
  printf("vector_add_driver: %d values\n", kCount);
  return 0;
}
