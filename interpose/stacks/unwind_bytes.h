// Reads the bytes of unwind tables.  The tables come with the program and may be damaged: nothing
// is read outside [position, end), and after a read that would have been, everything reads as 0.
#pragma once

#include <cstdint>
#include <cstring>

namespace traintrace {

class UnwindBytes {
 public:
  // Both are addresses in this process; the memory between them must be readable.
  UnwindBytes(uint64_t position, uint64_t end) noexcept : position_(position), end_(end) {
    if (position > end) {
      fail();
    }
  }

  bool ok() const noexcept { return !failed_; }
  bool empty() const noexcept { return position_ == end_; }
  uint64_t position() const noexcept { return position_; }
  void fail() noexcept {
    failed_ = true;
    position_ = end_;
  }

  template <class Number>
  Number read() noexcept {
    Number number{};
    if (end_ - position_ < sizeof number) {
      fail();
    } else {
      memcpy(&number, reinterpret_cast<const void*>(position_), sizeof number);
      position_ += sizeof number;
    }
    return number;
  }

  void skip(uint64_t bytes) noexcept {
    if (end_ - position_ < bytes) {
      fail();
    } else {
      position_ += bytes;
    }
  }

  // The next `bytes` bytes apart, which are skipped here.
  UnwindBytes take(uint64_t bytes) noexcept {
    const uint64_t from = position_;
    skip(bytes);
    return ok() ? UnwindBytes(from, position_) : UnwindBytes(end_ + 1, end_);
  }

  uint64_t uleb() noexcept {
    uint64_t number = 0;
    for (unsigned shift = 0;; shift += 7) {
      const auto byte = read<uint8_t>();
      if (shift < 64) {
        number |= uint64_t{byte & 0x7Fu} << shift;
      }
      if ((byte & 0x80) == 0) {
        return number;
      }
    }
  }

  int64_t sleb() noexcept {
    uint64_t number = 0;
    for (unsigned shift = 0;;) {
      const auto byte = read<uint8_t>();
      if (shift < 64) {
        number |= uint64_t{byte & 0x7Fu} << shift;
        shift += 7;
      }
      if ((byte & 0x80) == 0) {
        if (shift < 64 && (byte & 0x40) != 0) {
          number |= ~uint64_t{0} << shift;
        }
        return static_cast<int64_t>(number);
      }
    }
  }

  // An address in one of the encodings DW_EH_PE_* of the Linux Standard Base: absolute or relative
  // to itself.  All others fail, since no linker writes them where an address matters here.
  uint64_t encoded(uint8_t encoding) noexcept {
    constexpr uint8_t kAbsolute = 0x00, kPcRelative = 0x10;
    const uint64_t here = position_;
    const uint64_t number = encoded_number(encoding & 0x0F);
    const uint8_t relative_to = encoding & 0xF0;
    if (relative_to != kAbsolute && relative_to != kPcRelative) {
      fail();
    }
    return relative_to == kPcRelative ? here + number : number;
  }

  uint64_t encoded_number(uint8_t format) noexcept {
    switch (format) {
      case 0x01:
        return uleb();
      case 0x02:
        return read<uint16_t>();
      case 0x03:
        return read<uint32_t>();
      case 0x00:
      case 0x04:
      case 0x0C:
        return read<uint64_t>();
      case 0x09:
        return static_cast<uint64_t>(sleb());
      case 0x0A:
        return static_cast<uint64_t>(int64_t{read<int16_t>()});
      case 0x0B:
        return static_cast<uint64_t>(int64_t{read<int32_t>()});
      default:
        fail();
        return 0;
    }
  }

 private:
  uint64_t position_;
  uint64_t end_;
  bool failed_ = false;
};

}  // namespace traintrace
