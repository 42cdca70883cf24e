#include "analyzer/model/process/own_threads.h"

#include <algorithm>
#include <iterator>
#include <set>
#include <string_view>

#include "analyzer/model/process/activity.h"

namespace traintrace {
namespace {

bool is_one_of(std::string_view kind, std::initializer_list<std::string_view> kinds) {
  return std::find(kinds.begin(), kinds.end(), kind) != kinds.end();
}

bool is_of_nccl(const CallSchema& schema) {
  return is_one_of(schema.kind, {"collective", "send-recv"});
}

// What a thread does on the device that it has chosen.  Choosing one is done on the one before.
bool is_work(const CallSchema& schema) {
  return is_one_of(schema.kind,
                   {"sync", "copy", "set", "alloc", "free", "launch", "graph-launch", "query"});
}

}  // namespace

std::vector<uint32_t> own_threads(const ProcessTrace& trace, const RankSeat& seat) {
  std::set<uint32_t> issuing;  // operations of this rank
  std::set<uint32_t> working;  // on its device
  std::set<uint32_t> known;    // for whichever rank
  for (const CallRecord& event : trace.events) {
    const CallSchema* const schema = seat.device < 0 ? nullptr : schema_of(trace, event.call);
    if (schema == nullptr || event.moment || (!is_of_nccl(*schema) && !is_work(*schema))) {
      continue;
    }
    known.insert(event.thread);
    const uint64_t element = is_of_nccl(*schema) ? communicator_of(trace, event) : 0;
    if (element != 0 && std::find(seat.communicators.begin(), seat.communicators.end(),
                                  element - 1) != seat.communicators.end()) {
      issuing.insert(event.thread);
    } else if (element == 0 && event.device == seat.device) {
      working.insert(event.thread);
    }
  }
  std::vector<uint32_t> own;
  for (const ThreadText& thread : trace.threads) {
    if (!issuing.empty() && (issuing.contains(thread.serial) || working.contains(thread.serial) ||
                             !known.contains(thread.serial))) {
      own.push_back(thread.serial);
    }
  }
  return own;
}

}  // namespace traintrace
