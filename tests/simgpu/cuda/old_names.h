// Earlier versions of driver functions, under names that cuda.h's macros hide.
//
//   SIMGPU_OLD_NAME(cuEventElapsedTime, cuEventElapsedTime_v2);
//
// makes the first name a jump to the second; both must have the same ABI.
#pragma once
#include <cuda.h>

#if defined(__aarch64__)
#define SIMGPU_JUMP_TO(target) "\tb " target "\n"
#else
#define SIMGPU_JUMP_TO(target) "\tjmp " target "@PLT\n"
#endif
#define SIMGPU_OLD_NAME_(name, target)                                 \
  __asm__(".text\n.globl " #name "\n.type " #name ",@function\n" #name \
          ":\n" SIMGPU_JUMP_TO(#target) ".size " #name ", .-" #name "\n")
#define SIMGPU_OLD_NAME(name, target) SIMGPU_OLD_NAME_(name, target)

extern "C" CUresult simgpu_old_cuGetProcAddress(const char* name, void** address, int version,
                                                cuuint64_t flags);
