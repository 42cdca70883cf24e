// Reads damaged traces and texts.  Nothing may crash, hang or grow without bounds, whatever it is
// given; what was read must be fit to be printed, and what was printed to be read.
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "analyzer/reader/read_trace.h"
#include "analyzer/text/dump_parser.h"
#include "analyzer/text/dump_printer.h"
#include "tests/fuzz/mutate.h"
#include "tests/fuzz/seeds.h"

namespace traintrace::fuzz {
namespace {

// A file in memory, by the path that the reader opens.
class MemoryFile {
 public:
  MemoryFile()
      : descriptor_(memfd_create("fuzz", 0)),
        path_("/proc/self/fd/" + std::to_string(descriptor_)) {}
  void set(const std::string& bytes) const {
    if (ftruncate(descriptor_, 0) != 0 ||
        pwrite(descriptor_, bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size())) {
      std::perror("fuzz_readers: memory file");
      std::exit(2);
    }
  }
  const std::string& path() const { return path_; }

 private:
  int descriptor_;
  std::string path_;
};

std::string printed(const std::vector<ProcessTrace>& processes) {
  std::string text;
  print_dump(processes, {}, [&](std::string_view part) { text += part; });
  return text;
}

[[noreturn]] void fail(const char* what, uint64_t seed, const std::string& detail) {
  std::fprintf(stderr, "fuzz_readers: seed %llu: %s\n%s\n", static_cast<unsigned long long>(seed),
               what, detail.c_str());
  std::exit(1);
}

// What was printed can be read.
void check_printed(const std::vector<ProcessTrace>& processes, uint64_t seed) {
  const std::string text = printed(processes);
  const Result<DumpText> again = parse_dump(text, "fuzz");
  if (!again) {
    fail("a dump that cannot be read", seed,
         text + again.error().message + " in line " + std::to_string(again.error().offset));
  }
}

void check_text(const std::string& text, uint64_t seed) {
  const Result<DumpText> dump = parse_dump(text, "fuzz");
  if (!dump) {
    if (dump.error().message.empty() || dump.error().offset == 0) {
      fail("an error without line or message", seed, text);
    }
    return;
  }
  check_printed(dump->processes, seed);
}

void check_native(const MemoryFile& file, const std::string& bytes, uint64_t seed) {
  file.set(bytes);
  const Result<ProcessTrace> trace = read_trace(file.path(), {.events = true});
  if (!trace) {
    if (trace.error().message.empty()) {
      fail("an error without message", seed, "");
    }
    return;
  }
  for (const CallRecord& event : trace->events) {
    if (event.call >= trace->calls.size() ||
        size_t{event.first_value} + event.value_count > trace->values.size()) {
      fail("an event that refers to nothing", seed, "");
    }
  }
  std::vector<ProcessTrace> processes;
  processes.push_back(*trace);
  check_printed(processes, seed);
}

class Rounds {
 public:
  void run(uint64_t seed) {
    Random random(seed);
    if (random.below(3) != 0) {
      check_native(file_, damaged_bytes(native_, random), seed);
    } else {
      const std::string& text = texts_[random.below(texts_.size())];
      check_text(damaged_text(text, pieces_, random), seed);
    }
  }

 private:
  MemoryFile file_;
  std::string native_ = native_seed();
  std::vector<std::string> texts_ = text_seeds();
  std::vector<std::string> pieces_ = text_pieces();
};

}  // namespace
}  // namespace traintrace::fuzz

int main(int argc, char** argv) {  // NOLINT(bugprone-exception-escape): ends the test
  using Clock = std::chrono::steady_clock;
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  constexpr uint64_t kUsualRounds = 2000;
#else
  constexpr uint64_t kUsualRounds = 6000;
#endif
  const double seconds = argc > 1 ? std::atof(argv[1]) : 0;
  const uint64_t first = argc > 2 ? std::strtoull(argv[2], nullptr, 10) : 1;
  traintrace::fuzz::Rounds rounds;
  uint64_t seed = first;
  const auto start = Clock::now();
  while (seconds > 0 ? std::chrono::duration<double>(Clock::now() - start).count() < seconds
                     : seed < first + kUsualRounds) {
    rounds.run(seed++);
  }
  rusage usage = {};
  getrusage(RUSAGE_SELF, &usage);
  std::printf("fuzz_readers: seeds %llu to %llu, %ld MiB at most\n",
              static_cast<unsigned long long>(first), static_cast<unsigned long long>(seed - 1),
              usage.ru_maxrss / 1024);
  return 0;
}
