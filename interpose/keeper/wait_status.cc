#include "interpose/keeper/wait_status.h"

#include <poll.h>
#include <sys/ioctl.h>

#include <cstdint>

namespace traintrace {
namespace {

// <linux/pidfd.h> of Linux 6.15; older headers lack it.
struct PidfdInfo {
  uint64_t mask;
  uint64_t cgroup_id;
  uint32_t ids[11];
  int32_t exit_code;
};
static_assert(sizeof(PidfdInfo) == 64);
constexpr uint64_t kExitWanted = 1 << 3;
constexpr auto kGetInfo = _IOWR(0xFF, 11, PidfdInfo);

}  // namespace

bool wait_status_of(int process, int& status) noexcept {
  constexpr int kReapedWithinMs = 200;
  if (process < 0) {
    return false;
  }
  // Told only once it was waited for: POLLHUP.
  pollfd reaped = {process, 0, 0};
  poll(&reaped, 1, kReapedWithinMs);
  PidfdInfo info = {};
  info.mask = kExitWanted;
  if (ioctl(process, kGetInfo, &info) != 0 || (info.mask & kExitWanted) == 0) {
    return false;
  }
  status = info.exit_code;
  return true;
}

}  // namespace traintrace
