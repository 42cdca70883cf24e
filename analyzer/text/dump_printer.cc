#include "analyzer/text/dump_printer.h"

#include <algorithm>
#include <map>
#include <set>

#include "analyzer/text/event_printer.h"
#include "analyzer/text/key_printer.h"
#include "analyzer/text/labels.h"
#include "analyzer/text/records.h"
#include "analyzer/text/schema_text.h"
#include "analyzer/text/thread_now_lines.h"

namespace traintrace {
namespace {

// Facts that are keys of the `process` line.
constexpr std::pair<const char*, const char*> kRankKeys[] = {
    {"rank", "env.RANK"}, {"world", "env.WORLD_SIZE"}, {"local", "env.LOCAL_RANK"}};

class TablePrinter {
 public:
  TablePrinter(std::string& out, const ProcessTrace& trace, const std::string& name, TimeNs start)
      : out_(out),
        trace_(trace),
        name_(name),
        start_(start),
        keys_(out, trace, start),
        communicators_(communicator_labels(trace)) {}

  void print_process() {
    out_ += "process " + quoted(name_);
    for (const auto& [key, fact] : kRankKeys) {
      const auto found = trace_.facts.find(fact);
      if (found != trace_.facts.end()) {
        keys_.text(key, found->second);
      }
    }
    records::process_keys(keys_, trace_);
    out_ += '\n';
  }

  void print_tables() {
    print_facts();
    print_schema();
    print_modules();
    print_ranges();
    for (const auto& [id, stack] : trace_.stacks) {
      print_stack(id, stack);
    }
    print_threads();
    print_streams();
    print_host_functions();
    print_communicators();
    print_peers();
    print_allocations();
    print_tensors();
    print_out_of_memory();
    append_threads_now(out_, trace_, start_);
  }

 private:
  void begin(std::string_view word, uint64_t number) {
    out_ += word;
    out_ += ' ';
    append_unsigned(out_, number);
  }

  void print_facts() {
    for (const auto& [key, value] : trace_.facts) {
      const bool shown = std::any_of(std::begin(kRankKeys), std::end(kRankKeys),
                                     [&key = key, &value = value](const auto& row) {
                                       return key == row.second && !value.empty();
                                     });
      if (!shown) {
        out_ += "fact " + quoted(key) + ' ' + quoted(value) + '\n';
      }
    }
    for (const LossText& loss : trace_.losses) {
      out_ += "loss " + quoted(loss.stat) + ' ';
      append_unsigned(out_, loss.count);
      keys_.text("severity", loss.severity);
      out_ += '\n';
    }
    for (const ReadError& error : trace_.errors) {
      out_ += "error " + quoted(error.message);
      keys_.number("offset", error.offset, 0);
      out_ += error.fatal ? " fatal" : "";
      out_ += error.truncated ? " truncated" : "";
      out_ += '\n';
    }
  }

  void print_schema() {
    for (const CallSchema& call : trace_.calls) {
      if (!is_known_call(call)) {
        out_ += call_line(call) + '\n';
      }
    }
  }

  void print_modules() {
    for (const ModuleText& module : trace_.modules) {
      out_ += "module ";
      append_hex(out_, module.begin);
      out_ += '-';
      append_hex(out_, module.end);
      records::module_keys(keys_, module);
      out_ += '\n';
    }
    for (const auto& [function, kernel] : trace_.kernels) {
      out_ += "kernel ";
      append_hex(out_, function);
      out_ += ' ' + quoted(kernel) + '\n';
    }
  }

  void print_ranges() {
    for (const auto& [id, range] : trace_.ranges) {
      begin("range", id);
      out_ += ' ' + quoted(range.name);
      records::range_name_keys(keys_, range);
      out_ += '\n';
    }
  }

  void print_stack(uint32_t id, const StackText& stack) {
    begin("stack", id);
    for (const PythonFrameText& frame : stack.python) {
      out_ += ' ' + quoted(python_frame_word(frame));
    }
    for (const uint64_t address : stack.native) {
      out_ += ' ' + native_frame_word(trace_, address);
    }
    out_ += '\n';
  }

  void print_threads() {
    for (const ThreadText& thread : trace_.threads) {
      begin("thread", thread.serial);
      records::thread_keys(keys_, thread);
      out_ += '\n';
      for (int layer = 0; layer < 2; ++layer) {
        const ThreadText::Open& open = thread.open[layer];
        if (open.enter != 0 && open.call < trace_.calls.size()) {
          begin("open", thread.serial);
          out_ += layer == 0 ? " cuda " : " nccl ";
          out_ += quoted(trace_.calls[open.call].name);
          records::open_keys(keys_, open);
          out_ += '\n';
        }
      }
      for (const OpenRangeText& range : thread.ranges) {
        begin("open-range", thread.serial);
        records::open_range_keys(keys_, range);
        out_ += '\n';
      }
    }
  }

  void print_streams() {
    for (size_t i = 0; i < trace_.streams.size(); ++i) {
      begin("stream", i + 1);
      records::stream_keys(keys_, trace_.streams[i]);
      out_ += '\n';
    }
  }

  void print_host_functions() {
    for (const HostFunctionText& function : trace_.host_functions) {
      out_ += "host-function " + native_frame_word(trace_, function.function);
      records::host_function_keys(keys_, function);
      out_ += '\n';
    }
  }

