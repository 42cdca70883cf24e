// Where traces lie, what they are called, who may read them; and the job goes on where there is no
// place for one.
#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <regex>

#include "support/process.h"
#include "support/raw_trace.h"
#include "support/roles.h"

namespace {

using preload::Folder;
using preload::Outcome;
using preload::RawTrace;
namespace fs = std::filesystem;

int use_cuda() {
  void* memory = nullptr;
  if (cudaMalloc(&memory, 1000) != cudaSuccess || cudaFree(memory) != cudaSuccess) {
    return 1;
  }
  std::puts("done");
  return 0;
}

ROLE(use) {
  return use_cuda();
}

ROLE(use_and_exec) {
  use_cuda();
  std::fflush(stdout);
  execl("/proc/self/exe", "self", "--role", "use", nullptr);
  return 1;
}

// arguments: the largest file in MiB.  With a driver that needs no files itself.
ROLE(use_limited) {
  const auto bytes = static_cast<rlim_t>(std::atoi(arguments.at(0).c_str())) << 20;
  const rlimit limit = {bytes, bytes};
  setrlimit(RLIMIT_FSIZE, &limit);
  void* const driver = dlopen(PRELOAD_FIXTURES "/libfake_vendor.so", RTLD_NOW);
  const auto release = reinterpret_cast<int (*)(unsigned long)>(dlsym(driver, "cuMemFree_v2"));
  std::puts("done");
  return release(1);
}

void call_fake_driver() {
  void* const driver = dlopen(PRELOAD_FIXTURES "/libfake_vendor.so", RTLD_NOW);
  reinterpret_cast<int (*)(unsigned long)>(dlsym(driver, "cuMemFree_v2"))(1);
}

// Mounts small file systems over the places that are taken where TRAINTRACE_DIR cannot be.  The
// build folder stays where it is, as it may lie below one of them: the tracer is loaded from there.
bool mount_small_places() {
  const int build = open(PRELOAD_BUILD, O_PATH | O_DIRECTORY | O_CLOEXEC);
  for (const auto& [path, size] : {std::pair("/tmp", "size=1m"), std::pair("/var/tmp", "size=1m"),
                                   std::pair("/dev/shm", "size=480m")}) {
    if (mount("tmpfs", path, "tmpfs", 0, size) != 0) {
      return false;
    }
  }
  std::error_code problem;
  fs::create_directories(PRELOAD_BUILD, problem);
  const std::string before = "/proc/self/fd/" + std::to_string(build);
  const bool mounted = mount(before.c_str(), PRELOAD_BUILD, nullptr, MS_BIND, nullptr) == 0;
  close(build);
  return mounted;
}

// Where only /dev/shm has room, and 480 MiB, so many processes one after the other; prints how many
// traces lie there then and their MiB.  arguments: the number
ROLE(only_memory) {
  if (unshare(CLONE_NEWNS) != 0 ||
      mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0) {
    std::puts("not root");
    return 0;
  }
  if (!mount_small_places()) {
    return 2;
  }
  for (int left = std::atoi(arguments.at(0).c_str()); left > 0; --left) {
    const pid_t child = fork();
    if (child == 0) {
      execl("/proc/self/exe", "self", "--role", "call_fake_driver", nullptr);
      _exit(3);
    }
    int status = 0;
    if (waitpid(child, &status, 0) != child || status != 0) {
      return 4;
    }
  }
  uintmax_t traces = 0;
  uintmax_t bytes = 0;
  const std::string folder = "/dev/shm/traintrace-" + std::to_string(geteuid());
  std::error_code none;
  for (const auto& entry : fs::directory_iterator(folder, none)) {
    if (entry.is_regular_file()) {
      ++traces;
      struct stat status = {};
      stat(entry.path().c_str(), &status);
      bytes += static_cast<uintmax_t>(status.st_blocks) * 512;
    }
  }
  std::printf("%ju traces, %ju MiB\n", traces, bytes >> 20);
  return 0;
}

ROLE(call_fake_driver) {
  call_fake_driver();
  return 0;
}

ROLE(only_ask) {
  int devices = 0;
  cudaGetDeviceCount(&devices);
  int version = 0;
  cudaRuntimeGetVersion(&version);
  return devices > 0 ? 0 : 1;
}

Outcome run(preload::Program program, const std::string& dir, const std::string& ring_mb = "1") {
  program.environment["TRAINTRACE_DIR"] = dir;
  program.environment["TRAINTRACE_RING_MB"] = ring_mb;
  return preload::run(program);
}

mode_t mode_of(const std::string& path) {
  struct stat status = {};
  EXPECT_EQ(stat(path.c_str(), &status), 0) << path;
  return status.st_mode & 07777;
}

void expect_whole(const std::string& path) {
  const RawTrace trace = preload::read_raw(path);
  EXPECT_EQ(trace.problems, std::vector<std::string>());
  EXPECT_EQ(trace.left("cudaMalloc"), 1u);
}

// The traces of this user in the places that are taken where TRAINTRACE_DIR cannot be.
std::vector<std::string> elsewhere() {
  std::vector<std::string> found;
  for (const char* place : {"/tmp", "/var/tmp", "/dev/shm"}) {
    const fs::path folder = fs::path(place) / ("traintrace-" + std::to_string(geteuid()));
    std::error_code none;
    for (const auto& entry : fs::directory_iterator(folder, none)) {
      found.push_back(entry.path());
    }
  }
  return found;
}

std::vector<std::string> new_since(const std::vector<std::string>& before) {
  std::vector<std::string> fresh;
  for (const std::string& path : elsewhere()) {
    if (std::find(before.begin(), before.end(), path) == before.end()) {
      fresh.push_back(path);
    }
  }
  return fresh;
}

TEST(Places, NameAndMode) {
  const Folder folder;
  const std::string dir = folder.path() + "/a/b";
  const Outcome outcome = run(preload::self("use"), dir);
  EXPECT_TRUE(outcome.exited_with(0));
  EXPECT_EQ(outcome.output, "done\n");
  EXPECT_EQ(outcome.errors, "");
  EXPECT_EQ(mode_of(dir), 0700u);
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(dir)) {
    names.push_back(entry.path().filename());
    EXPECT_EQ(mode_of(entry.path()), 0600u);
    expect_whole(entry.path());
  }
  ASSERT_EQ(names.size(), 1u);
  char host[256];
  gethostname(host, sizeof host);
  EXPECT_TRUE(std::regex_match(names[0], std::regex(std::string(host) + R"(\.\d+\.\d+\.trace)")))
      << names[0];
}

