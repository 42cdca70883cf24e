#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cinttypes>
#include <cstdio>
#include <cstring>
#include <string>
#include <utility>

#include "nccl/segment.h"

namespace simgpu::nccl {
namespace {

constexpr uint64_t kMagic = 0x31767a64'6e65726eULL;
constexpr char kFolder[] = "/dev/shm/";
constexpr char kPrefix[] = "simgpu-nccl-";
constexpr useconds_t kRetryUs = 5'000;

// Where the maker of the shared memory keeps it open.
struct Record {
  uint64_t magic;
  int64_t pid;
  uint64_t start_time;  // of the process, in clock ticks: pids are used again
  uint64_t device;
  uint64_t inode;
  int64_t fd;
};

// Field 22 of /proc/PID/stat, 0 when there is no such process or only its remains (state Z or X).
uint64_t start_time(int64_t pid) {
  char path[64];
  snprintf(path, sizeof path, "/proc/%" PRId64 "/stat", pid);
  FILE* file = fopen(path, "re");
  if (!file) {
    return 0;
  }
  char text[1024];
  const size_t size = fread(text, 1, sizeof text - 1, file);
  fclose(file);
  text[size] = '\0';
  const char* at = strrchr(text, ')');  // the command before it may hold anything
  if (!at || at[1] == '\0' || at[2] == 'Z' || at[2] == 'X') {
    return 0;
  }
  for (int field = 2; at && field < 22; ++field) {
    at = strchr(at + 1, ' ');
  }
  return at ? strtoull(at + 1, nullptr, 10) : 0;
}

std::string path_of(uint64_t key) {
  char name[64];
  snprintf(name, sizeof name, "%s%s%016" PRIx64, kFolder, kPrefix, key);
  return name;
}

// An open, locked rendezvous file.  The lock goes with the descriptor, so also when a process dies.
class LockedFile {
 public:
  LockedFile(const std::string& path, int flags, int lock)
      : fd_(::open(path.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW | flags, 0600)) {
    if (fd_ >= 0 && (flock_retrying(lock) != 0 || removed())) {
      close(fd_);
      fd_ = -1;
      errno = EAGAIN;
    }
  }
  ~LockedFile() {
    if (fd_ >= 0) {
      close(fd_);
    }
  }
  LockedFile(const LockedFile&) = delete;
  LockedFile& operator=(const LockedFile&) = delete;

  explicit operator bool() const { return fd_ >= 0; }
  bool read(Record& record) const {
    return pread(fd_, &record, sizeof record, 0) == static_cast<ssize_t>(sizeof record) &&
           record.magic == kMagic;
  }
  bool write(const Record& record) const {
    return pwrite(fd_, &record, sizeof record, 0) == static_cast<ssize_t>(sizeof record);
  }

 private:
  int flock_retrying(int lock) const {
    int result = 0;
    do {
      result = flock(fd_, lock);
    } while (result != 0 && errno == EINTR);
    return result;
  }
  // Somebody may have removed the name between our open and our lock.
  bool removed() const {
    struct stat status {};
    return fstat(fd_, &status) != 0 || status.st_nlink == 0;
  }

