#include "interpose/record/layout.h"

#include <algorithm>

#include "format/schema.h"
#include "interpose/base/files.h"
#include "interpose/record/sections.h"

namespace traintrace {
namespace {

constexpr uint64_t kPage = 4096;
constexpr uint64_t kMiB = 1024UL * 1024;
constexpr uint32_t kUsualDefinitionsMb = 16;
constexpr uint32_t kDefinitionChunk = 16 * 1024;
constexpr uint32_t kEventChunk = 8 * 1024;
constexpr uint64_t kFirstDefinitions = kMiB;
constexpr uint32_t kFirstRingMb = 8;
constexpr uint32_t kFirstRingOfChildMb = 1;
constexpr uint64_t kThreads = 4096;
constexpr uint64_t kOpenRanges = 1024;     // of as many threads
constexpr uint64_t kFirstOpenRanges = 31;  // in 64 KiB; more with the threads that need them
constexpr uint64_t kCommunicators = 512;
constexpr uint64_t kStreams = 4096;
constexpr uint64_t kPeers = 8192;
constexpr uint64_t kHostFunctions = 512;
constexpr uint64_t kTensorDevices = 128;  // c10's number of a device is an int8_t
constexpr uint64_t kFailures = 2ULL * (format::kFirstFailures + format::kLastFailures);
constexpr uint64_t kHeldBlocks = 32768;

// A thread that lives for a few calls takes a whole chunk, so they must not be large; a chunk is a
// thread's step off the hot path, every 300 records or so, so they must not be small.
uint32_t chunk_bytes(uint32_t ring_mb) {
  return ring_mb == 1 ? kEventChunk / 2 : kEventChunk;
}

void describe(Text& text, const format::CallSpec& call, int id) {
  text << "call " << id << " " << call.name << " "
       << format::kLibraryNames[static_cast<int>(call.library)] << " "
       << format::spec_of(call.kind).name;
  for (int i = 0; i < call.field_count; ++i) {
    const format::FieldName& field = format::kFieldNames[static_cast<int>(call.fields[i].field)];
    text << (call.fields[i].after_call ? " out:" : " in:") << field.name << ":" << field.format;
  }
  text << "\n";
}

void describe(Text& text, const format::MomentSpec& moment, int id) {
  text << "call " << id << " " << moment.name << " " << moment.library << " "
       << format::spec_of(moment.kind).name;
  for (int i = 0; i < moment.field_count; ++i) {
    const format::FieldName& field = format::kFieldNames[static_cast<int>(moment.fields[i])];
    text << " in:" << field.name << ":" << field.format;
  }
  text << "\n";
}

void describe_all(Text& text) {
  text << "traintrace " << int64_t{format::kVersion} << "\n";
  for (int id = 0; id < static_cast<int>(format::kCallCount); ++id) {
    describe(text, format::kCalls[id], id);
  }
  for (size_t i = 0; i < format::kMomentCount; ++i) {
    describe(text, format::kMoments[i], format::id_of(static_cast<format::Moment>(i)));
  }
  for (int i = 0; i < static_cast<int>(format::Stat::kCount); ++i) {
    text << "stat " << i << " " << format::kStatSpecs[i].name << " "
         << format::kStatSpecs[i].severity << "\n";
  }
}

uint64_t whole_pages(uint64_t bytes) {
  return (bytes + kPage - 1) / kPage * kPage;
}

struct Layout {
  format::FileHeader& header;
  uint64_t end = format::kHeaderBytes;

  // `first_bytes` of it are used from the start.
  void add(format::SectionKind kind, uint64_t element_bytes, uint64_t elements,
           uint64_t first_bytes = UINT64_MAX) {
    const uint64_t bytes = element_bytes * elements;
    header.ready_bytes[header.section_count] = std::min(bytes, first_bytes);
    header.sections[header.section_count++] = {kind, static_cast<uint32_t>(element_bytes), end,
                                               bytes};
    end = whole_pages(end + bytes);
  }

  void add_growing(format::SectionKind kind, uint64_t element_bytes, uint32_t steps) {
    add(kind, element_bytes, elements_before_step(steps), element_bytes * kFirstTableStep);
  }
};

}  // namespace

TraceSize usual_size(uint32_t ring_mb, bool progress) noexcept {
  return {ring_mb, kFirstRingMb, std::min(kUsualDefinitionsMb, std::max(ring_mb, 1u)),
          kMostTableSteps, progress};
}

TraceSize size_of_child(uint32_t ring_mb, bool progress) noexcept {
  TraceSize size = usual_size(ring_mb, progress);
  size.first_ring_mb = kFirstRingOfChildMb;
  return size;
}

bool make_smaller(TraceSize& size) noexcept {
  if (size.table_steps > 2) {
    size.table_steps = 2;
    return true;
  }
  if (size.ring_mb == 1) {
    return false;
  }
  const uint32_t steps = size.ring_mb > 4 ? 2 : 1;
  const uint32_t first_ring_mb = size.first_ring_mb;
  size = usual_size(std::max(size.ring_mb / 4, 1u), size.progress);
  size.first_ring_mb = first_ring_mb;
  size.table_steps = steps;
  return true;
}

uint64_t lay_out(const TraceSize& size, format::FileHeader& header) noexcept {
  Text schema(nullptr, 0);
  describe_all(schema);
  header.section_count = 0;
  Layout layout{header};
  layout.add(format::kSchema, 1, schema.length() + 1);
  layout.add(format::kStats, sizeof(uint64_t), static_cast<uint64_t>(format::Stat::kCount));
  layout.add(format::kThreads, sizeof(format::Thread), kThreads);
  layout.add(format::kCommunicators, sizeof(format::Communicator), kCommunicators);
  layout.add(format::kOperations, sizeof(format::Operation),
             kCommunicators * format::kRecentOperations);
  layout.add(format::kPeers, sizeof(format::Peer), kPeers);
  layout.add(format::kStreams, sizeof(format::Stream), kStreams);
  layout.add(format::kHostFunctions, sizeof(format::HostFunction), kHostFunctions);
  if (size.progress) {
    layout.add(format::kMarks, sizeof(format::MarkWords), kStreams);
    layout.add(format::kOperationProgress, sizeof(format::OperationProgress),
               kCommunicators * format::kRecentOperations);
  }
  layout.add(format::kTensorDevices, sizeof(format::TensorDevice), kTensorDevices);
  layout.add(format::kOutOfMemory, sizeof(format::OutOfMemory), kFailures);
  layout.add(format::kHeldBlocks, sizeof(format::HeldBlock), kHeldBlocks);
  const uint32_t chunk = chunk_bytes(size.ring_mb);
  const uint64_t chunks = size.ring_mb * kMiB / chunk;
  layout.add(format::kChunkStates, sizeof(format::ChunkState), chunks);
  layout.add_growing(format::kAllocations, sizeof(format::Allocation), size.table_steps);
  layout.add_growing(format::kTensorBlocks, sizeof(format::TensorBlock), size.table_steps);
  layout.add(format::kOpenRanges, sizeof(format::OpenRanges), kOpenRanges,
             kFirstOpenRanges * sizeof(format::OpenRanges));
  layout.add(format::kDefinitions, kDefinitionChunk, size.definitions_mb * kMiB / kDefinitionChunk,
             kFirstDefinitions);
  layout.add(format::kEvents, chunk, chunks, size.first_ring_mb * kMiB);
  return layout.end;
}

void write_schema(format::FileHeader* file) noexcept {
  const format::Section& section = section_of(file, format::kSchema);
  Text text(at(file, section), section.bytes);
  describe_all(text);
}

}  // namespace traintrace
