// Sends from rank to rank, and the receives that they belong to.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "analyzer/timeline/timeline.h"

namespace traintrace {

// The kernel that does it.
struct MessageSide {
  size_t timeline = 0;  // its place
  size_t work = 0;      // in Timeline::work
  int64_t start_ns = 0, end_ns = 0;
};

// Times are of one clock, which that of others need not be.
struct MatchedMessage {
  MessageSide send, receive;
  // The sender waits until the receiver has come.  Else what it sends has room in NCCL's buffers.
  bool sender_waits = true;
};

// Matched by communicator, ranks and order, as NCCL matches them.  Where one side was recorded
// earlier or longer, by when they end.  Those of which that leaves doubt are left out: numbers that
// differ, bytes that differ, data that would arrive before they are sent.
std::vector<MatchedMessage> matched_messages(std::span<const Timeline> timelines);

}  // namespace traintrace
