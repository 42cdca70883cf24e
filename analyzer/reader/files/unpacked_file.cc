#include "analyzer/reader/files/unpacked_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <string_view>
#include <utility>

#include "analyzer/reader/files/budget.h"
#include "analyzer/reader/files/decompress.h"

namespace traintrace {
namespace {

// Packs cannot be packed further, text to a tenth; a trace has far more room than it uses, as
// zeros, of which gzip makes a thousandth.
constexpr uint64_t kMostRatio = 64;
constexpr uint64_t kMostRatioOfAll = 1100;
constexpr uint64_t kFreeBytes = uint64_t{64} << 20;

std::string temporary_folder() {
  const char* const named = std::getenv("TMPDIR");
  return named != nullptr && *named != '\0' ? named : "/tmp";
}

int open_nameless() {
  const std::string folder = temporary_folder();
  constexpr mode_t kOwnerOnly = 0600;
  const int file = open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, kOwnerOnly);
  if (file >= 0) {
    return file;
  }
  std::string name = folder + "/traintrace-XXXXXX";
  const int named = mkostemp(name.data(), O_CLOEXEC);
  if (named >= 0) {
    unlink(name.c_str());
  }
  return named;
}

// One for all that is unpacked.
class Store {
 public:
  Store() : descriptor_(open_nameless()), error_(descriptor_ < 0 ? errno : 0) {}

  int descriptor() const { return descriptor_; }
  int error() const { return error_; }
  uint64_t end() const { return end_; }

  void cut(uint64_t end) {
    end_ = end;
    [[maybe_unused]] const int ignored = ftruncate(descriptor_, static_cast<off_t>(end));
  }

  // Pages of zeros are left out.
  void append(std::string_view bytes, Budget& written) {
    constexpr size_t kPage = 4096;
    while (!bytes.empty() && error_ == 0) {
      const std::string_view page = bytes.substr(0, kPage - end_ % kPage);
      if (page.find_first_not_of('\0') != page.npos && written.take_bytes(page.size())) {
        write(page);
      }
      end_ += page.size();
      bytes.remove_prefix(page.size());
    }
  }

 private:
  void write(std::string_view page) {
    if (written_since_look_ == 0 && !has_room()) {
      error_ = ENOSPC;
      return;
    }
    written_since_look_ = (written_since_look_ + page.size()) % kLookEach;
    const ssize_t size = pwrite(descriptor_, page.data(), page.size(), static_cast<off_t>(end_));
    if (size != static_cast<ssize_t>(page.size())) {
      error_ = size < 0 ? errno : ENOSPC;
    }
  }

  // A tenth stays free for the others on this host: a job may be one of them.
  bool has_room() const {
    struct statvfs disk = {};
    return fstatvfs(descriptor_, &disk) != 0 || disk.f_bavail > disk.f_blocks / 10;
  }

  static constexpr uint64_t kLookEach = uint64_t{16} << 20;
  int descriptor_;
  int error_;
  uint64_t end_ = 0;
  uint64_t written_since_look_ = 0;
};

// A part of the store.
class StoredSource : public ByteSource {
 public:
  StoredSource(int descriptor, uint64_t offset, uint64_t bytes)
      : descriptor_(descriptor), offset_(offset), bytes_(bytes) {}
  uint64_t bytes() const override { return bytes_; }
  size_t read(uint64_t offset, std::span<std::byte> into) const override {
    const uint64_t left = offset < bytes_ ? bytes_ - offset : 0;
    into = into.first(static_cast<size_t>(std::min<uint64_t>(left, into.size())));
    size_t done = 0;
    while (done < into.size()) {
      const ssize_t got = pread(descriptor_, into.data() + done, into.size() - done,
                                static_cast<off_t>(offset_ + offset + done));
      if (got <= 0) {
        break;
      }
      done += static_cast<size_t>(got);
    }
    // Zeros at the end of the store are not written.
    std::fill(into.begin() + static_cast<std::ptrdiff_t>(done), into.end(), std::byte{0});
    return into.size();
  }

 private:
  int descriptor_;
  uint64_t offset_;
  uint64_t bytes_;
};

ReadError refusal(const InputFile& packed, std::string message) {
  return {packed.path(), 0, std::move(message), true};
}

// Without bytes: there is only the problem.
UnpackedFile unpack(const InputFile& packed, Store& store) {
  if (store.error() != 0) {
    return {nullptr, refusal(packed, fmt::format("cannot be unpacked in {}: {}", temporary_folder(),
                                                 std::strerror(store.error())))};
  }
  const uint64_t begin = store.end();
  Budget written({.bytes = kFreeBytes + kMostRatio * packed.bytes()});
  Budget all({.bytes = kFreeBytes + kMostRatioOfAll * packed.bytes()});
  const Unpacking ended = decompress(packed, [&](std::string_view part) {
    if (all.take_bytes(part.size())) {
      store.append(part, written);
    }
    return !all.is_spent() && !written.is_spent() && store.error() == 0;
  });
  if (store.error() != 0 || ended == Unpacking::kStopped) {
    store.cut(begin);
  }
  if (store.error() != 0) {
    return {nullptr,
            refusal(packed, fmt::format("cannot be unpacked in {}: {}; unpack it where there is "
                                        "room, and name the folder that comes out, or set TMPDIR",
                                        temporary_folder(), std::strerror(store.error())))};
  }
  if (ended == Unpacking::kStopped) {
    return {nullptr, refusal(packed, fmt::format("expected no more than {} times what it has "
                                                 "packed, as traces have: it is not read",
                                                 all.is_spent() ? kMostRatioOfAll : kMostRatio))};
  }
  std::optional<ReadError> problem;
  if (ended != Unpacking::kWhole) {
    const bool is_cut = ended == Unpacking::kCut;
    problem = ReadError{packed.path(), packed.bytes(),
                        is_cut ? "the compressed file is truncated: what follows is missing"
                               : "expected intact gzip or zstd data: what follows is left out",
                        false, is_cut};
  }
  return {std::make_shared<StoredSource>(store.descriptor(), begin, store.end() - begin), problem};
}

}  // namespace

Result<UnpackedFile> unpacked_file(const InputFile& packed) {
  static std::mutex mutex;
  static auto& store = *new Store;
  static auto& known = *new std::map<std::pair<std::string, int64_t>, UnpackedFile>;
  const std::lock_guard lock(mutex);
  const auto [entry, is_new] = known.try_emplace({packed.path(), packed.modified_ns()});
  if (is_new) {
    entry->second = unpack(packed, store);
  }
  const UnpackedFile& unpacked = entry->second;
  return unpacked.bytes == nullptr ? Result<UnpackedFile>(*unpacked.problem)
                                   : Result<UnpackedFile>(unpacked);
}

}  // namespace traintrace
