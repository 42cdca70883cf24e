#include <algorithm>
#include <climits>
#include <cstdlib>
#include <cstring>

#include "nccl/comm.h"
#include "nccl/debug.h"

namespace simgpu::nccl {
namespace {

constexpr unsigned kConfigMagic = 0xcafebeef;

// The caller may have been compiled against another header: what an older one lacks is undefined,
// what a newer one adds is left out.
ncclResult_t widen(const ncclConfig_t& given, ncclConfig_t& out) {
  size_t size = 0;
  memcpy(&size, &given, sizeof size);
  if (size < offsetof(ncclConfig_t, blocking) + sizeof(int)) {
    warn("ncclConfig_t is not initialized: its size is %zu", size);
    return ncclInvalidArgument;
  }
  memcpy(&out, &given, std::min(size, sizeof out));
  if (out.magic != kConfigMagic) {
    warn("ncclConfig_t is not initialized via NCCL_CONFIG_INITIALIZER");
    return ncclInvalidArgument;
  }
  return ncclSuccess;
}

bool undefined_or_between(int value, int least, int most) {
  return value == NCCL_CONFIG_UNDEF_INT || (value >= least && value <= most);
}

ncclResult_t check(bool valid, const char* attribute, int value) {
  if (!valid) {
    warn("Invalid config %s attribute value %d", attribute, value);
    return ncclInvalidArgument;
  }
  return ncclSuccess;
}

ncclResult_t check_values(const ncclConfig_t& config) {
  struct Range {
    const char* attribute;
    int value, least, most;
  };
  const Range ranges[] = {
      {"blocking", config.blocking, 0, 1},
      {"cgaClusterSize", config.cgaClusterSize, 0, INT_MAX},
      {"minCTAs", config.minCTAs, 1, INT_MAX},
      {"maxCTAs", config.maxCTAs, 1, INT_MAX},
      {"splitShare", config.splitShare, 0, 1},
      {"collnetEnable", config.collnetEnable, 0, 1},
      {"CTAPolicy", config.CTAPolicy, 0, NCCL_CTA_POLICY_EFFICIENCY | NCCL_CTA_POLICY_ZERO},
      {"shrinkShare", config.shrinkShare, 0, 1},
      {"nvlsCTAs", config.nvlsCTAs, 1, INT_MAX},
      {"nChannelsPerNetPeer", config.nChannelsPerNetPeer, 1, INT_MAX},
      {"nvlinkCentricSched", config.nvlinkCentricSched, 0, 1},
  };
  for (const Range& range : ranges) {
    const bool valid = undefined_or_between(range.value, range.least, range.most);
    if (const ncclResult_t result = check(valid, range.attribute, range.value);
        result != ncclSuccess) {
      return result;
    }
  }
  const bool both =
      config.minCTAs != NCCL_CONFIG_UNDEF_INT && config.maxCTAs != NCCL_CONFIG_UNDEF_INT;
  return check(!both || config.minCTAs <= config.maxCTAs, "minCTAs", config.minCTAs);
}

void take(int value, bool& out) {
  if (value != NCCL_CONFIG_UNDEF_INT) {
    out = value != 0;
  }
}

}  // namespace

ncclResult_t parse_config(const ncclConfig_t* given, const Config* parent, Config& out) {
  out = parent ? *parent : Config{};
  if (parent) {
    out.name.clear();  // a child is not called like its parent
  }
  if (given) {
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    if (const ncclResult_t result = widen(*given, config); result != ncclSuccess) {
      return result;
    }
    if (const ncclResult_t result = check_values(config); result != ncclSuccess) {
      return result;
    }
    take(config.blocking, out.blocking);
    take(config.splitShare, out.split_share);
    take(config.shrinkShare, out.shrink_share);
    out.name = config.commName ? config.commName : "";
  }
  if (const char* forced = getenv("NCCL_COMM_BLOCKING")) {
    out.blocking = strcmp(forced, "0") != 0;
  }
  return ncclSuccess;
}

}  // namespace simgpu::nccl
