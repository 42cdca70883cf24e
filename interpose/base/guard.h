// Whether this process records, in one word that every intercepted call reads first.
#pragma once

#include <cstddef>
#include <cstdint>

namespace traintrace {

enum class ArmState : uint32_t { kUnarmed, kArming, kArmed, kSteppedAside };

// Of any kernel: those of Arm64 may have pages of 64 KiB, and wipe nothing smaller.
#ifdef __aarch64__
inline constexpr size_t kLargestPage = 65536;
#else
inline constexpr size_t kLargestPage = 4096;
#endif

// A forked child finds this page zeroed whatever it was forked by (MADV_WIPEONFORK): it is not
// armed and never writes into its parent's trace.
union GuardPage {
  struct {
    uint64_t armed;       // generation of the trace, 0: not armed
    uint32_t state;       // ArmState
    uint32_t counts;      // 1: there is a trace to count losses in; before it is armed
    uint32_t own_thread;  // that arms, once it runs
  } words;
  char page[kLargestPage];
};
extern GuardPage g_guard;

inline uint64_t armed_generation() noexcept {
  return __atomic_load_n(&g_guard.words.armed, __ATOMIC_ACQUIRE);
}

}  // namespace traintrace
