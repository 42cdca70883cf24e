#include "analyzer/numbers/checks.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <map>
#include <optional>
#include <tuple>

#include "analyzer/model/communicators.h"
#include "analyzer/model/process/activity.h"
#include "analyzer/reader/sections/stored_reports.h"

namespace traintrace {
namespace {

using format::CheckedOperation::kCheckedNothing;
using format::CheckedOperation::kCheckedReceive;
using format::CheckedOperation::kCheckedSend;

constexpr std::string_view kFields[] = {"comm",    "seq",  "operation", "part",       "type",
                                        "op",      "peer", "count",     "nan",        "inf",
                                        "largest", "sum",  "abs_sum",   "square_sum", "hash"};
enum FieldOfCheck : size_t {
  kCommunicatorField,
  kSequenceField,
  kOperationField,
  kPartField,
  kTypeField,
  kReductionField,
  kPeerField,
  kCountField,
  kNansField,
  kInfinitiesField,
  kLargestField,
  kSumField,
  kAbsoluteSumField,
  kSquareSumField,
  kHashField,
  kFieldsOfCheck,
};
static_assert(std::size(kFields) == kFieldsOfCheck);

// A part of what a rank gave to a collective or got from it: communicator of the trace, sequence,
// the field `part`.
using PartKey = std::tuple<uint64_t, uint64_t, uint64_t>;

// One side of a message, or a collective (peer -1), of a communicator of the trace.
using Issued = std::tuple<uint64_t, int, bool, uint64_t>;  // .., peer, receive, sequence

class ChecksReader {
 public:
  ChecksReader(const Run& run, size_t process, const ProcessTrace& trace, Checks& checks)
      : run_(run), trace_(trace), checks_(checks) {
    for (uint32_t i = 0; i < run.communicators.size(); ++i) {
      for (const Member& member : run.communicators[i].members) {
        if (member.process == process) {
          const CommunicatorText& text = text_of(run, member);
          seats_.try_emplace(text.id, Seat{i, &member, aborted_since(text)});
        }
      }
    }
  }

  void read() {
    each_event(trace_, [&](const CallRecord& event, std::span<const uint64_t> values) {
      const CallSchema* const schema = schema_of(trace_, event.call);
      if (schema != nullptr && schema->kind == "check" && event.moment) {
        add(event, *schema, values);
      } else if (schema != nullptr && schema->kind == "sketch" && event.moment) {
        add_sketch(event, *schema, values);
      }
    });
    for (const auto& [key, sketch] : sketches_) {
      if (const auto found = parts_.find(key); found != parts_.end()) {
        checks_.all[found->second].sketch = sketch;
      }
    }
    if (!checked_.empty()) {
      compare_with_calls();
      leave_out_overwritten();
    }
  }

 private:
  struct Seat {
    uint32_t communicator;
    const Member* member;
    TimeNs aborted_since;
  };

  // Operations called then or later ended by an abort or an error, or may have.
  static TimeNs aborted_since(const CommunicatorText& text) {
    TimeNs since = std::numeric_limits<TimeNs>::max();
    if ((text.flags & (format::kAborted | format::kAsyncError)) != 0) {
      for (const OperationText& operation : text.recent) {
        const bool finished = (operation.flags & format::kFinished) != 0;
        since = finished ? since : std::min(since, operation.enter);
      }
    }
    return since;
  }

  const Seat* seat_of(uint64_t number) const {
    if (number == 0 || number > trace_.communicators.size()) {
      return nullptr;
    }
    const auto found = seats_.find(trace_.communicators[number - 1].id);
    return found == seats_.end() ? nullptr : &found->second;
  }

  uint32_t site(Rank rank, uint32_t stack) {
    const auto [known, is_new] = sites_.try_emplace(stack, checks_.sites.size());
    if (is_new) {
      Site site = site_of(trace_, rank, stack);
      const auto found = trace_.stacks.find(stack);
      if (!site.place && found != trace_.stacks.end() && found->second.python.empty() &&
          is_of_torch(trace_, found->second)) {
        site.place = place_of_backward(trace_, rank);
      }
      checks_.sites.push_back(std::move(site));
    }
    return known->second;
  }

