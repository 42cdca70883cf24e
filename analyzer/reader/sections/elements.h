// Reads the elements of a table that may change while it is read.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "analyzer/reader/files/trace_bytes.h"
#include "format/trace_format.h"

namespace traintrace {

// The same elements, read three times in a row.
class ThreeReadings {
 public:
  ThreeReadings(const TraceBytes& file, uint64_t offset, size_t bytes)
      : file_(file), offset_(offset) {
    for (std::vector<std::byte>& reading : readings_) {
      reading.resize(bytes);
      got_ = std::min(got_, file.read(offset, reading));
    }
  }
  size_t got() const { return got_; }

  // Between the first and the last reading of an element its guard, by same(a, b), must not have
  // changed: then the one in the middle is of one moment.  Two are not enough, since the kernel's
  // copy does not read the words of an element in their order.
  template <class T, class Same>
  T element(size_t at, size_t bytes, Same same) {
    constexpr int kMostReadings = 12;
    const auto part = [&](int i) { return std::span(readings_[i]).subspan(at, bytes); };
    T first = value_from<T>(part(0));
    T middle = value_from<T>(part(1));
    T last = value_from<T>(part(2));
    for (int readings = 3; !same(first, last) && readings < kMostReadings; ++readings) {
      first = middle;
      middle = last;
      file_.read(offset_ + at, part(2));
      last = value_from<T>(part(2));
    }
    return middle;
  }

 private:
  const TraceBytes& file_;
  uint64_t offset_;
  std::array<std::vector<std::byte>, 3> readings_;
  size_t got_ = std::numeric_limits<size_t>::max();
};

// Calls take(index, element) for each element of which in_use(element) holds.  same(a, b) compares
// the words that change before and after the others do.  An element that changes all the time is
// taken as it was seen.
template <class T, class InUse, class Same, class Take>
void read_elements(const TraceBytes& file, const format::Section& section, InUse in_use, Same same,
                   Take take) {
  constexpr uint64_t kBlockBytes = 1 << 18;
  const uint64_t each = section.element_bytes;
  const uint64_t per_block = std::max<uint64_t>(1, kBlockBytes / each);
  const uint64_t count = section.bytes / each;
  for (uint64_t begin = 0; begin < count; begin += per_block) {
    const size_t bytes = std::min(per_block, count - begin) * each;
    ThreeReadings readings(file, section.offset + begin * each, bytes);
    for (uint64_t i = 0; (i + 1) * each <= readings.got(); ++i) {
      const T element = readings.element<T>(i * each, each, same);
      if (in_use(element)) {
        take(begin + i, element);
      }
    }
  }
}

}  // namespace traintrace
