#include "interpose/base/files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace traintrace {

size_t read_file(const char* path, char* into, size_t size) noexcept {
  size_t length = 0;
  const int file = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
  while (file >= 0 && length + 1 < size) {
    const ssize_t got = read(file, into + length, size - 1 - length);
    if (got > 0) {
      length += static_cast<size_t>(got);
    } else if (got == 0 || errno != EINTR) {
      break;
    }
  }
  if (file >= 0) {
    close(file);
  }
  into[length] = '\0';
  return length;
}

int open_private_folder(const char* path) noexcept {
  const int folder = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
  struct stat status;
  if (folder >= 0 &&
      (fstat(folder, &status) != 0 || status.st_uid != geteuid() || (status.st_mode & 022))) {
    close(folder);
    errno = EACCES;
    return -1;
  }
  return folder;
}

bool ends_with(const char* text, const char* ending) noexcept {
  const size_t length = strlen(text);
  const size_t part = strlen(ending);
  return length > part && equal(text + length - part, ending);
}

bool starts_with(const char* text, const char* beginning) noexcept {
  return strncmp(text, beginning, strlen(beginning)) == 0;
}

bool equal(const char* a, const char* b) noexcept {
  for (; *a == *b && *a != '\0'; ++a, ++b) {
  }
  return *a == *b;
}

Text& Text::append(const char* text, size_t bytes) noexcept {
  if (size_) {
    const size_t room = length_ + 1 < size_ ? size_ - 1 - length_ : 0;
    const size_t fits = bytes < room ? bytes : room;
    whole_ = whole_ && fits == bytes;
    memcpy(buffer_ + length_, text, fits);
    bytes = fits;
    buffer_[length_ + bytes] = '\0';
  }
  length_ += bytes;
  return *this;
}

Text& Text::operator<<(const char* text) noexcept {
  return append(text, strlen(text));
}

Text& Text::operator<<(int64_t number) noexcept {
  char digits[24];
  char* at = digits + sizeof digits;
  uint64_t rest = number < 0 ? 0 - static_cast<uint64_t>(number) : static_cast<uint64_t>(number);
  do {
    *--at = static_cast<char>('0' + rest % 10);
    rest /= 10;
  } while (rest);
  if (number < 0) {
    *--at = '-';
  }
  return append(at, static_cast<size_t>(digits + sizeof digits - at));
}

uint64_t parse_number(const char* text, const char** end) noexcept {
  uint64_t value = 0;
  while (*text >= '0' && *text <= '9') {
    value = value * 10 + static_cast<uint64_t>(*text++ - '0');
  }
  if (end) {
    *end = text;
  }
  return value;
}

}  // namespace traintrace
