// A process that does not want to be looked at: hostile TRICK ..  It says "ready" and waits.
//   libcuda      maps libcuda.so.1 (SIMGPU), so that `attach --all` looks at it: given before
//   others threads=N    N threads that sleep mappings=N   N mappings of two files by turns, so that
//   each is a module of its own names        threads and command line that a terminal would obey
//   fifo, device, bomb, nothing
//                a mapped library whose path now leads to a FIFO, /dev/zero, an archive, nowhere
//   trace        maps a FIFO's neighbour x.trace in a folder full of FIFOs and devices called
//   *.trace exec         replaces itself by itself again and again dying        threads come and go
//   all the time
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <climits>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

namespace {

constexpr size_t kPage = 4096;

void* sleep_forever(void*) {
  for (;;) {
    pause();
  }
}

void* end_at_once(void*) {
  return nullptr;
}

void start(void* (*body)(void*)) {
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, PTHREAD_STACK_MIN);
  pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
  pthread_t thread;
  pthread_create(&thread, &attributes, body, nullptr);
  pthread_attr_destroy(&attributes);
}

void* dying(void*) {
  for (;;) {
    start(end_at_once);
    usleep(100);
  }
}

void* map_file(const char* path, int protection, int flags) {
  const int file = open(path, O_RDWR | O_CLOEXEC);
  void* const mapped = mmap(nullptr, kPage, protection, flags, file, 0);
  close(file);
  return mapped;
}

void make_file(const char* path) {
  const int file = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0700);
  if (ftruncate(file, kPage) != 0) {
    std::abort();
  }
  close(file);
}

void many_mappings(int count) {
  make_file("a.so");
  make_file("b.so");
  for (int i = 0; i < count; ++i) {
    map_file(i % 2 == 0 ? "a.so" : "b.so", PROT_READ | PROT_EXEC, MAP_PRIVATE);
  }
}

// Mapped under a name at which there is something else by now.
void exchange(const std::string& trick) {
  const std::string path = "libpython3.11.so." + trick;
  make_file(path.c_str());
  map_file(path.c_str(), PROT_READ | PROT_EXEC, MAP_PRIVATE);
  unlink(path.c_str());
  if (trick == "fifo") {
    mkfifo(path.c_str(), 0700);
  } else if (trick == "device") {
    symlink("/dev/zero", path.c_str()) == 0 ? void() : std::abort();
  } else if (trick == "bomb") {
    symlink("bomb.gz", path.c_str()) == 0 ? void() : std::abort();
  }
}

void folder_of_traces() {
  mkdir("traces", 0700);
  make_file("traces/x.trace");
  map_file("traces/x.trace", PROT_READ, MAP_SHARED);
  mkfifo("traces/fifo.trace", 0700);
  mkfifo("traces/x.threads", 0700);
  mkfifo("traces/fifo.json", 0700);
  mkfifo("traces/p.pointer", 0700);
  symlink("/dev/zero", "traces/zero.trace") == 0 ? void() : std::abort();
  symlink("/proc/kmsg", "traces/kmsg.trace") == 0 ? void() : std::abort();
  truncate("traces/x.trace", off_t{1} << 40) == 0 ? void() : std::abort();
}

void do_trick(const std::string& trick) {
  const size_t equals = trick.find('=');
  const int count = equals == trick.npos ? 0 : std::atoi(trick.c_str() + equals + 1);
  const std::string name = trick.substr(0, equals);
  if (name == "libcuda") {
    dlopen("libcuda.so.1", RTLD_NOW) != nullptr ? void() : std::abort();
  } else if (name == "threads") {
    for (int i = 0; i < count; ++i) {
      start(sleep_forever);
    }
  } else if (name == "mappings") {
    many_mappings(count);
  } else if (name == "names") {
    prctl(PR_SET_NAME, "\x1b[2J\xc2\x9b\n\xff,=1");
  } else if (name == "trace") {
    folder_of_traces();
  } else if (name == "dying") {
    start(dying);
  } else {
    exchange(name);
  }
}

}  // namespace

int main(int argc, char** argv) {
  const bool again = std::strcmp(argv[argc - 1], "exec") == 0;
  for (int i = 1; i < argc - (again ? 1 : 0); ++i) {
    do_trick(argv[i]);
  }
  if (getenv("HOSTILE_AGAIN") == nullptr) {
    std::puts("ready");
    std::fflush(stdout);
  }
  if (again) {
    usleep(20'000);
    setenv("HOSTILE_AGAIN", "1", 1);
    execv("/proc/self/exe", argv);
  }
  sleep_forever(nullptr);
}
