#include "filters.h"

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace unharmed {
namespace {

void add(std::vector<sock_filter>& program, const std::vector<int>& calls, uint32_t answer) {
  for (const int call : calls) {
    program.push_back({BPF_JMP | BPF_JEQ | BPF_K, 0, 1, static_cast<uint32_t>(call)});
    program.push_back({BPF_RET | BPF_K, 0, 0, answer});
  }
}

bool install(const std::vector<int>& calls, uint32_t for_these, uint32_t for_others) {
  std::vector<sock_filter> program = {{BPF_LD | BPF_W | BPF_ABS, 0, 0, offsetof(seccomp_data, nr)}};
  add(program, calls, for_these);
  program.push_back({BPF_RET | BPF_K, 0, 0, for_others});
  const sock_fprog filter = {static_cast<unsigned short>(program.size()), program.data()};
  return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &filter) == 0;
}

}  // namespace

bool kill_whoever_opens() {
  return install({SYS_open,         SYS_openat,     SYS_openat2,     SYS_creat,
                  SYS_memfd_create, SYS_readlink,   SYS_unlink,      SYS_unlinkat,
                  SYS_rename,       SYS_mkdir,      SYS_execve,      SYS_vfork,
                  SYS_socket,       SYS_pidfd_open, SYS_pidfd_getfd, SYS_process_vm_readv,
                  SYS_close_range,  SYS_statfs,     SYS_fstatfs,     SYS_pwrite64,
                  SYS_fallocate,    SYS_ftruncate,  SYS_tgkill},
                 SECCOMP_RET_KILL_PROCESS, SECCOMP_RET_ALLOW);
}

bool kill_whoever_shares() {
  return install({SYS_close_range, SYS_memfd_create, SYS_fallocate, SYS_pidfd_open, SYS_pidfd_getfd,
                  SYS_process_vm_readv, SYS_process_vm_writev, SYS_vfork, SYS_flock},
                 SECCOMP_RET_KILL_PROCESS, SECCOMP_RET_ALLOW);
}

bool deny_to_poll() {
  return install({SYS_poll, SYS_ppoll}, SECCOMP_RET_ERRNO | EPERM, SECCOMP_RET_ALLOW);
}

bool allow_little() {
  return install({SYS_read,         SYS_pread64,    SYS_write,         SYS_futex,
                  SYS_exit,         SYS_exit_group, SYS_mmap,          SYS_munmap,
                  SYS_mprotect,     SYS_madvise,    SYS_brk,           SYS_rt_sigprocmask,
                  SYS_rt_sigreturn, SYS_getrandom,  SYS_clock_gettime, SYS_clock_nanosleep,
                  SYS_gettid,       SYS_getpid,     SYS_sched_yield,   SYS_set_robust_list,
                  SYS_rseq,         SYS_clone,      SYS_clone3,        SYS_wait4,
                  SYS_newfstatat,   SYS_fstat},
                 SECCOMP_RET_ALLOW, SECCOMP_RET_KILL_PROCESS);
}

}  // namespace unharmed