  // Where the fields are that this version knows; none: one is missing.
  const std::vector<size_t>* places_of(const CallSchema& schema) {
    if (schema_ != &schema) {
      schema_ = &schema;
      places_.clear();
      for (const std::string_view name : kFields) {
        const auto at = std::find_if(schema.fields.begin(), schema.fields.end(),
                                     [&](const FieldSchema& field) { return field.name == name; });
        if (at != schema.fields.end()) {
          places_.push_back(static_cast<size_t>(at - schema.fields.begin()));
        }
      }
    }
    return places_.size() == kFieldsOfCheck ? &places_ : nullptr;
  }

  void add(const CallRecord& event, const CallSchema& schema, std::span<const uint64_t> values) {
    const std::vector<size_t>* const places = places_of(schema);
    if (places == nullptr || values.size() < schema.fields.size()) {
      return;
    }
    const auto value = [&](FieldOfCheck field) { return values[(*places)[field]]; };
    const auto real = [&](FieldOfCheck field) { return std::bit_cast<double>(value(field)); };
    const Seat* const seat = seat_of(value(kCommunicatorField));
    const uint64_t part = value(kPartField);
    if (seat == nullptr || value(kOperationField) == kCheckedNothing ||
        value(kOperationField) > kCheckedReceive || part >> 48 > format::kCheckedOutput) {
      return;
    }
    Check check;
    check.tally = {static_cast<uint32_t>(value(kNansField)),
                   static_cast<uint32_t>(value(kInfinitiesField)),
                   real(kLargestField),
                   real(kSumField),
                   real(kAbsoluteSumField),
                   real(kSquareSumField),
                   value(kHashField)};
    check.sequence = value(kSequenceField);
    check.count = value(kCountField);
    check.time = event.enter;
    check.rank = seat->member->rank;
    check.communicator = seat->communicator;
    check.site = site(check.rank, event.stack);
    check.part = static_cast<uint32_t>(part);
    check.parts = std::max(1U, static_cast<uint32_t>(part >> 32 & 0xffff));
    check.side = static_cast<format::CheckedSide>(part >> 48);
    check.aborted = event.enter >= seat->aborted_since;
    check.member = seat->member->local_rank;
    check.peer = static_cast<int32_t>(value(kPeerField));
    check.type = static_cast<int16_t>(value(kTypeField));
    check.reduction = static_cast<int16_t>(value(kReductionField));
    check.operation = static_cast<format::CheckedOperation>(value(kOperationField));
    const bool message = is_message(check.operation);
    checked_[{value(kCommunicatorField), message ? check.peer : -1,
              check.operation == kCheckedReceive, check.sequence}]
        .push_back(checks_.all.size());
    if (!message) {
      parts_[{value(kCommunicatorField), check.sequence, part}] = checks_.all.size();
    }
    checks_.all.push_back(check);
  }

  void add_sketch(const CallRecord& event, const CallSchema& schema,
                  std::span<const uint64_t> values) {
    const auto communicator = value_of(trace_, event, "comm");
    const auto sequence = value_of(trace_, event, "seq");
    const auto part = value_of(trace_, event, "part");
    const auto first = std::find_if(schema.fields.begin(), schema.fields.end(),
                                    [](const FieldSchema& field) { return field.name == "row0"; });
    const auto at = static_cast<size_t>(first - schema.fields.begin());
    if (!communicator || !sequence || !part || at + format::kPayloadRows > schema.fields.size() ||
        values.size() < schema.fields.size()) {
      return;
    }
    Sketch sketch;
    for (size_t row = 0; row < sketch.size(); ++row) {
      sketch[row] = {std::bit_cast<float>(static_cast<uint32_t>(values[at + row])),
                     std::bit_cast<float>(static_cast<uint32_t>(values[at + row] >> 32))};
    }
    checks_.sketches.push_back(sketch);
    sketches_[{*communicator, *sequence, *part}] = static_cast<uint32_t>(checks_.sketches.size());
  }

