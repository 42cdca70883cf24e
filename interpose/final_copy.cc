#include "interpose/final_copy.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "format/schema.h"
#include "interpose/clock.h"
#include "interpose/file_writing.h"
#include "interpose/sections.h"

namespace traintrace {
namespace {

using format::EventChunk;
using format::FileHeader;
using format::Section;

constexpr uint64_t kPage = 4096;

uint64_t whole_pages(uint64_t bytes) {
  return (bytes + kPage - 1) / kPage * kPage;
}

const char* begin_of(const FileHeader& memory, const Section& section) {
  return reinterpret_cast<const char*>(&memory) + section.offset;
}

bool is_zero(const char* from, uint64_t bytes) {
  return bytes == 0 || (from[0] == 0 && memcmp(from, from + 1, bytes - 1) == 0);
}

bool ended_well(const FileHeader& memory) {
  return memory.exit_kind != format::kNotExited && memory.exit_status == 0;
}

bool may_be_cut(const Section& section) {
  return section.kind == format::kDefinitions || section.kind == format::kAllocations ||
         section.kind == format::kTensorBlocks || section.kind == format::kHeldBlocks;
}

// Of the large ones, bytes up to the last page that holds anything, in whole elements.
uint64_t used_bytes(const FileHeader& memory, const Section& section, uint64_t ready) {
  if (!may_be_cut(section)) {
    return ready;
  }
  const char* const from = begin_of(memory, section);
  uint64_t pages = (ready + kPage - 1) / kPage;
  while (pages > 0 &&
         is_zero(from + (pages - 1) * kPage, std::min(kPage, ready - (pages - 1) * kPage))) {
    --pages;
  }
  const uint64_t bytes = std::min(pages * kPage, ready);
  return (bytes + section.element_bytes - 1) / section.element_bytes * section.element_bytes;
}

// Interior pages without content stay holes.
bool write_pages(int file, uint64_t offset, const char* from, uint64_t bytes) {
  for (uint64_t at = 0; at < bytes;) {
    uint64_t end = at;
    while (end < bytes && !is_zero(from + end, std::min(kPage, bytes - end))) {
      end = std::min(end + kPage, bytes);
    }
    if (end > at && !write_at(file, offset + at, from + at, end - at)) {
      return false;
    }
    at = end == bytes ? bytes : std::min(end + kPage, bytes);
  }
  return true;
}

const EventChunk* chunk_at(const FileHeader& memory, const Section& section, uint64_t index) {
  return reinterpret_cast<const EventChunk*>(begin_of(memory, section) +
                                             index * section.element_bytes);
}

// The ordinal of the oldest chunk that is kept.  1: all are, also where there is no memory to find
// out.
uint64_t oldest_kept(const FileHeader& memory, const Section& section, uint64_t ready) {
  const uint64_t most = memory.finished_ring_bytes / section.element_bytes;
  const uint64_t count = ready / section.element_bytes;
  if (!ended_well(memory) || (memory.keep_flags & format::kKeepAll) != 0 || count <= most) {
    return 1;
  }
  if (most == 0) {
    return UINT64_MAX;
  }
  const uint64_t bytes = count * sizeof(uint64_t);
  void* const mapped =
      mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapped == MAP_FAILED) {
    return 1;
  }
  auto* const ordinals = static_cast<uint64_t*>(mapped);
  uint64_t used = 0;
  for (uint64_t i = 0; i < count; ++i) {
    const uint64_t ordinal = chunk_at(memory, section, i)->ordinal;
    ordinals[used] = ordinal;
    used += ordinal != 0 ? 1 : 0;
  }
  uint64_t oldest = 1;
  if (used > most) {
    std::nth_element(ordinals, ordinals + (used - most), ordinals + used);
    oldest = ordinals[used - most];
  }
  munmap(mapped, bytes);
  return oldest;
}

void count_left_out(FileHeader& memory, uint64_t records) {
  const Section& stats = section_of(&memory, format::kStats);
  auto* const counts = reinterpret_cast<uint64_t*>(at(&memory, stats));
  counts[static_cast<int>(format::Stat::RingShortened)] = records;
}

void get_on(FileHeader& memory) {
  __atomic_fetch_add(&memory.keeper_steps, 1U, __ATOMIC_RELEASE);
}

// A chunk that its thread still held at the end has no count of its own yet: the thread has it.
uint64_t records_held(FileHeader& memory, const EventChunk& chunk) {
  const Section& threads = section_of(&memory, format::kThreads);
  const auto* const begin = reinterpret_cast<const format::Thread*>(at(&memory, threads));
  const auto* const end =
      begin + memory.ready_bytes[index_of(&memory, format::kThreads)] / sizeof(format::Thread);
  const auto* const holder = std::find_if(
      begin, end, [&](const format::Thread& thread) { return thread.serial == chunk.thread; });
  return holder != end && holder->events > chunk.first_event ? holder->events - chunk.first_event
                                                             : 0;
}

uint64_t records_of(FileHeader& memory, uint64_t index, const EventChunk& chunk) {
  const Section& states = section_of(&memory, format::kChunkStates);
  const auto& state = reinterpret_cast<const format::ChunkState*>(at(&memory, states))[index];
  return state.state % 2 != 0 ? records_held(memory, chunk) : state.records;
}

// Returns the bytes of the section, which begins at `offset`; UINT64_MAX: a write failed.
uint64_t write_chunks(FileHeader& memory, const Section& section, uint64_t ready, int file,
                      uint64_t offset) {
  const uint64_t oldest = oldest_kept(memory, section, ready);
  uint64_t written = 0;
  uint64_t left_out = 0;
  for (uint64_t i = 0; i < ready / section.element_bytes; ++i) {
    const EventChunk* const chunk = chunk_at(memory, section, i);
    constexpr uint64_t kStep = 64;
    if (i % kStep == 0) {
      get_on(memory);
    }
    if (chunk->ordinal == 0) {
      continue;
    }
    if (chunk->ordinal < oldest) {
      left_out += records_of(memory, i, *chunk);
      continue;
    }
    const uint64_t bytes =
        std::min<uint64_t>(section.element_bytes, sizeof *chunk + chunk->committed);
    if (!write_at(file, offset + written, chunk, bytes)) {
      return UINT64_MAX;
    }
    written += section.element_bytes;
  }
  count_left_out(memory, left_out);
  return written;
}

}  // namespace

