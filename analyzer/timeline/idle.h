// Why a GPU did nothing, gap by gap.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <span>

#include "analyzer/timeline/timeline.h"

namespace traintrace {

// A gap is cut in two where the next piece of work was launched.  From there on it is the launch's
// latency; before, the host was late, for what the launching thread did meanwhile.  Where all was
// launched before the gap began, something on the GPU's side made it wait.
enum class IdleCause : uint8_t {
  kDataStarvation,  // the thread was in the loader
  kSyncInduced,     // a call that waits for the GPU returned in the gap: nothing was queued
  kAllocator,       // it took or gave back memory, or loaded code
  kHostPeerWait,    // it waited for other processes without the GPU
  kHostBound,       // none of these: the host is too slow
  kLaunchLatency,   // launched, and not begun
  kCommunicationWait,
  kStragglerWait,
  kCopyWait,
  kKernelGap,      // launched long before, less than 10 us
  kDependency,     // launched long before, waits for something that is not known
  kGraphInternal,  // within one replay of a graph
  kUnattributed,   // what launched it was not recorded
};
inline constexpr size_t kIdleCauses = 13;
// As in reports.
extern const std::array<const char*, kIdleCauses> kIdleCauseNames;

using IdleTimes = std::array<int64_t, kIdleCauses>;  // ns, by cause

// A part of a gap.
struct IdleCharge {
  IdleCause cause;
  int64_t ns;
  // What the host did: the last call of that kind in the part, for kHostBound and kLaunchLatency
  // the launch; null where the cause is on the GPU's side.
  const HostCall* call;
  const GpuWork* next;  // what ends the gap
};

// Whether the host is the reason, as far as known.
bool is_hosts(IdleCause cause);

// Parts of gaps in their order; `work` as below.
void visit_idle(const Timeline& timeline, std::span<const GpuWork> work,
                const std::function<void(const IdleCharge&)>& visit);

// `work`: of one device of the timeline, by start.  The sum is exactly the idle time of
// partition_of.
IdleTimes idle_by_cause(const Timeline& timeline, std::span<const GpuWork> work);

}  // namespace traintrace