  // What several operations of one group put into the same place cannot be told apart: it is looked
  // at after the group.  As with messages that only say that somebody is there.
  void leave_out_overwritten() {
    struct OpenGroup {
      int depth = 0;
      std::map<uint64_t, std::vector<Issued>> by_destination;
    };
    std::map<uint32_t, OpenGroup> groups;  // by thread
    each_event(trace_, [&](const CallRecord& event, std::span<const uint64_t>) {
      const CallSchema* const schema = schema_of(trace_, event.call);
      if (schema == nullptr || event.moment) {
        return;
      }
      OpenGroup& group = groups[event.thread];
      if (schema->kind == "group-start") {
        ++group.depth;
      } else if (schema->kind == "group-end") {
        group.depth = std::max(group.depth - 1, 0);
        for (const auto& [address, all] : group.by_destination) {
          for (const Issued& issued : all.size() > 1 ? all : std::vector<Issued>()) {
            mark_overwritten(issued);
          }
        }
        group.by_destination.clear();
      } else if (group.depth > 0 && is_operation(*schema)) {
        const uint64_t address = value_of(trace_, event, "to").value_or(0);
        const Issued issued = issued_by(event, *schema);
        if (address != 0 && checked_.contains(issued)) {
          group.by_destination[address].push_back(issued);
        }
      }
    });
  }

  void mark_overwritten(const Issued& issued) {
    for (const size_t i : checked_.at(issued)) {
      checks_.all[i].overwritten = checks_.all[i].side == format::kCheckedOutput;
    }
  }

  static bool is_operation(const CallSchema& schema) {
    return schema.kind == "collective" || schema.kind == "send-recv";
  }

  Issued issued_by(const CallRecord& event, const CallSchema& schema) const {
    const bool collective = schema.kind == "collective";
    const auto peer =
        collective ? -1 : static_cast<int>(value_of(trace_, event, "peer").value_or(0));
    return {communicator_of(trace_, event), peer, !collective && schema.name.ends_with("Recv"),
            value_of(trace_, event, "seq").value_or(0)};
  }

  // The record of a check is made some time after the call.
  void compare_with_calls() {
    each_event(trace_, [&](const CallRecord& event, std::span<const uint64_t>) {
      const CallSchema* const schema = schema_of(trace_, event.call);
      if (schema == nullptr || !is_operation(*schema)) {
        return;
      }
      const Seat* const seat = seat_of(communicator_of(trace_, event));
      const Issued issued = issued_by(event, *schema);
      const bool brings_data = schema->kind == "collective" || schema->name.ends_with("Recv");
      if (const auto found = checked_.find(issued); seat != nullptr && found != checked_.end()) {
        for (const size_t i : found->second) {
          checks_.all[i].time = event.enter;
          checks_.all[i].aborted = event.enter >= seat->aborted_since;
        }
      } else if (seat != nullptr && brings_data && value_of(trace_, event, "count") != 0) {
        checks_.unchecked[seat->member->rank].push_back(event.enter);
      }
    });
    for (const auto& [id, seat] : seats_) {
      const auto& recent = text_of(run_, *seat.member).recent;
      if (std::any_of(recent.begin(), recent.end(), [](const OperationText& operation) {
            return (operation.flags & (format::kCaptured | format::kReplayed)) != 0;
          })) {
        insert(checks_.capturing, seat.member->rank);
      }
    }
  }