TEST(Places, ProcessesThatOnlyAskLeaveNothing) {
  const Folder folder;
  EXPECT_TRUE(run(preload::self("only_ask"), folder.path() + "/traces").exited_with(0));
  EXPECT_EQ(folder.files(), std::vector<std::string>());
}

TEST(Places, AProgramThatExecsHasTwo) {
  const Folder folder;
  const Outcome outcome = run(preload::self("use_and_exec"), folder.path());
  EXPECT_EQ(outcome.output, "done\ndone\n");
  ASSERT_EQ(folder.traces().size(), 2u);
  for (const std::string& path : folder.traces()) {
    expect_whole(path);
  }
}

// One line, of nothing else.
bool says_where(const std::string& errors, const std::string& wanted, const std::string& why) {
  return errors.starts_with("traintrace: traces are kept in /") &&
         errors.ends_with(" of each host, not in " + wanted + ": " + why +
                          "; on each host, `traintrace collect " + wanted +
                          " --to=FOLDER` gathers them in a folder of yours\n") &&
         std::count(errors.begin(), errors.end(), '\n') == 1;
}

constexpr const char* kFileInItsPlace = "a file is in its place, or in that of a folder above it";

// What the job prints is the same; the trace is elsewhere, as is said, or there is none.
TEST(Places, AFolderThatCannotBe) {
  const Folder folder;
  std::ofstream(folder.path() + "/file") << "no folder";
  const std::string wanted = folder.path() + "/file/traces";
  const auto before = elsewhere();
  const Outcome outcome = run(preload::self("use"), wanted);
  EXPECT_TRUE(outcome.exited_with(0));
  EXPECT_EQ(outcome.output, "done\n");
  EXPECT_TRUE(says_where(outcome.errors, wanted, kFileInItsPlace)) << outcome.errors;
  auto fresh = new_since(before);
  // Other tests of this user may put theirs there, too.
  std::erase_if(fresh, [&](const std::string& path) {
    return preload::read_raw(path).header.folder != wanted;
  });
  ASSERT_EQ(fresh.size(), 1u);
  expect_whole(fresh[0]);
  EXPECT_STREQ(preload::read_raw(fresh[0]).header.not_in_folder, kFileInItsPlace);
  EXPECT_EQ(mode_of(fs::path(fresh[0]).parent_path()), 0700u);
  fs::remove(fresh[0]);
}

