#include "interpose/record/touched.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>

namespace traintrace {

// A file in memory has a hole where pages are reserved only (mm/filemap.c, mapping_seek_hole_data).
uint64_t Touched::next(uint64_t offset, uint64_t end) noexcept {
  if (offset >= begin_ && offset < end_) {
    return std::min(offset, end);
  }
  const off_t data = lseek(descriptor_, static_cast<off_t>(offset), SEEK_DATA);
  if (data < 0) {
    return errno == ENXIO ? end : offset;
  }
  const off_t hole = lseek(descriptor_, data, SEEK_HOLE);
  begin_ = static_cast<uint64_t>(data);
  end_ = hole < 0 ? begin_ : static_cast<uint64_t>(hole);
  return std::min(begin_, end);
}

uint64_t Touched::end_of(uint64_t offset, uint64_t end) noexcept {
  return offset >= begin_ && offset < end_ ? std::min(end_, end) : end;
}

}  // namespace traintrace
