#include "analyzer/reader/move_times.h"

#include <algorithm>
#include <initializer_list>

#include "analyzer/reader/sections/stored_reports.h"

namespace traintrace {
namespace {

class Mover {
 public:
  explicit Mover(TimeNs by) : by_(by) {}

  // 0 means that nothing is known, and stays.  Times of a damaged trace may be anything.
  void move(TimeNs& time) const {
    TimeNs moved = 0;
    if (time != 0 && !__builtin_add_overflow(time, by_, &moved)) {
      time = moved == 0 ? 1 : moved;
    }
  }

  template <class List, class... Field>
  void move_all(List& list, Field... fields) const {
    for (auto& element : list) {
      (move(element.*fields), ...);
    }
  }

 private:
  TimeNs by_;
};

void move_threads(const Mover& mover, std::vector<ThreadText>& threads) {
  for (ThreadText& thread : threads) {
    for (TimeNs* time :
         {&thread.started, &thread.ended, &thread.last_call_time, &thread.last_query_time}) {
      mover.move(*time);
    }
    for (ThreadText::Open& open : thread.open) {
      mover.move(open.enter);
    }
    mover.move_all(thread.ranges, &OpenRangeText::began);
  }
}

void move_communicators(const Mover& mover, std::vector<CommunicatorText>& communicators) {
  mover.move_all(communicators, &CommunicatorText::created, &CommunicatorText::ready,
                 &CommunicatorText::ended, &CommunicatorText::last, &CommunicatorText::errored);
  for (CommunicatorText& communicator : communicators) {
    mover.move_all(communicator.recent, &OperationText::enter, &OperationText::leave,
                   &OperationText::completed);
  }
}

}  // namespace

void move_times(ProcessTrace& trace, TimeNs by) {
  const Mover mover(by);
  for (TimeNs* time : {&trace.armed, &trace.last_alive, &trace.exited, &trace.gone,
                       &trace.first_limit, &trace.booted_at_first, &trace.booted, &trace.looked}) {
    mover.move(*time);
  }
  move_threads(mover, trace.threads);
  move_communicators(mover, trace.communicators);
  mover.move_all(trace.peers, &PeerText::last);
  mover.move_all(trace.streams, &StreamText::completed_time, &StreamText::created,
                 &StreamText::destroyed);
  mover.move_all(trace.host_functions, &HostFunctionText::enqueued, &HostFunctionText::entered,
                 &HostFunctionText::left);
  mover.move_all(trace.allocations, &AllocationText::time);
  mover.move_all(trace.tensor_blocks, &TensorBlockText::time);
  mover.move_all(trace.freed_blocks, &FreedBlockText::time, &FreedBlockText::freed);
  mover.move_all(trace.tensor_devices, &TensorDeviceText::time, &TensorDeviceText::peak_time);
  mover.move_all(trace.out_of_memory, &OutOfMemoryText::time, &OutOfMemoryText::asked);
  mover.move_all(trace.events, &CallRecord::enter, &CallRecord::leave);
  if (trace.stored_reports != nullptr) {
    trace.stored_reports =
        std::make_shared<const StoredReports>(trace.stored_reports->moved_by(by));
  }
}

}  // namespace traintrace
