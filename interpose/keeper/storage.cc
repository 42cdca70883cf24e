#include "interpose/keeper/storage.h"

#include <unistd.h>

#include <cstring>

namespace traintrace {
namespace {

constexpr const char* kNetworkTypes[] = {
    "nfs",   "nfs4", "cifs",   "smb3",      "smbfs",   "lustre",   "gpfs",  "beegfs",
    "ceph",  "9p",   "afs",    "ncpfs",     "coda",    "orangefs", "pvfs2", "panfs",
    "ocfs2", "gfs2", "wekafs", "glusterfs", "quobyte", "autofs",   "davfs", "sshfs",
};
constexpr const char* kMemoryTypes[] = {"tmpfs", "ramfs", "devtmpfs", "hugetlbfs"};
// Most of fuse.* reaches over a network; these are what a rootless container stands on.
constexpr const char* kLocalFuseTypes[] = {"fuse.fuse-overlayfs", "fuse.lxcfs"};

struct Word {
  const char* begin;
  size_t length;
};

bool is(const Word& word, const char* text) {
  return strlen(text) == word.length && memcmp(word.begin, text, word.length) == 0;
}

template <size_t N>
bool is_one_of(const Word& word, const char* const (&texts)[N]) {
  for (const char* text : texts) {
    if (is(word, text)) {
      return true;
    }
  }
  return false;
}

// Takes the next word of a line; empty at its end.
Word next_word(const char*& at) {
  while (*at == ' ') {
    ++at;
  }
  const char* const begin = at;
  while (*at && *at != ' ' && *at != '\n') {
    ++at;
  }
  return {begin, static_cast<size_t>(at - begin)};
}

// Blanks in a mount point are written \040.
char unescaped(const char*& at) {
  if (at[0] == '\\' && at[1] >= '0' && at[1] <= '3' && at[2] >= '0' && at[2] <= '7' &&
      at[3] >= '0' && at[3] <= '7') {
    const char byte = static_cast<char>((at[1] - '0') * 64 + (at[2] - '0') * 8 + (at[3] - '0'));
    at += 4;
    return byte;
  }
  return *at++;
}

// How much of `path` the mount point covers; -1: it does not.
int covered(const Word& mount_point, const char* path) {
  const char* at = mount_point.begin;
  const char* const end = mount_point.begin + mount_point.length;
  int length = 0;
  while (at < end && path[length]) {
    if (unescaped(at) != path[length]) {
      return -1;
    }
    ++length;
  }
  const bool whole_names =
      !path[length] || path[length] == '/' || (length && path[length - 1] == '/');
  return at == end && whole_names ? length : -1;
}

Storage storage_of_type(const Word& type) {
  if (is_one_of(type, kMemoryTypes)) {
    return Storage::kMemory;
  }
  const bool fuse = type.length > 5 && memcmp(type.begin, "fuse.", 5) == 0;
  if (is_one_of(type, kNetworkTypes) || (fuse && !is_one_of(type, kLocalFuseTypes))) {
    return Storage::kNetwork;
  }
  return Storage::kLocal;
}

const char* after_line(const char* at) {
  const char* const end = strchrnul(at, '\n');
  return *end ? end + 1 : end;
}

}  // namespace

// A line: id parent major:minor root MOUNT-POINT options [optional ..] - TYPE source options.
// A later line hides an earlier one of the same mount point.
Storage storage_of(const char* mountinfo, const char* path) noexcept {
  Storage best = Storage::kLocal;
  int best_length = -1;
  for (const char* line = mountinfo; *line; line = after_line(line)) {
    const char* at = line;
    for (int skipped = 0; skipped < 4; ++skipped) {
      next_word(at);
    }
    const Word mount_point = next_word(at);
    const int length = mount_point.length ? covered(mount_point, path) : -1;
    if (length < best_length || length < 0) {
      continue;
    }
    for (Word word = next_word(at); word.length; word = next_word(at)) {
      if (is(word, "-")) {
        best = storage_of_type(next_word(at));
        best_length = length;
        break;
      }
    }
  }
  return best;
}

namespace {

constexpr int kMaxLinks = 32;

struct PathWalk {
  const char* mountinfo;
  char done[kMaxPath];  // resolved so far, without a trailing slash
  size_t length;
  char rest[kMaxPath];  // still to be walked
};

void go_up(PathWalk& walk) {
  while (walk.length && walk.done[--walk.length] != '/') {
  }
  walk.done[walk.length] = '\0';
}

// Replaces the last name by what the link says.
Resolved follow(PathWalk& walk, const char* link) {
  ShortText rest;
  rest << link << "/" << walk.rest;
  if (!rest.whole()) {
    return Resolved::kTooLong;
  }
  memcpy(walk.rest, rest.c_str(), rest.length() + 1);
  if (link[0] == '/') {
    walk.length = 0;
    walk.done[0] = '\0';
  } else {
    go_up(walk);
  }
  return Resolved::kLocally;
}

// One name further.
Resolved step(PathWalk& walk, int& links) {
  const char* const begin = walk.rest + strspn(walk.rest, "/");
  const size_t length = strcspn(begin, "/");
  char name[256];
  if (length >= sizeof name || walk.length + length + 2 > sizeof walk.done) {
    return Resolved::kTooLong;
  }
  memcpy(name, begin, length);
  name[length] = '\0';
  memmove(walk.rest, begin + length, strlen(begin + length) + 1);
  if (!length || equal(name, ".")) {
    return Resolved::kLocally;
  }
  if (equal(name, "..")) {
    go_up(walk);
    return Resolved::kLocally;
  }
  walk.done[walk.length] = '/';
  memcpy(walk.done + walk.length + 1, name, length + 1);
  walk.length += length + 1;
  if (storage_of(walk.mountinfo, walk.done) == Storage::kNetwork) {
    return Resolved::kOverNetwork;
  }
  char link[kMaxPath];
  const ssize_t got = readlink(walk.done, link, sizeof link - 1);
  if (got <= 0) {
    return Resolved::kLocally;
  }
  link[got] = '\0';
  return ++links <= kMaxLinks ? follow(walk, link) : Resolved::kInCircles;
}

}  // namespace

Resolved resolve_locally(const char* mountinfo, const char* path, Text& into) noexcept {
  PathWalk walk = {mountinfo, {}, 0, {}};
  if (strlen(path) >= sizeof walk.rest) {
    return Resolved::kTooLong;
  }
  if (storage_of(mountinfo, "/") == Storage::kNetwork) {
    return Resolved::kOverNetwork;
  }
  memcpy(walk.rest, path, strlen(path) + 1);
  int links = 0;
  while (walk.rest[strspn(walk.rest, "/")]) {
    const Resolved so_far = step(walk, links);
    if (so_far != Resolved::kLocally) {
      return so_far;
    }
  }
  into << (walk.length ? walk.done : "/");
  return into.whole() ? Resolved::kLocally : Resolved::kTooLong;
}

namespace {

// limit - use of one control group; UINT64_MAX: unlimited or unknown.
uint64_t headroom_of_group(const char* folder, const char* limit_name, const char* use_name) {
  char limit[32];
  char use[32];
  ShortText limit_path;
  ShortText use_path;
  limit_path << folder << "/" << limit_name;
  use_path << folder << "/" << use_name;
  if (!read_file(limit_path.c_str(), limit, sizeof limit) || limit[0] < '0' || limit[0] > '9' ||
      !read_file(use_path.c_str(), use, sizeof use)) {
    return UINT64_MAX;
  }
  const uint64_t most = parse_number(limit, nullptr);
  const uint64_t used = parse_number(use, nullptr);
  return most > used ? most - used : 0;
}

// Every group from the process's own up to the root may have a limit.
uint64_t headroom_up_from(const char* root, const char* group, const char* limit_name,
                          const char* use_name) {
  ShortText folder;
  folder << root << group;
  char path[kMaxPath];
  memcpy(path, folder.c_str(), folder.length() + 1);
  uint64_t least = UINT64_MAX;
  for (char* end = path + strlen(path); end >= path + strlen(root); --end) {
    if (!*end || *end == '/') {
      *end = '\0';
      const uint64_t here = headroom_of_group(path, limit_name, use_name);
      least = here < least ? here : least;
    }
  }
  return least;
}

// What may be used without swapping, as the kernel estimates it (proc_meminfo(5)).
uint64_t available_in_machine() {
  constexpr const char* kName = "\nMemAvailable:";
  char text[1024];
  read_file("/proc/meminfo", text, sizeof text);
  const char* at = strstr(text, kName);
  if (!at) {
    return UINT64_MAX;
  }
  at += strlen(kName);
  return parse_number(at + strspn(at, " "), nullptr) * 1024;
}

}  // namespace

// proc_pid_statm(5), in pages: size resident shared text lib data.
MemoryInUse memory_in_use() noexcept {
  char text[128];
  read_file("/proc/self/statm", text, sizeof text);
  const char* at = text;
  MemoryInUse used = {parse_number(at, &at), 0};
  for (int field = 0; field < 5; ++field) {
    at += strspn(at, " ");
    used.data = parse_number(at, &at);
  }
  const auto page = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  used.addresses *= page;
  used.data *= page;
  return used;
}

uint64_t memory_headroom() noexcept {
  uint64_t least = available_in_machine();
  char groups[4096];
  read_file("/proc/self/cgroup", groups, sizeof groups);
  for (char* line = groups; *line;) {
    char* const end = strchrnul(line, '\n');
    const bool last = !*end;
    *end = '\0';
    uint64_t here = UINT64_MAX;
    if (starts_with(line, "0::/")) {
      here = headroom_up_from("/sys/fs/cgroup", line + 3, "memory.max", "memory.current");
    } else if (const char* path = strstr(line, ":memory:")) {
      here = headroom_up_from("/sys/fs/cgroup/memory", path + 8, "memory.limit_in_bytes",
                              "memory.usage_in_bytes");
    }
    least = here < least ? here : least;
    line = last ? end : end + 1;
  }
  return least;
}

}  // namespace traintrace
