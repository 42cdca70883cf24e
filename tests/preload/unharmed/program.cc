// Programs that do what is unusual but allowed around their calls; its first argument says which.
// Each prints what it saw: unharmed.py compares that with a run without the tracer.
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "cases.h"
#include "filters.h"

namespace {

namespace fs = std::filesystem;

using unharmed::call;
using unharmed::calls;
using unharmed::g_copies;
using unharmed::wait_for;

// Threads that call until they are told to stop.
class Busy {
 public:
  explicit Busy(int threads) {
    for (int i = 0; i < threads; ++i) {
      threads_.emplace_back([this, i] {
        while (!stop_) {
          call(i);
        }
      });
    }
  }
  ~Busy() {
    stop_ = true;
    for (std::thread& thread : threads_) {
      thread.join();
    }
  }

 private:
  std::atomic<bool> stop_ = false;
  std::vector<std::thread> threads_;
};

// Children that call, all at once.
int fork_storm() {
  call();
  std::vector<pid_t> children;
  for (int i = 0; i < 40; ++i) {
    const pid_t child = fork();
    if (child == 0) {
      calls(10);
      _exit(i % 7);
    }
    children.push_back(child);
  }
  for (const pid_t child : children) {
    printf("%d ", wait_for(child));
  }
  puts("");
  return 0;
}

// A child of a child of a child.
int fork_chain() {
  int depth = 0;
  for (; depth < 12; ++depth) {
    calls(5);
    const pid_t child = fork();
    if (child != 0) {
      const int status = wait_for(child);
      if (depth == 0) {
        printf("%d\n", status);
        return 0;
      }
      _exit(status + 1);
    }
  }
  _exit(1);
}

int fork_while_busy() {
  const Busy busy(3);
  int sum = 0;
  for (int i = 0; i < 12; ++i) {
    const pid_t child = fork();
    if (child == 0) {
      calls(3);
      _exit(3);
    }
    sum += wait_for(child);
  }
  printf("%d\n", sum);
  return 0;
}

int spawn_while_busy() {
  const Busy busy(3);
  int sum = 0;
  for (int i = 0; i < 60; ++i) {
    pid_t child = 0;
    switch (i % 3) {
      case 0: {
        char* arguments[] = {const_cast<char*>("sh"), const_cast<char*>("-c"),
                             const_cast<char*>("exit 3"), nullptr};
        sum += posix_spawnp(&child, "sh", nullptr, nullptr, arguments, environ);
        sum += wait_for(child);
        break;
      }
      case 1:
        child = vfork();
        if (child == 0) {
          execlp("sh", "sh", "-c", "exit 5", nullptr);
          _exit(99);
        }
        sum += wait_for(child);
        break;
      default: {
        FILE* const pipe = popen("echo hello; exit 7", "r");
        char text[16] = {};
        const bool read = fgets(text, sizeof text, pipe) != nullptr;
        const int status = pclose(pipe);
        sum += read && WIFEXITED(status) ? WEXITSTATUS(status) : 1000;
      }
    }
  }
  printf("%d\n", sum);
  return 0;
}

int exit_in_a_thread() {
  std::thread([] {
    for (;;) {
      call();
    }
  }).detach();
  call();
  std::thread([] { exit(5); }).detach();
  for (;;) {
    call();
  }
}

struct AtEnd {
  ~AtEnd() {
    calls(3);
    write(STDOUT_FILENO, "destroyed\n", 10);
  }
};

int call_at_exit() {
  static const AtEnd at_end;
  atexit([] {
    calls(3);
    write(STDOUT_FILENO, "first\n", 6);
  });
  call();
  atexit([] {
    calls(3);
    std::thread([] { calls(3); }).join();
    write(STDOUT_FILENO, "last\n", 5);
  });
  return 4;
}

int first_call_at_exit() {
  atexit([] {
    calls(3);
    write(STDOUT_FILENO, "called\n", 7);
  });
  return 4;
}

int exec_itself(const char* program) {
  calls(100);
  execl(program, program, "other", nullptr);
  return 9;
}

// Libraries whose functions are on the stack, loaded and unloaded, so that others lie at their
// addresses.
int load_and_unload() {
  const std::string folder = UNHARMED_FIXTURES;
  const char* const names[] = {"caller_a", "caller_b"};
  int sum = 0;
  for (int i = 0; i < 400; ++i) {
    const std::string path = folder + "/lib" + names[i * 7 % 3 % 2] + ".so";
    void* const library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    const auto run =
        library ? reinterpret_cast<int (*)(int)>(dlsym(library, "call_from_here")) : nullptr;
    sum += run ? run(i % 5) : 1000;
    if (library) {
      dlclose(library);
    }
  }
  printf("%d\n", sum);
  return 0;
}

int load_while_busy() {
  const Busy busy(3);
  return load_and_unload();
}

int setuid_first() {
  printf("%d\n", unharmed::become_nobody());
  calls(10);
  return 3;
}

int setuid_later() {
  calls(10);
  const bool done = unharmed::become_nobody();
  calls(10);
  usleep(1'500'000);  // the tracer's own thread looks after its keeper
  printf("%d %d\n", done, static_cast<int>(getuid()));
  return 3;
}

bool is_real_time(const fs::path& task) {
  const int policy = sched_getscheduler(atoi(task.filename().c_str()));
  return policy == SCHED_FIFO || policy == SCHED_RR;
}

bool is_called(const fs::path& task, const char* name) {
  std::string text;
  std::getline(std::ifstream(task / "comm"), text);
  return text == name;
}

// What others start on its behalf is not to take a processor from it.
int in_real_time() {
  sched_param priority = {};
  priority.sched_priority = 10;
  const bool set = sched_setscheduler(0, SCHED_FIFO, &priority) == 0;
  calls(1000);
  usleep(1'500'000);
  int others = -1;  // itself
  for (const auto& thread : fs::directory_iterator("/proc/self/task")) {
    others += is_real_time(thread.path());
  }
  for (const auto& process : fs::directory_iterator("/proc")) {
    others += is_called(process.path(), "traintrace-keep") && is_real_time(process.path());
  }
  printf("%d %d\n", set, others + (set ? 0 : 1));
  return 3;
}

int without_environment() {
  environ = nullptr;
  calls(1000);
  return 3;
}

int aborts() {
  calls(1000);
  const rlimit none = {0, 0};
  setrlimit(RLIMIT_CORE, &none);
  abort();
}

int faults() {
  calls(1000);
  const rlimit none = {0, 0};
  setrlimit(RLIMIT_CORE, &none);
  *static_cast<volatile int*>(nullptr) = 1;
  return 0;
}

int many_threads_begin_and_end() {
  std::atomic<int> done = 0;
  for (int round = 0; round < 20; ++round) {
    constexpr int kAtOnce = 50;
    std::vector<std::thread> threads;
    threads.reserve(kAtOnce);
    for (int i = 0; i < kAtOnce; ++i) {
      threads.emplace_back([&] {
        calls(5);
        ++done;
      });
    }
    for (std::thread& thread : threads) {
      thread.join();
    }
  }
  printf("%d\n", done.load());
  return 3;
}

// The last thread does what is to be done at the end, with its descriptors.
int main_thread_leaves(bool called_before, bool in_child) {
  const pid_t child = in_child ? fork() : 0;
  if (child > 0) {
    printf("%d\n", wait_for(child));
    return 3;
  }
  atexit([] { printf("at exit\n"); });
  if (called_before) {
    calls(10);
  }
  printf("buffered\n");
  std::thread([] {
    usleep(50'000);
    calls(10);
  }).detach();
  pthread_exit(nullptr);
}

// Where there is no keeper, there are two threads of the tracer's.
int main_thread_leaves_without_keeper() {
  prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
  return main_thread_leaves(true, false);
}

// Long enough that what the tracer does each second, and later than that, is due.
int under_a_filter(bool (*install)(), bool called_before) {
  // The C library's memory for threads takes opening a file, once.
  std::thread([called_before] {
    delete new int(called_before);
    calls(called_before ? 10 : 0);
  }).join();
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  g_copies = false;  // of these the tracer leaves off within a second
  if (!install()) {
    printf("no filter can be installed\n");
    return 2;
  }
  for (int i = 0; i < 9; ++i) {
    g_copies = i > 4;
    std::thread([] { calls(20000); }).join();
    std::this_thread::sleep_for(std::chrono::milliseconds(500));
  }
  const pid_t child = fork();
  if (child == 0) {
    calls(10);
    _exit(4);
  }
  printf("%d\n", wait_for(child));
  return 3;
}

// Where there is no keeper, a thread of the process copies.
int under_a_filter_without_keeper() {
  prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
  return under_a_filter(unharmed::kill_whoever_opens, true);
}

// As of a container: it is there before the program starts, and the keeper has it too.
int under_an_older_filter(const char* program, const char* folder) {
  constexpr const char* kFiltered = "UNHARMED_FILTERED";
  if (getenv(kFiltered) == nullptr) {
    if (!unharmed::deny_to_poll()) {
      printf("no filter can be installed\n");
      return 2;
    }
    setenv(kFiltered, "1", 1);
    execl(program, program, "filter-denies-polling", folder, nullptr);
    return 5;
  }
  calls(10);
  std::this_thread::sleep_for(std::chrono::milliseconds(1500));
  return 3;
}

int named(const std::string& name, const char* program, const char* folder) {
  struct {
    const char* name;
    int (*run)();
  } constexpr kAll[] = {
      {"fork-storm", fork_storm},
      {"fork-chain", fork_chain},
      {"fork-while-busy", fork_while_busy},
      {"spawn-while-busy", spawn_while_busy},
      {"exit-in-a-thread", exit_in_a_thread},
      {"call-at-exit", call_at_exit},
      {"first-call-at-exit", first_call_at_exit},
      {"load-and-unload", load_and_unload},
      {"load-while-busy", load_while_busy},
      {"setuid-first", setuid_first},
      {"setuid-later", setuid_later},
      {"wait-for-anybody", unharmed::wait_for_anybody},
      {"ignores-children", unharmed::ignores_children},
      {"waits-for-signals", unharmed::waits_for_signals},
      {"counts-signals", unharmed::counts_signals},
      {"kills-its-group", unharmed::kills_its_group},
      {"locks-memory", unharmed::locks_memory},
      {"in-real-time", in_real_time},
      {"without-environment", without_environment},
      {"aborts", aborts},
      {"faults", faults},
      {"handles-faults", unharmed::handles_faults},
      {"small-handler-stacks", unharmed::handles_on_small_stacks},
      {"ends-by-system-call", unharmed::ends_by_system_call},
      {"processes-that-share-memory", unharmed::makes_processes_that_share_memory},
      {"many-threads", many_threads_begin_and_end},
      {"locks-little", unharmed::locks_little},
      {"calls-at-end-of-threads", unharmed::calls_at_end_of_threads},
      {"calls-when-it-forks", unharmed::calls_when_it_forks},
      {"calls-in-threads-of-timers", unharmed::calls_in_threads_of_timers},
      {"cancels-at-any-instruction", unharmed::cancels_at_any_instruction},
      {"closes-what-it-inherits", unharmed::closes_what_it_inherits}};
  for (const auto& each : kAll) {
    if (name == each.name) {
      return each.run();
    }
  }
  if (name == "exec-itself") {
    return exec_itself(program);
  }
  if (name == "closed-standard-files" || name == "closed-standard-files-later") {
    return unharmed::closed_standard_files(folder, name.ends_with("later"));
  }
  if (name == "opens-a-file") {
    return unharmed::opens_a_file(folder);
  }
  if (name == "close-all-files") {
    return unharmed::close_all_files(folder);
  }
  if (name == "no-descriptors" || name == "no-descriptors-later") {
    return unharmed::no_descriptors(name.ends_with("later"));
  }
  if (name.starts_with("addresses-") || name.starts_with("data-")) {
    return unharmed::limited_memory(name[0] == 'a' ? RLIMIT_AS : RLIMIT_DATA,
                                    std::stoul(name.substr(name.find('-') + 1)));
  }
  if (name.starts_with("descriptors-")) {
    return unharmed::few_descriptors(std::stoi(name.substr(name.find('-') + 1)));
  }
  if (name == "no-processes" || name == "no-processes-later") {
    return unharmed::no_processes(name.ends_with("later"));
  }
  if (name == "empty-root" || name == "empty-root-later") {
    return unharmed::in_an_empty_root(folder, name.ends_with("later"));
  }
  if (name.starts_with("main-thread-leaves")) {
    return name.ends_with("keeper")
               ? main_thread_leaves_without_keeper()
               : main_thread_leaves(!name.ends_with("first"), name.ends_with("child"));
  }
  if (name == "filter-denies-polling") {
    return under_an_older_filter(program, folder);
  }
  if (name == "filter-kills-first") {
    return under_a_filter(unharmed::kill_whoever_shares, false);
  }
  if (name == "filter-kills-later" || name == "filter-allows-little-later") {
    return under_a_filter(
        name == "filter-kills-later" ? unharmed::kill_whoever_opens : unharmed::allow_little, true);
  }
  if (name == "filter-kills-a-copying-thread-later") {
    return under_a_filter_without_keeper();
  }
  if (name == "removed-folder") {
    return unharmed::in_a_removed_folder(folder);
  }
  if (name == "subreaper" || name == "subreaper-later") {
    return unharmed::subreaper(name.ends_with("later"));
  }
  if (name == "daemonizes") {
    return unharmed::daemonizes(folder);
  }
  calls(10);
  printf("other\n");
  return 2;
}

}  // namespace

int main(int count, char** arguments) {
  return named(count > 1 ? arguments[1] : "", arguments[0], count > 2 ? arguments[2] : "/tmp");
}
