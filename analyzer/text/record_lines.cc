#include "analyzer/text/record_lines.h"

#include <algorithm>
#include <iterator>

#include "analyzer/text/labels.h"
#include "analyzer/text/nearest.h"
#include "analyzer/text/records.h"
#include "analyzer/text/schema_text.h"
#include "analyzer/text/thread_now_lines.h"
#include "format/schema.h"

namespace traintrace {
namespace {

using Words = std::span<const std::string>;

// A table line: how many words come before its keys, and how it is read.
struct LineKind {
  const char* name;
  size_t fixed_words;  // with the name
  const char* form;
  bool (*read)(DraftSet& drafts, Draft& draft, Words words);
};

template <class T>
bool fits(std::optional<uint64_t> number, T& value) {
  value = static_cast<T>(number.value_or(0));
  return number && static_cast<uint64_t>(value) == *number;
}

// The communicator's index + 1; 0 after a complaint.
uint32_t communicator_named(DraftSet& drafts, const Draft& draft, const std::string& label) {
  const auto found = draft.communicators.find(label);
  if (found == draft.communicators.end()) {
    drafts.fail("a communicator of process " + draft.name + " instead of " + label);
    return 0;
  }
  return found->second + 1;
}

bool read_fact(DraftSet& drafts, Draft& draft, Words words) {
  draft.trace.facts[words[1]] = words[2];
  return words.size() == 3 || drafts.fail("fact KEY TEXT");
}

bool read_loss(DraftSet& drafts, Draft& draft, Words words) {
  LossText loss;
  loss.stat = words[1];
  for (const format::StatSpec& spec : format::kStatSpecs) {
    loss.severity = spec.name == loss.stat ? spec.severity : loss.severity;
  }
  if (!fits(parse_unsigned(words[2]), loss.count)) {
    return drafts.fail("loss STAT COUNT");
  }
  KeyReader keys(words.subspan(3), &draft, drafts);
  keys.text("severity", loss.severity);
  draft.trace.losses.push_back(loss);
  return keys.finish();
}

bool read_error(DraftSet& drafts, Draft& draft, Words words) {
  ReadError error;
  error.file = draft.trace.source;
  error.message = words[1];
  KeyReader keys(words.subspan(2), &draft, drafts);
  keys.number("offset", error.offset, 0);
  error.fatal = keys.take_word("fatal");
  error.truncated = keys.take_word("truncated");
  draft.trace.errors.push_back(error);
  return keys.finish();
}

bool read_call(DraftSet& drafts, Draft& draft, Words words) {
  CallSchema call{words[1], words[2], words[3], {}};
  for (const std::string& word : words.subspan(4)) {
    const auto field = parse_field(word);
    if (!field || call.fields.size() == format::kMaxFields) {
      return drafts.fail("in:NAME:FORMAT or out:NAME:FORMAT, 20 at most, instead of " + word);
    }
    call.fields.push_back(*field);
  }
  if (!draft.calls.emplace(call.name, draft.trace.calls.size()).second) {
    return drafts.fail("the line of call " + call.name + " above its first use, and once");
  }
  draft.trace.calls.push_back(std::move(call));
  return true;
}

bool read_module(DraftSet& drafts, Draft& draft, Words words) {
  ModuleText module;
  const std::string_view range = words[1];
  const size_t dash = range.find('-');
  if (dash == range.npos || !fits(parse_unsigned(range.substr(0, dash)), module.begin) ||
      !fits(parse_unsigned(range.substr(dash + 1)), module.end)) {
    return drafts.fail("module 0xBEGIN-0xEND");
  }
  KeyReader keys(words.subspan(2), &draft, drafts);
  records::module_keys(keys, module);
  draft.trace.modules.push_back(module);
  return keys.finish();
}

bool read_kernel(DraftSet& drafts, Draft& draft, Words words) {
  uint64_t function = 0;
  if (words.size() != 3 || !fits(parse_unsigned(words[1]), function)) {
    return drafts.fail("kernel 0xFUNCTION NAME");
  }
  draft.trace.kernels[function] = words[2];
  return true;
}

bool read_stack(DraftSet& drafts, Draft& draft, Words words) {
  uint32_t id = 0;
  if (!fits(parse_unsigned(words[1]), id) || id == 0) {
    return drafts.fail("stack NUMBER FRAME..");
  }
  StackText stack;
  for (const std::string& word : words.subspan(2)) {
    if (!parse_frame(word, stack)) {
      return drafts.fail("file:line:function or 0xADDRESS instead of " + word);
    }
  }
  if (!draft.trace.stacks.emplace(id, std::move(stack)).second) {
    return drafts.fail("another number: stack " + words[1] + " is taken");
  }
  return true;
}

bool read_thread(DraftSet& drafts, Draft& draft, Words words) {
  uint32_t serial = 0;
  if (!fits(parse_unsigned(words[1]), serial)) {
    return drafts.fail("thread NUMBER ..");
  }
  KeyReader keys(words.subspan(2), &draft, drafts);
  ThreadText& thread = draft.thread(serial);
  thread.tid = 0;
  records::thread_keys(keys, thread);
  return keys.finish();
}

bool read_open(DraftSet& drafts, Draft& draft, Words words) {
  uint32_t serial = 0;
  const auto call = draft.call(words[3]);
  if (!fits(parse_unsigned(words[1]), serial) || (words[2] != "cuda" && words[2] != "nccl") ||
      !call) {
    return drafts.fail("open THREAD cuda|nccl CALL ..");
  }
  ThreadText::Open& open = draft.thread(serial).open[words[2] == "cuda" ? 0 : 1];
  open.call = *call;
  KeyReader keys(words.subspan(4), &draft, drafts);
  records::open_keys(keys, open);
  return keys.finish();
}

bool read_range(DraftSet& drafts, Draft& draft, Words words) {
  uint32_t id = 0;
  if (!fits(parse_unsigned(words[1]), id) || id == 0) {
    return drafts.fail("range NUMBER NAME ..");
  }
  RangeNameText range;
  range.name = words[2];
  KeyReader keys(words.subspan(3), &draft, drafts);
  records::range_name_keys(keys, range);
  if (!draft.trace.ranges.emplace(id, std::move(range)).second) {
    return drafts.fail("another number: range " + words[1] + " is taken");
  }
  return keys.finish();
}

bool read_open_range(DraftSet& drafts, Draft& draft, Words words) {
  uint32_t serial = 0;
  if (!fits(parse_unsigned(words[1]), serial)) {
    return drafts.fail("open-range THREAD ..");
  }
  KeyReader keys(words.subspan(2), &draft, drafts);
  records::open_range_keys(keys, draft.thread(serial).ranges.emplace_back());
  return keys.finish();
}

bool read_stream(DraftSet& drafts, Draft& draft, Words words) {
  if (words[1] != std::to_string(draft.trace.streams.size() + 1)) {
    return drafts.fail("streams numbered from 1, in order");
  }
  KeyReader keys(words.subspan(2), &draft, drafts);
  records::stream_keys(keys, draft.trace.streams.emplace_back());
  return keys.finish();
}

bool read_communicator(DraftSet& drafts, Draft& draft, Words words) {
  if (!draft.communicators.emplace(words[1], draft.trace.communicators.size()).second) {
    return drafts.fail("another name: communicator " + words[1] + " is taken");
  }
  KeyReader keys(words.subspan(2), &draft, drafts);
  records::communicator_keys(keys, draft.trace.communicators.emplace_back());
  return keys.finish();
}

bool read_checkpoint(DraftSet& drafts, Draft& draft, Words words) {
  const uint32_t communicator = communicator_named(drafts, draft, words[1]);
  format::Checkpoint checkpoint{};
  if (communicator == 0) {
    return false;
  }
  if (!fits(parse_unsigned(words[2]), checkpoint.sequence) ||
      !fits(parse_unsigned(words[3]), checkpoint.hash)) {
    return drafts.fail("checkpoint NAME SEQUENCE 0xHASH");
  }
  draft.trace.communicators[communicator - 1].checkpoints.push_back(checkpoint);
  return true;
}

bool read_operation(DraftSet& drafts, Draft& draft, Words words) {
  const uint32_t communicator = communicator_named(drafts, draft, words[1]);
  const auto call = draft.call(words[3]);
  OperationText operation;
  if (communicator == 0) {
    return false;
  }
  if (!call || !fits(parse_unsigned(words[2]), operation.index)) {
    return drafts.fail("operation NAME N CALL ..");
  }
  operation.call = *call;
  operation.collective = draft.trace.calls[*call].kind == "collective";
  operation.receive = words[3].find("Recv") != std::string::npos;
  KeyReader keys(words.subspan(4), &draft, drafts);
  records::operation_keys(keys, operation);
  draft.trace.communicators[communicator - 1].recent.push_back(operation);
  return keys.finish();
}

bool read_peer(DraftSet& drafts, Draft& draft, Words words) {
  PeerText peer;
  peer.communicator = communicator_named(drafts, draft, words[1]);
  const auto number = parse_signed(words[3]);
  if (peer.communicator == 0) {
    return false;
  }
  if (!number || *number != static_cast<int>(*number) ||
      (words[2] != "send" && words[2] != "receive")) {
    return drafts.fail("peer NAME send|receive RANK ..");
  }
  peer.peer = static_cast<int>(*number);
  peer.receive = words[2] == "receive";
  KeyReader keys(words.subspan(4), &draft, drafts);
  records::peer_keys(keys, peer);
  draft.trace.peers.push_back(peer);
  return keys.finish();
}

bool read_host_function(DraftSet& drafts, Draft& draft, Words words) {
  StackText address;
  if (!parse_frame(words[1], address) || address.native.empty()) {
    return drafts.fail("host-function 0xADDRESS ..");
  }
  HostFunctionText function;
  function.function = address.native.front();
  KeyReader keys(words.subspan(2), &draft, drafts);
  records::host_function_keys(keys, function);
  draft.trace.host_functions.push_back(function);
  return keys.finish();
}

bool read_allocation(DraftSet& drafts, Draft& draft, Words words) {
  AllocationText allocation;
  if (!fits(parse_unsigned(words[1]), allocation.address)) {
    return drafts.fail("allocation 0xADDRESS ..");
  }
  KeyReader keys(words.subspan(2), &draft, drafts);
  records::allocation_keys(keys, allocation);
  draft.trace.allocations.push_back(allocation);
  return keys.finish();
}

bool read_tensor_block(DraftSet& drafts, Draft& draft, Words words) {
  TensorBlockText block;
  if (!fits(parse_unsigned(words[1]), block.address)) {
    return drafts.fail("tensor-block 0xADDRESS ..");
  }
  KeyReader keys(words.subspan(2), &draft, drafts);
  records::tensor_block_keys(keys, block);
  draft.trace.tensor_blocks.push_back(block);
  return keys.finish();
}

bool read_freed_block(DraftSet& drafts, Draft& draft, Words words) {
  FreedBlockText block;
  if (!fits(parse_unsigned(words[1]), block.bytes)) {
    return drafts.fail("freed-block BYTES ..");
  }
  KeyReader keys(words.subspan(2), &draft, drafts);
  records::freed_block_keys(keys, block);
  draft.trace.freed_blocks.push_back(block);
  return keys.finish();
}

bool read_tensor_device(DraftSet& drafts, Draft& draft, Words words) {
  TensorDeviceText device;
  uint8_t number = 0;
  if (!fits(parse_unsigned(words[1]), number)) {
    return drafts.fail("tensor-device NUMBER ..");
  }
  device.device = number;
  KeyReader keys(words.subspan(2), &draft, drafts);
  records::tensor_device_keys(keys, device);
  draft.trace.tensor_devices.push_back(device);
  return keys.finish();
}

bool read_out_of_memory(DraftSet& drafts, Draft& draft, Words words) {
  OutOfMemoryText failure;
  if (!fits(parse_unsigned(words[1]), failure.number)) {
    return drafts.fail("out-of-memory NUMBER ..");
  }
  KeyReader keys(words.subspan(2), &draft, drafts);
  records::out_of_memory_keys(keys, failure);
  draft.trace.out_of_memory.push_back(std::move(failure));
  return keys.finish();
}

bool read_held(DraftSet& drafts, Draft& draft, Words words) {
  std::vector<OutOfMemoryText>& failures = draft.trace.out_of_memory;
  HeldBlockText block;
  if (failures.empty() || words[1] != std::to_string(failures.back().number) ||
      !fits(parse_unsigned(words[2]), block.address)) {
    return drafts.fail("held NUMBER 0xADDRESS .. below its `out-of-memory` line");
  }
  KeyReader keys(words.subspan(3), &draft, drafts);
  records::held_block_keys(keys, block);
  failures.back().held.push_back(block);
  return keys.finish();
}

constexpr LineKind kLines[] = {
    {"fact", 3, "fact KEY TEXT", read_fact},
    {"loss", 3, "loss STAT COUNT ..", read_loss},
    {"error", 2, "error MESSAGE ..", read_error},
    {"call", 4, "call NAME LIBRARY KIND FIELD..", read_call},
    {"module", 2, "module 0xBEGIN-0xEND ..", read_module},
    {"kernel", 3, "kernel 0xFUNCTION NAME", read_kernel},
    {"stack", 2, "stack NUMBER FRAME..", read_stack},
    {"thread", 2, "thread NUMBER ..", read_thread},
    {"open", 4, "open THREAD cuda|nccl CALL ..", read_open},
    {"range", 3, "range NUMBER NAME ..", read_range},
    {"open-range", 2, "open-range THREAD ..", read_open_range},
    {"stream", 2, "stream NUMBER ..", read_stream},
    {"communicator", 2, "communicator NAME ..", read_communicator},
    {"checkpoint", 4, "checkpoint NAME SEQUENCE 0xHASH", read_checkpoint},
    {"operation", 4, "operation NAME N CALL ..", read_operation},
    {"peer", 4, "peer NAME send|receive RANK ..", read_peer},
    {"host-function", 2, "host-function 0xADDRESS ..", read_host_function},
    {"allocation", 2, "allocation 0xADDRESS ..", read_allocation},
    {"tensor-block", 2, "tensor-block 0xADDRESS ..", read_tensor_block},
    {"freed-block", 2, "freed-block BYTES ..", read_freed_block},
    {"tensor-device", 2, "tensor-device NUMBER ..", read_tensor_device},
    {"out-of-memory", 2, "out-of-memory NUMBER ..", read_out_of_memory},
    {"held", 3, "held NUMBER 0xADDRESS ..", read_held},
    {"thread-now", 2, "thread-now TID ..", read_thread_now},
    {"frame-now", 4, "frame-now TID python|native FUNCTION ..", read_frame_now},
};

}  // namespace

bool read_record_line(DraftSet& drafts, Words words) {
  const auto line = std::find_if(std::begin(kLines), std::end(kLines),
                                 [&](const LineKind& kind) { return words[0] == kind.name; });
  if (line == std::end(kLines)) {
    std::vector<std::string> names = {"start", "run", "end", "process", "ranks"};
    std::transform(std::begin(kLines), std::end(kLines), std::back_inserter(names),
                   [](const LineKind& kind) { return kind.name; });
    return drafts.fail("a line of docs/dump.md instead of " + words[0] +
                       did_you_mean(words[0], names));
  }
  if (words.size() < line->fixed_words) {
    return drafts.fail(line->form);
  }
  if (drafts.current.empty()) {
    return drafts.fail("a `process` or `ranks` line above");
  }
  return std::all_of(drafts.current.begin(), drafts.current.end(),
                     [&](Draft* draft) { return line->read(drafts, *draft, words); });
}

void read_process_keys(KeyReader& keys, ProcessTrace& trace) {
  for (const auto& [key, fact] :
       {std::pair("rank", "env.RANK"), std::pair("world", "env.WORLD_SIZE"),
        std::pair("local", "env.LOCAL_RANK")}) {
    if (const auto value = keys.take(key)) {
      trace.facts[fact] = *value;
    }
  }
  records::process_keys(keys, trace);
}

}  // namespace traintrace
