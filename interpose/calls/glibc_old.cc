// Functions of glibc under the versions that they had in 2.28, so that the library loads on
// machines with that (RHEL 8) although it is built with a newer one.  Those here have a newer
// version for where they are, not for what they do: glibc 2.34 took libpthread and libdl into
// libc.so.6, 2.33 made functions of the stat family, and 2.30 gave names to two system calls.
//
// All our calls, and those of what is linked in, end here, since the library's own definition comes
// before glibc's; it is hidden, so the job never sees it.
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

// The oldest version that there is on this architecture.
#if defined(__x86_64__)
#define TT_OLDEST "GLIBC_2.2.5"
#define TT_DLADDR1 "GLIBC_2.3.3"
#define TT_SETSTACKSIZE "GLIBC_2.2.5"
#elif defined(__aarch64__)
#define TT_OLDEST "GLIBC_2.17"
#define TT_DLADDR1 "GLIBC_2.17"
#define TT_SETSTACKSIZE "GLIBC_2.17"
#endif

#define TT_OLD(name, version) __asm__(".symver tt_old_" #name "," #name "@" version)

extern "C" {

// NOLINTBEGIN(readability-identifier-naming,readability-inconsistent-declaration-parameter-name)
using Thread = unsigned long;
TT_OLD(dlopen, TT_OLDEST);
TT_OLD(dlclose, TT_OLDEST);
TT_OLD(dlerror, TT_OLDEST);
TT_OLD(dladdr, TT_OLDEST);
TT_OLD(dladdr1, TT_DLADDR1);
TT_OLD(pthread_create, TT_OLDEST);
TT_OLD(pthread_sigmask, TT_OLDEST);
TT_OLD(pthread_attr_setstacksize, TT_SETSTACKSIZE);
void* tt_old_dlopen(const char* path, int flags);
int tt_old_dlclose(void* handle);
char* tt_old_dlerror();
int tt_old_dladdr(const void* address, void* info);
int tt_old_dladdr1(const void* address, void* info, void** extra, int flags);
int tt_old_pthread_create(Thread* thread, const void* attributes, void* (*run)(void*),
                          void* argument);
int tt_old_pthread_sigmask(int how, const void* set, void* before);
int tt_old_pthread_attr_setstacksize(void* attributes, unsigned long bytes);

void* dlopen(const char* path, int flags) {
  return tt_old_dlopen(path, flags);
}
int dlclose(void* handle) {
  return tt_old_dlclose(handle);
}
char* dlerror() {
  return tt_old_dlerror();
}
int dladdr(const void* address, void* info) {
  return tt_old_dladdr(address, info);
}
int dladdr1(const void* address, void* info, void** extra, int flags) {
  return tt_old_dladdr1(address, info, extra, flags);
}
int pthread_create(Thread* thread, const void* attributes, void* (*run)(void*), void* argument) {
  return tt_old_pthread_create(thread, attributes, run, argument);
}
int pthread_sigmask(int how, const void* set, void* before) {
  return tt_old_pthread_sigmask(how, set, before);
}
int pthread_attr_setstacksize(void* attributes, unsigned long bytes) {
  return tt_old_pthread_attr_setstacksize(attributes, bytes);
}

// The kernel's structure is glibc's on 64 bits.
int stat(const char* path, struct stat* status) {
  return static_cast<int>(syscall(SYS_newfstatat, AT_FDCWD, path, status, 0));
}
int fstat(int file, struct stat* status) {
  return static_cast<int>(syscall(SYS_fstat, file, status));
}
int fstatat(int folder, const char* path, struct stat* status, int flags) {
  return static_cast<int>(syscall(SYS_newfstatat, folder, path, status, flags));
}
int gettid() {
  return static_cast<int>(syscall(SYS_gettid));
}
int tgkill(int process, int thread, int signal) {
  return static_cast<int>(syscall(SYS_tgkill, process, thread, signal));
}
// NOLINTEND(readability-identifier-naming,readability-inconsistent-declaration-parameter-name)
}
