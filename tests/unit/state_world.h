// A trace in memory and the tracer's tables on it, without the preload: what a wrapper would call
// is called by hand.  Python is played: a test says which frames the thread has.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "format/schema.h"
#include "format/trace_format.h"
#include "interpose/base/guard.h"
#include "interpose/python/host_samples.h"
#include "interpose/python/python_frames.h"
#include "interpose/python/python_sampled.h"
#include "interpose/record/definitions.h"
#include "interpose/record/stats.h"
#include "interpose/stacks/modules.h"
#include "interpose/stacks/stack_frames.h"
#include "interpose/stacks/stacks.h"
#include "interpose/tables/state.h"

namespace traintrace {

alignas(4096) constinit GuardPage g_guard = {};

// Python as the test wants it: a code object's address stands for its name.
inline std::vector<PythonFrame> g_played_frames;
inline bool g_played_python = true;  // is there to be found
inline bool g_python_found = false;

size_t python_frames(PythonFrame* out, size_t max) noexcept {
  if (!g_python_found) {
    return 0;
  }
  const size_t count = std::min(max, g_played_frames.size());
  std::copy_n(g_played_frames.begin(), count, out);
  return count;
}
bool find_python() noexcept {
  return g_python_found = g_played_python;
}
uint64_t python_code_key(uint64_t code) noexcept {
  return code * 3 + 1;
}
void python_code_keys(const PythonFrame* frames, size_t count, CodeMemo&, uint64_t* keys) noexcept {
  for (size_t i = 0; i < count; ++i) {
    keys[i] = python_code_key(frames[i].code);
  }
}
bool describe_python_code(uint64_t code, PythonCode& into) noexcept {
  const std::string name = "code" + std::to_string(code);
  into.qualname_bytes = static_cast<uint32_t>(name.size());
  std::strcpy(into.qualname, name.c_str());
  into.file_bytes = 8;
  std::strcpy(into.file, "train.py");
  into.first_line = static_cast<int32_t>(code);
  into.minor = 11;
  static const std::vector<uint8_t> table(20000, 7);
  into.line_table = table.data();
  into.line_table_bytes = code == 999 ? 20000 : 5;
  return true;
}
// No test has samples.
size_t sampled_frames(const PythonThread&, CopiedMemory&, PythonFrame*, size_t) noexcept {
  return 0;
}
uint64_t sampled_code_key(uint64_t code, CopiedMemory&) noexcept {
  return python_code_key(code);
}
bool describe_sampled_code(uint64_t code, CopiedMemory&, SampledText&, PythonCode& into) noexcept {
  return describe_python_code(code, into);
}
void host_samples_watch(ThreadState&) noexcept {}

namespace testing_world {

struct Sizes {
  uint32_t communicators = 64;
  uint32_t peers = 64;
  uint32_t streams = 64;
  uint32_t host_functions = 4;
  uint32_t allocations = 256;
  uint32_t tensor_blocks = 256;
  uint32_t held_blocks = 64;
  uint32_t definition_chunks = 16;
  uint32_t threads = 16;
  bool progress = false;
};

class World {
 public:
  explicit World(const Sizes& sizes = {}) : sizes_(sizes) {
    constexpr size_t kBytes = size_t{64} << 20;
    memory_ = static_cast<char*>(mmap(nullptr, kBytes, PROT_READ | PROT_WRITE,
                                      MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
    bytes_ = kBytes;
    end_ = format::kHeaderBytes;
    add(format::kStats, sizeof(uint64_t), static_cast<uint32_t>(format::Stat::kCount));
    add(format::kThreads, sizeof(format::Thread), sizes.threads);
    add(format::kOpenRanges, sizeof(format::OpenRanges), sizes.threads);
    add(format::kCommunicators, sizeof(format::Communicator), sizes.communicators);
    add(format::kOperations, sizeof(format::Operation),
        sizes.communicators * format::kRecentOperations);
    add(format::kPeers, sizeof(format::Peer), sizes.peers);
    add(format::kStreams, sizeof(format::Stream), sizes.streams);
    add(format::kHostFunctions, sizeof(format::HostFunction), sizes.host_functions);
    add(format::kAllocations, sizeof(format::Allocation), sizes.allocations);
    add(format::kTensorBlocks, sizeof(format::TensorBlock), sizes.tensor_blocks);
    add(format::kTensorDevices, sizeof(format::TensorDevice), 128);
    add(format::kOutOfMemory, sizeof(format::OutOfMemory),
        2 * (format::kFirstFailures + format::kLastFailures));
    add(format::kHeldBlocks, sizeof(format::HeldBlock), sizes.held_blocks);
    if (sizes.progress) {
      add(format::kMarks, sizeof(format::MarkWords), sizes.streams);
      add(format::kOperationProgress, sizeof(format::OperationProgress),
          sizes.communicators * format::kRecentOperations);
    }
    add(format::kDefinitions, 16384, sizes.definition_chunks);
    header().pid = 1234;
    header().start_time = 99;
    std::strcpy(header().host, "host");
    g_stats = table<uint64_t>(format::kStats);
    g_guard.words.armed = 1;
    g_stack_mode = Stacks::kAll;
    g_played_frames.clear();
    g_played_python = true;
    g_python_found = false;
    state_start(&header());
    wait_for_the_loader();
  }
  ~World() {
    state_reset_after_fork();
    g_guard.words.armed = 0;
    munmap(memory_, bytes_);
  }
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  format::FileHeader& header() { return *reinterpret_cast<format::FileHeader*>(memory_); }

  ThreadState& thread(uint32_t index = 0) {
    while (threads_.size() <= index) {
      auto state = std::make_unique<ThreadState>();
      std::memset(static_cast<void*>(state.get()), 0, sizeof *state);
      state->tid = static_cast<int32_t>(100 + threads_.size());
      state->device = 0;
      state->device_chosen = true;
      memos_.push_back(std::make_unique<NativeMemo>());
      state->native_memo = memos_.back().get();
      state->native_memo->clear();
      code_memos_.push_back(std::make_unique<CodeMemo>());
      state->code_memo = code_memos_.back().get();
      stack_frames_.push_back(std::make_unique<StackFrames>());
      state->frames = stack_frames_.back().get();
      state->slot = &table<format::Thread>(format::kThreads)[threads_.size()];
      state->slot->serial = static_cast<uint32_t>(threads_.size() + 1);
      threads_.push_back(std::move(state));
    }
    return *threads_[index];
  }

  uint64_t stat(format::Stat stat) {
    return table<uint64_t>(format::kStats)[static_cast<size_t>(stat)];
  }

  // By number: index + 1.
  format::Communicator& communicator(uint32_t number) {
    return table<format::Communicator>(format::kCommunicators)[number - 1];
  }
  // Operation n of a communicator, as a reader finds it.
  format::Operation& operation(uint32_t communicator, uint64_t n) {
    return table<format::Operation>(
        format::kOperations)[(communicator - 1) * uint64_t{format::kRecentOperations} +
                             n % format::kRecentOperations];
  }
  format::Operation& last_operation(uint32_t number) {
    return operation(number, communicator(number).operations - 1);
  }

  template <class T>
  T* table(format::SectionKind kind) {
    for (const format::Section& section : header().sections) {
      if (section.kind == kind) {
        return reinterpret_cast<T*>(memory_ + section.offset);
      }
    }
    return nullptr;
  }
  const Sizes& sizes() const { return sizes_; }

  // Committed definitions of a kind, in the order of chunks.
  std::vector<const format::DefinitionHead*> definitions(format::DefinitionKind kind) {
    std::vector<const format::DefinitionHead*> found;
    for (uint32_t i = 0; i < sizes_.definition_chunks; ++i) {
      const char* chunk = table<char>(format::kDefinitions) + size_t{i} * 16384;
      const auto* head = reinterpret_cast<const format::DefinitionChunk*>(chunk);
      uint32_t at = 0;
      while (head->ordinal != 0 && at < head->committed) {
        const auto* definition =
            reinterpret_cast<const format::DefinitionHead*>(chunk + sizeof *head + at);
        if (definition->kind == kind) {
          found.push_back(definition);
        }
        if (definition->bytes == 0 || definition->bytes % 8 != 0) {
          ADD_FAILURE() << "definition of " << definition->bytes << " bytes";
          break;
        }
        at += definition->bytes;
      }
    }
    return found;
  }

 private:
  // The world before was ended as if by a fork, after which the loader is in doubt for a moment.
  static void wait_for_the_loader() {
    const auto here = reinterpret_cast<uint64_t>(&wait_for_the_loader);
    while (!with_module_at(
        here, [](const Module*, void*) {}, nullptr)) {
      usleep(100);
    }
  }

  void add(format::SectionKind kind, uint32_t element_bytes, uint32_t elements) {
    format::FileHeader& file = header();
    file.ready_bytes[file.section_count] = uint64_t{element_bytes} * elements;
    file.sections[file.section_count++] = {kind, element_bytes, end_,
                                           uint64_t{element_bytes} * elements};
    end_ += (uint64_t{element_bytes} * elements + 4095) / 4096 * 4096;
  }

  Sizes sizes_;
  char* memory_;
  size_t bytes_;
  uint64_t end_;
  std::vector<std::unique_ptr<ThreadState>> threads_;
  std::vector<std::unique_ptr<NativeMemo>> memos_;
  std::vector<std::unique_ptr<CodeMemo>> code_memos_;
  std::vector<std::unique_ptr<StackFrames>> stack_frames_;
};

}  // namespace testing_world
}  // namespace traintrace
