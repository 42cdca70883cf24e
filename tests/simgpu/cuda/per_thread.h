// The *_ptsz and *_ptds variants: the base function, called while the null stream means the
// thread's own.
//
//   SIMGPU_PER_THREAD(cuMemcpyHtoD_v2, cuMemcpyHtoD_v2_ptds)
//
// in namespace scope defines the second name with the first one's signature.
#pragma once
#include "cuda/state.h"

namespace simgpu {
class PerThreadScope {
 public:
  PerThreadScope() : before_(t_per_thread_default) { t_per_thread_default = true; }
  ~PerThreadScope() { t_per_thread_default = before_; }
  PerThreadScope(const PerThreadScope&) = delete;
  PerThreadScope& operator=(const PerThreadScope&) = delete;

 private:
  bool before_;
};
}  // namespace simgpu

namespace simgpu {
template <auto base>
struct PerThread;
template <class Result, class... Arguments, Result (*base)(Arguments...)>
struct PerThread<base> {
  static Result call(Arguments... arguments) {
    const PerThreadScope scope;
    return base(arguments...);
  }
};
}  // namespace simgpu

// Goes where a pointer leads, with all arguments as they are.
#if defined(__aarch64__)
#define SIMGPU_JUMP_BY(pointer) \
  "\tadrp x16, " pointer "\n\tldr x16, [x16, #:lo12:" pointer "]\n\tbr x16\n"
#else
#define SIMGPU_JUMP_BY(pointer) "\tjmp *" pointer "(%rip)\n"
#endif

// A C name for an instance of a template: a jump through a pointer to it.  (g++ ignores an
// assembler label on a member of a class template, so the name cannot be given directly.)
#define SIMGPU_PER_THREAD(base, variant)                                                     \
  extern "C" {                                                                               \
  [[gnu::visibility("hidden")]] extern decltype(&base) const simgpu_to_##variant;            \
  [[gnu::used]] decltype(&base) const simgpu_to_##variant = &simgpu::PerThread<&base>::call; \
  }                                                                                          \
  __asm__(".text\n.globl " #variant "\n.type " #variant ",@function\n" #variant              \
          ":\n" SIMGPU_JUMP_BY("simgpu_to_" #variant) ".size " #variant ", .-" #variant "\n")
