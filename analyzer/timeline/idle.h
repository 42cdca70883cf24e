// Why a GPU did nothing, gap by gap.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <span>

#include "analyzer/timeline/timeline.h"

namespace traintrace {

// A gap is cut where the call that launched the next piece of work began and where it returned.
// Before, the host was late, for what the launching thread did meanwhile.  Inside, the call itself
// took that long.  After it the GPU needs a moment to begin; what takes longer than that, or was
// launched before the gap began, waits for something on the GPU's side.
enum class IdleCause : uint8_t {
  kDataStarvation,  // the thread was in the loader
  kSyncInduced,     // a call that waits for the GPU returned in the gap: nothing was queued
  kAllocator,       // it took or gave back memory, or loaded code; or had done so instead
  kHostPeerWait,    // it waited for other processes without the GPU
  kHostBound,       // none of these: the host is too slow
  kLazyLoad,        // inside the first launch of a kernel, which loads its code
  kLaunchCall,      // inside any other call that launches
  kLaunchLatency,   // that call has returned, and the GPU has not begun yet; kMostLatencyNs at most
  kCommunicationWait,
  kStragglerWait,
  kCopyWait,
  kKernelGap,      // launched long before, less than 10 us
  kDependency,     // launched long before, waits for something that is not known
  kGraphInternal,  // within one replay of a graph
  kUnattributed,   // what launched it was not recorded
};
inline constexpr size_t kIdleCauses = 15;
// As in reports.
extern const std::array<const char*, kIdleCauses> kIdleCauseNames;

using IdleTimes = std::array<int64_t, kIdleCauses>;  // ns, by cause

// A part of a gap.
struct IdleCharge {
  IdleCause cause;
  int64_t ns;
  // What the host did: the last call of that kind in the part, or the one that let the GPU run dry
  // before it (so by_host of kHostBound), else for kHostBound, kLazyLoad, kLaunchCall and
  // kLaunchLatency the launch; null where the cause is on the GPU's side.
  const HostCall* call;
  const GpuWork* next;  // what ends the gap
  Span gap;             // all of it
  int64_t begin_ns;     // where in the gap the part stands
  // Of kHostBound: the frame of the user's in which the launching thread was for most of it, in
  // Timeline::names.
  uint32_t spent_in = kNoName;
};

// Whether the host is the reason, as far as known.
bool is_hosts(IdleCause cause);
// Whether it is charged to the launch of what ends the gap.
bool is_launch(IdleCause cause);

// Parts of gaps in their order; `work` as below.  None reaches beyond one of `cuts`, which are in
// order: why a gap is there does not depend on them, and what has a cause adds up to the same.
void visit_idle(const Timeline& timeline, std::span<const GpuWork> work,
                const std::function<void(const IdleCharge&)>& visit,
                std::span<const int64_t> cuts = {});

// `work`: of one device of the timeline, by start.  The sum is exactly the idle time of
// partition_of.
IdleTimes idle_by_cause(const Timeline& timeline, std::span<const GpuWork> work);
// The same from each of `starts`, which are in order, to the next; the last is open.
std::vector<IdleTimes> idle_by_cause(const Timeline& timeline, std::span<const GpuWork> work,
                                     std::span<const int64_t> starts);

}  // namespace traintrace
