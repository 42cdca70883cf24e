// A fuzz target without libFuzzer, as ctest runs it.
//
//   TARGET [--rounds=N] [--seed=S] [--from=FOLDER] FOLDER..
//
// gives it each file of the folders once, and then N damaged copies of them, and of those in
// --from: the same for the same seed.
//
// What kills it is left in TARGET.input, in the working directory.
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "tests/fuzz/mutate.h"
#include "tests/fuzz/seeds.h"

// NOLINTNEXTLINE(readability-identifier-naming): libFuzzer's name
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace traintrace::fuzz {
namespace {

// No input may take longer than a tenth of it; a test must not depend on how fast a machine is.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr unsigned kMostSeconds = 400;
#else
constexpr unsigned kMostSeconds = 100;
#endif

struct Arguments {
  uint64_t rounds = 0;
  uint64_t seed = 1;
  std::vector<std::string> folders;
  std::vector<std::string> from;
};

Arguments arguments_of(int argc, char** argv) {
  Arguments arguments;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    if (word.starts_with("--rounds=")) {
      arguments.rounds = std::strtoull(word.c_str() + 9, nullptr, 10);
    } else if (word.starts_with("--seed=")) {
      arguments.seed = std::strtoull(word.c_str() + 7, nullptr, 10);
    } else if (word.starts_with("--from=")) {
      arguments.from.push_back(word.substr(7));
    } else {
      arguments.folders.push_back(word);
    }
  }
  return arguments;
}

// Sorted, so that a seed means the same everywhere.
std::vector<std::string> read_files(const std::vector<std::string>& folders) {
  std::vector<std::string> contents;
  for (const std::string& folder : folders) {
    std::vector<std::filesystem::path> paths;
    for (const auto& entry : std::filesystem::directory_iterator(folder)) {
      if (entry.path().extension() != ".cc" && entry.path().filename() != "CMakeLists.txt") {
        paths.push_back(entry.path());
      }
    }
    std::sort(paths.begin(), paths.end());
    for (const std::filesystem::path& path : paths) {
      std::ifstream file(path, std::ios::binary);
      contents.emplace_back(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
    }
  }
  return contents;
}

class Runner {
 public:
  explicit Runner(const std::string& program)
      : kept_(std::filesystem::path(program).filename().string() + ".input") {}
  ~Runner() { std::filesystem::remove(kept_); }
  Runner(const Runner&) = delete;
  Runner& operator=(const Runner&) = delete;

  void run(const std::string& bytes) {
    using Clock = std::chrono::steady_clock;
    std::ofstream(kept_, std::ios::binary | std::ios::trunc) << bytes;
    const auto begin = Clock::now();
    alarm(kMostSeconds);
    LLVMFuzzerTestOneInput(reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size());
    alarm(0);
    longest_ = std::max(longest_, std::chrono::duration<double>(Clock::now() - begin).count());
    ++inputs_;
  }
  void tell() const {
    rusage usage = {};
    getrusage(RUSAGE_SELF, &usage);
    std::printf("%zu inputs, %.2f s at most, %ld MiB at most\n", inputs_, longest_,
                usage.ru_maxrss / 1024);
  }

 private:
  std::string kept_;
  size_t inputs_ = 0;
  double longest_ = 0;
};

// Lines and words of a text, bytes of anything.
std::string damaged(const std::string& input, const std::vector<std::string>& all, Random& random) {
  const bool text = input.find('\0') == input.npos;
  if (text && random.below(3) == 0) {
    return damaged_numbers(input, random);
  }
  if (!text || random.below(8) == 0 || input.find('\n') == input.npos) {
    return damaged_bytes(input, random);
  }
  std::vector<std::string> pieces = text_pieces();
  const std::string& other = all[random.below(all.size())];
  for (size_t at = 0; at < other.size() && pieces.size() < 200;) {
    const size_t end = std::min(other.find('\n', at), other.size());
    pieces.push_back(other.substr(at, end - at));
    at = end + 1;
  }
  return damaged_text(input, pieces, random);
}

int run(const std::string& program, const Arguments& arguments) {
  std::vector<std::string> files = read_files(arguments.folders);
  if (files.empty()) {
    std::fprintf(stderr, "%s: no files\n", program.c_str());
    return 1;
  }
  Runner runner(program);
  for (const std::string& file : files) {
    runner.run(file);
  }
  std::vector<std::string> more = read_files(arguments.from);
  std::move(more.begin(), more.end(), std::back_inserter(files));
  for (uint64_t i = 0; i < arguments.rounds; ++i) {
    Random random(arguments.seed + i);
    runner.run(damaged(files[random.below(files.size())], files, random));
  }
  runner.tell();
  return 0;
}

}  // namespace
}  // namespace traintrace::fuzz

int main(int argc, char** argv) {  // NOLINT(bugprone-exception-escape): ends the test
  return traintrace::fuzz::run(argv[0], traintrace::fuzz::arguments_of(argc, argv));
}
