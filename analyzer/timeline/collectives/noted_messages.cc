#include "analyzer/timeline/collectives/noted_messages.h"

#include <functional>
#include <string>

namespace traintrace {

bool is_send(std::string_view operation) {
  return operation.starts_with("send") || operation.starts_with("ncclSend");
}
bool is_receive(std::string_view operation) {
  return operation.starts_with("recv") || operation.starts_with("ncclRecv");
}

void add_noted_messages(Timeline& timeline) {
  if (!timeline.messages.empty() || !timeline.rank || timeline.rank_from == RankSource::kNobody) {
    return;
  }
  const auto text_of = [&](uint32_t name) {
    return name == kNoName ? std::string() : timeline.names[name];
  };
  for (const CollectiveNote& note : timeline.collectives) {
    if (note.peer < 0 || note.peer == *timeline.rank || note.group == kNoName) {
      continue;
    }
    const uint64_t communicator =
        std::hash<std::string>()(text_of(note.group) + ' ' + text_of(note.members));
    timeline.messages.push_back({note.correlation, communicator, *timeline.rank, note.peer,
                                 note.bytes, is_receive(text_of(note.operation))});
  }
}

}  // namespace traintrace
