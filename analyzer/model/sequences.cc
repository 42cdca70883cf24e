#include "analyzer/model/sequences.h"

#include <algorithm>
#include <iterator>
#include <string_view>
#include <unordered_map>

#include "analyzer/model/operation_size.h"
#include "analyzer/model/process/activity.h"
#include "analyzer/model/progress.h"
#include "format/hashes.h"

namespace traintrace {
namespace {

// The inverse of an odd number modulo 2^64, by Newton's iteration.
constexpr uint64_t inverse(uint64_t odd) {
  uint64_t x = odd;
  for (int i = 0; i < 6; ++i) {
    x *= 2 - odd * x;
  }
  return x;
}

constexpr uint64_t unmixed(uint64_t hash, uint64_t value) {
  hash = hash ^ (hash >> 29) ^ (hash >> 58);
  return (hash * inverse(0x9fb21c651e98df25ULL)) ^ value;
}
static_assert(unmixed(format::mixed(12345, 67), 67) == 12345);

uint64_t text_hash(uint64_t hash, std::string_view text) {
  for (const char c : text) {
    hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3ULL;
  }
  return format::mixed(hash, text.size());
}

std::string plain_name(const std::string& call) {
  const std::string name = call.starts_with("pnccl") ? call.substr(1) : call;
  return name == "ncclBcast" ? "ncclBroadcast" : name;
}

bool only_copies(std::string_view function) {
  constexpr std::string_view kCopies[] = {"ncclAllGather", "ncclBroadcast", "ncclAlltoAll",
                                          "ncclGather", "ncclScatter"};
  return std::find(std::begin(kCopies), std::end(kCopies), function) != std::end(kCopies);
}

struct Function {
  std::string name;
  uint64_t hash = 0;
  bool only_copies = false;
};

uint64_t key_of(const OperationText& operation, const Function& function) {
  uint64_t count = operation.count;
  int type = operation.data_type;
  const bool sized = function.only_copies && is_size_known(operation);
  const uint64_t each = sized ? bytes_of_type(type) : 0;
  if (each != 0 && !__builtin_mul_overflow(operation.count, each, &count)) {
    type = -2;
  } else {
    count = operation.count;
  }
  return format::rolling_hash(0, function.hash, count, type, operation.reduction, operation.peer);
}

// The rolling hash before that operation, from the one after it.
uint64_t hash_before(uint64_t hash, const SequenceItem& item) {
  const OperationText& operation = item.operation;
  const uint64_t arguments = static_cast<uint8_t>(operation.data_type) |
                             uint64_t{static_cast<uint8_t>(operation.reduction)} << 8 |
                             static_cast<uint64_t>(static_cast<uint32_t>(operation.peer)) << 32;
  hash = unmixed(unmixed(hash, arguments), operation.count);
  return unmixed(hash, format::call_name_hash(item.function.c_str()));
}

// What many operations of a trace have in common.
class ItemMaker {
 public:
  explicit ItemMaker(const ProcessTrace& trace) : trace_(trace) {}

  SequenceItem make(const OperationText& operation) {
    const auto [call, is_new_call] = functions_.try_emplace(operation.call);
    if (is_new_call) {
      Function& function = call->second;
      function.name = plain_name(call_name(trace_, operation.call));
      function.hash = format::call_name_hash(function.name.c_str());
      function.only_copies = only_copies(function.name);
    }
    const auto [stack, is_new_stack] = sites_.try_emplace(operation.stack);
    if (is_new_stack) {
      stack->second = site_of(trace_, operation.stack);
    }
    return {key_of(operation, call->second), stack->second, operation, call->second.name};
  }

