#include "analyzer/detectors/hang/divergence_text.h"

#include <fmt/format.h>

#include "analyzer/detectors/hang/hang_finding.h"
#include "analyzer/detectors/hang/message_text.h"
#include "analyzer/detectors/hang/other_label.h"
#include "analyzer/model/communicators.h"
#include "analyzer/text/values.h"

namespace traintrace {
namespace {

std::string place_of(const Run& run, const SideCall& call) {
  const auto place = user_place(run.processes[call.process], call.rank, call.item.operation.stack);
  return place ? fmt::format(", at {}", place_text(*place)) : "";
}

std::string name_of(const SideCall& call) {
  return name_of_call(call.item.function, call.item.operation);
}

// "ncclAllReduce #812 on communicator dp (4 ranks)", or "one of #800..#812 .."
std::string number_text(const Run& run, const Divergence& divergence) {
  const std::string on =
      "on communicator " + label_of(run, run.communicators[divergence.communicator]);
  const SideCall& call =
      divergence.kind == DivergenceKind::kExtra ? divergence.own : divergence.expected;
  const std::string name = call.item.function.empty() ? "collective" : name_of(call);
  const uint64_t last = divergence.sequence + divergence.length - 1;
  if (divergence.sequence_last > last) {
    return fmt::format("{} of {} #{}..#{} {}",
                       divergence.length == 1 ? "one" : std::to_string(divergence.length), name,
                       divergence.sequence, divergence.sequence_last, on);
  }
  const bool counts =
      divergence.kind == DivergenceKind::kSkipped || divergence.kind == DivergenceKind::kExtra;
  return divergence.length == 1 || divergence.rest_of_step || !counts
             ? fmt::format("{} #{} {}", name, divergence.sequence, on)
             : fmt::format("{} calls, {} #{} to #{} {}", divergence.length, name,
                           divergence.sequence, last, on);
}

// Of calls from different lines it says which: they may not belong together at all.
std::string both(const Run& run, const char* what, const std::string& own,
                 const std::string& expected, const Divergence& divergence) {
  const std::string own_place = place_of(run, divergence.own);
  const std::string place = place_of(run, divergence.expected);
  const bool differ = !own_place.empty() && !place.empty() && own_place != place;
  return fmt::format("with {} {}{}, {} with {}{}", what, own, differ ? own_place : "",
                     ranks_text(divergence.others), expected, differ ? place : "");
}

std::string count_of(const OperationText& operation) {
  const auto bytes = bytes_of(operation);
  return fmt::format("{}{}", operation.count, bytes ? fmt::format(" ({} bytes)", *bytes) : "");
}

std::string difference_text(const Run& run, const Divergence& divergence) {
  const OperationText& own = divergence.own.item.operation;
  const OperationText& expected = divergence.expected.item.operation;
  switch (divergence.kind) {
    case DivergenceKind::kRoot:
      return both(run, "root", std::to_string(own.peer), std::to_string(expected.peer), divergence);
    case DivergenceKind::kReduction:
      return both(run, "reduction", reduction_name(own.reduction),
                  reduction_name(expected.reduction), divergence);
    case DivergenceKind::kType:
    case DivergenceKind::kHarmlessType:
      return both(run, "type", data_type_name(own.data_type), data_type_name(expected.data_type),
                  divergence);
    default:
      return both(run, "count", count_of(own), count_of(expected), divergence);
  }
}

bool is_joined(const Divergence& divergence) {
  return divergence.own.item.operation.group != 0 &&
         divergence.own.item.operation.group == divergence.own_second.item.operation.group;
}

// " on communicator tp (ranks 0,1)"; empty: on the one that the others used.
std::string on_another(const Run& run, const Divergence& divergence) {
  return divergence.twins.empty() || divergence.used == divergence.communicator
             ? ""
             : " on communicator " + label_of(run, run.communicators[divergence.used]);
}

std::string skipped_text(const Run& run, const Divergence& divergence) {
  const std::string who = ranks_text(divergence.deviants);
  const std::string number = number_text(run, divergence);
  const std::string place = place_of(run, divergence.expected);
  if (divergence.rest_of_step) {
    return fmt::format("{} left out the rest of its step from {}{}, and began the next one: {}{}",
                       who, number, place, name_of(divergence.own), place_of(run, divergence.own));
  }
  return fmt::format("{} skipped {}, which {} called{}", who, number, ranks_text(divergence.others),
                     place);
}

// What came in the other order is only said of calls that it has made.
std::string other_order_text(const Run& run, const Divergence& divergence) {
  const bool made_both = !divergence.own_second.item.function.empty();
  return fmt::format("{} called {} on communicator {}{}, {} {}, {} {}",
                     ranks_text(divergence.deviants), name_of(divergence.own),
                     label_of(run, run.communicators[divergence.used]),
                     place_of(run, divergence.own), made_both ? "before" : "and has not called",
                     number_text(run, divergence),
                     made_both ? ranks_text(callers_of(run, divergence))
                               : "which " + ranks_text(callers_of(run, divergence)),
                     made_both ? "in the other order" : "called first");
}

std::string deed_text(const Run& run, const Divergence& divergence) {
  const std::string who = ranks_text(divergence.deviants);
  const std::string number = number_text(run, divergence);
  if (is_of_messages(divergence.kind)) {
    return divergence.twins.empty() ? message_text(run, divergence)
                                    : departed_message_text(run, divergence);
  }
  switch (divergence.kind) {
    case DivergenceKind::kSkipped:
      return skipped_text(run, divergence);
    case DivergenceKind::kExtra:
      return fmt::format("{} called {}{}, which {} did not", who, number,
                         place_of(run, divergence.own), ranks_text(divergence.others));
    case DivergenceKind::kSwapped:
      return fmt::format("{} called {} #{} before {}, {} in the other order{}", who,
                         divergence.own.item.function, divergence.sequence + divergence.length,
                         fmt::format("{} #{} on communicator {}", divergence.expected.item.function,
                                     divergence.sequence,
                                     label_of(run, run.communicators[divergence.communicator])),
                         ranks_text(divergence.others),
                         divergence.grouped ? ", inside a group" : "");
    case DivergenceKind::kSwappedCommunicators:
      return other_order_text(run, divergence);
    case DivergenceKind::kFunction:
      return fmt::format("{} called {}{}{}, where {} called {}{}", who, name_of(divergence.own),
                         on_another(run, divergence), place_of(run, divergence.own),
                         ranks_text(divergence.others), number, place_of(run, divergence.expected));
    case DivergenceKind::kOtherCommunicator:
      if (!divergence.own.item.operation.collective) {  // its peer called the other side
        return fmt::format("{} called {} on communicator {}{}, instead of on {}", who,
                           divergence.own.item.function,
                           label_of(run, run.communicators[divergence.used]),
                           place_of(run, divergence.own),
                           other_label_of(run, run.communicators[divergence.communicator]));
      }
      return fmt::format("{} called {} on communicator {}{}, where {} called {}", who,
                         divergence.own.item.function,
                         label_of(run, run.communicators[divergence.used]),
                         place_of(run, divergence.own), ranks_text(divergence.others), number);
    case DivergenceKind::kPeer:
      return fmt::format(
          "{} called {} with peer {}{}, which has no counterpart, where {} called {}{}", who,
          divergence.own.item.function, divergence.own.item.operation.peer,
          place_of(run, divergence.own), ranks_text(divergence.others), number,
          place_of(run, divergence.expected));
    case DivergenceKind::kGroups:
      return fmt::format("{} called {}{} and the collective after it {} one group, {} did{}", who,
                         number, place_of(run, divergence.own),
                         is_joined(divergence) ? "in" : "not in", ranks_text(divergence.others),
                         is_joined(divergence) ? " not" : "");
    case DivergenceKind::kUnknown:
      return fmt::format(
          "the collectives of {} differ from those of {} at {}; what they were is not kept", who,
          ranks_text(divergence.others), number);
    default:
      return fmt::format("{} called {} {}", who, number, difference_text(run, divergence));
  }
}

}  // namespace

std::string divergence_title(const Run& run, const Divergence& divergence) {
  std::string title = deed_text(run, divergence);
  if (divergence.tie) {
    title += divergence.left_over
                 ? "; no culprit: one side made a call too many, or the other left one out"
             : divergence.deviants.size() == divergence.others.size()
                 ? "; no culprit: as many did the one as the other"
                 : "; no culprit: which side is wrong is undetermined";
  }
  return title;
}

std::string call_text(const Run& run, const SideCall& call, const Ranks& ranks) {
  return fmt::format("{}: {}{}", ranks_text(ranks),
                     arguments_text(name_of(call), call.item.operation), place_of(run, call));
}

Ranks callers_of(const Run& run, const Divergence& divergence) {
  if (divergence.twins.empty()) {
    return divergence.others;
  }
  Ranks callers;
  for (const Rank rank : divergence.twins) {
    if (member_of(run.communicators[divergence.communicator], rank) != nullptr) {
      insert(callers, rank);
    }
  }
  return callers.empty() ? Ranks{divergence.expected.rank} : callers;
}

const char* divergence_advice(const Run& run, const Divergence& divergence) {
  constexpr const char* kBranch = "look for a branch around the call that not all ranks take";
  switch (divergence.kind) {
    case DivergenceKind::kSkipped:
      return divergence.rest_of_step ? "look for what ends a step early on that rank alone: a "
                                       "`continue` or `return`, or "
                                       "an exception that is caught"
                                     : kBranch;
    case DivergenceKind::kExtra:
      return "look for a branch around the call that not all ranks take, or a loop that this rank "
             "left before the others: uneven data, or a batch that it skipped";
    case DivergenceKind::kFunction:
      return "look for a branch around one of these calls that not all ranks take";
    case DivergenceKind::kSwapped:
      return "let all ranks issue the operations of a communicator in one order";
    case DivergenceKind::kSwappedCommunicators:
      return divergence.own_second.item.function.empty()
                 ? "look for a branch around the call that is missing, or let all ranks enter the "
                   "operations of different communicators in one order"
                 : "let all ranks enter the operations of different communicators in one order";
    case DivergenceKind::kOtherCommunicator:
      return "look at which communicator, or process group, that call is given on each rank";
    case DivergenceKind::kPeer:
      return "let all ranks of a communicator come to its collectives in the same place among "
             "sends "
             "and receives";
    case DivergenceKind::kMessageCount:
    case DivergenceKind::kMessageType:
      return "let both sides of a message use the same count and type";
    case DivergenceKind::kExchange:
      return "exchange the split sizes before the all-to-all: what one rank sends must be what the "
             "other expects";
    case DivergenceKind::kMessageOrder:
      return "let both ranks post their messages to each other in one order";
    case DivergenceKind::kMissingReceive:
    case DivergenceKind::kMissingSend:
      return "look for a branch around the call that only one side takes";
    case DivergenceKind::kWrongPeer:
      return "look at how the peer of that call is computed";
    case DivergenceKind::kGroups:
      return "let all ranks put the same collectives between ncclGroupStart and ncclGroupEnd";
    case DivergenceKind::kEmpty:
      return "NCCL drops a call with count 0: let all ranks skip it, or none";
    case DivergenceKind::kHarmlessType:
    case DivergenceKind::kHarmlessMessageType:
      return "nothing to do: the bytes are the same, and they are only copied";
    case DivergenceKind::kUnknown:
      return "record with a larger TRAINTRACE_RING_MB, or look at the run earlier";
    default:
      return place_of(run, divergence.own) == place_of(run, divergence.expected)
                 ? "pass equal arguments on all ranks: NCCL does not check them, and what comes of "
                   "it is undefined"
                 : "these calls come from different lines: look for a branch around one of them "
                   "that "
                   "not all ranks take; if they belong together, pass equal arguments";
  }
}

}  // namespace traintrace
