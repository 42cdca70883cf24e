// One stack, taken three ways at the same place: by ours, by glibc's backtrace() and by libunwind.
#pragma once

#include <dlfcn.h>
#include <execinfo.h>
#include <stdio.h>

#include <algorithm>
#include <cstdint>
#include <string>

#include "interpose/stacks/native_frames.h"

namespace unwind_test {

// No vectors: stacks are also taken in signal handlers.
struct Frames {
  static constexpr size_t kMax = 4096;
  uint64_t addresses[kMax];
  size_t count = 0;

  bool operator==(const Frames& other) const {
    return std::equal(addresses, addresses + count, other.addresses, other.addresses + other.count);
  }
};

struct Stacks {
  Frames ours;
  Frames again;  // ours, with every rule known
  Frames glibc;
  Frames libunwind;  // empty: not installed
};

// libunwind.so exports the exception runtime's names: linked, it would take their place.  What it
// does at a thread's end comes too late for TSan.
using Backtrace = int (*)(void**, int);
inline Backtrace libunwind_backtrace() {
#if defined(__SANITIZE_THREAD__)
  return nullptr;
#else
  static const auto found = reinterpret_cast<Backtrace>([]() -> void* {
    void* library = dlopen("libunwind.so.8", RTLD_NOW | RTLD_LOCAL);
    return library != nullptr ? dlsym(library, "unw_backtrace") : nullptr;
  }());
  return found;
#endif
}

// On Arm64 it gives addresses inside the instructions that called.
inline int with(Backtrace libunwind, void** addresses) {
  const int count = libunwind(addresses, Frames::kMax);
#if defined(__aarch64__)
  for (int i = 0; i < count; ++i) {
    const auto address = reinterpret_cast<uint64_t>(addresses[i]);
    addresses[i] = reinterpret_cast<void*>(address % 4 == 3 ? address + 1 : address);
  }
#endif
  return count;
}

// Without the first frames, which are in the function that asked and in what a sanitizer puts
// around backtrace().
inline void keep_callers(void* const* addresses, int count, const Frames& ours, Frames& into) {
  const auto* words = reinterpret_cast<const uint64_t*>(addresses);
  const uint64_t* first = std::find(words, words + std::min(count, 3), ours.addresses[0]);
  into.count = static_cast<size_t>(words + count - first);
  std::copy(first, words + count, into.addresses);
}

// The callers of the function that this is expanded in.
#define TT_TAKE_STACKS(into)                                                                      \
  do {                                                                                            \
    using unwind_test::Frames;                                                                    \
    const traintrace::WalkStart frame_ = traintrace::walk_from_here();                            \
    (into).ours.count = traintrace::native_frames(frame_, (into).ours.addresses, Frames::kMax);   \
    (into).again.count = traintrace::native_frames(frame_, (into).again.addresses, Frames::kMax); \
    static thread_local void* addresses_[Frames::kMax];                                           \
    unwind_test::keep_callers(addresses_, backtrace(addresses_, Frames::kMax), (into).ours,       \
                              (into).glibc);                                                      \
    (into).libunwind.count = 0;                                                                   \
    if (unwind_test::Backtrace libunwind_ = unwind_test::libunwind_backtrace()) {                 \
      unwind_test::keep_callers(addresses_, unwind_test::with(libunwind_, addresses_),            \
                                (into).ours, (into).libunwind);                                   \
    }                                                                                             \
  } while (false)

// Names where there are any, for messages.
inline std::string text_of(const Frames& frames) {
  std::string text;
  for (size_t i = 0; i < frames.count; ++i) {
    const uint64_t address = frames.addresses[i];
    Dl_info info{};
    char line[512];
    if (dladdr(reinterpret_cast<void*>(address), &info) == 0) {
      info = {};
    }
    snprintf(line, sizeof line, "  %#lx %s %s+%#lx\n", address,
             info.dli_fname != nullptr ? info.dli_fname : "?",
             info.dli_sname != nullptr ? info.dli_sname : "?",
             address - reinterpret_cast<uint64_t>(info.dli_fbase));
    text += line;
  }
  return text;
}

// Empty where all are the same.
inline std::string difference(const Stacks& stacks) {
  if (!(stacks.ours == stacks.again)) {
    return "ours:\n" + text_of(stacks.ours) + "again:\n" + text_of(stacks.again);
  }
  if (!(stacks.ours == stacks.glibc)) {
    return "ours:\n" + text_of(stacks.ours) + "glibc:\n" + text_of(stacks.glibc);
  }
  if (stacks.libunwind.count != 0 && !(stacks.ours == stacks.libunwind)) {
    return "ours:\n" + text_of(stacks.ours) + "libunwind:\n" + text_of(stacks.libunwind);
  }
  return {};
}

}  // namespace unwind_test
