#include "analyzer/detectors/hang/message_text.h"

#include <fmt/format.h>

#include <algorithm>

#include "analyzer/detectors/evidence_lines.h"
#include "analyzer/detectors/hang/hang_finding.h"
#include "analyzer/model/communicators.h"
#include "analyzer/text/values.h"

namespace traintrace {
namespace {

std::string size_text(const OperationText& operation) {
  const auto bytes = bytes_of(operation);
  return fmt::format("{} {}{}", operation.count,
                     operation.data_type < 0 ? "elements" : data_type_name(operation.data_type),
                     bytes ? fmt::format(" ({} bytes)", *bytes) : "");
}

std::string place_of_call(const Run& run, const SideCall& call) {
  const auto place = user_place(run.processes[call.process], call.rank, call.item.operation.stack);
  return place ? fmt::format(", at {}", place_text(*place)) : "";
}

// "rank 1 -> rank 2, message #5"; rings that keep no beginning leave no number.
std::string name_of(const Message& message, uint64_t number) {
  return fmt::format("rank {} -> rank {}{}", message.send.rank.value, message.receive.rank.value,
                     number == 0 ? "" : fmt::format(", message #{}", number));
}

std::string disagreement(const Message& message) {
  return fmt::format("sent {}, expected {}", size_text(message.send.item.operation),
                     size_text(message.receive.item.operation));
}

const SideCall& sender_of(const Divergence& one) {
  return one.own.item.operation.receive ? one.expected : one.own;
}
const SideCall& receiver_of(const Divergence& one) {
  return one.own.item.operation.receive ? one.own : one.expected;
}

std::string order_text(const Divergence& one) {
  const bool receives = one.own.item.operation.receive;
  const SideCall& sent = receives ? one.expected_second : one.own_second;
  const SideCall& received = receives ? one.own_second : one.expected_second;
  return fmt::format("rank {} sends {}, then {}; rank {} receives {}, then {}",
                     sender_of(one).rank.value, size_text(sender_of(one).item.operation),
                     size_text(sent.item.operation), receiver_of(one).rank.value,
                     size_text(receiver_of(one).item.operation),
                     size_text(received.item.operation));
}

// "peer 5 (rank 169)": numbers of one communicator compare with what the others call.
static std::string called_peer(const Run& run, const Divergence& one) {
  const int number = one.own.item.operation.peer;
  const Member* const peer = member_at(run.communicators[one.used], number);
  if (peer != nullptr && one.used != one.communicator) {
    return fmt::format("rank {} for the first time", peer->rank.value);
  }
  return peer == nullptr || peer->rank.value == number
             ? fmt::format("peer {}", number)
             : fmt::format("peer {} (rank {})", number, peer->rank.value);
}

std::string wrong_peer_text(const Run& run, const Divergence& one) {
  const bool sends = !one.own.item.operation.receive;
  return fmt::format("rank {} {} {}{}, which does not {}; rank {} waits for its {}{}",
                     one.own.rank.value, sends ? "sends to" : "receives from",
                     called_peer(run, one), place_of_call(run, one.own),
                     sends ? "receive it" : "send it", one.expected.rank.value,
                     sends ? "send" : "receive", place_of_call(run, one.expected));
}

// "send to rank 6"
std::string message_to(const Run& run, size_t communicator, const SideCall& call) {
  const OperationText& operation = call.item.operation;
  if (operation.collective) {
    return call.item.function;
  }
  const Member* const peer = member_at(run.communicators[communicator], operation.peer);
  const std::string whom = peer == nullptr ? fmt::format("peer {}", operation.peer)
                                           : fmt::format("rank {}", peer->rank.value);
  return fmt::format("{} {} {}", operation.receive ? "receive" : "send",
                     operation.receive ? "from" : "to", whom);
}

std::string left_over_text(const Run& run, const Divergence& one) {
  const bool no_receive = one.kind == DivergenceKind::kMissingReceive;
  const uint64_t sent = no_receive ? one.sequence_last : one.sequence - 1;
  const uint64_t received = no_receive ? one.sequence - 1 : one.sequence_last;
  return fmt::format("rank {} sent {} message{} to rank {}, which {} {}, and both have ended{}",
                     one.own.rank.value, sent, sent == 1 ? "" : "s", one.expected.rank.value,
                     no_receive ? "received" : "called a receive for", received,
                     place_of_call(run, no_receive ? one.own : one.expected));
}

std::string longer_row_text(const Run& run, const Divergence& one) {
  return fmt::format("rank {} sent {} messages in a row to rank {}{}, and {} each time before",
                     one.own.rank.value, one.length, one.expected.rank.value,
                     place_of_call(run, one.own), one.length - 1);
}

std::string absence_text(const Run& run, const Divergence& one) {
  const bool no_receive = one.kind == DivergenceKind::kMissingReceive;
  const SideCall& there = no_receive ? sender_of(one) : receiver_of(one);
  const SideCall& other = no_receive ? receiver_of(one) : sender_of(one);
  return fmt::format("rank {} never {} message #{} that rank {} {}{}; what follows agrees",
                     other.rank.value, no_receive ? "received" : "sent", one.sequence,
                     there.rank.value, no_receive ? "sent" : "expects", place_of_call(run, there));
}

}  // namespace

std::string message_text(const Run& run, const Divergence& one) {
  const std::string on = " on communicator " + label_of(run, run.communicators[one.communicator]);
  switch (one.kind) {
    case DivergenceKind::kWrongPeer:
      return wrong_peer_text(run, one) + "," + on;
    case DivergenceKind::kMessageOrder:
      return order_text(one) + "," + on;
    case DivergenceKind::kMissingReceive:
    case DivergenceKind::kMissingSend:
      return (one.left_over                    ? left_over_text(run, one)
              : one.length > 1 && one.by_habit ? longer_row_text(run, one)
                                               : absence_text(run, one)) +
             "," + on;
    default:
      break;
  }
  const Message& first = one.messages.front();
  const size_t more = one.messages.size() - 1;
  return fmt::format(
      "{}{}: {}{}{}", one.kind == DivergenceKind::kExchange ? "all-to-all, " : "",
      name_of(first, first.send.item.operation.sequence) + on, disagreement(first),
      more == 0 ? "" : fmt::format("; and {} more like it", more),
      one.tie ? "" : fmt::format("; {} differs from the others", ranks_text(one.deviants)));
}

std::string departed_message_text(const Run& run, const Divergence& one) {
  const std::string who = ranks_text(one.deviants);
  const std::string on = " on communicator " + label_of(run, run.communicators[one.communicator]);
  const std::string expected = message_to(run, one.communicator, one.expected);
  const std::string place = place_of_call(run, one.expected);
  const std::string twins = ranks_text(one.twins);
  const char* const s = one.twins.size() == 1 ? "s" : "";
  switch (one.kind) {
    case DivergenceKind::kWrongPeer:
      return fmt::format(
          "{} issued a {}{} on communicator {} instead of a {}: {}, which run{s} the same calls, "
          "name{s} that peer",
          who, message_to(run, one.used, one.own), place_of_call(run, one.own),
          label_of(run, run.communicators[one.used]), expected, twins, fmt::arg("s", s));
    case DivergenceKind::kMessageOrder:
      return fmt::format("{} called {}{} before the {}{}{}, {} in the other order", who,
                         one.own.item.function, place_of_call(run, one.own), expected, on, place,
                         twins);
    default:
      break;
  }
  return fmt::format("{} left out a {}{}: {}, which run{} the same calls, issued it{}", who,
                     expected, on, twins, s, place);
}

std::vector<std::string> message_lines(const Run& run, const Divergence& one) {
  std::vector<std::string> lines;
  if (one.messages.size() < 2) {
    return lines;
  }
  for (size_t i = 0; i < std::min(one.messages.size(), kManyEvidenceLines); ++i) {
    const Message& message = one.messages[i];
    lines.push_back(fmt::format("{}: {}{}", name_of(message, message.send.item.operation.sequence),
                                disagreement(message), place_of_call(run, message.send)));
  }
  return lines;
}

}  // namespace traintrace
