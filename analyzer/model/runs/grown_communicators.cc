#include "analyzer/model/runs/grown_communicators.h"

#include <algorithm>
#include <map>
#include <vector>

#include "format/hashes.h"

namespace traintrace {
namespace {

using Ids = std::map<uint64_t, uint64_t>;

bool has_joined(const CommunicatorText& text) {
  return text.origin == format::kGrow && text.parent == 0;
}

// By the hash of the unique id.
Ids ids_of_growths(std::span<const ProcessTrace> traces) {
  Ids ids;
  for (const ProcessTrace& trace : traces) {
    for (const CommunicatorText& text : trace.communicators) {
      if (text.origin == format::kGrow && text.parent != 0 && text.nccl_hash != 0) {
        ids.emplace(text.nccl_hash, text.id);
      }
    }
  }
  return ids;
}

// As the recorder made it, of another parent.
uint64_t child_id(const CommunicatorText& text, uint64_t parent) {
  return text.origin == format::kSplit
             ? format::nccl_child_hash(parent, static_cast<int32_t>(text.ordinal), text.color)
             : format::child_id(parent, text.members_hash, text.ordinal);
}

// Parents were created before their children.
void rename(ProcessTrace& trace, const Ids& growths) {
  std::vector<CommunicatorText*> order;
  for (CommunicatorText& text : trace.communicators) {
    order.push_back(&text);
  }
  std::stable_sort(order.begin(), order.end(),
                   [](const auto* a, const auto* b) { return a->created < b->created; });
  Ids renamed;
  for (CommunicatorText* text : order) {
    const auto growth = has_joined(*text) ? growths.find(text->nccl_hash) : growths.end();
    const auto parent = text->parent == 0 ? renamed.end() : renamed.find(text->parent);
    uint64_t id = text->id;
    if (growth != growths.end()) {
      id = growth->second;
    } else if (parent != renamed.end()) {
      id = child_id(*text, parent->second);
      text->parent = parent->second;
    }
    if (id != text->id) {
      renamed.emplace(text->id, id);
      text->id = id;
    }
  }
}

}  // namespace

void unite_grown_communicators(std::span<ProcessTrace> traces) {
  const Ids growths = ids_of_growths(traces);
  if (growths.empty()) {
    return;
  }
  for (ProcessTrace& trace : traces) {
    if (std::any_of(trace.communicators.begin(), trace.communicators.end(), has_joined)) {
      rename(trace, growths);
    }
  }
}

}  // namespace traintrace
