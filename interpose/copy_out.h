// Copies the memory of a trace to a file, again and again what changed since, with write(2).  By
// the keeper, or by a thread of the process where there is none: whatever is called here may block
// for as long as a disk likes.
//
// While the process runs the file has the memory's layout and its holes.  At its end a file without
// holes takes its place, in one step (rename), with what is worth keeping: at its exit, while it
// waits, so that nothing comes and goes in the folder afterwards; else when it is gone.
#pragma once

#include <cstdint>

#include "format/trace_format.h"
#include "interpose/copy_place.h"

namespace traintrace {

class CopyOut {
 public:
  // What comes after the exit of the process: a keeper has the last word when it is gone, a thread
  // of the process has it at its exit.
  enum class LastWord { kWhenGone, kAtExit };
  // `memory` is mapped as a whole and can be written to: the header tells readers of the memory
  // where the copy is.  A copy that another keeper made is gone on with.  False: no memory of our
  // own.
  bool start(format::FileHeader* memory, LastWord last_word) noexcept;

  // Copies what changed; of a process at its exit, all of it anew.  The first call looks for a
  // place; where there is none, each later one looks again.  False: there is no copy, or it is not
  // whole.
  bool copy_changes() noexcept;

  // After the end of the process; the header says how it ended.  False: what is in the folder is
  // not whole, the memory is all there is.
  bool finish() noexcept;

  const char* path() const noexcept { return path_; }
  // The file was removed, or another one took its place: somebody does not want it.
  bool was_removed() const noexcept { return removed_; }
  // With LastWord::kAtExit, after the exit: the copy is the final one.
  bool had_last_word() const noexcept { return is_dense_ && last_word_ == LastWord::kAtExit; }

 private:
  struct ChunkSeen {
    uint64_t ordinal;
    uint32_t committed;
  };

  void resume() noexcept;
  bool open_copy() noexcept;
  bool create_named(int folder) noexcept;
  bool find_place() noexcept;
  bool create_in(const CopyPlace& place) noexcept;
  bool make_final(format::CopyState state) noexcept;
  bool complete_final() noexcept;
  uint64_t digest() const noexcept;
  bool cover_all() noexcept;
  void close_copy() noexcept;
  bool copy_pages(const format::Section& section, uint64_t ready) noexcept;
  bool copy_chunks(const format::Section& section, uint64_t ready) noexcept;
  bool copy_chunk(const format::Section& section, uint64_t index) noexcept;
  bool copy_header(format::CopyState state) noexcept;
  // Whether so many bytes that the file did not have may be written.
  bool may_grow(uint64_t bytes) noexcept;

  format::FileHeader* memory_ = nullptr;
  // Of each page of the memory but those of the ring, a hash of what was copied; 0: never.
  uint64_t* page_hashes_ = nullptr;
  ChunkSeen* chunks_seen_ = nullptr;
  char* buffer_ = nullptr;
  int file_ = -1;
  uint64_t inode_ = 0;
  uint64_t covered_ = 0;  // length of the file
  uint64_t room_ = 0;     // bytes by which the file may still grow in this round
  Storage storage_ = Storage::kLocal;
  bool removed_ = false;
  LastWord last_word_ = LastWord::kWhenGone;
  bool is_dense_ = false;      // the file is the final one
  uint64_t final_digest_ = 0;  // of what is in it
  char path_[kMaxPath] = {};
};

}  // namespace traintrace
