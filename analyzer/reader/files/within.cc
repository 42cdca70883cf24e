#include "analyzer/reader/files/within.h"

#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <mutex>

#include "analyzer/reader/files/brought.h"
#include "analyzer/reader/files/pack_file.h"
#include "analyzer/reader/files/tar_file.h"
#include "format/segments.h"

namespace traintrace {
namespace {

namespace fs = std::filesystem;

// A part of a file, as a tar archive has it.
class PartSource : public ByteSource {
 public:
  PartSource(std::shared_ptr<const InputFile> file, uint64_t offset, uint64_t bytes)
      : file_(std::move(file)), offset_(offset), bytes_(bytes) {}
  uint64_t bytes() const override { return bytes_; }
  size_t read(uint64_t offset, std::span<std::byte> into) const override {
    const uint64_t left = offset < bytes_ ? bytes_ - offset : 0;
    return file_->read(offset_ + offset,
                       into.first(static_cast<size_t>(std::min<uint64_t>(left, into.size()))));
  }
  std::vector<ReadError> problems() const override { return file_->problems(); }

 private:
  std::shared_ptr<const InputFile> file_;
  uint64_t offset_;
  uint64_t bytes_;
};

// The members of the archive that was looked at last: a thousand files in it are opened one after
// the other.
struct KnownTar {
  std::string path;
  int64_t modified_ns = 0;
  uint64_t bytes = 0;
  std::vector<TarMember> members;  // by name
  std::optional<ReadError> problem;
};

std::shared_ptr<const KnownTar> known_tar(const InputFile& tar) {
  static std::mutex mutex;
  static auto& known = *new std::shared_ptr<const KnownTar>;
  const std::lock_guard lock(mutex);
  if (known == nullptr || known->path != tar.path() || known->modified_ns != tar.modified_ns() ||
      known->bytes != tar.bytes()) {
    KnownTar other{tar.path(), tar.modified_ns(), tar.bytes(), {}, std::nullopt};
    other.members = members_of(tar, other.problem);
    std::stable_sort(other.members.begin(), other.members.end(),
                     [](const TarMember& a, const TarMember& b) { return a.name < b.name; });
    known = std::make_shared<const KnownTar>(std::move(other));
  }
  return known;
}

ReadError no_such_file(const std::string& path) {
  return {path, 0, "cannot be opened: there is no such file in this archive", true, false};
}

bool begins_with_folder(const std::string& rest, const std::string& name) {
  return rest.starts_with(name) && (rest.size() == name.size() || rest[name.size()] == '/');
}

Result<InputFile> open_in(InputFile container, const std::string& rest);

Result<InputFile> open_in_pack(InputFile container, const std::string& rest) {
  const std::string path = container.path() + "/" + rest;
  const int64_t modified = container.modified_ns();
  const Result<std::shared_ptr<PackFile>> pack = PackFile::open(std::move(container));
  if (!pack) {
    return pack.error();
  }
  const auto member = rest.ends_with(format::kTraceSuffix)      ? format::kPackTrace
                      : rest.ends_with(format::kSegmentsSuffix) ? format::kPackSegments
                      : rest.ends_with(format::kThreadsSuffix)  ? format::kPackThreads
                                                                : format::kPackEnd;
  auto source = member == format::kPackEnd ? nullptr : (*pack)->member(member);
  return source == nullptr ? Result<InputFile>(no_such_file(path))
                           : Result<InputFile>(InputFile(path, std::move(source), modified));
}

Result<InputFile> open_in_tar(InputFile container, const std::string& rest) {
  const auto known = known_tar(container);
  const auto shared = std::make_shared<const InputFile>(std::move(container));
  for (const TarMember& member : known->members) {
    if (!begins_with_folder(rest, member.name)) {
      continue;
    }
    InputFile inner(shared->path() + "/" + member.name,
                    std::make_shared<PartSource>(shared, member.offset, member.bytes),
                    shared->modified_ns());
    return rest.size() == member.name.size()
               ? Result<InputFile>(std::move(inner))
               : open_in(std::move(inner), rest.substr(member.name.size() + 1));
  }
  return no_such_file(shared->path() + "/" + rest);
}

Result<InputFile> open_in(InputFile container, const std::string& rest) {
  if (PackFile::is_pack(container)) {
    return open_in_pack(std::move(container), rest);
  }
  if (is_tar(container)) {
    return open_in_tar(std::move(container), rest);
  }
  return ReadError{container.path() + "/" + rest, 0, "cannot be opened: Not a directory", true,
                   false};
}

}  // namespace

Result<InputFile> open_within(const std::string& path) {
  struct stat status = {};
  for (size_t slash = path.rfind('/'); slash != path.npos && slash > 0;
       slash = path.rfind('/', slash - 1)) {
    const std::string before = path.substr(0, slash);
    if (stat(before.c_str(), &status) == 0) {
      Result<InputFile> container = InputFile::open(name_at(before));
      return container ? open_in(std::move(*container), path.substr(slash + 1))
                       : std::move(container);
    }
  }
  return no_such_file(path);
}

std::vector<std::string> paths_in_tar(const std::string& path, std::vector<ReadError>& errors) {
  std::vector<std::string> paths;
  const Result<InputFile> file = InputFile::open(path);
  if (!file) {
    errors.push_back(file.error());
    return paths;
  }
  const auto known = known_tar(*file);
  paths.reserve(known->members.size());
  for (const TarMember& member : known->members) {
    paths.push_back(path + "/" + member.name);
  }
  if (known->problem) {
    errors.push_back(*known->problem);
  }
  return paths;
}

bool is_pack(const std::string& path) {
  const Result<InputFile> file = InputFile::open(path);
  return file && PackFile::is_pack(*file);
}

bool is_whole_pack(const std::string& path) {
  Result<InputFile> file = InputFile::open(path);
  if (!file || !PackFile::is_pack(*file)) {
    return false;
  }
  const Result<std::shared_ptr<PackFile>> pack = PackFile::open(std::move(*file));
  return pack && (*pack)->is_whole();
}

namespace {

Result<std::shared_ptr<PackFile>> pack_that_holds(const std::string& path) {
  Result<InputFile> file = InputFile::open(path.substr(0, path.rfind('/')));
  return file && PackFile::is_pack(*file) ? PackFile::open(std::move(*file)) : no_such_file(path);
}

}  // namespace

std::optional<format::PackHead> pack_around(const std::string& path) {
  const Result<std::shared_ptr<PackFile>> pack = pack_that_holds(path);
  return pack ? std::optional((*pack)->head()) : std::nullopt;
}

PackedBytes trace_bytes_at(const std::string& path, uint64_t place) {
  const Result<std::shared_ptr<PackFile>> pack = pack_that_holds(path);
  return pack ? (*pack)->bytes_at(format::kPackTrace, place) : PackedBytes();
}

std::string trace_in_pack(const std::string& path) {
  return path + "/" + fs::path(path).stem().string() + format::kTraceSuffix;
}

}  // namespace traintrace
