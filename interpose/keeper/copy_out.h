// Copies the memory of a trace to a file, again and again what changed since, with write(2).  By
// the keeper, or by a thread of the process where there is none: whatever is called here may block
// for as long as a disk likes.
//
// Here is what changed and when a copy is whole; copy_file.h has the file.
#pragma once

#include <cstdint>

#include "format/trace_format.h"
#include "interpose/keeper/copy_file.h"
#include "interpose/record/touched.h"

namespace traintrace {

class CopyOut {
 public:
  // What comes after the exit of the process: a keeper has the last word when it is gone, a thread
  // of the process has it at its exit.
  enum class LastWord { kWhenGone, kAtExit };
  // `memory` as CopyFile wants it, and its descriptor, if there is one (touched.h).  False: no
  // memory of our own.
  bool start(format::FileHeader* memory, int descriptor, LastWord last_word) noexcept;

  // Copies what changed; of a process at its exit, all of it anew.  False: there is no copy, or it
  // is not whole, or one that another keeper made cannot be looked at now.
  bool copy_changes() noexcept;

  // After the end of the process; the header says how it ended.  False: what is in the folder is
  // not whole, the memory is all there is.
  bool finish() noexcept;
  // After that: what the header says of the process as a whole has changed.
  bool complete() noexcept { return file_.complete_final(); }

  const char* path() const noexcept { return file_.path(); }
  bool was_removed() const noexcept { return file_.was_removed(); }
  // With LastWord::kAtExit, after the exit: the copy is the final one.
  bool had_last_word() const noexcept {
    return file_.is_final() && last_word_ == LastWord::kAtExit;
  }

 private:
  struct ChunkCopied {
    uint64_t ordinal;
    uint32_t committed;
  };

  bool is_final() noexcept;
  bool make_final(format::CopyState state) noexcept;
  // Into the file with the memory's layout, what changed there.
  bool copy_layout() noexcept;
  uint64_t digest() noexcept;
  bool copy_pages(const format::Section& section, uint64_t ready) noexcept;
  bool copy_chunks(const format::Section& section, uint64_t ready) noexcept;
  bool copy_chunk(const format::Section& section, uint64_t index) noexcept;
  // Whether so many bytes that the file did not have may be written.
  bool may_grow(uint64_t bytes) noexcept;

  format::FileHeader* memory_ = nullptr;
  Touched touched_;
  CopyFile file_;
  LastWord last_word_ = LastWord::kWhenGone;
  // Of each page of the memory but those of the ring, a hash of what was copied; 0: never.
  uint64_t* page_hashes_ = nullptr;
  ChunkCopied* chunks_copied_ = nullptr;
  char* buffer_ = nullptr;
  uint64_t room_ = 0;          // bytes by which the file may still grow in this round
  uint64_t final_digest_ = 0;  // of what is in the final file
};

}  // namespace traintrace
