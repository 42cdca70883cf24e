#include "interpose/keeper/copy_out.h"

#include <sys/mman.h>

#define XXH_INLINE_ALL  // NOLINT(readability-identifier-naming)
#include <xxhash.h>

#include <algorithm>
#include <cstring>

#include "interpose/keeper/pages.h"
#include "interpose/record/sections.h"
#include "interpose/tables/tables.h"

namespace traintrace {
namespace {

constexpr uint64_t kBufferBytes = uint64_t{256} << 10;

void* map_private(uint64_t bytes) {
  void* const memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return memory == MAP_FAILED ? nullptr : memory;
}

uint64_t memory_bytes(const format::FileHeader& memory) {
  const format::Section& last = memory.sections[memory.section_count - 1];
  return last.offset + last.bytes;
}

uint64_t hash_of(const char* page, uint64_t bytes) {
  const uint64_t hash = XXH3_64bits(page, bytes);
  return hash == 0 ? 1 : hash;  // 0: never copied
}

bool is_copied_elsewhere(const format::Section& section) {
  return section.kind == format::kEvents || section.kind == format::kChunkStates;
}

}  // namespace

bool CopyOut::start(format::FileHeader* memory, int descriptor, LastWord last_word) noexcept {
  memory_ = memory;
  touched_ = Touched(descriptor);
  file_.start(memory, descriptor);
  last_word_ = last_word;
  const format::Section& events = section_of(memory, format::kEvents);
  page_hashes_ = static_cast<uint64_t*>(map_private(memory_bytes(*memory) / kPage * 8 + 8));
  chunks_copied_ = static_cast<ChunkCopied*>(
      map_private((events.bytes / events.element_bytes + 1) * sizeof(ChunkCopied)));
  buffer_ = static_cast<char*>(map_private(kBufferBytes));
  return page_hashes_ && chunks_copied_ && buffer_;
}

bool CopyOut::may_grow(uint64_t bytes) noexcept {
  if (bytes > room_) {
    return false;
  }
  room_ -= bytes;
  return true;
}

bool CopyOut::copy_pages(const format::Section& section, uint64_t ready) noexcept {
  bool whole = true;
  const char* const from = begin_of(*memory_, section);
  uint64_t gathered = 0;  // bytes in the buffer, which lie one after the other
  uint64_t first = 0;     // where in the section they belong
  // Only what is in the file counts as copied: a disk may refuse where there seemed to be room.
  const auto flush = [&] {
    const bool written = file_.write(section.offset + first, buffer_, gathered);
    for (uint64_t at = 0; written && at < gathered; at += kPage) {
      page_hashes_[(section.offset + first + at) / kPage] =
          hash_of(buffer_ + at, std::min(kPage, gathered - at));
    }
    whole = written && whole;
    gathered = 0;
  };
  const auto touched_from = [&](uint64_t at) {
    return touched_.next(section.offset + at, section.offset + ready) - section.offset;
  };
  for (uint64_t at = touched_from(0); at < ready; at = touched_from(at + kPage)) {
    const uint64_t bytes = std::min(kPage, ready - at);
    const uint64_t known = page_hashes_[(section.offset + at) / kPage];
    if (gathered + bytes > kBufferBytes || (gathered != 0 && at != first + gathered)) {
      flush();
    }
    copy_still(buffer_ + gathered, from + at, bytes);
    if (hash_of(buffer_ + gathered, bytes) == known ||
        (known == 0 && is_zero(buffer_ + gathered, bytes))) {
      continue;
    }
    if (known == 0 && !may_grow(bytes)) {
      whole = false;
      continue;
    }
    first = gathered == 0 ? at : first;
    gathered += bytes;
  }
  flush();
  return whole;
}

// First how much of it is whole, then the records: a copy never says more than it has.
bool CopyOut::copy_chunk(const format::Section& section, uint64_t index) noexcept {
  const char* const from = begin_of(*memory_, section) + index * section.element_bytes;
  const auto* const chunk = reinterpret_cast<const format::EventChunk*>(from);
  ChunkCopied& copied = chunks_copied_[index];
  const uint64_t ordinal = load(chunk->ordinal);
  const uint32_t committed = load(chunk->committed);
  const uint64_t bytes = sizeof *chunk + committed;
  if (ordinal == 0 || bytes > section.element_bytes ||
      (copied.ordinal == ordinal && copied.committed == committed)) {
    return true;
  }
  if (copied.ordinal == 0 && !may_grow(section.element_bytes)) {
    return false;
  }
  memcpy(buffer_, from, bytes);
  __atomic_thread_fence(__ATOMIC_ACQUIRE);
  if (load(chunk->ordinal) != ordinal) {
    return true;  // somebody begins it anew: the next round has it
  }
  auto* const head = reinterpret_cast<format::EventChunk*>(buffer_);
  head->committed = committed;
  if (!file_.write(section.offset + index * section.element_bytes, buffer_, bytes)) {
    return false;
  }
  copied = {ordinal, committed};
  return true;
}

// What threads are done with goes to segments, where all is kept.
bool CopyOut::copy_chunks(const format::Section& section, uint64_t ready) noexcept {
  bool whole = true;
  const bool keeps_all = (memory_->keep_flags & format::kKeepAll) != 0;
  const auto* const states = reinterpret_cast<const format::ChunkState*>(
      begin_of(*memory_, section_of(memory_, format::kChunkStates)));
  constexpr uint64_t kStep = 64;
  for (uint64_t i = 0; i < ready / section.element_bytes; ++i) {
    if (i % kStep == 0) {
      fetch_add(memory_->keeper_steps, 1U);
    }
    if (!keeps_all || load(states[i].state) % 2 != 0) {
      whole = copy_chunk(section, i) && whole;
    }
  }
  return whole;
}

// What was recorded, in one number.  Of chunks, how far each has come tells.
uint64_t CopyOut::digest() noexcept {
  uint64_t digest = 0;
  for (uint32_t i = 0; i < memory_->section_count; ++i) {
    const format::Section& section = memory_->sections[i];
    const char* const from = begin_of(*memory_, section);
    const uint64_t ready = load(memory_->ready_bytes[i]);
    if (section.kind == format::kEvents) {
      for (uint64_t at = 0; at < ready; at += section.element_bytes) {
        const auto* const chunk = reinterpret_cast<const format::EventChunk*>(from + at);
        const uint64_t words[] = {load(chunk->ordinal), load(chunk->committed)};
        digest = XXH3_64bits_withSeed(words, sizeof words, digest);
      }
    } else if (!is_copied_elsewhere(section)) {
      const uint64_t end = section.offset + ready;
      for (uint64_t at = touched_.next(section.offset, end); at < end;
           at = touched_.next(at, end)) {
        const uint64_t piece_end = touched_.end_of(at, end);
        digest = XXH3_64bits_withSeed(from + (at - section.offset), piece_end - at, digest + at);
        at = piece_end;
      }
    }
  }
  return digest;
}

// The header last: with it a new copy becomes a trace.
bool CopyOut::copy_layout() noexcept {
  if (file_.is_final() || !file_.open() || !file_.cover_all()) {
    file_.close();
    return false;
  }
  room_ = file_.room();
  bool whole = true;
  for (uint32_t i = 0; i < memory_->section_count; ++i) {
    const format::Section& section = memory_->sections[i];
    const uint64_t ready = load(memory_->ready_bytes[i]);
    fetch_add(memory_->keeper_steps, 1U);
    if (section.kind == format::kEvents) {
      whole = copy_chunks(section, ready) && whole;
    } else if (!is_copied_elsewhere(section)) {
      whole = copy_pages(section, ready) && whole;
    }
  }
  whole = file_.write_header(format::kPartial) && whole;
  file_.close();
  return whole;
}

bool CopyOut::make_final(format::CopyState state) noexcept {
  const uint64_t before = digest();
  const bool made = file_.make_final(state);
  final_digest_ = made ? before : final_digest_;
  return made;
}

bool CopyOut::is_final() noexcept {
  return file_.is_final() && digest() == final_digest_;
}

bool CopyOut::copy_changes() noexcept {
  if (!file_.resume()) {
    return false;
  }
  if (load(memory_->exit_kind) != format::kNotExited && path()[0]) {
    const bool is_last = last_word_ == LastWord::kAtExit;
    if (is_final() || make_final(is_last ? format::kFinal : format::kPartial)) {
      return true;
    }
  }
  return copy_layout();
}

// Where there is no room for two files, the one that is there is completed.
bool CopyOut::finish() noexcept {
  if (!file_.resume()) {
    return false;
  }
  if (is_final()) {
    return file_.complete_final();
  }
  if (!path()[0] && !copy_layout()) {
    return false;
  }
  if (make_final(format::kFinal)) {
    return true;
  }
  if (!copy_layout() || !file_.open()) {
    return false;
  }
  const bool done = file_.write_header(format::kFinal);
  file_.close();
  return done;
}

}  // namespace traintrace
