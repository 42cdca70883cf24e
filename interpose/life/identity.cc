#include <signal.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "interpose/life/identity.h"

namespace traintrace {
namespace {

// 32 hexadecimal digits with dashes.
void read_boot_id(uint64_t (&id)[2]) {
  char text[64];
  read_file("/proc/sys/kernel/random/boot_id", text, sizeof text);
  int digits = 0;
  for (const char* at = text; *at && digits < 32; ++at) {
    const bool decimal = *at >= '0' && *at <= '9';
    if (decimal || (*at >= 'a' && *at <= 'f')) {
      const int value = decimal ? *at - '0' : *at - 'a' + 10;
      id[digits / 16] = id[digits / 16] << 4 | static_cast<uint64_t>(value);
      ++digits;
    }
  }
}

constexpr size_t kStatBytes = 1024;

void read_stat(int32_t pid, char (&stat)[kStatBytes]) {
  ShortText path;
  path << "/proc/" << int64_t{pid} << "/stat";
  read_file(path.c_str(), stat, sizeof stat);
}

// By its number in proc(5), from 3 on: they follow a name in parentheses that may contain anything.
// Empty: there is none.
const char* field_of(const char* stat, int number) {
  const char* at = strrchr(stat, ')');
  for (int field = 2; at && field < number; ++field) {
    at = strchr(at + 1, ' ');
  }
  return at ? at + 1 : "";
}

uint64_t number_in(const char* stat, int field) {
  return parse_number(field_of(stat, field), nullptr);
}

// By the first launcher whose variable is there; a number that is none counts as not there.
void read_launch(Identity& identity) {
  struct Names {
    const char* rank;
    const char* world;
  };
  constexpr Names kNames[] = {{"RANK", "WORLD_SIZE"},
                              {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"},
                              {"PMIX_RANK", "PMI_SIZE"},
                              {"PMI_RANK", "PMI_SIZE"},
                              {"SLURM_PROCID", "SLURM_NTASKS"}};
  constexpr size_t kMostDigits = 7;
  for (const Names& names : kNames) {
    const char* const rank = getenv(names.rank);
    const char* const world = getenv(names.world);
    const char* end = "";
    if (rank && *rank && strlen(rank) <= kMostDigits) {
      const auto number = static_cast<uint32_t>(parse_number(rank, &end));
      identity.launch_rank = *end ? 0 : number + 1;
      identity.launch_world = world && strlen(world) <= kMostDigits
                                  ? static_cast<uint32_t>(parse_number(world, nullptr))
                                  : 0;
      return;
    }
  }
}

// 0: it cannot be seen.
uint64_t inode_of(const char* path) {
  struct stat status;
  return stat(path, &status) == 0 ? status.st_ino : 0;
}

}  // namespace

Identity identify() noexcept {
  Identity identity = {};
  utsname names;
  Text host(identity.host, sizeof identity.host);
  host << (uname(&names) == 0 ? names.nodename : "unknown");
  for (char& letter : identity.host) {
    letter = letter == '/' ? '_' : letter;
  }
  identity.pid = getpid();
  identity.parent_pid = getppid();
  identity.start_time = start_time_of(identity.pid);
  read_boot_id(identity.boot_id);
  identity.pid_namespace = inode_of("/proc/self/ns/pid");
  identity.mount_namespace = inode_of("/proc/self/ns/mnt");
  read_launch(identity);
  return identity;
}

uint64_t start_time_of(int32_t pid) noexcept {
  char stat[kStatBytes];
  read_stat(pid, stat);
  return number_in(stat, 22);
}

bool is_running(int32_t pid, uint64_t start_time) noexcept {
  char stat[kStatBytes];
  read_stat(pid, stat);
  const char* const state = field_of(stat, 3);
  if (!*state) {
    return kill(pid, 0) == 0 || errno == EPERM;
  }
  const bool first_thread_ended = *state == 'Z' || *state == 'X';
  return number_in(stat, 22) == start_time && (!first_thread_ended || number_in(stat, 20) > 1);
}

bool zombie_status_of(int32_t pid, uint64_t start_time, int& status) noexcept {
  char stat[kStatBytes];
  read_stat(pid, stat);
  const auto code = static_cast<int>(number_in(stat, 52));
  if (*field_of(stat, 3) != 'Z' || number_in(stat, 22) != start_time || code == 0) {
    return false;
  }
  status = code;
  return true;
}

void name_trace(Text& into, const char* host, int32_t pid, uint64_t start_time, int attempt,
                const char* ending) noexcept {
  into << host << "." << int64_t{pid} << "." << static_cast<int64_t>(start_time);
  if (attempt) {
    into << "." << int64_t{attempt};
  }
  into << ending;
}

// What launchers set alike for all ranks.  A name that is missing counts as empty: one launcher
// sets some of them, none sets all.
uint64_t run_key_of(const Identity& identity, bool& of_launcher) noexcept {
  constexpr const char* kNames[] = {"TORCHELASTIC_RUN_ID", "SLURM_JOB_ID", "SLURM_STEP_ID",
                                    "PMIX_NAMESPACE",      "MASTER_ADDR",  "MASTER_PORT"};
  uint64_t key = 0;
  of_launcher = false;
  for (const char* const name : kNames) {
    const char* const value = getenv(name);
    for (const char* at = value ? value : ""; *at; ++at) {
      key = (key ^ static_cast<unsigned char>(*at)) * 0x100000001b3;  // FNV-1a
      of_launcher = true;
    }
    key = (key ^ 0xff) * 0x100000001b3;
  }
  if (!of_launcher) {
    key ^= (identity.start_time << 24 | static_cast<uint64_t>(identity.pid)) * 0x9e3779b97f4a7c15;
  }
  return key | 1;
}

}  // namespace traintrace
