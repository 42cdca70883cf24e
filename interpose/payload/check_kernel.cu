// The kernel of TRAINTRACE_PAYLOAD=check, compiled by scripts/check-kernel without any header of
// CUDA.
#include "interpose/payload/check_kernel.h"

namespace {

using traintrace::check::LaneTally;
using traintrace::format::kPayloadRows;
using traintrace::format::PayloadCell;

constexpr uint32_t kLanes = 256;
static_assert(kLanes % kPayloadRows == 0);

// Of twice as many as are left.
__attribute__((device)) void join_halves(LaneTally* lanes, uint32_t lane, uint32_t from,
                                         uint32_t to) {
  for (uint32_t half = from / 2; half >= to; half /= 2) {
    __syncthreads();
    if (lane < half) {
      traintrace::check::join(lanes[lane], lanes[lane + half]);
    }
  }
}

}  // namespace

extern "C" __attribute__((global)) void traintrace_check(traintrace::check::Launch launch) {
  static __attribute__((shared)) LaneTally lanes[kLanes];
  const uint32_t lane = __nvvm_read_ptx_sreg_tid_x();
  const uint32_t block = __nvvm_read_ptx_sreg_ctaid_x();
  lanes[lane] = traintrace::check::tally_of(
      traintrace::check::share_of(launch, block, lane, kLanes), launch.type);
  PayloadCell& cell = launch.cells[block];
  join_halves(lanes, lane, kLanes, kPayloadRows);
  if (lane < kPayloadRows) {
    cell.rows[lane] = traintrace::check::row_of(lanes[lane]);
    __nvvm_membar_sys();  // before the stamp, by way of the barriers
  }
  join_halves(lanes, lane, kPayloadRows, 1);
  if (lane == 0) {
    cell.tally = lanes[0].tally;
    __nvvm_membar_sys();
    *const_cast<volatile uint64_t*>(&cell.stamp) = launch.stamp;
  }
}
