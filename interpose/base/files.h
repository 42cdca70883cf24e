// Small files and text without stdio and malloc: the tracer may run where neither is safe.
#pragma once

#include <cstddef>
#include <cstdint>

namespace traintrace {

// The beginning of a file, NUL-terminated, empty if it cannot be read.  Returns its length.
size_t read_file(const char* path, char* into, size_t size) noexcept;

// A folder that only this user can write to, whoever made it; -1: it cannot be had.
int open_private_folder(const char* path) noexcept;

bool starts_with(const char* text, const char* beginning) noexcept;
// And is longer than that.
bool ends_with(const char* text, const char* ending) noexcept;
// Not strcmp: sanitizers replace it, and ask dlsym for the real one before theirs works.
bool equal(const char* a, const char* b) noexcept;

// Text that grows in a given buffer; what does not fit is cut and `whole` becomes false.
class Text {
 public:
  Text(char* buffer, size_t size) noexcept : buffer_(buffer), size_(size) {
    if (size_) {
      buffer_[0] = '\0';
    }
  }
  Text& operator<<(const char* text) noexcept;
  Text& operator<<(int64_t number) noexcept;
  Text& append(const char* text, size_t bytes) noexcept;
  const char* c_str() const noexcept { return buffer_; }
  size_t length() const noexcept { return length_; }
  bool whole() const noexcept { return whole_; }

 private:
  char* buffer_;
  size_t size_;  // 0: only counts the length
  size_t length_ = 0;
  bool whole_ = true;
};

template <size_t kBytes>
struct TextStorage {
  char storage[kBytes];
};
template <size_t kBytes>
struct TextOf : private TextStorage<kBytes>, public Text {
  TextOf() noexcept : Text(this->storage, kBytes) {}
  TextOf(const TextOf&) = delete;
  TextOf& operator=(const TextOf&) = delete;
};

// A path, or anything as short.  Not the longest possible one: threads may have small stacks.
inline constexpr size_t kMaxPath = 1024;
using ShortText = TextOf<kMaxPath>;
// A name or a number.  In a call of the job, which may be made on a stack that has little room.
using WordText = TextOf<64>;

// Unsigned decimal number at the start of the text; `end` (may be null) is where it stopped.
uint64_t parse_number(const char* text, const char** end) noexcept;

}  // namespace traintrace
