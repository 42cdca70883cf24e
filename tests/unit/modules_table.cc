// The table of loaded modules against what the loader itself says.
// uses: interpose/record/map_memory.cc
// uses: interpose/stacks/modules.cc interpose/stacks/modules_elf.cc interpose/stacks/loader_walk.cc
#include "interpose/stacks/modules.h"

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <link.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <string>
#include <thread>
#include <vector>

namespace {

using traintrace::Module;
using traintrace::module_of;
using traintrace::ModulesRefresh;
using traintrace::refresh_modules;

uint64_t address_of(const void* pointer) {
  return reinterpret_cast<uint64_t>(pointer);
}

std::string beside_this_program(const char* name) {
  char path[4096];
  const ssize_t length = readlink("/proc/self/exe", path, sizeof path - 1);
  const std::string program(path, length < 0 ? 0 : static_cast<size_t>(length));
  return program.substr(0, program.rfind('/') + 1) + name;
}

struct Event {
  const Module* module;
  bool loaded;
};
std::vector<Event> g_events;
void note(const Module& module, bool loaded) {
  g_events.push_back({&module, loaded});
}

size_t events_about(const char* name, bool loaded) {
  return static_cast<size_t>(std::count_if(g_events.begin(), g_events.end(), [&](const Event& e) {
    return e.loaded == loaded && strstr(e.module->path, name) != nullptr;
  }));
}

class Library {
 public:
  explicit Library(const char* name)
      : handle_(dlopen(beside_this_program(name).c_str(), RTLD_NOW)) {
    EXPECT_NE(handle_, nullptr) << dlerror();
  }
  ~Library() { dlclose(handle_); }
  Library(const Library&) = delete;
  Library& operator=(const Library&) = delete;
  uint64_t code() const { return address_of(dlsym(handle_, "call_back")); }