 private:
  const ProcessTrace& trace_;
  std::unordered_map<uint32_t, Function> functions_;
  std::unordered_map<uint32_t, uint64_t> sites_;
};

// Of all members of one communicator: dumps have thousands of each rank, and those of thousands of
// ranks would be gigabytes.
constexpr size_t kMostItems = 4'000'000;

// Newest first, as far as they follow one another without a gap.
std::vector<SequenceItem> newest_items(const ProcessTrace& trace, const CommunicatorText& text,
                                       size_t most) {
  std::vector<SequenceItem> items;
  items.reserve(std::min(text.recent.size(), most));
  ItemMaker maker(trace);
  uint64_t expected = text.collectives;
  constexpr uint8_t kNot = format::kCaptured | format::kFailed;
  for (auto at = text.recent.rbegin();
       at != text.recent.rend() && expected > 0 && items.size() < most; ++at) {
    if (!at->collective || (at->flags & kNot) != 0) {
      continue;
    }
    // How much it was is not known where the ring begins within it.
    if (at->sequence != expected || (at->flags & format::kUntracked) != 0) {
      break;
    }
    items.push_back(maker.make(*at));
    --expected;
  }
  return items;
}

// Of damaged traces: the oldest hash must be one that the operations before it can have.
bool is_plausible(const Sequence& sequence, const CommunicatorText& text) {
  if (sequence.first == 1) {
    return sequence.hashes.front() == 0;
  }
  return std::all_of(text.checkpoints.begin(), text.checkpoints.end(),
                     [&](const format::Checkpoint& checkpoint) {
                       const auto known = checkpoint.sequence + 1 < sequence.first
                                              ? std::nullopt
                                              : sequence.hash_at(checkpoint.sequence);
                       return !known || *known == checkpoint.hash;
                     });
}

}  // namespace

SequenceItem sequence_item(const ProcessTrace& trace, const OperationText& operation) {
  return ItemMaker(trace).make(operation);
}

std::optional<uint64_t> Sequence::hash_at(uint64_t number) const {
  if (number + 1 >= first && number - (first - 1) < hashes.size()) {
    return hashes[number - (first - 1)];
  }
  const auto found = std::find_if(checkpoints.begin(), checkpoints.end(),
                                  [&](const auto& point) { return point.sequence == number; });
  return found == checkpoints.end() ? std::nullopt : std::optional(found->hash);
}

Sequence sequence_of(const Run& run, const Member& member, size_t most) {
  const ProcessTrace& trace = run.processes[member.process];
  const CommunicatorText& text = text_of(run, member);
  Sequence sequence;
  sequence.member = &member;
  sequence.items = newest_items(trace, text, most);
  // Of damaged traces: so that numbers do not wrap.
  constexpr uint64_t kMost = uint64_t{1} << 62;
  const uint64_t collectives = std::min(text.collectives, kMost);
  sequence.first = collectives - std::min(collectives, sequence.items.size()) + 1;
  if (text.hash != 0) {
    sequence.hashes.push_back(text.hash);
    for (const SequenceItem& item : sequence.items) {
      sequence.hashes.push_back(hash_before(sequence.hashes.back(), item));
    }
    std::reverse(sequence.hashes.begin(), sequence.hashes.end());
  }
  std::reverse(sequence.items.begin(), sequence.items.end());
  if (!sequence.hashes.empty() && !is_plausible(sequence, text)) {
    sequence.hashes.clear();
  }
  if (!sequence.hashes.empty()) {
    std::copy_if(text.checkpoints.begin(), text.checkpoints.end(),
                 std::back_inserter(sequence.checkpoints),
                 [&](const auto& point) { return point.sequence + 1 < sequence.first; });
  }
  // What is called in a group that is still being filled has not been entered.
  sequence.reached = std::min(sequence_reached(trace, text), collectives);
  const uint64_t known =
      sequence.reached + 1 < sequence.first ? 0 : sequence.reached + 1 - sequence.first;
  sequence.items.resize(std::min<size_t>(sequence.items.size(), known));
  sequence.hashes.resize(std::min<size_t>(sequence.hashes.size(), known + 1));
  return sequence;
}

const std::vector<Sequence>& MemberSequences::of(size_t communicator) {
  const auto [at, is_new] = known_.try_emplace(communicator);
  if (is_new) {
    const std::vector<Member>& members = run_.communicators[communicator].members;
    const size_t most = kMostItems / std::max<size_t>(members.size(), 1);
    at->second.reserve(members.size());
    for (const Member& member : members) {
      at->second.push_back(sequence_of(run_, member, most));
    }
  }
  return at->second;
}

std::vector<uint64_t> message_hashes(uint64_t newest, const std::vector<SequenceItem>& items) {
  std::vector<uint64_t> hashes = {newest};
  for (auto item = items.rbegin(); item != items.rend(); ++item) {
    const OperationText& operation = item->operation;
    const uint64_t before = unmixed(hashes.back(), static_cast<uint8_t>(operation.data_type));
    hashes.push_back(unmixed(before, operation.count));
  }
  std::reverse(hashes.begin(), hashes.end());
  return hashes;
}

uint64_t site_of(const ProcessTrace& trace, uint32_t stack) {
  const auto found = stack == 0 ? trace.stacks.end() : trace.stacks.find(stack);
  if (found == trace.stacks.end()) {
    return 0;
  }
  bool known = false;
  uint64_t hash = 1;
  for (const PythonFrameText& frame : found->second.python) {
    hash = format::mixed(text_hash(text_hash(hash, frame.file), frame.function),
                         static_cast<uint64_t>(frame.line));
  }
  if (!found->second.python.empty()) {
    return hash;
  }
  for (const uint64_t address : found->second.native) {
    const auto module = std::find_if(
        trace.modules.begin(), trace.modules.end(),
        [&](const ModuleText& other) { return other.begin <= address && address < other.end; });
    if (module != trace.modules.end()) {  // which lie elsewhere in each process
      hash = format::mixed(text_hash(hash, module->path), address - module->bias);
      known = true;
    }
  }
  return known ? hash : 0;
}

}  // namespace traintrace
