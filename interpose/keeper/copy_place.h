// Where the copy of a trace may lie.  By the keeper only: everything here may block on a disk.
#pragma once

#include <cstdint>

#include "interpose/base/files.h"
#include "interpose/keeper/storage.h"

namespace traintrace {

struct CopyPlace {
  ShortText folder;  // without symbolic links
  Storage storage = Storage::kLocal;
  const char* problem = nullptr;  // why it is not usable
  bool ours = false;              // nobody named it, and only this user may own it
};

// TRAINTRACE_DIR, then /tmp/traintrace-UID and /var/tmp/traintrace-UID.
inline constexpr int kCopyPlaces = 3;
void choose_copy_places(const char* dir, CopyPlace (&places)[kCopyPlaces]) noexcept;

int create_folders(const char* path) noexcept;
// In a folder that everybody may write to, somebody else could have put ours in place.  -1: no.
int open_copy_folder(const CopyPlace& place) noexcept;

// How many bytes more the file system of this descriptor may take.  The job's checkpoints matter
// more than its trace: the larger of 5 % and 4 GiB of a disk stay free, and three quarters of what
// is left of a memory.
uint64_t room_left(int descriptor, Storage storage) noexcept;

}  // namespace traintrace