// A mounted file system with so many bytes, for root only.
class SmallDisk {
 public:
  SmallDisk(const Folder& folder, const std::string& size) : path_(folder.path() + "/disk") {
    fs::create_directory(path_);
    mounted_ = mount("tmpfs", path_.c_str(), "tmpfs", 0, ("size=" + size).c_str()) == 0;
  }
  ~SmallDisk() {
    if (mounted_) {
      umount2(path_.c_str(), MNT_DETACH);
    }
  }
  SmallDisk(const SmallDisk&) = delete;
  SmallDisk& operator=(const SmallDisk&) = delete;
  bool mounted() const { return mounted_; }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
  bool mounted_ = false;
};

// Waits for the own thread to have written its pointer: it is no part of the job's time.
ROLE(use_until_pointer) {
  const int result = use_cuda();
  std::error_code none;
  for (bool found = false; !found; usleep(10'000)) {
    for (const auto& entry : fs::directory_iterator(arguments.at(0), none)) {
      found = found || (entry.path().extension() == ".pointer" && entry.file_size() > 0);
    }
  }
  return result;
}

TEST(Places, AFullDiskGetsAPointer) {
  const Folder folder;
  const SmallDisk disk(folder, "1m");
  if (!disk.mounted()) {
    GTEST_SKIP() << "mounting takes root";
  }
  const Outcome outcome = run(preload::self("use_until_pointer", {disk.path()}), disk.path());
  EXPECT_TRUE(outcome.exited_with(0)) << outcome.errors;
  EXPECT_EQ(outcome.output, "done\n");
  EXPECT_TRUE(says_where(outcome.errors, disk.path(), "not enough space")) << outcome.errors;
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(disk.path())) {
    files.push_back(entry.path());
  }
  ASSERT_EQ(files.size(), 1u);
  std::ifstream pointer(files[0]);
  std::string title;
  std::string path;
  std::string host;
  std::getline(pointer, title);
  std::getline(pointer, path);
  std::getline(pointer, host);
  EXPECT_EQ(title, "traintrace-pointer 1");
  EXPECT_EQ(fs::path(path).stem(), files[0].stem());
  expect_whole(path);
  fs::remove(path);
}

TEST(Places, ADiskWithRoomInMemoryIsUsed) {
  const Folder folder;
  const SmallDisk disk(folder, "200m");
  if (!disk.mounted()) {
    GTEST_SKIP() << "mounting takes root";
  }
  EXPECT_TRUE(run(preload::self("use"), disk.path()).exited_with(0));
  const fs::directory_iterator entries(disk.path());
  ASSERT_NE(entries, fs::directory_iterator());
  expect_whole(entries->path());
}