  int fd_;
};

// The ranks of this process share one mapping.
struct Local {
  std::mutex mutex;
  std::map<std::pair<uint64_t, uint64_t>, std::weak_ptr<Segment>> segments;
};

Local& local() {
  static Local& value = *new Local;
  return value;
}

std::pair<uint64_t, uint64_t> identity(int fd) {
  struct stat status {};
  fstat(fd, &status);
  return {status.st_dev, status.st_ino};
}

std::shared_ptr<Segment> remember(std::shared_ptr<Segment> segment) {
  const std::lock_guard lock(local().mutex);
  std::erase_if(local().segments, [](const auto& entry) { return entry.second.expired(); });
  if (segment) {
    local().segments[identity(segment->fd())] = segment;
  }
  return segment;
}

// The memory that `record` names; nullptr when its maker is gone.
std::shared_ptr<Segment> open_recorded(const Record& record) {
  if (start_time(record.pid) != record.start_time) {
    return nullptr;
  }
  {
    const std::lock_guard lock(local().mutex);
    const auto found = local().segments.find({record.device, record.inode});
    if (auto known = found == local().segments.end() ? nullptr : found->second.lock()) {
      return known;
    }
  }
  char path[64];
  snprintf(path, sizeof path, "/proc/%" PRId64 "/fd/%" PRId64, record.pid, record.fd);
  const int fd = ::open(path, O_RDWR | O_CLOEXEC);
  if (fd < 0) {
    return nullptr;
  }
  if (identity(fd) != std::pair(record.device, record.inode)) {
    close(fd);
    return nullptr;
  }
  return remember(Segment::open(fd));
}

std::shared_ptr<Segment> create_recorded(const LockedFile& file, int rank_count) {
  std::shared_ptr<Segment> segment = remember(Segment::create(rank_count));
  if (!segment) {
    return nullptr;
  }
  const auto [device, inode] = identity(segment->fd());
  const Record record{kMagic, getpid(), start_time(getpid()), device, inode, segment->fd()};
  return file.write(record) ? segment : nullptr;
}

// Takes the rank's place; false when it is taken already or the ranks disagree about their number.
bool enter(Segment& segment, int rank_count, int rank, uint64_t gpu, const std::string& path) {
  if (segment.rank_count() != rank_count || segment.cell(rank).attached.exchange(1) != 0) {
    return false;
  }
  segment.cell(rank).gpu.store(gpu);
  const uint32_t attached = segment.header().attached.fetch_add(1) + 1;
  if (attached == segment.header().rank_count) {
    unlink(path.c_str());
    segment.ring_all();
  }
  return true;
}

}  // namespace

std::shared_ptr<Segment> Rendezvous::attach(uint64_t key, int rank_count, int rank, uint64_t gpu,
                                            const std::atomic<bool>& stop, int& error) {
  const std::string path = path_of(key);
  for (error = 0; !stop.load(); usleep(kRetryUs)) {
    const LockedFile file(path, O_CREAT, LOCK_EX);
    if (!file) {
      if (errno == EAGAIN) {
        continue;
      }
      error = errno;
      return nullptr;
    }
    Record record{};
    std::shared_ptr<Segment> segment = file.read(record) ? open_recorded(record) : nullptr;
    if (!segment) {
      segment = create_recorded(file, rank_count);
    }
    if (!segment) {
      error = errno ? errno : EIO;
      unlink(path.c_str());
      return nullptr;
    }
    // NCCL's bootstrap leaves a second rank of the same number, or one that expects another number
    // of ranks, waiting for an answer: so do we.
    if (enter(*segment, rank_count, rank, gpu, path)) {
      return segment;
    }
  }
  return nullptr;
}

void Rendezvous::withdraw(uint64_t key, const Segment& segment) {
  if (segment.header().attached.load() == segment.header().rank_count) {
    return;
  }
  const std::string path = path_of(key);
  const LockedFile file(path, 0, LOCK_EX);
  Record record{};
  if (file && file.read(record) && record.pid == getpid() &&
      identity(segment.fd()) == std::pair(record.device, record.inode)) {
    unlink(path.c_str());
  }
}

void Rendezvous::remove_leftovers() {
  DIR* folder = opendir(kFolder);
  if (!folder) {
    return;
  }
  while (const dirent* entry = readdir(folder)) {
    if (strncmp(entry->d_name, kPrefix, sizeof kPrefix - 1) != 0) {
      continue;
    }
    const std::string path = std::string(kFolder) + entry->d_name;
    const LockedFile file(path, 0, LOCK_EX | LOCK_NB);
    Record record{};
    if (file && (!file.read(record) || start_time(record.pid) != record.start_time)) {
      unlink(path.c_str());
    }
  }
  closedir(folder);
}

}  // namespace simgpu::nccl
