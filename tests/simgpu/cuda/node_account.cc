#include "cuda/node_account.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string>

#include "cuda/memory.h"
#include "cuda/process.h"

namespace simgpu {
namespace {

// A process, also after its pid was used again.
uint64_t identity_of(pid_t pid, uint64_t start_time) {
  return static_cast<uint64_t>(pid) << 32 | (start_time & 0xffffffff);
}

// FNV-1a: the settings need not be readable in the name, only equal.
uint64_t hash_of(const std::string& text) {
  uint64_t hash = 0xcbf29ce484222325;
  for (const unsigned char c : text) {
    hash = (hash ^ c) * 0x100000001b3;
  }
  return hash;
}

std::string settings_key() {
  const char* node = getenv("SIMGPU_NODE");
  return std::to_string(device_capacity()) + "/" + std::to_string(device_count()) + "/" +
         (node ? node : "");
}

constexpr const char* kTableName = "simgpu-node";

// A socket bound to a name that only exists as long as the socket: nothing to clean up, however the
// process ends.  -1 if the name is taken or the system refuses.
int claim_name(const std::string& name) {
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  if (name.size() + 1 > sizeof address.sun_path) {
    return -1;
  }
  name.copy(address.sun_path + 1, name.size());  // the leading zero makes it abstract
  const int claimed = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  if (claimed >= 0 && bind(claimed, reinterpret_cast<sockaddr*>(&address), length) != 0) {
    close(claimed);
    return -1;
  }
  return claimed;
}

// Joining is short; who cannot lock for this long counts alone.
int lock_name(const std::string& name) {
  for (int attempt = 0; attempt < 5000; ++attempt) {
    const int lock = claim_name(name);
    if (lock >= 0 || errno != EADDRINUSE) {
      return lock;
    }
    usleep(1000);
  }
  return -1;
}

// The table of a process that has joined, or -1.  The name says who and which descriptor; the
// process may have ended and left the name to a fork child, or its pid to a stranger.
int open_table_of(pid_t pid, int descriptor, size_t bytes) {
  const std::string path = "/proc/" + std::to_string(pid) + "/fd/" + std::to_string(descriptor);
  char target[64] = {};
  const std::string wanted = std::string("/memfd:") + kTableName;
  if (readlink(path.c_str(), target, sizeof target - 1) < 0 ||
      wanted.compare(0, wanted.size(), target, wanted.size()) != 0) {
    return -1;
  }
  const int file = open(path.c_str(), O_RDWR | O_CLOEXEC);
  struct stat status;
  if (file >= 0 && (fstat(file, &status) != 0 || static_cast<size_t>(status.st_size) != bytes)) {
    close(file);
    return -1;
  }
  return file;
}

// Looks through the abstract names of this machine for one that starts with `prefix`.
int find_table(const std::string& prefix, size_t bytes) {
  std::ifstream names("/proc/net/unix");
  for (std::string line; std::getline(names, line);) {
    const size_t at = line.find("@" + prefix);
    int pid = 0, descriptor = 0;
    if (at == std::string::npos ||
        sscanf(line.c_str() + at + 1 + prefix.size(), "%d-%d", &pid, &descriptor) != 2) {
      continue;
    }
    if (const int file = open_table_of(pid, descriptor, bytes); file >= 0) {
      return file;
    }
  }
  return -1;
}

}  // namespace

NodeAccount& NodeAccount::get() {
  static NodeAccount& account = *new NodeAccount;
  return account;
}

NodeAccount::Table* NodeAccount::private_table() {
  void* memory =
      mmap(nullptr, sizeof(Table), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  return memory == MAP_FAILED ? new Table{} : static_cast<Table*>(memory);
}

NodeAccount::NodeAccount() : pid_(getpid()), owner_(identity_of(pid_, start_time_of(pid_))) {
  if (!join()) {
    table_ = private_table();  // this process counts alone
    slot_ = 0;
    return;
  }
  atexit([] { NodeAccount::get().leave(); });
}

bool NodeAccount::join() {
  char key[32];
  snprintf(key, sizeof key, "-%u-%016llx-", static_cast<unsigned>(getuid()),
           static_cast<unsigned long long>(hash_of(settings_key())));
  const std::string prefix = std::string(kTableName) + key;
  const int lock = lock_name(prefix + "lock");
  if (lock < 0) {
    return false;
  }
  const bool joined = map_table(prefix) && claim_slot();
  if (joined) {
    // Both stay open as long as the process lives: the name is how the others find the table.
    claim_name(prefix + std::to_string(pid_) + "-" + std::to_string(file_));
  }
  close(lock);
  return joined;
}

bool NodeAccount::map_table(const std::string& prefix) {
  file_ = find_table(prefix, sizeof(Table));
  if (file_ < 0) {
    file_ = memfd_create(kTableName, MFD_CLOEXEC);
    if (file_ < 0 || ftruncate(file_, sizeof(Table)) != 0) {
      return false;
    }
  }
  void* memory = mmap(nullptr, sizeof(Table), PROT_READ | PROT_WRITE, MAP_SHARED, file_, 0);
  if (memory == MAP_FAILED) {
    return false;
  }
  table_ = static_cast<Table*>(memory);
  reclaim_dead(*table_);
  return true;
}

bool NodeAccount::claim_slot() {
  Table* table = table_;
  for (int slot = 0; slot < kSlots; ++slot) {
    if (table->owners[slot].load() == 0) {
      for (auto& of_device : table->used) {
        of_device[slot].store(0);
      }
      table->owners[slot].store(owner_);
      slot_ = slot;
      return true;
    }
  }
  return false;
}

size_t NodeAccount::sum(int device) const {
  size_t total = 0;
  for (const std::atomic<uint64_t>& used : table_.load()->used[device]) {
    total += used.load(std::memory_order_relaxed);
  }
  return total;
}

// Added first and looked at afterwards: of two processes that race for the last bytes at most one
// wins.
bool NodeAccount::charge(int device, size_t bytes, size_t capacity) {
  std::atomic<uint64_t>& own = table_.load()->used[device][slot_];
  own.fetch_add(bytes);
  if (sum(device) <= capacity) {
    return true;
  }
  reclaim_dead(*table_);
  if (sum(device) <= capacity) {
    return true;
  }
  own.fetch_sub(bytes);
  return false;
}

void NodeAccount::refund(int device, size_t bytes) {
  table_.load()->used[device][slot_].fetch_sub(bytes);
}

size_t NodeAccount::used_bytes(int device) {
  reclaim_dead(*table_);
  return sum(device);
}

unsigned NodeAccount::users(int device, unsigned most, pid_t* processes, size_t* bytes) {
  Table& table = *table_.load();
  reclaim_dead(table);
  unsigned count = 0;
  for (int slot = 0; slot < kSlots; ++slot) {
    const uint64_t used = table.used[device][slot].load();
    if (used == 0) {
      continue;
    }
    if (count < most) {
      const uint64_t owner = table.owners[slot].load();
      processes[count] = owner != 0 ? static_cast<pid_t>(owner >> 32) : pid_;  // it counts alone
      bytes[count] = used;
    }
    ++count;
  }
  return count;
}

// The exchange makes one process the owner of the dead slot, which it empties before it frees it:
// nobody claims a slot that is still being emptied, and if this process dies here its own identity
// is found dead.
void NodeAccount::reclaim_dead(Table& table) {
  for (int slot = 0; slot < kSlots; ++slot) {
    uint64_t owner = table.owners[slot].load();
    if (owner == 0 || owner == owner_) {
      continue;
    }
    const pid_t pid = static_cast<pid_t>(owner >> 32);
    const uint64_t start_time = start_time_of(pid);
    if (start_time && identity_of(pid, start_time) == owner) {
      continue;
    }
    if (table.owners[slot].compare_exchange_strong(owner, owner_)) {
      empty_slot(table, slot);
    }
  }
}

void NodeAccount::empty_slot(Table& table, int slot) {
  for (auto& of_device : table.used) {
    of_device[slot].store(0);
  }
  table.owners[slot].store(0);
}

// Threads that still run count in a table of their own from here on.
void NodeAccount::leave() {
  if (getpid() != pid_) {
    return;  // a fork child: the slot is its parent's
  }
  Table* table = table_.exchange(private_table());
  empty_slot(*table, slot_);
}

}  // namespace simgpu

// For libnvidia-ml: bytes of `device` that all processes use together, and that there are.
extern "C" void simgpuDeviceMemory(int device, size_t* used, size_t* total) {
  *used = simgpu::NodeAccount::get().used_bytes(device);
  *total = simgpu::device_capacity();
}

// For libnvidia-ml: the processes that use memory of `device`, at most `most`, and how much.
extern "C" unsigned simgpuDeviceUsers(int device, unsigned most, pid_t* processes, size_t* bytes) {
  return simgpu::NodeAccount::get().users(device, most, processes, bytes);
}
