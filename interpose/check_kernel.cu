// The kernel of TRAINTRACE_PAYLOAD=check, compiled by scripts/check-kernel without any header of
// CUDA.
#include "interpose/check_kernel.h"

namespace {

using traintrace::format::PayloadCell;
using traintrace::format::PayloadTally;

constexpr uint32_t kLanes = 256;

}  // namespace

extern "C" __attribute__((global)) void traintrace_check(traintrace::check::Launch launch) {
  static __attribute__((shared)) PayloadTally tallies[kLanes];
  const uint32_t lane = __nvvm_read_ptx_sreg_tid_x();
  const uint32_t block = __nvvm_read_ptx_sreg_ctaid_x();
  tallies[lane] = traintrace::check::tally_of(
      traintrace::check::share_of(launch, block, lane, kLanes), launch.type);
  for (uint32_t half = kLanes / 2; half != 0; half /= 2) {
    __syncthreads();
    if (lane < half) {
      traintrace::check::join(tallies[lane], tallies[lane + half]);
    }
  }
  if (lane == 0) {
    PayloadCell& cell = launch.cells[block];
    cell.tally = tallies[0];
    __nvvm_membar_sys();
    *const_cast<volatile uint64_t*>(&cell.stamp) = launch.stamp;
  }
}
