// Makes native traces in memory, well-formed unless told otherwise, for tests of the reader.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "format/trace_format.h"

namespace traintrace::testing {

inline constexpr uint64_t kTestChunkBytes = 1024;
inline constexpr uint64_t kTestTicksPerMs = 3'000'000;  // a processor of 3 GHz
inline constexpr uint64_t kTestEpochNs = 1'700'000'000'000'000'000;

inline uint64_t ticks_at_ms(uint64_t ms) {
  return (ms + 1000) * kTestTicksPerMs;
}

// Words of records.
inline uint64_t record_head(uint16_t call, uint8_t words, uint8_t type, uint32_t stack,
                            uint8_t device = 0) {
  format::RecordHead head{call, static_cast<uint8_t>(words & 63), static_cast<uint8_t>(type & 3),
                          device, stack};
  uint64_t word = 0;
  std::memcpy(&word, &head, sizeof word);
  return word;
}
inline std::vector<uint64_t> enter(uint16_t call, uint64_t ms, std::vector<uint64_t> fields = {},
                                   uint32_t stack = 0) {
  std::vector<uint64_t> words = {
      record_head(call, static_cast<uint8_t>(3 + fields.size()), format::kEnter, stack),
      ticks_at_ms(ms), 0xca11};
  words.insert(words.end(), fields.begin(), fields.end());
  return words;
}
inline std::vector<uint64_t> leave(uint16_t call, uint64_t ms, int32_t result = 0,
                                   std::vector<uint64_t> fields = {}) {
  std::vector<uint64_t> words = {record_head(call, static_cast<uint8_t>(2 + fields.size()),
                                             format::kLeave, static_cast<uint32_t>(result)),
                                 ticks_at_ms(ms)};
  words.insert(words.end(), fields.begin(), fields.end());
  return words;
}

inline std::vector<uint64_t> moment(uint16_t call, uint64_t ms, std::vector<uint64_t> fields,
                                    uint32_t stack = 0, uint8_t device = 0) {
  std::vector<uint64_t> words = {
      record_head(call, static_cast<uint8_t>(2 + fields.size()), format::kMoment, stack, device),
      ticks_at_ms(ms)};
  words.insert(words.end(), fields.begin(), fields.end());
  return words;
}

class TraceBuilder {
 public:
  TraceBuilder() {
    std::memcpy(header.magic, format::kMagic, sizeof header.magic);
    header.version = format::kVersion;
    header.header_bytes = format::kHeaderBytes;
    header.ready = 1;
    header.pid = 4242;
    header.parent_pid = 1;
    header.start_time = 77;
    header.boot_id[0] = 1;
    std::strcpy(header.host, "node-a");
    header.clock = format::kTsc;
    header.first_anchor = {ticks_at_ms(0), 5'000'000'000, kTestEpochNs};
    header.anchors[0] = header.first_anchor;
    header.anchors[1] = {ticks_at_ms(60'000), 65'000'000'000, kTestEpochNs + 60'000'000'000};
    header.anchor_index = 1;
    header.armed_ticks = ticks_at_ms(0);
    header.last_alive_ticks = ticks_at_ms(60'000);
  }

  format::FileHeader header{};
  std::string schema =
      "traintrace 2\n"
      "call 3 cudaMalloc runtime alloc out:address:hex in:bytes:bytes\n"
      "call 7 ncclAllReduce nccl collective in:comm:communicator in:seq:decimal in:count:decimal\n"
      "call 9 ncclGroupStart nccl group-start\n"
      "call 11 reportMemoryUsageToProfiler torch tensor-block in:address:hex in:change:signed "
      "in:allocated:bytes in:reserved:bytes\n"
      "call 13 nvtxRangePush nvtx range-push in:range:range\n"
      "stat 0 ring-overwritten info\n"
      "stat 5 no-chunk warning\n";
  std::vector<uint64_t> stats = std::vector<uint64_t>(8);
  std::vector<format::Thread> threads;
  std::vector<format::OpenRanges> open_ranges;
  std::vector<format::Communicator> communicators;
  std::map<size_t, format::Operation> operations;  // by index in the section
  std::vector<format::Peer> peers;
  std::vector<format::Stream> streams;
  std::vector<format::Allocation> allocations;
  std::vector<format::HostFunction> host_functions;
  std::vector<format::TensorBlock> tensor_blocks;
  std::vector<format::TensorDevice> tensor_devices;
  std::vector<format::OutOfMemory> failures;
  std::vector<format::HeldBlock> held_blocks;

  void add_thread(uint32_t serial, uint64_t events) {
    format::Thread thread{};
    thread.serial = serial;
    thread.tid = static_cast<int32_t>(4241 + serial);
    std::strcpy(thread.name, "worker");
    thread.started_ticks = ticks_at_ms(1);
    thread.events = events;
    threads.push_back(thread);
  }

  void add_chunk(uint64_t ordinal, uint32_t thread, uint64_t first_event,
                 const std::vector<std::vector<uint64_t>>& records) {
    std::vector<uint64_t> words;
    for (const auto& record : records) {
      words.insert(words.end(), record.begin(), record.end());
    }
    const format::EventChunk head{ordinal,
                                  thread,
                                  static_cast<int32_t>(4241 + thread),
                                  first_event,
                                  static_cast<uint32_t>(words.size() * 8),
                                  0};
    std::string chunk = bytes_of(head);
    chunk.append(reinterpret_cast<const char*>(words.data()), words.size() * 8);
    chunk.resize(kTestChunkBytes);
    events_ += chunk;
  }

  // `rest`: the parts behind the fixed one.
  template <class Definition>
  void add_definition(Definition definition, format::DefinitionKind kind, const std::string& rest) {
    const size_t bytes = (sizeof definition + rest.size() + 7) / 8 * 8;
    definition.head = {kind, static_cast<uint32_t>(bytes)};
    std::string all = bytes_of(definition) + rest;
    all.resize(bytes);
    definitions_ += all;
  }

  std::string build() {
    header.section_count = 0;
    std::string file(format::kHeaderBytes, '\0');
    append(file, format::kSchema, schema + '\0', 1);
    append(file, format::kStats, array(stats), 8);
    append(file, format::kThreads, array(threads), sizeof(format::Thread));
    append(file, format::kOpenRanges, array(open_ranges), sizeof(format::OpenRanges));
    append(file, format::kCommunicators, array(communicators), sizeof(format::Communicator));
    std::vector<format::Operation> table(communicators.size() * format::kRecentOperations);
    for (const auto& [index, operation] : operations) {
      table.at(index) = operation;
    }
    append(file, format::kOperations, array(table), sizeof(format::Operation));
    append(file, format::kPeers, array(peers), sizeof(format::Peer));
    append(file, format::kStreams, array(streams), sizeof(format::Stream));
    append(file, format::kHostFunctions, array(host_functions), sizeof(format::HostFunction));
    append(file, format::kAllocations, array(allocations), sizeof(format::Allocation));
    append(file, format::kTensorBlocks, array(tensor_blocks), sizeof(format::TensorBlock));
    append(file, format::kTensorDevices, array(tensor_devices), sizeof(format::TensorDevice));
    append(file, format::kOutOfMemory, array(failures), sizeof(format::OutOfMemory));
    append(file, format::kHeldBlocks, array(held_blocks), sizeof(format::HeldBlock));
    const format::DefinitionChunk head{1, static_cast<uint32_t>(definitions_.size()), 0};
    std::string definitions = bytes_of(head) + definitions_;
    definitions.resize((definitions.size() + 4095) / 4096 * 4096);
    append(file, format::kDefinitions, definitions, static_cast<uint32_t>(definitions.size()));
    append(file, format::kEvents, events_, kTestChunkBytes);
    std::memcpy(file.data(), &header, sizeof header);
    return file;
  }

 private:
  template <class T>
  static std::string bytes_of(const T& value) {
    return std::string(reinterpret_cast<const char*>(&value), sizeof value);
  }
  template <class T>
  static std::string array(const std::vector<T>& values) {
    return std::string(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T));
  }
  void append(std::string& file, format::SectionKind kind, const std::string& bytes,
              uint32_t element) {
    header.sections[header.section_count++] = {kind, element, file.size(), bytes.size()};
    file += bytes;
    file.resize((file.size() + 7) / 8 * 8);
  }

  std::string definitions_;
  std::string events_;
};

// A file that is gone at the end of the scope.
class TemporaryFile {
 public:
  TemporaryFile(std::string path, std::string_view content) : path_(std::move(path)) {
    std::ofstream(path_, std::ios::binary) << content;
  }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;
  ~TemporaryFile() { std::remove(path_.c_str()); }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

}  // namespace traintrace::testing
