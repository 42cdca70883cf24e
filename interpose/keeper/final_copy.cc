#include "interpose/keeper/final_copy.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "format/schema.h"
#include "interpose/base/file_writing.h"
#include "interpose/keeper/pages.h"
#include "interpose/record/clock.h"
#include "interpose/record/sections.h"
#include "interpose/record/touched.h"
#include "interpose/tables/tables.h"

namespace traintrace {
namespace {

using format::EventChunk;
using format::FileHeader;
using format::Section;

bool ended_well(const FileHeader& memory) {
  return memory.exit_kind != format::kNotExited && memory.exit_status == 0;
}

bool may_be_cut(const Section& section) {
  return section.kind == format::kDefinitions || section.kind == format::kAllocations ||
         section.kind == format::kTensorBlocks || section.kind == format::kHeldBlocks;
}

// Of the large ones, bytes up to the last page that holds anything, in whole elements.
uint64_t used_bytes(const FileHeader& memory, Touched& touched, const Section& section,
                    uint64_t ready) {
  if (!may_be_cut(section)) {
    return ready;
  }
  const char* const from = begin_of(memory, section);
  const uint64_t end = section.offset + ready;
  uint64_t pages = 0;
  for (uint64_t at = touched.next(section.offset, end); at < end; at = touched.next(at, end)) {
    at = touched.end_of(at, end);
    pages = (at - section.offset + kPage - 1) / kPage;
  }
  while (pages > 0 &&
         is_zero(from + (pages - 1) * kPage, std::min(kPage, ready - (pages - 1) * kPage))) {
    --pages;
  }
  const uint64_t bytes = std::min(pages * kPage, ready);
  return (bytes + section.element_bytes - 1) / section.element_bytes * section.element_bytes;
}

// Interior pages without content stay holes.
bool write_pages(int file, uint64_t offset, Touched& touched, const Section& section,
                 const char* from, uint64_t bytes) {
  char buffer[16 * kPage];  // of the keeper's stack, or of the copying thread's
  const auto touched_from = [&](uint64_t at) {
    return touched.next(section.offset + at, section.offset + bytes) - section.offset;
  };
  for (uint64_t at = touched_from(0); at < bytes; at = touched_from(at)) {
    const uint64_t end =
        touched.end_of(section.offset + at, section.offset + bytes) - section.offset;
    uint64_t gathered = 0;
    while (at + gathered < end && gathered < sizeof buffer) {
      const uint64_t page = std::min(kPage, end - at - gathered);
      copy_still(buffer + gathered, from + at + gathered, page);
      if (is_zero(buffer + gathered, page)) {
        break;
      }
      gathered += page;
    }
    if (!write_at(file, offset + at, buffer, gathered)) {
      return false;
    }
    at += gathered == sizeof buffer ? gathered : gathered + kPage;
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
    const uint64_t ordinal = load(chunk_at(memory, section, i)->ordinal);
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

// In the file only: of the memory nothing is left out.
bool count_left_out(int file, uint64_t stats, uint64_t records) {
  const uint64_t place =
      stats + static_cast<uint64_t>(format::Stat::RingShortened) * sizeof records;
  return records == 0 || write_at(file, place, &records, sizeof records);
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
  return load(state.state) % 2 != 0 ? records_held(memory, chunk) : state.records;
}

// Other threads may record while one is at its exit: no more is said to be in the chunk than was
// whole when its header was read, and one that is begun anew meanwhile is left as an unused one.
bool write_chunk(const EventChunk* chunk, uint64_t most, int file, uint64_t offset) {
  EventChunk head;
  const uint64_t ordinal = load(chunk->ordinal);
  memcpy(&head, chunk, sizeof head);
  head.ordinal = ordinal;
  if (sizeof head + head.committed > most) {
    return true;
  }
  const bool written = write_at(file, offset, &head, sizeof head) &&
                       write_at(file, offset + sizeof head, chunk + 1, head.committed);
  __atomic_thread_fence(__ATOMIC_ACQUIRE);
  constexpr uint64_t kUnused = 0;
  const bool is_whole = load(chunk->ordinal) == ordinal;
  return written && (is_whole || write_at(file, offset, &kUnused, sizeof kUnused));
}

// Returns the bytes of the section, which begins at `offset`; UINT64_MAX: a write failed.
uint64_t write_chunks(FileHeader& memory, const Section& section, uint64_t ready, int file,
                      uint64_t offset, uint64_t& left_out) {
  const uint64_t oldest = oldest_kept(memory, section, ready);
  uint64_t written = 0;
  for (uint64_t i = 0; i < ready / section.element_bytes; ++i) {
    const EventChunk* const chunk = chunk_at(memory, section, i);
    constexpr uint64_t kStep = 64;
    if (i % kStep == 0) {
      get_on(memory);
    }
    const uint64_t ordinal = load(chunk->ordinal);
    if (ordinal == 0) {
      continue;
    }
    if (ordinal < oldest) {
      left_out += records_of(memory, i, *chunk);
      continue;
    }
    if (!write_chunk(chunk, section.element_bytes, file, offset + written)) {
      return UINT64_MAX;
    }
    written += section.element_bytes;
  }
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

// The ring first: only then it is known how much of it was left out.
bool write_final_copy(FileHeader& memory, int descriptor, format::CopyState state,
                      int file) noexcept {
  Touched touched(descriptor);
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
  uint64_t left_out = 0;
  const uint64_t ring = write_chunks(memory, events, ready, file, end, left_out);
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
    const uint64_t bytes = used_bytes(memory, touched, section, memory.ready_bytes[i]);
    if (!write_pages(file, end, touched, section, begin_of(memory, section), bytes) ||
        (section.kind == format::kStats && !count_left_out(file, end, left_out))) {
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