// Traces of jobs that ended stay there: however often one is started, they are a small part of the
// memory.
TEST(Places, MemoryIsNotFilledByAndBy) {
  const Folder folder;
  const Outcome outcome = run(preload::self("only_memory", {"6"}), "/proc/no-such-folder");
  ASSERT_TRUE(outcome.exited_with(0)) << outcome.errors;
  if (outcome.output == "not root\n") {
    GTEST_SKIP() << "mounting takes root";
  }
  int traces = 0;
  int mib = 0;
  ASSERT_EQ(std::sscanf(outcome.output.c_str(), "%d traces, %d MiB", &traces, &mib), 2)
      << outcome.output;
  // An eighth of the 480 MiB; what has no place there goes without a name, and with its keeper.
  EXPECT_GE(traces, 1);
  EXPECT_LE(mib, 60);
  EXPECT_EQ(outcome.errors, "");
}

TEST(Places, LimitedFilesAreSmaller) {
  const Folder folder;
  const Outcome outcome = run(preload::self("use_limited", {"48"}), folder.path(), "64");
  EXPECT_TRUE(outcome.exited_with(0));
  ASSERT_EQ(folder.traces().size(), 1u);
  EXPECT_EQ(preload::read_raw(folder.traces()[0]).problems, std::vector<std::string>());
  EXPECT_EQ(preload::read_raw(folder.traces()[0]).left("cuMemFree_v2"), 1u);
  EXPECT_LE(fs::file_size(folder.traces()[0]), 48u << 20);
  EXPECT_EQ(preload::read_raw(folder.traces()[0]).facts["setting.TRAINTRACE_RING_MB"], "16");
}

TEST(Places, WithoutAnyItStepsAside) {
  const Folder folder;
  const Outcome outcome = run(preload::self("use_limited", {"1"}), folder.path());
  EXPECT_TRUE(outcome.exited_with(0));
  EXPECT_EQ(outcome.output, "done\n");
  EXPECT_EQ(outcome.errors, "traintrace: not recording: files may not be that large\n");
  EXPECT_EQ(folder.traces().size(), 0u);
}

RawTrace with_setting(const char* name, const char* value, const std::string& told = "") {
  const Folder folder;
  preload::Program program = preload::self("use");
  program.environment = {{name, value}};
  const Outcome outcome = run(program, folder.path());
  EXPECT_EQ(outcome.output, "done\n");
  EXPECT_EQ(outcome.errors, told);
  return folder.traces().empty() ? RawTrace() : preload::read_raw(folder.traces()[0]);
}

TEST(Places, SettingsAreFacts) {
  RawTrace trace = with_setting("TRAINTRACE_GPU_TIMELINE", "cupti");
  EXPECT_EQ(trace.facts.count("setting-error.TRAINTRACE_GPU_TIMELINE"), 0u);
  EXPECT_EQ(trace.facts["setting.TRAINTRACE_GPU_TIMELINE"], "cupti");
  trace = with_setting("TRAINTRACE_STACKS", "some",
                       "traintrace: TRAINTRACE_STACKS=some is not a known value "
                       "(off|native|python|all): all is used\n");
  EXPECT_EQ(trace.facts["setting-error.TRAINTRACE_STACKS"], "not a known value");
  EXPECT_EQ(trace.facts["setting.TRAINTRACE_STACKS"], "all");
  trace = with_setting("RANK", "3");
  EXPECT_EQ(trace.facts["env.RANK"], "3");
  EXPECT_EQ(trace.facts["exe"], fs::read_symlink("/proc/self/exe"));
  EXPECT_EQ(trace.facts["cwd"], fs::current_path());
  EXPECT_TRUE(trace.facts["command-line"].ends_with(std::string("--role\0use", 10)));
  EXPECT_EQ(trace.facts.count("env.PATH"), 0u);
}

TEST(Places, CallsAreSelected) {
  const RawTrace trace = with_setting("TRAINTRACE_CALLS", "nccl*,cudaF?ee");
  EXPECT_EQ(trace.entered("cudaFree"), 1u);
  EXPECT_EQ(trace.records.size(), 2u);
}

TEST(Places, DisabledIsDisabled) {
  EXPECT_EQ(with_setting("TRAINTRACE_DISABLE", "1").header.ready, 0u);
}

}  // namespace
