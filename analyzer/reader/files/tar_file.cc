#include "analyzer/reader/files/tar_file.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <iterator>
#include <string_view>
#include <utility>

namespace traintrace {
namespace {

constexpr uint64_t kBlock = kTarHeaderBytes;
constexpr size_t kMostMembers = 1 << 20;
constexpr uint64_t kMostNameBytes = 1 << 16;
constexpr uint64_t kMostBytesOfMember = uint64_t{1} << 40;

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

// GNU's: where the data of a file with holes belong, 4 places in its header, 21 in each block that
// follows it.
struct SparsePlace {
  char at[12];
  char bytes[12];
};
struct SparseHeader {
  char before[386];
  SparsePlace places[4];
  char goes_on;
  char bytes[12];  // of the whole file
  char rest[17];
};
static_assert(sizeof(SparseHeader) == kBlock);
struct SparseBlock {
  SparsePlace places[21];
  char goes_on;
  char rest[7];
};
static_assert(sizeof(SparseBlock) == kBlock);

template <size_t N>
void take_places(const SparsePlace (&places)[N], std::vector<TarPart>& parts) {
  for (const SparsePlace& place : places) {
    if (place.bytes[0] != '\0') {
      parts.push_back({number_of(place.at), 0, number_of(place.bytes)});
    }
  }
}

// `begin`: after its header; afterwards where its data begin.  False: this cannot be one.
bool read_sparse(const InputFile& tar, const Header& header, uint64_t& begin, TarMember& member) {
  constexpr size_t kMostParts = 1 << 16;
  SparseHeader sparse;
  std::memcpy(&sparse, &header, sizeof sparse);
  take_places(sparse.places, member.parts);
  bool goes_on = sparse.goes_on != '\0';
  while (goes_on && member.parts.size() < kMostParts) {
    SparseBlock block;
    if (tar.read(begin, std::as_writable_bytes(std::span(&block, 1))) < sizeof block) {
      return false;
    }
    take_places(block.places, member.parts);
    begin += sizeof block;
    goes_on = block.goes_on != '\0';
  }
  member.bytes = number_of(sparse.bytes);
  uint64_t at = 0;
  uint64_t left = number_of(header.size);
  uint64_t offset = begin;
  for (TarPart& part : member.parts) {
    if (part.at < at || part.bytes > left || part.at > member.bytes ||
        part.bytes > member.bytes - part.at) {
      return false;
    }
    part.offset = offset;
    at = part.at + part.bytes;
    offset += part.bytes;
    left -= part.bytes;
  }
  return !goes_on;
}

}  // namespace

bool is_unknown_archive(const std::string& path) {
  constexpr std::string_view kEndings[] = {".tar.xz", ".txz",     ".tar.bz2", ".tbz",
                                           ".tbz2",   ".tar.lz4", ".zip"};
  return std::any_of(std::begin(kEndings), std::end(kEndings),
                     [&](std::string_view ending) { return path.ends_with(ending); });
}

bool is_tar(const InputFile& file) {
  Header header;
  return read_header(file, 0, header) && is_sound(header);
}

bool is_tar_header(std::string_view head) {
  Header header;
  if (head.size() < sizeof header) {
    return false;
  }
  std::memcpy(&header, head.data(), sizeof header);
  return is_sound(header);
}

std::vector<TarMember> members_of(const InputFile& tar, std::optional<ReadError>& problem) {
  std::vector<TarMember> members;
  std::string long_name;
  Header header;
  uint64_t at = 0;
  const auto damaged = [&](std::string message) {
    problem = ReadError{tar.path(), at, std::move(message)};
  };
  while (true) {
    if (!read_header(tar, at, header)) {
      damaged("the archive is truncated: expected another file, or its end");
      problem->truncated = true;
      break;
    }
    if (is_empty(header)) {
      break;
    }
    const uint64_t bytes = number_of(header.size);
    if (!is_sound(header) || members.size() == kMostMembers || bytes > kMostBytesOfMember) {
      damaged("expected the header of a file in a tar archive");
      break;
    }
    uint64_t begin = at + kBlock;
    if (header.type == 'L') {
      long_name = text_at(tar, begin, bytes);
      long_name.resize(std::min(long_name.size(), long_name.find('\0')));
    } else if (header.type == 'x') {
      const std::string records = text_at(tar, begin, bytes);
      if (records.find(" GNU.sparse.") != records.npos) {
        damaged("expected files with holes as GNU's format has them: tar --sparse --format=gnu");
        break;
      }
      long_name = path_of(records);
    } else {
      const bool is_gnu = header.magic[5] == ' ';  // which has other things there
      const std::string prefix = is_gnu ? "" : text_of(header.prefix);
      const std::string name = (prefix.empty() ? "" : prefix + "/") + text_of(header.name);
      TarMember member{long_name.empty() ? name : long_name, bytes, {}};
      if (header.type == 'S' && !read_sparse(tar, header, begin, member)) {
        damaged("expected the places of what a file with holes has");
        break;
      }
      const bool is_whole = header.type == '0' || header.type == '\0';
      if (is_whole) {
        member.parts = {{0, begin, bytes}};
      }
      if (is_whole || header.type == 'S') {
        members.push_back(std::move(member));
      }
      long_name.clear();
    }
    at = begin + (bytes + kBlock - 1) / kBlock * kBlock;
  }
  return members;
}

}  // namespace traintrace
