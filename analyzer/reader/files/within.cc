#include "analyzer/reader/files/within.h"

#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <mutex>

#include "analyzer/reader/files/brought.h"
#include "analyzer/reader/files/decompress.h"
#include "analyzer/reader/files/pack_file.h"
#include "analyzer/reader/files/tar_file.h"
#include "analyzer/reader/files/text_bytes.h"
#include "analyzer/reader/files/unpacked_file.h"
#include "format/segments.h"
#include "format/trace_format.h"

namespace traintrace {
namespace {

namespace fs = std::filesystem;

// A file as a tar archive has it.
class MemberOfTar : public ByteSource {
 public:
  MemberOfTar(std::shared_ptr<const InputFile> file, TarMember member)
      : file_(std::move(file)), member_(std::move(member)) {}
  uint64_t bytes() const override { return member_.bytes; }
  size_t read(uint64_t offset, std::span<std::byte> into) const override {
    const std::vector<TarPart>& parts = member_.parts;
    const uint64_t left = offset < member_.bytes ? member_.bytes - offset : 0;
    into = into.first(static_cast<size_t>(std::min<uint64_t>(left, into.size())));
    const uint64_t end = offset + into.size();
    auto part =
        std::upper_bound(parts.begin(), parts.end(), offset,
                         [](uint64_t at, const TarPart& one) { return at < one.at + one.bytes; });
    std::fill(into.begin(), into.end(), std::byte{0});
    for (; part != parts.end() && part->at < end; ++part) {
      const uint64_t from = std::max(offset, part->at);
      const uint64_t to = std::min(end, part->at + part->bytes);
      const auto wanted =
          into.subspan(static_cast<size_t>(from - offset), static_cast<size_t>(to - from));
      const size_t got = file_->read(part->offset + (from - part->at), wanted);
      if (got < wanted.size()) {  // the archive ends here
        return static_cast<size_t>(from - offset) + got;
      }
    }
    return into.size();
  }
  std::vector<ReadError> problems() const override { return file_->problems(); }

 private:
  std::shared_ptr<const InputFile> file_;
  TarMember member_;
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
                    std::make_shared<MemberOfTar>(shared, member), shared->modified_ns());
    return rest.size() == member.name.size()
               ? Result<InputFile>(std::move(inner))
               : open_in(std::move(inner), rest.substr(member.name.size() + 1));
  }
  return no_such_file(shared->path() + "/" + rest);
}

// "x.ttz" of "/there/x.ttz.zst".
std::string unpacked_name(const std::string& path) {
  return fs::path(path).stem().string();
}

Result<InputFile> open_in_compressed(const InputFile& container, const std::string& rest) {
  Result<UnpackedFile> unpacked = unpacked_file(container);
  if (!unpacked) {
    return unpacked.error();
  }
  InputFile whole(container.path(), unpacked->bytes, container.modified_ns());
  if (is_tar(whole)) {
    return open_in_tar(std::move(whole), rest);
  }
  const std::string name = unpacked_name(container.path());
  if (!begins_with_folder(rest, name)) {
    return no_such_file(container.path() + "/" + rest);
  }
  InputFile inner(container.path() + "/" + name, unpacked->bytes, container.modified_ns());
  return rest.size() == name.size() ? Result<InputFile>(std::move(inner))
                                    : open_in(std::move(inner), rest.substr(name.size() + 1));
}

Result<InputFile> open_in(InputFile container, const std::string& rest) {
  if (PackFile::is_pack(container)) {
    return open_in_pack(std::move(container), rest);
  }
  if (is_tar(container)) {
    return open_in_tar(std::move(container), rest);
  }
  if (packing_of(container) != Packing::kNone) {
    return open_in_compressed(container, rest);
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

bool is_archive(const std::string& path) {
  const std::string head = text_of_file(path, kTarHeaderBytes).value_or("");
  const auto is = [&](const auto& magic) {
    return head.starts_with(std::string_view(magic, sizeof magic));
  };
  const bool is_trace = is(format::kMagic) || is(format::kPackMagic);
  return is_tar_header(head) ||
         (is_trace && packing_of(head_of(path, kPackingMagicBytes)) != Packing::kNone);
}

namespace {

std::vector<std::string> paths_of_members(const InputFile& tar, std::vector<ReadError>& errors) {
  const auto known = known_tar(tar);
  std::vector<std::string> paths;
  paths.reserve(known->members.size());
  for (const TarMember& member : known->members) {
    paths.push_back(tar.path() + "/" + member.name);
  }
  if (known->problem) {
    errors.push_back(*known->problem);
  }
  return paths;
}

}  // namespace

std::vector<std::string> paths_in_archive(const std::string& path, std::vector<ReadError>& errors) {
  const Result<InputFile> file = InputFile::open(path);
  if (!file) {
    errors.push_back(file.error());
    return {};
  }
  if (packing_of(*file) == Packing::kNone) {
    return paths_of_members(*file, errors);
  }
  const Result<UnpackedFile> unpacked = unpacked_file(*file);
  if (!unpacked) {
    errors.push_back(unpacked.error());
    return {};
  }
  const InputFile whole(path, unpacked->bytes, file->modified_ns());
  std::vector<std::string> paths = {path + "/" + unpacked_name(path)};
  if (is_tar(whole)) {
    // That the archive ends too early is the same once more.
    std::vector<ReadError> of_tar;
    paths = paths_of_members(whole, unpacked->problem ? of_tar : errors);
  }
  if (unpacked->problem) {
    errors.push_back(*unpacked->problem);
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