uint64_t final_copy_bytes(const FileHeader& memory) noexcept {
  uint64_t bytes = format::kHeaderBytes;
  for (uint32_t i = 0; i < memory.section_count; ++i) {
    const Section& section = memory.sections[i];
    const bool shortened = section.kind == format::kEvents && ended_well(memory) &&
                           (memory.keep_flags & format::kKeepAll) == 0;
    const uint64_t ready = memory.ready_bytes[i];
    bytes += whole_pages(shortened ? std::min(ready, memory.finished_ring_bytes) : ready);
  }
  return bytes;
}

// The ring first: what is left out of it is counted in a section that follows.
bool write_final_copy(FileHeader& memory, format::CopyState state, int file) noexcept {
  FileHeader header;
  memcpy(&header, &memory, sizeof header);
  header.section_count = 0;
  memset(header.sections, 0, sizeof header.sections);
  memset(header.ready_bytes, 0, sizeof header.ready_bytes);
  uint64_t end = format::kHeaderBytes;
  const auto add = [&](const Section& section, uint64_t bytes) {
    header.ready_bytes[header.section_count] = bytes;
    header.sections[header.section_count++] = {section.kind, section.element_bytes, end, bytes};
    end = whole_pages(end + bytes);
  };
  const Section& events = section_of(&memory, format::kEvents);
  const uint64_t ready = memory.ready_bytes[index_of(&memory, format::kEvents)];
  const uint64_t ring = write_chunks(memory, events, ready, file, end);
  if (ring == UINT64_MAX) {
    return false;
  }
  add(events, ring);
  for (uint32_t i = 0; i < memory.section_count; ++i) {
    const Section& section = memory.sections[i];
    if (section.kind == format::kEvents || section.kind == format::kChunkStates) {
      continue;
    }
    get_on(memory);
    const uint64_t bytes = used_bytes(memory, section, memory.ready_bytes[i]);
    if (!write_pages(file, end, begin_of(memory, section), bytes)) {
      return false;
    }
    add(section, bytes);
  }
  header.copy_state = state;
  header.copied_realtime_ns = nanoseconds(CLOCK_REALTIME);
  return ftruncate(file, static_cast<off_t>(end)) == 0 && write_at(file, 0, &header, sizeof header);
}

bool complete_final_copy(const FileHeader& memory, int file) noexcept {
  FileHeader there;
  if (pread(file, &there, sizeof there, 0) != sizeof there) {
    return false;
  }
  FileHeader header;
  memcpy(&header, &memory, sizeof header);
  header.section_count = there.section_count;
  memcpy(header.sections, there.sections, sizeof header.sections);
  memcpy(header.ready_bytes, there.ready_bytes, sizeof header.ready_bytes);
  header.copy_state = format::kFinal;
  header.copied_realtime_ns = nanoseconds(CLOCK_REALTIME);
  return write_at(file, 0, &header, sizeof header);
}

}  // namespace traintrace
