#include "analyzer/timeline/recorded/recorded_messages.h"

#include <algorithm>
#include <unordered_set>

#include "analyzer/model/progress.h"
#include "analyzer/timeline/recorded/recorded_words.h"

namespace traintrace {
namespace {

constexpr uint64_t kMostMessageElements = uint64_t{1} << 48;

}  // namespace

void RecordedMessages::add(const CallRecord& event, Thread& thread) const {
  const uint64_t communicator = value_of(trace_, event, "comm");
  if (communicator == 0 || communicator > trace_.communicators.size()) {
    return;
  }
  const CommunicatorText& text = trace_.communicators[communicator - 1];
  PeerMessage message = {};
  message.communicator = text.id;
  message.rank = text.rank;
  message.peer = static_cast<int32_t>(value_of(trace_, event, "peer"));
  message.receives = trace_.calls[event.call].name == "ncclRecv";
  const uint64_t size = bytes_of_type(static_cast<int>(value_of(trace_, event, "type")));
  const uint64_t count = value_of(trace_, event, "count");
  message.bytes =
      size != 0 && count <= kMostMessageElements ? static_cast<int64_t>(count * size) : -1;
  thread.calls.push_back({message, value_of(trace_, event, "stream")});
}

void RecordedMessages::called(const CallRecord& event) {
  const std::string& kind = trace_.calls[event.call].kind;
  if (kind == "group-start") {
    Thread& thread = threads_[event.thread];
    if (thread.depth++ == 0) {
      thread.calls.clear();
    }
  } else if (kind == "group-end") {
    Thread& thread = threads_[event.thread];
    thread.depth = std::max(0, thread.depth - 1);
  } else if (kind == "send-recv") {
    Thread& thread = threads_[event.thread];
    if (thread.depth == 0) {
      thread.calls.clear();
    }
    add(event, thread);
  }
}

// A group has a kernel for each communicator in it, and the calls say on which stream theirs is.
// A second kernel of one communicator goes on with what did not fit into the first.
void RecordedMessages::launched(const CallRecord& outermost, const CallRecord& event,
                                uint64_t correlation) {
  const std::string& kind = trace_.calls[outermost.call].kind;
  const auto thread = threads_.find(outermost.thread);
  if ((kind != "group-end" && kind != "send-recv") || thread == threads_.end()) {
    return;
  }
  const bool tells = event.call != outermost.call && has_field(trace_.calls[event.call], "stream");
  const uint64_t stream = tells ? value_of(trace_, event, "stream") : 0;
  for (const Call& call : thread->second.calls) {
    if (!tells || call.stream == stream) {
      messages_.push_back(call.message);
      messages_.back().correlation = correlation;
    }
  }
}

std::vector<PeerMessage> RecordedMessages::take(const std::vector<GpuWork>& work) {
  std::unordered_set<uint64_t> kernels;
  for (const GpuWork& each : work) {
    if (each.kind == WorkKind::kCommunication) {
      kernels.insert(each.correlation);
    }
  }
  std::erase_if(messages_,
                [&](const PeerMessage& message) { return !kernels.contains(message.correlation); });
  std::stable_sort(
      messages_.begin(), messages_.end(),
      [](const PeerMessage& a, const PeerMessage& b) { return a.correlation < b.correlation; });
  return std::move(messages_);
}

}  // namespace traintrace
