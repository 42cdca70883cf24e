#include "analyzer/reader/sections/communicators.h"

#include <algorithm>
#include <unordered_set>

#include "analyzer/reader/sections/definition_chunks.h"
#include "analyzer/reader/sections/elements.h"

namespace traintrace {
namespace {

// The hash that belongs to a counter which was read an instant before or after it.
template <class Counted>
uint64_t hash_at(const Counted& from, uint64_t count) {
  for (const format::Checkpoint& latest : from.latest) {
    if (latest.sequence == count && count != 0) {
      return latest.hash;
    }
  }
  return from.hash;
}

CommunicatorText communicator_text(const TraceClock& clock, const format::Communicator& from) {
  CommunicatorText to;
  to.id = from.id;
  to.parent = from.parent;
  to.nccl_hash = from.nccl_hash;
  to.handle = from.handle;
  if (from.origin >= format::kInitRank && from.origin <= format::kGrow) {
    to.origin = static_cast<format::CommunicatorOrigin>(from.origin);
  }
  to.size = from.size;
  to.rank = from.rank;
  to.device = from.device;
  to.color = from.color;
  to.key = from.key;
  to.ordinal = from.ordinal;
  to.flags = from.flags;
  to.async_error = from.async_error;
  to.created = clock.ns(from.created_ticks);
  to.ready = clock.ns(from.ready_ticks);
  to.ended = clock.ns(from.ended_ticks);
  to.last = clock.ns(from.last_ticks);
  to.errored = clock.ns(from.error_ticks);
  to.created_stack = from.created_stack;
  to.ended_stack = from.ended_stack;
  to.name = std::string(from.name, std::find(from.name, std::end(from.name), '\0'));
  to.collectives = from.collectives;
  to.hash = hash_at(from, from.collectives);
  to.operations = from.operations;
  to.members_hash = from.members_hash;
  to.parent_index = from.parent_index;
  for (const format::Checkpoint& checkpoint : from.checkpoints) {
    if (checkpoint.sequence != 0 && checkpoint.sequence <= from.collectives) {
      to.checkpoints.push_back(checkpoint);
    }
  }
  std::sort(to.checkpoints.begin(), to.checkpoints.end(),
            [](const format::Checkpoint& a, const format::Checkpoint& b) {
              return a.sequence < b.sequence;
            });
  return to;
}

// The operation's number, of which the table keeps 32 bits: near `operations`, the number that the
// communicator's counter shows.
uint64_t full_index(uint32_t low, uint64_t operations) {
  constexpr uint64_t kLap = uint64_t{1} << 32;
  uint64_t index = (operations & ~(kLap - 1)) | low;
  if (index > operations + format::kRecentOperations && index >= kLap) {
    index -= kLap;
  }
  return index;
}

OperationText operation_text(ReadContext& context, const format::Operation& from,
                             uint64_t operations) {
  OperationText to;
  to.index = full_index(from.index_low, operations);
  to.sequence = from.sequence;
  to.call = context.schema.call(from.call);
  to.stack = from.stack;
  to.enter = context.clock.ns(from.enter_ticks);
  to.leave = context.clock.ns(from.leave_ticks);
  to.count = from.count;
  to.data_type = from.data_type == 255 ? -1 : from.data_type;
  to.reduction = from.reduction;
  // In version 1 the upper half of the reduction lies there.
  to.group = context.layout.header.version < 2 ? 0 : from.group;
  to.peer = from.peer;
  to.flags = from.flags;
  to.stream = mapped(context.streams, from.stream);
  to.position = from.position;
  const CallSchema& call = context.schema.calls[to.call];
  to.collective = call.kind == "collective";
  to.receive = call.name.find("Recv") != std::string::npos;
  return to;
}

void read_operations(ReadContext& context) {
  const format::Section* section = context.layout.section(format::kOperations);
  if (section == nullptr) {
    return;
  }
  std::vector<CommunicatorText>& communicators = context.trace.communicators;
  read_elements<format::Operation>(
      context.file, *section,
      [](const format::Operation& operation) { return operation.enter_ticks != 0; },
      [](const format::Operation& a, const format::Operation& b) {
        return a.enter_ticks == b.enter_ticks && a.index_low == b.index_low &&
               a.sequence == b.sequence;
      },
      [&](uint64_t index, const format::Operation& operation) {
        const uint64_t owner = mapped(context.communicators, index / format::kRecentOperations + 1);
        const bool in_place =
            operation.index_low % format::kRecentOperations == index % format::kRecentOperations;
        if (owner != 0 && in_place) {
          CommunicatorText& communicator = communicators[owner - 1];
          const OperationText text = operation_text(context, operation, communicator.operations);
          if (text.enter >= communicator.created) {  // else of whose place it was
            communicator.recent.push_back(text);
          }
        }
      });
  for (CommunicatorText& communicator : communicators) {
    std::sort(communicator.recent.begin(), communicator.recent.end(),
              [](const OperationText& a, const OperationText& b) { return a.index < b.index; });
  }
}

void read_peers(ReadContext& context) {
  const format::Section* section = context.layout.section(format::kPeers);
  if (section == nullptr) {
    return;
  }
  read_elements<format::Peer>(
      context.file, *section, [](const format::Peer& peer) { return peer.communicator != 0; },
      [](const format::Peer& a, const format::Peer& b) { return a.operations == b.operations; },
      [&](uint64_t, const format::Peer& from) {
        PeerText peer;
        peer.communicator = mapped(context.communicators_by_number, from.communicator);
        peer.receive = from.is_receive != 0;
        peer.peer = from.peer;
        peer.operations = from.operations;
        peer.hash = hash_at(from, from.operations);
        peer.last = context.clock.ns(from.last_ticks);
        if (peer.communicator != 0) {
          context.trace.peers.push_back(peer);
        }
      });
  std::sort(context.trace.peers.begin(), context.trace.peers.end(),
            [](const PeerText& a, const PeerText& b) {
              return std::tuple(a.communicator, a.receive, a.peer) <
                     std::tuple(b.communicator, b.receive, b.peer);
            });
}

// Where it lies in the table; those that gave their place to others are in none.
struct Numbered {
  static constexpr uint64_t kNowhere = ~uint64_t{0};
  uint64_t number;
  uint64_t index;
  uint64_t created_ticks;
  CommunicatorText text;
};

void read_elements_in_use(ReadContext& context, const format::Section& section,
                          std::vector<Numbered>& into) {
  read_elements<format::Communicator>(
      context.file, section,
      [](const format::Communicator& communicator) { return communicator.used != 0; },
      [](const format::Communicator& a, const format::Communicator& b) {
        return a.used == b.used && a.number == b.number && a.id == b.id &&
               a.collectives == b.collectives;
      },
      [&](uint64_t index, const format::Communicator& from) {
        into.push_back({from.number == 0 ? index + 1 : from.number, index, from.created_ticks,
                        communicator_text(context.clock, from)});
      });
}

// After the table: what lost its place meanwhile is in both.
void read_ended(ReadContext& context, std::vector<Numbered>& into) {
  std::unordered_set<uint64_t> known;
  for (const Numbered& each : into) {
    known.insert(each.number);
  }
  constexpr size_t kHead = sizeof(format::EndedCommunicatorDefinition);
  for_each_definition(context, format::kEndedCommunicator, [&](std::span<const std::byte> bytes) {
    const auto head = value_from<format::EndedCommunicatorDefinition>(bytes);
    if (bytes.size() < kHead || head.communicator_bytes > bytes.size() - kHead ||
        !known.insert(head.number).second) {
      return;
    }
    const auto from =
        value_from<format::Communicator>(bytes.subspan(kHead, head.communicator_bytes));
    into.push_back({head.number, Numbered::kNowhere, from.created_ticks,
                    communicator_text(context.clock, from)});
  });
}

}  // namespace

void read_communicators(ReadContext& context) {
  const format::Section* section = context.layout.section(format::kCommunicators);
  if (section == nullptr) {
    return;
  }
  std::vector<Numbered> all;
  read_elements_in_use(context, *section, all);
  const size_t in_table = all.size();
  read_ended(context, all);
  if (all.size() > in_table) {  // else in the order of the table, where parents come first
    std::stable_sort(all.begin(), all.end(), [](const Numbered& a, const Numbered& b) {
      return a.created_ticks < b.created_ticks;
    });
  }
  for (Numbered& each : all) {
    context.trace.communicators.push_back(std::move(each.text));
    const auto place = static_cast<uint32_t>(context.trace.communicators.size());
    context.communicators_by_number[each.number] = place;
    if (each.index != Numbered::kNowhere) {
      context.communicators.resize(std::max<size_t>(context.communicators.size(), each.index + 1));
      context.communicators[each.index] = place;
    }
  }
  for (CommunicatorText& communicator : context.trace.communicators) {
    communicator.parent_index = mapped(context.communicators_by_number, communicator.parent_index);
  }
  read_operations(context);
  read_peers(context);
}

}  // namespace traintrace
