// The code objects that a thread called from last, and the words that told them from others.
//
// The key of a code object is a sum over some 15 words of it and its parts, found through six
// pointers, since it may be a new one at an old address.  Where all of these words are what they
// were, the key is, too; that they lie where they did is seen on the way, so nothing is read that
// is not part of an object which the code holds.
#pragma once

#include <cstddef>
#include <cstdint>

namespace traintrace {

// What is looked at of a line table: all of one of up to 64 bytes, else four places of it, since a
// known stack must not cost more than its frames.
struct LineTableSample {
  static constexpr uint64_t kBlock = 16;
  static constexpr uint64_t kBlocks = 4;
  alignas(kBlock) uint64_t words[kBlocks][2];  // a table shorter than a block is followed by zeros

  // Where a block of a table of `size` bytes, at least one block, begins.
  static constexpr uint64_t place(uint64_t block, uint64_t size) noexcept {
    const uint64_t last = size - kBlock;
    const uint64_t step = (last + kBlocks - 2) / (kBlocks - 1);
    return block * step < last ? block * step : last;
  }
};

class CodeMemo {
 public:
  struct alignas(64) Entry {  // of whole cache lines
    uint64_t code;            // 0: none
    uint64_t file;
    uint64_t name;
    uint64_t table_address;
    uint32_t version;
    int32_t first_line;
    uint64_t file_length;
    uint32_t file_state;
    uint64_t file_end;  // where the last word of the file's name lies, and what it is
    uint64_t file_word;
    uint64_t table_size;
    uint32_t table_places[LineTableSample::kBlocks];
    uint64_t key;
    LineTableSample table;
  };

  Entry& of(uint64_t code) noexcept {
    constexpr uint64_t kMix = 0x9E3779B97F4A7C15;
    return entries_[(code * kMix) >> (64 - kBits)];
  }

 private:
  static constexpr uint32_t kBits = 9;
  Entry entries_[1U << kBits];
};

}  // namespace traintrace
