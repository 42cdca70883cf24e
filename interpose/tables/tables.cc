#include "interpose/tables/tables.h"

#include <sys/mman.h>

#include "interpose/record/map_memory.h"
#include "interpose/record/sections.h"

namespace traintrace {
namespace {

// What the indices ask for together is 9 MiB for tables of the usual size; it is touched as it is
// used.
constexpr size_t kPrivateBytes = size_t{16} << 20;
constexpr size_t kAlignment = 64;

char* g_memory;
size_t g_memory_used;

struct Block {
  void* memory;
  size_t bytes;
};
constexpr uint32_t kMostBlocks = 16;
Block g_blocks[kMostBlocks];
uint32_t g_block_count;

template <class T>
uint32_t find_table(format::FileHeader* file, format::SectionKind kind, T*& into) noexcept {
  const format::Section& section = section_of(file, kind);
  into = reinterpret_cast<T*>(at(file, section));
  return section.element_bytes == 0 ? 0
                                    : static_cast<uint32_t>(section.bytes / section.element_bytes);
}

}  // namespace

constinit Tables g_tables = {};

void find_tables(format::FileHeader* file) noexcept {
  Tables found{};
  found.file = file;
  found.communicator_count = find_table(file, format::kCommunicators, found.communicators);
  find_table(file, format::kOperations, found.operations);
  found.peer_count = find_table(file, format::kPeers, found.peers);
  found.stream_count = find_table(file, format::kStreams, found.streams);
  found.host_function_count = find_table(file, format::kHostFunctions, found.host_functions);
  if (find_table(file, format::kMarks, found.marks) < found.stream_count ||
      find_table(file, format::kOperationProgress, found.progress) == 0) {
    found.marks = nullptr;
    found.progress = nullptr;
  }
  find_table(file, format::kAllocations, found.allocations);
  find_table(file, format::kTensorBlocks, found.tensor_blocks);
  found.tensor_device_count = find_table(file, format::kTensorDevices, found.tensor_devices);
  found.failure_count = find_table(file, format::kOutOfMemory, found.failures);
  found.held_block_count = find_table(file, format::kHeldBlocks, found.held_blocks);
  found.definition_chunk_count = find_table(file, format::kDefinitions, found.definition_chunks);
  found.definition_chunk_bytes = section_of(file, format::kDefinitions).element_bytes;
  found.thread_count = find_table(file, format::kThreads, found.threads);
  found.open_ranges_count = find_table(file, format::kOpenRanges, found.open_ranges);
  g_tables = found;
}

void private_memory_start() noexcept {
  g_memory = static_cast<char*>(map_sparse(kPrivateBytes));
  g_memory_used = 0;
  g_block_count = 0;
}

void* private_block_bytes(size_t bytes) noexcept {
  void* const memory = g_block_count < kMostBlocks ? map_sparse(bytes) : nullptr;
  if (memory != nullptr) {
    g_blocks[g_block_count++] = {memory, bytes};
  }
  return memory;
}

void* private_memory(size_t bytes) noexcept {
  bytes = (bytes + kAlignment - 1) & ~(kAlignment - 1);
  if (g_memory == nullptr || bytes > kPrivateBytes - g_memory_used) {
    return nullptr;
  }
  char* const memory = g_memory + g_memory_used;
  g_memory_used += bytes;
  return memory;
}

void private_memory_drop() noexcept {
  if (g_memory != nullptr) {
    munmap(g_memory, kPrivateBytes);
    g_memory = nullptr;
  }
  for (uint32_t i = 0; i < g_block_count; ++i) {
    munmap(g_blocks[i].memory, g_blocks[i].bytes);
  }
  g_block_count = 0;
}

}  // namespace traintrace
