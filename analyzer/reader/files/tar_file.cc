#include "analyzer/reader/files/tar_file.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <iterator>
#include <string_view>

namespace traintrace {
namespace {

constexpr uint64_t kBlock = 512;
constexpr size_t kMostMembers = 1 << 20;
constexpr uint64_t kMostNameBytes = 1 << 16;

struct Header {
  char name[100];
  char before_size[24];
  char size[12];
  char time[12];
  char checksum[8];
  char type;
  char link[100];
  char magic[6];
  char before_prefix[82];
  char prefix[155];
  char rest[12];
};
static_assert(sizeof(Header) == kBlock);

template <size_t N>
std::string text_of(const char (&field)[N]) {
  return {field, std::find(field, field + N, '\0')};
}

// Octal, or binary with the first bit set.
template <size_t N>
uint64_t number_of(const char (&field)[N]) {
  uint64_t value = 0;
  if ((static_cast<unsigned char>(field[0]) & 0x80) != 0) {
    for (size_t i = N - 8; i < N; ++i) {
      value = value << 8 | static_cast<unsigned char>(field[i]);
    }
    return value;
  }
  for (const char digit : field) {
    if (digit >= '0' && digit <= '7') {
      value = value << 3 | static_cast<uint64_t>(digit - '0');
    }
  }
  return value;
}

// As if its own field were blanks.
bool is_sound(const Header& header) {
  const auto* const bytes = reinterpret_cast<const unsigned char*>(&header);
  uint64_t sum = 0;
  for (size_t i = 0; i < sizeof header; ++i) {
    const bool is_own = i >= offsetof(Header, checksum) && i < offsetof(Header, type);
    sum += is_own ? ' ' : bytes[i];
  }
  return std::memcmp(header.magic, "ustar", 5) == 0 && sum == number_of(header.checksum);
}

bool read_header(const InputFile& tar, uint64_t at, Header& header) {
  return tar.read(at, std::as_writable_bytes(std::span(&header, 1))) == sizeof header;
}

bool is_empty(const Header& header) {
  const auto* const bytes = reinterpret_cast<const char*>(&header);
  return std::all_of(bytes, bytes + sizeof header, [](char byte) { return byte == 0; });
}

std::string text_at(const InputFile& tar, uint64_t at, uint64_t bytes) {
  std::string text(static_cast<size_t>(std::min(bytes, kMostNameBytes)), '\0');
  text.resize(tar.read(at, std::as_writable_bytes(std::span(text))));
  return text;
}

// Of "LENGTH path=VALUE\n".
std::string path_of(const std::string& records) {
  const size_t begin = records.find(" path=");
  const size_t end = records.find('\n', begin == records.npos ? 0 : begin);
  return begin == records.npos || end == records.npos ? ""
                                                      : records.substr(begin + 6, end - begin - 6);
}

}  // namespace

bool is_compressed_tar(const std::string& path) {
  constexpr std::string_view kEndings[] = {".tgz",    ".tar.gz", ".tar.zst",
                                           ".tar.xz", ".txz",    ".tar.bz2"};
  return std::any_of(std::begin(kEndings), std::end(kEndings),
                     [&](std::string_view ending) { return path.ends_with(ending); });
}

bool is_tar(const InputFile& file) {
  Header header;
  return read_header(file, 0, header) && is_sound(header);
}

bool is_tar(const std::string& path) {
  const Result<InputFile> file = InputFile::open(path);
  return file && is_tar(*file);
}

std::vector<TarMember> members_of(const InputFile& tar, std::optional<ReadError>& problem) {
  std::vector<TarMember> members;
  std::string long_name;
  Header header;
  for (uint64_t at = 0; read_header(tar, at, header) && !is_empty(header);) {
    const uint64_t bytes = number_of(header.size);
    if (!is_sound(header) || members.size() == kMostMembers || bytes > tar.bytes()) {
      problem = ReadError{tar.path(), at, "expected the header of a file in a tar archive"};
      break;
    }
    const uint64_t begin = at + kBlock;
    if (header.type == 'L') {
      long_name = text_at(tar, begin, bytes);
      long_name.resize(std::min(long_name.size(), long_name.find('\0')));
    } else if (header.type == 'x') {
      long_name = path_of(text_at(tar, begin, bytes));
    } else {
      const bool is_gnu = header.magic[5] == ' ';  // which has other things there
      const std::string prefix = is_gnu ? "" : text_of(header.prefix);
      const std::string name = (prefix.empty() ? "" : prefix + "/") + text_of(header.name);
      if (header.type == '0' || header.type == '\0') {
        members.push_back({long_name.empty() ? name : long_name, begin, bytes});
      }
      long_name.clear();
    }
    at = begin + (bytes + kBlock - 1) / kBlock * kBlock;
  }
  return members;
}

}  // namespace traintrace
