#include "analyzer/reader/files/brought.h"

#include <filesystem>
#include <map>
#include <mutex>

#include "analyzer/reader/files/within.h"
#include "format/pack.h"
#include "format/segments.h"

namespace traintrace {
namespace {

namespace fs = std::filesystem;

struct Registry {
  std::mutex mutex;
  std::map<std::string, Brought> files;       // by name
  std::map<std::string, std::string> beside;  // what a pack has of a process, by its own name
  std::map<std::string, std::string> names;   // of files that came as they are, by place
  std::function<void(const std::string&)> bring;
};

Registry& registry() {
  static Registry& all = *new Registry;
  return all;
}

// A process leaves up to three files, all of which its pack has.
void note_parts(Registry& all, const std::string& path, const std::string& place) {
  for (const char* suffix : {format::kSegmentsSuffix, format::kThreadsSuffix}) {
    all.beside[fs::path(path).replace_extension(suffix).string()] =
        place + "/" + fs::path(place).stem().string() + suffix;
  }
}

}  // namespace

void note_brought(const std::string& path, Brought file) {
  Registry& all = registry();
  const std::lock_guard lock(all.mutex);
  if (file.is_pack && fs::path(path).extension() != format::kPackSuffix) {
    note_parts(all, path, file.place);
  } else {
    all.names[file.place] = path;
  }
  all.files.insert_or_assign(path, std::move(file));
}

std::optional<Brought> brought_file(const std::string& path) {
  Registry& all = registry();
  const std::lock_guard lock(all.mutex);
  const auto found = all.files.find(path);
  return found == all.files.end() ? std::nullopt : std::optional(found->second);
}

std::vector<std::string> brought_into(const std::string& folder) {
  Registry& all = registry();
  const std::lock_guard lock(all.mutex);
  std::vector<std::string> paths;
  for (const auto& [path, file] : all.files) {
    if (file.folder == folder) {
      paths.push_back(path);
    }
  }
  return paths;
}

std::string place_of(const std::string& path) {
  Registry& all = registry();
  const std::lock_guard lock(all.mutex);
  if (all.files.empty()) {
    return path;
  }
  if (const auto part = all.beside.find(path); part != all.beside.end()) {
    return part->second;
  }
  if (const auto file = all.files.find(path); file != all.files.end()) {
    const bool stays_pack = fs::path(path).extension() == format::kPackSuffix;
    return file->second.is_pack && !stays_pack ? trace_in_pack(file->second.place)
                                               : file->second.place;
  }
  const size_t slash = path.rfind('/');
  const auto around = slash == path.npos ? all.files.end() : all.files.find(path.substr(0, slash));
  return around == all.files.end() ? path : around->second.place + path.substr(slash);
}

std::string name_at(const std::string& place) {
  Registry& all = registry();
  const std::lock_guard lock(all.mutex);
  const auto found = all.names.find(place);
  return found == all.names.end() ? place : found->second;
}

void bring_events_by(std::function<void(const std::string& path)> bring) {
  Registry& all = registry();
  const std::lock_guard lock(all.mutex);
  all.bring = std::move(bring);
}

void bring_events(const std::string& path) {
  // What lies in a pack that was brought comes with it.
  const size_t slash = path.rfind('/');
  std::string name = path;
  auto file = brought_file(name);
  if (!file && slash != path.npos) {
    name = path.substr(0, slash);
    file = brought_file(name);
  }
  const auto bring = [] {
    Registry& all = registry();
    const std::lock_guard lock(all.mutex);
    return all.bring;
  }();
  if (file && file->is_pack && !file->events && bring) {
    bring(name);
  }
}

}  // namespace traintrace
