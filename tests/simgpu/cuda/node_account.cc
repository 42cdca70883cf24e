#include "cuda/node_account.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "cuda/memory.h"
#include "cuda/process.h"

namespace simgpu {
namespace {

// A process, also after its pid was used again.
uint64_t identity_of(pid_t pid, uint64_t start_time) {
  return static_cast<uint64_t>(pid) << 32 | (start_time & 0xffffffff);
}

constexpr char kFolder[] = "/dev/shm";

std::string name_prefix() {
  return "simgpu-node-" + std::to_string(getuid()) + "-";
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
  snprintf(path_, sizeof path_, "%s/%s%016llx", kFolder, name_prefix().c_str(),
           static_cast<unsigned long long>(hash_of(settings_key())));
  if (!join()) {
    table_ = private_table();  // without /dev/shm this process counts alone
    slot_ = 0;
    return;
  }
  remove_abandoned();
  atexit([] { NodeAccount::get().leave(); });
}

// The file may be removed between open and lock by a process that leaves: then it has no name any
// more.
bool NodeAccount::join() {
  for (int attempt = 0; attempt < 1000; ++attempt) {
    file_ = open(path_, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (file_ < 0) {
      return false;
    }
    struct stat status;
    if (flock(file_, LOCK_EX) == 0 && fstat(file_, &status) == 0 && status.st_nlink > 0) {
      break;
    }
    close(file_);
    file_ = -1;
  }
  void* memory = MAP_FAILED;
  if (file_ >= 0 && ftruncate(file_, sizeof(Table)) == 0) {
    memory = mmap(nullptr, sizeof(Table), PROT_READ | PROT_WRITE, MAP_SHARED, file_, 0);
  }
  if (memory == MAP_FAILED) {
    close(file_);
    return false;
  }
  table_ = static_cast<Table*>(memory);
  reclaim_dead(*table_);  // also what SIGKILL left behind
  const bool claimed = claim_slot();
  flock(file_, LOCK_UN);
  return claimed;
}

bool NodeAccount::abandoned(Table& table) {
  reclaim_dead(table);
  return std::all_of(std::begin(table.owners), std::end(table.owners),
                     [](const std::atomic<uint64_t>& owner) { return owner.load() == 0; });
}

// Tables whose processes were all killed, and whose settings nobody uses any more.
void NodeAccount::remove_abandoned() {
  const std::string prefix = name_prefix();
  DIR* folder = opendir(kFolder);
  while (const dirent* entry = folder ? readdir(folder) : nullptr) {
    const std::string path = std::string(kFolder) + "/" + entry->d_name;
    if (strncmp(entry->d_name, prefix.c_str(), prefix.size()) != 0 || path == path_) {
      continue;
    }
    const int file = open(path.c_str(), O_RDWR | O_CLOEXEC);
    struct stat status;
    if (file >= 0 && flock(file, LOCK_EX | LOCK_NB) == 0 && fstat(file, &status) == 0 &&
        status.st_size == sizeof(Table)) {
      void* memory = mmap(nullptr, sizeof(Table), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
      if (memory != MAP_FAILED && abandoned(*static_cast<Table*>(memory))) {
        unlink(path.c_str());
      }
      munmap(memory, sizeof(Table));
    }
    close(file);
  }
  if (folder) {
    closedir(folder);
  }
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
  flock(file_, LOCK_EX);
  // Dead neighbours first: else their slots keep the table for ever.
  reclaim_dead(*table);
  bool alone = true;
  for (int slot = 0; slot < kSlots; ++slot) {
    alone = alone && (slot == slot_ || table->owners[slot].load() == 0);
  }
  if (alone) {
    unlink(path_);
  }
  empty_slot(*table, slot_);
  flock(file_, LOCK_UN);
}

}  // namespace simgpu
