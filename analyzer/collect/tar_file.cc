#include "analyzer/collect/tar_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <utility>
#include <vector>

namespace traintrace {
namespace {

constexpr size_t kBlock = 512;
constexpr mode_t kOwnerOnly = 0600;

struct TarHeader {
  char name[100];
  char mode[8];
  char uid[8];
  char gid[8];
  char size[12];
  char mtime[12];
  char checksum[8];
  char kind;
  char linked[100];
  char magic[8];
  char user[32];
  char group[32];
  char device[16];
  char prefix[155];
  char rest[12];
};
static_assert(sizeof(TarHeader) == kBlock);

template <size_t kSize>
void put_octal(char (&field)[kSize], uint64_t value) {
  const std::string digits = fmt::format("{:0{}o}", value, kSize - 1);
  std::memcpy(field, digits.data(), kSize - 1);
}

}  // namespace

TarFile::TarFile(std::string path)
    : path_(std::move(path)),
      unfinished_(fmt::format("{}.{}.tmp", path_, getpid())),
      descriptor_(open(unfinished_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW,
                       kOwnerOnly)),
      error_(descriptor_ < 0 ? errno : 0) {}

TarFile::~TarFile() {
  if (descriptor_ >= 0) {
    close(descriptor_);
    unlink(unfinished_.c_str());
  }
}

void TarFile::write(const char* bytes, size_t count) {
  while (error_ == 0 && count > 0) {
    const ssize_t written = ::write(descriptor_, bytes, count);
    if (written < 0 && errno != EINTR) {
      error_ = errno;
    } else if (written > 0) {
      bytes += written;
      count -= static_cast<size_t>(written);
    }
  }
}

void TarFile::write_header(const std::string& name, uint64_t bytes, char kind) {
  TarHeader header = {};
  std::memcpy(header.name, name.data(), std::min(name.size(), sizeof header.name));
  put_octal(header.mode, kOwnerOnly);
  put_octal(header.uid, 0);
  put_octal(header.gid, 0);
  put_octal(header.size, bytes);
  put_octal(header.mtime, static_cast<uint64_t>(std::max<int64_t>(mtime_, 0)));
  header.kind = kind;
  std::memcpy(header.magic, "ustar\00000", sizeof header.magic);
  std::memset(header.checksum, ' ', sizeof header.checksum);
  std::array<unsigned char, kBlock> all = {};
  std::memcpy(all.data(), &header, kBlock);
  unsigned sum = 0;
  for (const unsigned char byte : all) {
    sum += byte;
  }
  std::snprintf(header.checksum, sizeof header.checksum, "%06o", sum);
  write(reinterpret_cast<const char*>(&header), kBlock);
}

void TarFile::begin(const std::string& name, uint64_t bytes) {
  if (name.size() >= sizeof(TarHeader::name)) {
    write_header("././@LongLink", name.size() + 1, 'L');
    write(name.c_str(), name.size() + 1);
    pad(name.size() + 1);
  }
  write_header(name, bytes, '0');
}

void TarFile::pad(uint64_t bytes) {
  constexpr std::array<char, kBlock> kZeros = {};
  write(kZeros.data(), (kBlock - bytes % kBlock) % kBlock);
}

void TarFile::add(const std::string& name, std::string_view bytes) {
  begin(name, bytes.size());
  write(bytes.data(), bytes.size());
  pad(bytes.size());
}

bool TarFile::add_file(const std::string& name, const std::string& path) {
  // Somebody else's pipe must not hold us up.
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  struct stat status = {};
  if (file < 0 || fstat(file, &status) != 0 || !S_ISREG(status.st_mode)) {
    if (file >= 0) {
      close(file);
    }
    return false;
  }
  const uint64_t size = std::min(static_cast<uint64_t>(status.st_size), kMostMemberBytes);
  begin(name, size);
  std::vector<char> bytes(1 << 20);
  for (uint64_t left = size; left > 0 && error_ == 0;) {
    const size_t most = static_cast<size_t>(std::min<uint64_t>(left, bytes.size()));
    ssize_t count = read(file, bytes.data(), most);
    if (count <= 0) {  // it has become shorter
      std::fill(bytes.begin(), bytes.end(), '\0');
      count = static_cast<ssize_t>(most);
    }
    write(bytes.data(), static_cast<size_t>(count));
    left -= static_cast<uint64_t>(count);
  }
  pad(size);
  close(file);
  return true;
}

std::string TarFile::finish() {
  constexpr std::array<char, 2 * kBlock> kEnd = {};
  write(kEnd.data(), kEnd.size());
  if (descriptor_ >= 0 && close(std::exchange(descriptor_, -1)) != 0 && error_ == 0) {
    error_ = errno;
  }
  if (error_ == 0 && std::rename(unfinished_.c_str(), path_.c_str()) != 0) {
    error_ = errno;
  }
  if (error_ != 0) {
    unlink(unfinished_.c_str());
  }
  return error_ == 0 ? "" : path_ + ": " + std::strerror(error_);
}

}  // namespace traintrace
