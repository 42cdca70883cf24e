// The file with the copy of a trace's memory: where it lies, how it gets its name, and whether it
// is still the one that we made.
//
// While the process runs the file has the memory's layout and its holes.  At its end a file without
// holes takes its place, in one step (rename), with what is worth keeping: at its exit, while it
// waits, so that nothing comes and goes in the folder afterwards; else when it is gone.
#pragma once

#include <cstdint>

#include "format/trace_format.h"
#include "interpose/keeper/copy_place.h"

namespace traintrace {

class CopyFile {
 public:
  // `memory` is mapped as a whole and can be written to: the header tells readers of the memory
  // where the copy is.
  void start(format::FileHeader* memory, int descriptor) noexcept {
    memory_ = memory;
    descriptor_ = descriptor;
  }

  // A copy that another keeper made is gone on with.  False: whether it is there cannot be told
  // now.
  bool resume() noexcept;
  // The first call looks for a place; where there is none, each later one looks again.
  bool open() noexcept;
  void close() noexcept;
  // Of the open file.
  bool cover_all() noexcept;
  bool write(uint64_t offset, const char* from, uint64_t bytes) noexcept;
  bool write_header(format::CopyState state) noexcept;
  uint64_t room() const noexcept { return room_left(file_, storage_); }

  // The file without holes takes its place.  False: the one that was there is, as it was.
  bool make_final(format::CopyState state) noexcept;
  // Its header says how the process ended.
  bool complete_final() noexcept;

  const char* path() const noexcept { return path_; }
  // The file was removed, or another one took its place: somebody does not want it.
  bool was_removed() const noexcept { return removed_; }
  bool is_final() const noexcept { return is_dense_; }

 private:
  bool find_place() noexcept;
  bool create_in(const CopyPlace& place) noexcept;
  bool create_named(int folder) noexcept;
  bool rename_first(int folder, const char* first) noexcept;

  format::FileHeader* memory_ = nullptr;
  int descriptor_ = -1;
  int file_ = -1;
  uint64_t inode_ = 0;
  uint64_t covered_ = 0;  // its length
  Storage storage_ = Storage::kLocal;
  bool removed_ = false;
  bool is_dense_ = false;  // it is the one without holes
  char path_[kMaxPath] = {};
};

}  // namespace traintrace
