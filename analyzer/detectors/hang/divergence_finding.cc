#include "analyzer/detectors/hang/divergence_finding.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "analyzer/detectors/catalogue.h"
#include "analyzer/detectors/hang/damage.h"
#include "analyzer/detectors/hang/divergence_text.h"
#include "analyzer/detectors/hang/hang_finding.h"
#include "analyzer/detectors/hang/loop_text.h"
#include "analyzer/detectors/hang/message_text.h"
#include "analyzer/model/progress.h"

namespace traintrace {
namespace {

// What hangs say that this divergence is the reason for.
struct Consequences {
  Ranks victims;
  TimeNs waited = 0;
  bool hung = false;
};

Consequences consequences_of(const Run& run, size_t index) {
  Consequences sum;
  for (const Hang& hang : run.waits.hangs) {
    if (std::find(hang.divergences.begin(), hang.divergences.end(), index) ==
        hang.divergences.end()) {
      continue;
    }
    for (const Rank rank : hang.victims) {
      insert(sum.victims, rank);
    }
    sum.hung = true;
    sum.waited = std::max(sum.waited, hang.waited);
  }
  const Divergence& divergence = run.divergences[index];
  if (!divergence.tie) {
    std::erase_if(sum.victims, [&](Rank rank) { return contains(divergence.deviants, rank); });
  }
  return sum;
}

// Losses after which a process may have issued more than it counted.
bool may_have_miscounted(const ProcessTrace& trace) {
  constexpr std::string_view kStats[] = {
      "nested-in-signal", "before-arming", "threads-full",     "communicators-full",  "peers-full",
      "captures-full",    "second-copy",   "missing-original", "unknown-communicator"};
  return std::any_of(trace.losses.begin(), trace.losses.end(), [&](const LossText& loss) {
    return loss.count > 0 &&
           std::find(std::begin(kStats), std::end(kStats), loss.stat) != std::end(kStats);
  });
}

bool is_doubtful(const Run& run, const Divergence& divergence) {
  return std::any_of(run.ranks.begin(), run.ranks.end(), [&](const RankState& state) {
    const bool concerned =
        contains(divergence.deviants, state.rank) || contains(divergence.others, state.rank);
    return concerned && may_have_miscounted(trace_of(run, state));
  });
}

bool is_damaged(const Run& run, const Divergence& divergence) {
  return std::any_of(run.ranks.begin(), run.ranks.end(), [&](const RankState& state) {
    return contains(divergence.deviants, state.rank) && are_calls_damaged(trace_of(run, state));
  });
}

bool is_shift(const Divergence& divergence) {
  return divergence.kind == DivergenceKind::kSkipped || divergence.kind == DivergenceKind::kExtra ||
         divergence.kind == DivergenceKind::kSwapped;
}

// Rests on something that was not there.
bool is_absence(const Divergence& divergence) {
  return divergence.kind == DivergenceKind::kWrongPeer ||
         divergence.kind == DivergenceKind::kMissingSend ||
         divergence.kind == DivergenceKind::kMissingReceive;
}

// The calls that met there are alike but for the lines that they came from.
bool is_told_by_lines(const Divergence& divergence) {
  const SequenceItem& own = divergence.own.item;
  const SequenceItem& expected = divergence.expected.item;
  const bool is_one_call_more =
      divergence.kind == DivergenceKind::kSkipped || divergence.kind == DivergenceKind::kExtra;
  return divergence.by_site ||
         (is_one_call_more && divergence.twins.empty() && own.key == expected.key &&
          own.site != 0 && expected.site != 0 && own.site != expected.site);
}

bool is_harmless(const Divergence& divergence) {
  return is_harmless(divergence.kind);
}

// The line alone tells then that it is that call: one that goes through several communicators is
// the same line for all of them.
bool is_on_other_members(const Run& run, const Divergence& divergence) {
  const auto& meant = run.communicators[divergence.communicator].members;
  const auto& used = run.communicators[divergence.used].members;
  return divergence.kind == DivergenceKind::kOtherCommunicator &&
         !std::equal(meant.begin(), meant.end(), used.begin(), used.end(),
                     [](const Member& a, const Member& b) { return a.rank == b.rank; });
}

Certainty certainty_of(const Run& run, const Divergence& divergence) {
  if (divergence.kind == DivergenceKind::kUnknown || is_doubtful(run, divergence)) {
    return Certainty::kPossible;
  }
  // Both calls are there, and met.  That one was left out rests on what came after it.
  const bool seen = divergence.exact && !is_damaged(run, divergence);
  const bool sure = !is_shift(divergence) ||
                    (divergence.matches >= 2 && divergence.complete && run.missing.empty());
  const bool guessed = divergence.kind == DivergenceKind::kWrongPeer && divergence.tie;
  const bool whole =
      !is_absence(divergence) || (!guessed && run.missing.empty() && !may_hide_a_rank(run));
  return seen && sure && whole && !is_told_by_lines(divergence) && !divergence.by_habit &&
                 !divergence.open && divergence.twins.empty() &&
                 !is_on_other_members(run, divergence)
             ? Certainty::kProof
             : Certainty::kLikely;
}

Severity severity_of(const Divergence& divergence, const Consequences& sum, Severity usual) {
  if (is_harmless(divergence)) {
    return Severity::kInfo;
  }
  return (divergence.grouped || divergence.left_over) && !sum.hung ? Severity::kWarning : usual;
}

bool is_finished(const Run& run, const SideCall& call) {
  return finished(run.processes[call.process], call.item.operation);
}

std::string outcome_text(const Run& run, const Divergence& divergence, const Consequences& sum) {
  for (const Member& member : run.communicators[divergence.communicator].members) {
    if (text_of(run, member).async_error != 0) {
      return fmt::format("consequence: NCCL reported error {} on rank {}",
                         text_of(run, member).async_error, member.rank.value);
    }
  }
  if (sum.hung) {
    const Ranks& who = sum.victims.empty() ? divergence.deviants : sum.victims;
    return fmt::format("consequence: {} {} been blocked for {}", ranks_text(who),
                       who.size() == 1 ? "has" : "have", seconds(sum.waited));
  }
  if (is_harmless(divergence) || is_absence(divergence)) {
    return "";
  }
  return divergence.exact && is_finished(run, divergence.own) &&
                 is_finished(run, divergence.expected)
             ? "consequence: it finished, and the results may be wrong"
             : "consequence: not known";
}

// Who is right, and why.
std::string twins_text(const Divergence& divergence) {
  const std::string parted = parted_text(divergence.twins, divergence.deviants);
  const std::string who = ranks_text(divergence.twins);
  if (divergence.by_peers) {
    return fmt::format("{}; the messages of the peers of both fit what {} called", parted, who);
  }
  if (divergence.by_siblings) {
    return fmt::format("in their groups of this kind {} called it alike; {} did not", who,
                       ranks_text(divergence.deviants));
  }
  return divergence.by_habit
             ? fmt::format("{}; in earlier steps {} went on from there as {} did now", parted,
                           ranks_text(divergence.deviants), who)
             : parted;
}

void add_place(const Run& run, const SideCall& call, Finding& finding) {
  if (auto place = user_place(run.processes[call.process], call.rank, call.item.operation.stack)) {
    finding.where.push_back(*place);
  }
}

void add_values(const Divergence& divergence, const Consequences& sum, Finding& finding) {
  const auto add = [&](const char* key, uint64_t value) {
    finding.values.emplace_back(key, static_cast<int64_t>(value));
  };
  if (sum.hung) {
    add("waited_ns", static_cast<uint64_t>(sum.waited));
  }
  if (divergence.left_over && is_absence(divergence)) {
    const bool no_receive = divergence.kind == DivergenceKind::kMissingReceive;
    add("sent_count", no_receive ? divergence.sequence_last : divergence.sequence - 1);
    add("received_count", no_receive ? divergence.sequence - 1 : divergence.sequence_last);
  }
  if (divergence.kind == DivergenceKind::kSkipped) {
    add("skipped_count", divergence.length);
  } else if (divergence.kind == DivergenceKind::kExtra) {
    add("extra_count", divergence.length);
  } else if (divergence.kind != DivergenceKind::kSwapped &&
             divergence.kind != DivergenceKind::kSwappedCommunicators &&
             divergence.kind != DivergenceKind::kPeer &&
             divergence.kind != DivergenceKind::kOtherCommunicator &&
             divergence.kind != DivergenceKind::kMessageOrder &&
             divergence.kind != DivergenceKind::kGroups && !is_absence(divergence) &&
             divergence.kind != DivergenceKind::kUnknown) {
    const OperationText& own = divergence.own.item.operation;
    const OperationText& expected = divergence.expected.item.operation;
    if (divergence.kind == DivergenceKind::kRoot) {
      add("own_root", static_cast<uint64_t>(own.peer));
      add("expected_root", static_cast<uint64_t>(expected.peer));
    }
    add("own_count", own.count);
    add("expected_count", expected.count);
    const auto bytes = bytes_of(own);
    const auto expected_bytes = bytes_of(expected);
    if (bytes && expected_bytes) {
      add("own_bytes", *bytes);
      add("expected_bytes", *expected_bytes);
    }
  }
}

void add_evidence(const Run& run, const Divergence& divergence, const Consequences& sum,
                  Finding& finding) {
  const auto add = [&](const std::string& line) {
    if (!line.empty()) {
      finding.evidence.push_back(line);
    }
  };
  if (!divergence.own.item.function.empty() && divergence.kind != DivergenceKind::kUnknown) {
    add(call_text(run, divergence.own, divergence.deviants));
  }
  if (!divergence.expected.item.function.empty() && divergence.kind != DivergenceKind::kUnknown) {
    add(call_text(run, divergence.expected, callers_of(run, divergence)));
  }
  for (const std::string& line : message_lines(run, divergence)) {
    add(line);
  }
  if (divergence.matches > 0) {
    const char* const what = is_of_messages(divergence.kind) ? "message" : "collective";
    add(divergence.matches == 1
            ? fmt::format("the next {} matches on all ranks", what)
            : fmt::format("the next {} {}s match on all ranks", divergence.matches, what));
  }
  if (divergence.more > 0) {
    add(fmt::format("and {} further difference{} after it", divergence.more,
                    divergence.more == 1 ? "" : "s"));
  }
  if (divergence.rest_of_step) {
    add(fmt::format("in earlier steps {} call{} came there before {}", divergence.length,
                    divergence.length == 1 ? "" : "s",
                    name_of_call(divergence.own.item.function, divergence.own.item.operation)));
  }
  if (divergence.open) {
    add(fmt::format("{} made the same call right before: {}", ranks_text(divergence.deviants),
                    divergence.kind == DivergenceKind::kSkipped
                        ? "had it made that twice, more of its other calls would be in another "
                          "place than in earlier steps"
                        : "it may have left out what came between the two in earlier steps "
                          "instead"));
  }
  add(loop_text(run, divergence));
  if (is_told_by_lines(divergence)) {
    add("their arguments are equal: the lines that called tell which is missing or in excess");
  }
  if (!divergence.twins.empty()) {
    add(twins_text(divergence));
  } else if (divergence.by_habit) {
    add(fmt::format("{} did otherwise there every time before; {} did not change",
                    ranks_text(divergence.deviants), ranks_text(divergence.others)));
  }
  add(outcome_text(run, divergence, sum));
  if (is_doubtful(run, divergence)) {
    add("not sure: calls of these ranks were not recorded, so they may have been miscounted");
  }
}

Finding finding_about(const Run& run, size_t index, const Consequences& sum,
                      std::string_view code) {
  const Divergence& divergence = run.divergences[index];
  const Communicator& communicator = run.communicators[divergence.communicator];
  Finding finding;
  finding.code = code;
  finding.severity = severity_of(divergence, sum, catalogue_row(code)->severity);
  finding.certainty = certainty_of(run, divergence);
  finding.root = true;
  finding.title = divergence_title(run, divergence);
  if (!divergence.tie && finding.certainty != Certainty::kPossible && !is_harmless(divergence)) {
    finding.culprits = divergence.deviants;
  }
  finding.victims = sum.victims;
  finding.sides = divergence.parts;
  finding.sides.push_back(divergence.others);
  finding.communicator = {communicator.id, communicator.name, communicator.size};
  if (divergence.sequence != 0) {  // messages of a ring that keeps no beginning have none
    finding.sequence = divergence.sequence;
  }
  if (divergence.kind == DivergenceKind::kOtherCommunicator ||
      divergence.kind == DivergenceKind::kSwappedCommunicators) {
    const Communicator& used = run.communicators[divergence.used];
    finding.communicators = {*finding.communicator, {used.id, used.name, used.size}};
  }
  if (divergence.sequence_last > divergence.sequence) {
    finding.sequence_last = divergence.sequence_last;
  }
  const bool own_only = divergence.kind == DivergenceKind::kExtra;
  const bool by_own = own_only || divergence.expected.item.function.empty();
  finding.operation = (by_own ? divergence.own : divergence.expected).item.function;
  if (divergence.kind != DivergenceKind::kSkipped) {
    add_place(run, divergence.own, finding);
  }
  if (!own_only) {
    add_place(run, divergence.expected, finding);
  }
  if (divergence.rest_of_step) {
    add_place(run, divergence.own, finding);
  }
  add_values(divergence, sum, finding);
  add_evidence(run, divergence, sum, finding);
  finding.advice = divergence_advice(run, divergence);
  return finding;
}

}  // namespace

std::vector<Finding> find_diverged(const Run& run, std::initializer_list<DivergenceKind> kinds,
                                   std::string_view code) {
  std::vector<Finding> findings;
  for (size_t i = 0; i < run.divergences.size(); ++i) {
    const Divergence& divergence = run.divergences[i];
    if (std::find(kinds.begin(), kinds.end(), divergence.kind) == kinds.end()) {
      continue;
    }
    const Consequences sum = consequences_of(run, i);
    const bool rests_on_counting =
        divergence.by_site || divergence.counted || is_doubtful(run, divergence);
    if (!rests_on_counting || sum.hung) {
      findings.push_back(finding_about(run, i, sum, code));
    }
  }
  return findings;
}

}  // namespace traintrace