  const Run& run_;
  const ProcessTrace& trace_;
  Checks& checks_;
  std::map<uint64_t, Seat> seats_;  // by the communicator's id
  std::map<uint32_t, uint32_t> sites_;
  const CallSchema* schema_ = nullptr;
  std::vector<size_t> places_;
  std::map<Issued, std::vector<size_t>> checked_;  // in `checks_.all`
  std::map<PartKey, size_t> parts_;                // of collectives, in `checks_.all`
  std::map<PartKey, uint32_t> sketches_;           // in `checks_.sketches`, from 1
};

// Equal for the two ends of a message.
auto key_of(const Check& check) {
  const bool receive = check.operation == kCheckedReceive;
  const bool message = is_message(check.operation);
  return std::tuple(check.communicator, message,
                    !message  ? -1
                    : receive ? check.peer
                              : check.member,
                    !message  ? -1
                    : receive ? check.member
                              : check.peer,
                    check.sequence);
}

auto place_in_operation(const Check& check) {
  return std::tuple(check.side, check.member, check.part, check.rank);
}

bool is_like(const Check& a, const Check& b) {
  const bool same_sort =
      a.operation == b.operation || (is_message(a.operation) && is_message(b.operation));
  return same_sort && a.type == b.type && a.reduction == b.reduction && a.count == b.count;
}

bool agree(std::span<const Check> operation) {
  for (size_t i = 1; i < operation.size(); ++i) {
    if (!is_like(operation[i - 1], operation[i]) ||
        place_in_operation(operation[i - 1]) == place_in_operation(operation[i])) {
      return false;
    }
  }
  return operation.front().sequence != 0 && operation.front().member >= 0 &&
         std::none_of(operation.begin(), operation.end(),
                      [](const Check& check) { return check.aborted || check.overwritten; });
}

void join(Checks& checks) {
  std::vector<Check>& all = checks.all;
  std::stable_sort(all.begin(), all.end(), [](const Check& a, const Check& b) {
    const auto key_a = key_of(a);
    const auto key_b = key_of(b);
    return key_a != key_b ? key_a < key_b : place_in_operation(a) < place_in_operation(b);
  });
  for (size_t i = 0; i < all.size();) {
    size_t end = i + 1;
    TimeNs time = all[i].time;
    for (; end < all.size() && key_of(all[end]) == key_of(all[i]); ++end) {
      time = std::min(time, all[end].time);
    }
    checks.operations.push_back({i, end - i, time, agree(std::span(all).subspan(i, end - i))});
    i = end;
  }
}

void find_buckets(Checks& checks) {
  using Key = std::tuple<uint32_t, format::CheckedOperation, int32_t, int32_t, int16_t, int16_t,
                         uint64_t, decltype(Site().key())>;
  std::map<Key, CheckedBucket> buckets;
  for (size_t i = 0; i < checks.operations.size(); ++i) {
    const CheckedOperation& operation = checks.operations[i];
    const Check& check = checks.all[operation.first];
    if (operation.agrees) {
      const bool message = is_message(check.operation);
      buckets[{check.communicator, check.operation, message ? check.member : -1,
               message ? check.peer : -1, check.type, check.reduction, check.count,
               checks.sites[check.site].key()}]
          .operations.push_back(i);
    }
  }
  for (auto& [key, bucket] : buckets) {
    checks.buckets.push_back(std::move(bucket));
  }
}

void order_by_rank(Checks& checks) {
  for (uint32_t i = 0; i < checks.all.size(); ++i) {
    checks.of_rank[checks.all[i].rank].push_back(i);
  }
  for (auto& [rank, own] : checks.of_rank) {
    std::stable_sort(own.begin(), own.end(), [&](uint32_t a, uint32_t b) {
      return std::tuple(checks.all[a].time, checks.all[a].side) <
             std::tuple(checks.all[b].time, checks.all[b].side);
    });
  }
}

Rank rank_of_member(const Run& run, const Check& check, int32_t member) {
  const Member* const found = member_at(run.communicators[check.communicator], member);
  return found == nullptr ? Rank{} : found->rank;
}

std::string end_text(const Run& run, const Check& check, int32_t member) {
  const Rank rank = rank_of_member(run, check, member);
  return rank.value < 0 ? fmt::format("member {}", member) : fmt::format("rank {}", rank.value);
}

}  // namespace

std::span<const Check> checks_of(const Checks& checks, const CheckedOperation& operation) {
  return std::span(checks.all).subspan(operation.first, operation.count);
}

std::span<const Check> side_of(std::span<const Check> operation, format::CheckedSide side) {
  const auto outputs = std::find_if(operation.begin(), operation.end(), [](const Check& check) {
    return check.side == format::kCheckedOutput;
  });
  return side == format::kCheckedInput ? std::span(operation.begin(), outputs)
                                       : std::span(outputs, operation.end());
}

std::span<const Check> member_side(std::span<const Check> side, int32_t member) {
  const auto first = std::find_if(side.begin(), side.end(),
                                  [&](const Check& check) { return check.member == member; });
  const auto end =
      std::find_if(first, side.end(), [&](const Check& check) { return check.member != member; });
  return {first, end};
}

double WholeTally::norm() const {
  return std::sqrt(square_sum);
}

void each_buffer(const Checks& checks, std::span<const uint32_t> own,
                 const std::function<void(std::span<const Check> parts)>& see) {
  for (size_t i = 0; i < own.size();) {
    const Check& first = checks.all[own[i]];
    // Its parts follow one another in both orders.
    size_t end = i + 1;
    while (end < own.size() && own[end] == own[end - 1] + 1 &&
           checks.all[own[end]].side == first.side &&
           checks.all[own[end]].communicator == first.communicator &&
           checks.all[own[end]].peer == first.peer &&
           checks.all[own[end]].sequence == first.sequence) {
      ++end;
    }
    see(std::span(checks.all).subspan(own[i], end - i));
    i = end;
  }
}

WholeTally whole(std::span<const Check> parts) {
  WholeTally all;
  for (const Check& check : parts) {
    all.nans += check.tally.nans;
    all.infinities += check.tally.infinities;
    all.count += check.count;
    all.largest = std::max(all.largest, check.tally.largest);
    all.sum += check.tally.sum;
    all.absolute_sum += check.tally.absolute_sum;
    all.square_sum += check.tally.square_sum;
    all.hash += format::payload_hash(check.part, check.tally.hash);
  }
  return all;
}

bool is_sum(const Check& check) {
  constexpr int16_t kSum = 0, kAverage = 4, kScaledSum = 5;
  const bool reduces = check.operation == format::kCheckedAllReduce ||
                       check.operation == format::kCheckedReduce ||
                       check.operation == format::kCheckedReduceScatter;
  return reduces &&
         (check.reduction == kSum || check.reduction == kAverage || check.reduction >= kScaledSum);
}

bool is_message(format::CheckedOperation operation) {
  return operation == kCheckedSend || operation == kCheckedReceive;
}

bool is_real(int type) {
  constexpr int kHalf = 6, kBfloat16 = 9;
  return type >= kHalf && type <= kBfloat16;
}

std::string operation_name(format::CheckedOperation operation) {
  constexpr const char* kNames[] = {"nothing",       "ncclAllReduce", "ncclReduce",
                                    "ncclBroadcast", "ncclAllGather", "ncclReduceScatter",
                                    "ncclAlltoAll",  "ncclGather",    "ncclScatter",
                                    "ncclSend",      "ncclRecv"};
  return kNames[std::min<size_t>(operation, kCheckedReceive)];
}

std::string operation_text(const Run& run, const Check& check) {
  const std::string name = short_label_of(run, run.communicators[check.communicator]);
  if (!is_message(check.operation)) {
    return fmt::format("{} #{} on {}", operation_name(check.operation), check.sequence, name);
  }
  const bool receive = check.operation == format::kCheckedReceive;
  return fmt::format("message #{} from {} to {} on {}", check.sequence,
                     end_text(run, check, receive ? check.peer : check.member),
                     end_text(run, check, receive ? check.member : check.peer), name);
}

void add_checks(const Run& run, size_t process, const ProcessTrace& events, Checks& checks) {
  ChecksReader(run, process, events, checks).read();
}

void complete(Checks& checks) {
  join(checks);
  find_buckets(checks);
  order_by_rank(checks);
}

}  // namespace traintrace
