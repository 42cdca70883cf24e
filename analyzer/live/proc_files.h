// What /proc says of a process and its threads (proc(5)).
#pragma once

#include <sys/types.h>

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "analyzer/reader/result.h"

namespace traintrace {

struct Mapping {
  uint64_t begin = 0, end = 0, offset = 0;
  bool executable = false;
  bool shared = false;
  std::string path;  // empty: anonymous
};

// Where a thread waits in the kernel, from /proc/PID/task/TID/syscall.
struct SystemCall {
  long number = -1;  // -1: in the kernel for another reason, such as a page fault
  std::array<uint64_t, 6> arguments{};
  uint64_t stack_pointer = 0;
  uint64_t instruction = 0;  // where it returns to
};

struct ProcThread {
  int tid = 0;
  std::string name;                       // as prctl(PR_SET_NAME) set it, 15 characters
  char state = '?';                       // R, S, D, T, t, Z, X
  std::optional<SystemCall> system_call;  // nothing: it runs, or we may not look
  uint64_t switches = 0;                  // how often it has got off a core
};

struct ProcProcess {
  pid_t pid = 0;
  char state = '?';
  uint64_t start_time = 0;  // ticks since boot
  uid_t uid = 0;
  int inner_pid = 0;  // its own name for itself, in its pid namespace
  bool same_pid_namespace = true;
  bool same_mount_namespace = true;
  std::string executable;  // path, empty: may not be read
  // As format/secrets.h has them: without secrets.
  std::string command_line;  // arguments separated by blanks
  std::map<std::string, std::string> environment;
  std::vector<Mapping> mappings;  // by address; empty: may not be read
  std::string module_maps;        // the lines of /proc/PID/maps that are about files
  bool maps_cut = false;          // some are left out: no program has as many
  std::vector<int> threads;

  // Its main thread may end and leave the process to the others; one that is killed loses its
  // threads one after the other.
  bool has_ended() const { return state == 'X' || (state == 'Z' && threads.size() <= 1); }
};

// What may not be read is left empty.  An error where there is no such process.
Result<ProcProcess> read_process(pid_t pid);

// Nothing where the thread is gone.
std::optional<ProcThread> read_thread(pid_t pid, int tid);

// Read and written by the thread so far, to files, pipes and sockets; nothing where we may not
// look.
std::optional<uint64_t> bytes_moved(pid_t pid, int tid);

// What a descriptor of the process is: a path, "socket:[1234]", "pipe:[1]".  Empty: not known.
std::string descriptor_target(pid_t pid, uint64_t descriptor);

// 0: there is no such process.
pid_t parent_of(pid_t pid);

// All processes of which something can be seen, by pid.
std::vector<pid_t> all_processes();

// A path in the process's mappings, as we reach it if it sees another root than we do.
std::string reachable_path(const ProcProcess& process, const std::string& path);

// A path that the process itself uses, as we reach it.
std::string path_from_here(const ProcProcess& process, const std::string& path);

// By whatever paths they are reached.
bool is_same_file(const std::string& a, const std::string& b);

}  // namespace traintrace