  void print_communicators() {
    for (size_t i = 0; i < trace_.communicators.size(); ++i) {
      const CommunicatorText& communicator = trace_.communicators[i];
      out_ += "communicator " + quoted(communicators_[i]);
      records::communicator_keys(keys_, communicator);
      out_ += '\n';
      for (const format::Checkpoint& checkpoint : communicator.checkpoints) {
        out_ += "checkpoint " + quoted(communicators_[i]) + ' ';
        append_unsigned(out_, checkpoint.sequence);
        out_ += ' ';
        append_hex(out_, checkpoint.hash);
        out_ += '\n';
      }
      for (const OperationText& operation : communicator.recent) {
        print_operation(communicators_[i], operation);
      }
    }
  }

  void print_operation(const std::string& communicator, const OperationText& operation) {
    if (operation.call >= trace_.calls.size()) {
      return;
    }
    out_ += "operation " + quoted(communicator) + ' ';
    append_unsigned(out_, operation.index);
    out_ += ' ' + quoted(trace_.calls[operation.call].name);
    records::operation_keys(keys_, operation);
    out_ += '\n';
  }

  void print_peers() {
    for (const PeerText& peer : trace_.peers) {
      if (peer.communicator == 0 || peer.communicator > communicators_.size()) {
        continue;
      }
      out_ += "peer " + quoted(communicators_[peer.communicator - 1]);
      out_ += peer.receive ? " receive " : " send ";
      out_ += std::to_string(peer.peer);
      records::peer_keys(keys_, peer);
      out_ += '\n';
    }
  }

  void print_allocations() {
    for (const AllocationText& allocation : trace_.allocations) {
      out_ += "allocation ";
      append_hex(out_, allocation.address);
      records::allocation_keys(keys_, allocation);
      out_ += '\n';
    }
  }

  void print_tensors() {
    for (const TensorDeviceText& device : trace_.tensor_devices) {
      begin("tensor-device", static_cast<uint64_t>(device.device));
      records::tensor_device_keys(keys_, device);
      out_ += '\n';
    }
    for (const TensorBlockText& block : trace_.tensor_blocks) {
      out_ += "tensor-block ";
      append_hex(out_, block.address);
      records::tensor_block_keys(keys_, block);
      out_ += '\n';
    }
    for (const FreedBlockText& block : trace_.freed_blocks) {
      begin("freed-block", block.bytes);
      records::freed_block_keys(keys_, block);
      out_ += '\n';
    }
  }

  void print_out_of_memory() {
    for (const OutOfMemoryText& failure : trace_.out_of_memory) {
      begin("out-of-memory", failure.number);
      records::out_of_memory_keys(keys_, failure);
      out_ += '\n';
      for (const HeldBlockText& block : failure.held) {
        begin("held", failure.number);
        out_ += ' ';
        append_hex(out_, block.address);
        records::held_block_keys(keys_, block);
        out_ += '\n';
      }
    }
  }

  std::string& out_;
  const ProcessTrace& trace_;
  const std::string& name_;
  TimeNs start_;
  KeyPrinter keys_;
  std::vector<std::string> communicators_;
};

TimeNs earliest(std::span<const ProcessTrace> processes) {
  TimeNs start = 0;
  for (const ProcessTrace& trace : processes) {
    if (trace.armed != 0 && (start == 0 || trace.armed < start)) {
      start = trace.armed;
    }
  }
  return start;
}

std::vector<std::string> process_names(std::span<const ProcessTrace> processes) {
  std::map<std::string, int> uses;
  std::vector<std::string> names;
  for (const ProcessTrace& trace : processes) {
    const auto rank = trace.facts.find("env.RANK");
    names.push_back(rank != trace.facts.end() ? rank->second : "");
    ++uses[names.back()];
  }
  std::set<std::string> taken;
  for (size_t i = 0; i < names.size(); ++i) {
    const ProcessTrace& trace = processes[i];
    if (uses[names[i]] > 1 || !parse_unsigned(names[i])) {
      names[i] = trace.host + ':' + std::to_string(trace.pid);
    }
    if (!taken.insert(names[i]).second) {
      names[i] += '.' + std::to_string(i);
      taken.insert(names[i]);
    }
  }
  return names;
}

}  // namespace

DumpHeading dump_heading(std::span<const ProcessTrace> processes) {
  DumpHeading heading;
  heading.start = earliest(processes);
  heading.line = "start ";
  append_seconds(heading.line, heading.start);
  heading.line += '\n';
  heading.names = process_names(processes);
  return heading;
}

void print_process(const ProcessTrace& trace, const std::string& name, TimeNs start,
                   const DumpOptions& options, const WriteText& write) {
  std::string out;
  TablePrinter tables(out, trace, name, start);
  tables.print_process();
  if (options.tables) {
    tables.print_tables();
  }
  write(out);
  print_events(trace, name, start, options, write);
}

void print_dump(std::span<const ProcessTrace> processes, const DumpOptions& options,
                const WriteText& write) {
  const DumpHeading heading = dump_heading(processes);
  write(heading.line);
  for (size_t i = 0; i < processes.size(); ++i) {
    print_process(processes[i], heading.names[i], heading.start, options, write);
  }
}

}  // namespace traintrace