 private:
  void* handle_;
};

TEST(ModulesTable, AllThatTheLoaderHas) {
  refresh_modules();
  size_t count = 0;
  const auto compare = [](dl_phdr_info* info, size_t, void* context) {
    for (int i = 0; i < info->dlpi_phnum; ++i) {
      const ElfW(Phdr)& header = info->dlpi_phdr[i];
      if (header.p_type != PT_LOAD || header.p_memsz == 0) {
        continue;
      }
      const uint64_t begin = info->dlpi_addr + header.p_vaddr;
      for (const uint64_t address : {begin, begin + header.p_memsz - 1}) {
        const Module* module = module_of(address);
        EXPECT_NE(module, nullptr) << info->dlpi_name;
        if (module != nullptr) {
          EXPECT_EQ(module->bias, info->dlpi_addr);
          EXPECT_NE(traintrace::segment_of(*module, address), nullptr);
          EXPECT_TRUE(info->dlpi_name[0] == '\0' || strcmp(module->path, info->dlpi_name) == 0);
        }
      }
      ++*static_cast<size_t*>(context);
    }
    return 0;
  };
  dl_iterate_phdr(compare, &count);
  EXPECT_GT(count, 4U);
}

TEST(ModulesTable, NothingElse) {
  refresh_modules();
  int on_stack = 0;
  const auto heap = std::make_unique<char[]>(10);
  EXPECT_EQ(module_of(0), nullptr);
  EXPECT_EQ(module_of(address_of(&on_stack)), nullptr);
  EXPECT_EQ(module_of(address_of(heap.get())), nullptr);
  EXPECT_EQ(module_of(~uint64_t{0}), nullptr);
}

TEST(ModulesTable, ProgramHasItsPathAndTables) {
  refresh_modules();
  const Module* module = module_of(address_of(reinterpret_cast<void*>(&note)));
  ASSERT_NE(module, nullptr);
  char path[4096] = {};
  ASSERT_GT(readlink("/proc/self/exe", path, sizeof path - 1), 0);
  EXPECT_STREQ(module->path, path);
  EXPECT_NE(module->eh_frame_hdr, 0U);
  EXPECT_TRUE(
      traintrace::segment_of(*module, address_of(reinterpret_cast<void*>(&note)))->executable);
}

// Debian's C library has one; the file says the same as memory.
TEST(ModulesTable, BuildId) {
  refresh_modules();
  const Module* module = module_of(address_of(reinterpret_cast<void*>(&qsort)));
  ASSERT_NE(module, nullptr);
  ASSERT_GT(module->build_id_bytes, 0U);
  std::string hexadecimal;
  for (size_t i = 0; i < module->build_id_bytes; ++i) {
    char digits[3];
    snprintf(digits, sizeof digits, "%02x", module->build_id[i]);
    hexadecimal += digits;
  }
  FILE* output = popen(("readelf -n " + std::string(module->path)).c_str(), "r");
  ASSERT_NE(output, nullptr);
  std::string text(1 << 16, '\0');
  text.resize(fread(text.data(), 1, text.size(), output));
  ASSERT_EQ(pclose(output), 0);
  EXPECT_NE(text.find(hexadecimal), std::string::npos) << hexadecimal;
}

TEST(ModulesTable, ComesAndGoes) {
  refresh_modules();
  EXPECT_NE(refresh_modules(), ModulesRefresh::kChanged);
  g_events.clear();
  traintrace::listen_to_modules(note);
  refresh_modules();
  EXPECT_EQ(events_about("libc.so", true), 1U);
  EXPECT_EQ(events_about("unwind_plugin1", true), 0U);
  g_events.clear();
  const Module* first = nullptr;
  {
    const Library library("unwind_plugin1.so");
    EXPECT_EQ(module_of(library.code()), nullptr);
    const uint64_t version = traintrace::modules_version();
    EXPECT_EQ(refresh_modules(), ModulesRefresh::kChanged);
    EXPECT_GT(traintrace::modules_version(), version);
    EXPECT_EQ(events_about("unwind_plugin1", true), 1U);
    first = module_of(library.code());
    ASSERT_NE(first, nullptr);
  }
  const uint64_t unloads = traintrace::modules_unloads();
  EXPECT_EQ(refresh_modules(), ModulesRefresh::kChanged);
  EXPECT_GT(traintrace::modules_unloads(), unloads);
  EXPECT_EQ(events_about("unwind_plugin1", false), 1U);
  EXPECT_EQ(module_of(first->begin), nullptr);
  EXPECT_NE(strstr(first->path, "unwind_plugin1"), nullptr);  // records stay
  traintrace::listen_to_modules(nullptr);
}

// A library that comes back as it was has its old record; one that went in between is noticed.
TEST(ModulesTable, ComesBack) {
  traintrace::listen_to_modules(nullptr);
  std::vector<uint32_t> ids;
  for (int round = 0; round < 50; ++round) {
    const Library library("unwind_plugin1.so");
    refresh_modules();
    const Module* module = module_of(library.code());
    ASSERT_NE(module, nullptr);
    ids.push_back(module->id);
  }
  const uint64_t unloads = traintrace::modules_unloads();
  { const Library library("unwind_plugin1.so"); }
  refresh_modules();
  EXPECT_GT(traintrace::modules_unloads(), unloads);
  std::sort(ids.begin(), ids.end());
  EXPECT_LT(std::unique(ids.begin(), ids.end()) - ids.begin(), 50);
  EXPECT_EQ(traintrace::modules_lost(), 0U);
}

// Also where the table does not know it yet.
TEST(ModulesTable, HeldWhileItIsUsed) {
  struct Seen {
    int bodies = 0;
    bool has_code = false;
    uint64_t code = 0;
  };
  const auto look = [](const Module* module, void* context) {
    auto& seen = *static_cast<Seen*>(context);
    ++seen.bodies;
    seen.has_code = module != nullptr && traintrace::segment_of(*module, seen.code)->executable &&
                    module->eh_frame_hdr != 0;
  };
  refresh_modules();
  const Library library("unwind_plugin1.so");
  for (int round = 0; round < 2; ++round) {
    Seen seen{.code = library.code()};
    EXPECT_TRUE(traintrace::with_module_at(seen.code, look, &seen));
    EXPECT_EQ(seen.bodies, 1);
    EXPECT_TRUE(seen.has_code);
    EXPECT_NE(module_of(seen.code), nullptr);  // known from now on
    Seen nowhere;
    EXPECT_TRUE(traintrace::with_module_at(16, look, &nowhere));
    EXPECT_EQ(nowhere.bodies, 1);
    EXPECT_FALSE(nowhere.has_code);
  }
}

TEST(ModulesTable, ReadWhileItChanges) {
  std::atomic<bool> done{false};
  std::vector<std::thread> readers;
  readers.reserve(3);
  const uint64_t own = address_of(reinterpret_cast<void*>(&note));
  refresh_modules();
  for (int i = 0; i < 3; ++i) {
    readers.emplace_back([&] {
      while (!done) {
        const Module* module = module_of(own);
        // May be null while the table changes all the time, but never another one.
        if (module != nullptr && (own < module->begin || own >= module->end)) {
          ADD_FAILURE() << module->path;
        }
        refresh_modules();
      }
    });
  }
  for (int round = 0; round < 200; ++round) {
    const Library library(round % 2 == 0 ? "unwind_plugin1.so" : "unwind_plugin2.so");
    refresh_modules();
  }
  done = true;
  for (std::thread& reader : readers) {
    reader.join();
  }
  refresh_modules();
  EXPECT_NE(module_of(own), nullptr);
}

// Waits for what another thread does in a child; the test's time limit ends it.
template <class Condition>
void wait_until(Condition condition) {
  while (!condition()) {
    usleep(1000);
  }
}

void expect_child_does(void (*body)()) {
  const pid_t child = fork();
  if (child == 0) {
    body();
    _exit(testing::Test::HasFailure() ? 1 : 0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
}

TEST(ModulesTable, ChildAfterFork) {
  refresh_modules();
  expect_child_does([] {
    traintrace::modules_after_fork();
    const Library library("unwind_plugin2.so");
    wait_until([] { return refresh_modules() == ModulesRefresh::kChanged; });
    EXPECT_NE(module_of(library.code()), nullptr);
  });
}

// Another thread of the parent has the loader's lock, so in the child nobody ever gives it back.
TEST(ModulesTable, ChildWithoutTheLoader) {
#if defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "TSan ends a child of several threads that starts one itself";
#endif
  refresh_modules();
  static std::atomic<bool> inside{false};
  static std::atomic<bool> done{false};
  std::thread holder([] {
    const auto wait = [](dl_phdr_info*, size_t, void*) {
      inside = true;
      wait_until([] { return done.load(); });
      return 1;
    };
    dl_iterate_phdr(wait, nullptr);
  });
  wait_until([] { return inside.load(); });
  expect_child_does([] {
    traintrace::modules_after_fork();
    usleep(10000);
    const uint64_t own = address_of(reinterpret_cast<void*>(&note));
    EXPECT_NE(refresh_modules(), ModulesRefresh::kChanged);
    EXPECT_FALSE(traintrace::with_module_at(
        own, [](const Module*, void*) { ADD_FAILURE(); }, nullptr));
    EXPECT_NE(module_of(own), nullptr);  // what was known stays known
  });
  done = true;
  holder.join();
}

}  // namespace
