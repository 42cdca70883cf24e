// Data that arrived are not those that were sent, of operations that compute nothing.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "analyzer/detectors/numeric/check_finding.h"
#include "analyzer/detectors/numeric/numeric.h"
#include "analyzer/detectors/trace/trace_finding.h"
#include "analyzer/model/elapsed.h"
#include "analyzer/text/units.h"

namespace traintrace {
namespace {

// What one rank sent another, and what arrived.
struct Delivery {
  const Check* sent;
  const Check* arrived;

  bool is_equal() const { return sent->tally.hash == arrived->tally.hash; }
};

const Check* part_of(std::span<const Check> side, int32_t member, uint32_t part) {
  const auto found = std::find_if(side.begin(), side.end(), [&](const Check& check) {
    return check.member == member && check.part == part && has_sums(check);
  });
  return found == side.end() ? nullptr : &*found;
}

// The only one who gave anything; -1: there are none or several.
int32_t only_giver(std::span<const Check> inputs) {
  return !inputs.empty() && inputs.front().member == inputs.back().member ? inputs.front().member
                                                                          : -1;
}

// What `arrived` was sent as; null: that was not recorded.
const Check* source_of(std::span<const Check> inputs, const Check& arrived) {
  const auto own_part = static_cast<uint32_t>(arrived.member);
  const auto of_part = static_cast<int32_t>(arrived.part);
  switch (arrived.operation) {
    case format::kCheckedAllGather:
    case format::kCheckedGather:
      return part_of(inputs, of_part, 0);
    case format::kCheckedAllToAll:
      return part_of(inputs, of_part, own_part);
    case format::kCheckedScatter:
      return part_of(inputs, only_giver(inputs), own_part);
    case format::kCheckedBroadcast:
    case format::kCheckedReceive:
      return part_of(inputs, only_giver(inputs), 0);
    default:
      return nullptr;
  }
}

using Deliveries = std::vector<Delivery>;

Deliveries deliveries_of(std::span<const Check> operation) {
  const std::span<const Check> inputs = side_of(operation, format::kCheckedInput);
  Deliveries deliveries;
  for (const Check& arrived : side_of(operation, format::kCheckedOutput)) {
    const Check* const sent = has_sums(arrived) ? source_of(inputs, arrived) : nullptr;
    if (sent != nullptr) {
      deliveries.push_back({sent, &arrived});
    }
  }
  return deliveries;
}

// Every receiver gets the same of one sender.
bool is_for_all(format::CheckedOperation operation) {
  return operation == format::kCheckedAllGather || operation == format::kCheckedBroadcast;
}

Ranks receivers_of(const Deliveries& deliveries, Rank sender, bool equal) {
  Ranks ranks;
  for (const Delivery& delivery : deliveries) {
    if (delivery.sent->rank == sender && delivery.arrived->rank != sender &&
        delivery.is_equal() == equal) {
      insert(ranks, delivery.arrived->rank);
    }
  }
  return ranks;
}

std::set<uint64_t> arrived_of(const Deliveries& deliveries, Rank sender) {
  std::set<uint64_t> hashes;
  for (const Delivery& delivery : deliveries) {
    if (delivery.sent->rank == sender && delivery.arrived->rank != sender) {
      hashes.insert(delivery.arrived->tally.hash);
    }
  }
  return hashes;
}

// The side on which it happened.
enum class FaultySide : uint8_t { kUnknown, kSender, kReceiver };

struct Blame {
  FaultySide side = FaultySide::kUnknown;
  Rank rank;

