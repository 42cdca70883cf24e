// Jobs that have little of what everybody has: files, memory, processes, rights, a folder.
#include <fcntl.h>
#include <grp.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <string>
#include <vector>

#include "cases.h"

namespace unharmed {

bool become_nobody() {
  constexpr uid_t kNobody = 65534;
  return setgroups(0, nullptr) == 0 && setgid(kNobody) == 0 && setuid(kNobody) == 0;
}

// What it opens in the place of its standard files is its own, and has their numbers whatever else
// happens.
int closed_standard_files(const char* folder, bool called_before) {
  if (called_before) {
    calls(10);
  }
  const std::string path = std::string(folder) + "/file";
  std::string seen;
  const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(1300);
  while (seen.empty() && std::chrono::steady_clock::now() < end) {
    for (int i = 0; i < 3; ++i) {
      close(i);
    }
    calls(10);
    for (int i = 0; i < 3; ++i) {
      const int file = open(path.c_str(), O_RDWR | O_CREAT | O_TRUNC, 0600);
      seen += file == i ? "" : "got " + std::to_string(file) + ", not " + std::to_string(i) + "\n";
    }
  }
  write(2, "mine\n", 5);
  usleep(200'000);
  char text[100] = {};
  pread(2, text, sizeof text - 1, 0);
  seen += text;
  const int file = open((path + ".seen").c_str(), O_RDWR | O_CREAT | O_TRUNC, 0600);
  write(file, seen.data(), seen.size());
  return 3;
}

// Started without a file for errors: the next one has that number.
int opens_a_file(const char* folder) {
  const std::string path = std::string(folder) + "/checkpoint";
  const int file = open(path.c_str(), O_RDWR | O_CREAT | O_TRUNC, 0600);
  write(file, "precious\n", 9);
  calls(10);
  usleep(300'000);
  printf("%d\n", file);
  return 3;
}

// As a daemon that does not know what it was started with.
int close_all_files(const char* folder) {
  calls(10);
  std::string seen;
  for (int round = 0; round < 200; ++round) {
    syscall(SYS_close_range, 3, ~0U, 0);
    const std::string path = std::string(folder) + "/checkpoint";
    const int file = open(path.c_str(), O_RDWR | O_CREAT | O_TRUNC, 0600);
    write(file, "precious\n", 9);
    calls(100);
    char text[100] = {};
    pread(file, text, sizeof text - 1, 0);
    if (seen.find(text) == std::string::npos) {
      seen += text;
    }
  }
  fputs(seen.c_str(), stdout);
  return 3;
}

int no_descriptors(bool called_before) {
  if (called_before) {
    calls(10);
  }
  constexpr rlimit kFew = {16, 16};
  setrlimit(RLIMIT_NOFILE, &kFew);
  int opened = 0;
  while (open("/dev/null", O_RDONLY) >= 0) {
    ++opened;
  }
  calls(1000);
  if (called_before) {
    usleep(1'200'000);
  }
  printf("%d\n", opened > 5);
  return 3;
}

// Of those three are taken by what everybody has.
int few_descriptors(int most) {
  const rlimit few = {static_cast<rlim_t>(most), static_cast<rlim_t>(most)};
  setrlimit(RLIMIT_NOFILE, &few);
  calls(1000);
  usleep(1'200'000);
  printf("%d\n", open("/dev/null", O_RDONLY));
  return 3;
}

// Of what is left, two thirds are the job's.
int limited_memory(__rlimit_resource resource, size_t mb) {
  rlimit limit = {mb << 20, mb << 20};
  setrlimit(resource, &limit);
  calls(1000);
  std::vector<void*> got;
  for (size_t i = 0; i < mb * 2 / 3; ++i) {
    void* const page =
        mmap(nullptr, 1U << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (page != MAP_FAILED) {
      got.push_back(page);
    }
  }
  printf("%zu\n", got.size());
  calls(1000);
  return 3;
}

int no_processes(bool called_before) {
  if (called_before) {
    calls(10);
  }
  const bool nobody = become_nobody();
  constexpr rlimit kNone = {1, 1};
  setrlimit(RLIMIT_NPROC, &kNone);
  calls(1000);
  printf("%d\n", nobody);
  return 3;
}

int in_an_empty_root(const char* folder, bool called_before) {
  if (called_before) {
    calls(10);
  }
  const bool in = chroot(folder) == 0 && chdir("/") == 0;
  calls(1000);
  usleep(1'200'000);
  printf("%d\n", in);
  return 3;
}

int in_a_removed_folder(const char* folder) {
  const std::string path = std::string(folder) + "/gone";
  mkdir(path.c_str(), 0700);
  const bool in = chdir(path.c_str()) == 0 && rmdir(path.c_str()) == 0;
  calls(1000);
  printf("%d\n", in);
  return 3;
}

// What it is given from now on is locked, and takes memory at once.
int locks_memory() {
  constexpr unsigned long kMost = 200UL << 20;
  const bool locked = mlockall(MCL_CURRENT | MCL_FUTURE) == 0;
  calls(1000);
  unsigned long pages = 0;
  FILE* const file = fopen("/proc/self/statm", "r");
  const bool read = file && fscanf(file, "%*u %lu", &pages) == 1;
  printf("%d %d %s\n", locked, read, pages * 4096 < kMost ? "little" : "much");
  return 3;
}

}  // namespace unharmed