  bool operator==(const Blame&) const = default;
};

// One receiver alone got it wrong: two others or more got the same right; or it got the data of
// several senders wrong, all of which another one got right.
bool is_receivers_side(const Deliveries& deliveries, const Ranks& senders, const Ranks& receivers) {
  const size_t fewest_right = senders.size() > 1 ? 1 : 2;
  return receivers.size() == 1 && std::all_of(senders.begin(), senders.end(), [&](Rank sender) {
           return receivers_of(deliveries, sender, true).size() >= fewest_right;
         });
}

// What one sender gave to all: one receiver did not get it; or none did, and all of two or more got
// the same instead.
Blame blame_for_all(const Deliveries& deliveries, const Ranks& senders, const Ranks& receivers) {
  if (is_receivers_side(deliveries, senders, receivers)) {
    return {FaultySide::kReceiver, receivers.front()};
  }
  if (senders.size() == 1 && receivers_of(deliveries, senders.front(), true).empty() &&
      receivers_of(deliveries, senders.front(), false).size() >= 2 &&
      arrived_of(deliveries, senders.front()).size() == 1) {
    return {FaultySide::kSender, senders.front()};
  }
  return {};
}

// What each sender gave to each receiver alone: several of one side are wrong, all of one of the
// other, and what else that other side's ranks have is right.
Blame blame_for_each(const Deliveries& deliveries, const Ranks& senders, const Ranks& receivers) {
  const auto is_right_elsewhere = [&](const Delivery& delivery) {
    const bool one_receiver = receivers.size() == 1;
    return delivery.is_equal() || (one_receiver && delivery.arrived->rank == receivers.front()) ||
           (!one_receiver && delivery.sent->rank == senders.front());
  };
  const auto crossing = static_cast<size_t>(
      std::count_if(deliveries.begin(), deliveries.end(), [](const Delivery& delivery) {
        return !delivery.is_equal() && delivery.sent->rank != delivery.arrived->rank;
      }));
  if (deliveries.empty() || deliveries.front().sent->operation != format::kCheckedAllToAll ||
      crossing < 2 || !std::all_of(deliveries.begin(), deliveries.end(), is_right_elsewhere)) {
    return {};
  }
  return receivers.size() == 1 && senders.size() > 1
             ? Blame{FaultySide::kReceiver, receivers.front()}
         : senders.size() == 1 && receivers.size() > 1 ? Blame{FaultySide::kSender, senders.front()}
                                                       : Blame{};
}

struct WrongDelivery {
  const CheckedOperation* operation;
  Deliveries wrong;
  Blame blame;
};

std::optional<WrongDelivery> wrong_delivery(const Checks& checks,
                                            const CheckedOperation& operation) {
  if (!operation.agrees) {
    return std::nullopt;
  }
  const Deliveries all = deliveries_of(checks_of(checks, operation));
  WrongDelivery found{&operation, {}, {}};
  Ranks senders;
  Ranks receivers;
  for (const Delivery& delivery : all) {
    if (!delivery.is_equal()) {
      found.wrong.push_back(delivery);
      insert(senders, delivery.sent->rank);
      insert(receivers, delivery.arrived->rank);
    }
  }
  if (found.wrong.empty()) {
    return std::nullopt;
  }
  found.blame = is_for_all(all.front().sent->operation) ? blame_for_all(all, senders, receivers)
                                                        : blame_for_each(all, senders, receivers);
  return found;
}

std::string data_text(const Check& check) {
  return holds_nonfinite(check)
             ? fmt::format("hash {:016x}, {} NaN, {} Inf", check.tally.hash, check.tally.nans,
                           check.tally.infinities)
             : fmt::format("hash {:016x}, sum {:.9g}{}", check.tally.hash, check.tally.sum,
                           check.tally.largest == 0 ? ", all zero" : "");
}

std::string who_text(const WrongDelivery& first, const Blame& blame) {
  Ranks senders;
  Ranks receivers;
  for (const Delivery& delivery : first.wrong) {
    insert(senders, delivery.sent->rank);
    insert(receivers, delivery.arrived->rank);
  }
  const std::string what =
      fmt::format("{} did not get what {} sent", ranks_text(receivers), ranks_text(senders));
  const bool zeros = std::all_of(first.wrong.begin(), first.wrong.end(), [](const Delivery& one) {
    return one.arrived->tally.largest == 0 && !holds_nonfinite(*one.arrived);
  });
  return what + (zeros ? ", but zeros" : "") +
         (blame.side == FaultySide::kSender     ? ", and all the same instead: the sender's side"
          : blame.side == FaultySide::kReceiver ? ", other ranks did: the receiver's side"
                                                : "");
}

Finding delivery_finding(const Run& run, const Checks& checks,
                         const std::vector<WrongDelivery>& all) {
  const WrongDelivery& first = all.front();
  const Check& check = *first.wrong.front().sent;
  const bool same = std::all_of(all.begin(), all.end(),
                                [&](const WrongDelivery& one) { return one.blame == first.blame; });
  const Blame blame = same ? first.blame : Blame{};
  Finding finding = check_finding(run, checks, "numeric.delivered-differs", check);
  if (blame.side != FaultySide::kUnknown) {
    finding.culprits = {blame.rank};
    finding.certainty = Certainty::kLikely;
    finding.where = places_of(checks, *first.operation, finding.culprits);
  }
  finding.title = fmt::format("{}: {}", operation_text(run, check), who_text(first, blame));
  finding.sides.emplace_back();
  for (const Delivery& delivery : first.wrong) {
    insert(finding.sides.front(), delivery.arrived->rank);
    finding.evidence.push_back(fmt::format(
        "rank {} sent {}; rank {} got {}", delivery.sent->rank.value, data_text(*delivery.sent),
        delivery.arrived->rank.value, data_text(*delivery.arrived)));
  }
  finding.evidence = cut(std::move(finding.evidence));
  finding.values = {{"since_ns", elapsed(run.start, first.operation->time)},
                    {"differing_count", static_cast<int64_t>(all.size())},
                    {"compared_count", compared_count(checks, check)}};
  finding.advice =
      "first rule out another stream of the job that writes a buffer without waiting; then repeat "
      "the step with NCCL_PROTO=Simple, and with NCCL_P2P_DISABLE=1 or NCCL_NET_GDR_LEVEL=LOC, to "
      "tell protocol and transport apart; then on other GPUs";
  return finding;
}

}  // namespace

std::vector<Finding> find_wrong_deliveries(const Run& run, const Numbers& numbers) {
  const Checks& checks = numbers.checks;
  std::map<std::pair<uint32_t, format::CheckedOperation>, std::vector<WrongDelivery>> found;
  for (const CheckedOperation& operation : checks.operations) {
    if (std::optional<WrongDelivery> wrong = wrong_delivery(checks, operation)) {
      const Check& first = checks.all[operation.first];
      found[{first.communicator,
             is_message(first.operation) ? format::kCheckedSend : first.operation}]
          .push_back(std::move(*wrong));
    }
  }
  std::vector<Finding> findings;
  findings.reserve(found.size());
  for (const auto& [what, all] : found) {
    findings.push_back(delivery_finding(run, checks, all));
  }
  return findings;
}

}  // namespace traintrace
