// Reads one trace of PyTorch's profiler and says what that took, as JSON: import_kineto FILE
#include <sys/resource.h>

#include <cstdio>
#include <fstream>
#include <string>

#include "analyzer/importers/kineto/kineto.h"

namespace {

double cpu_seconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) / 1e6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

long status_kib(const std::string& key) {
  std::ifstream file("/proc/self/status");
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with(key)) {
      return std::stol(line.substr(key.size() + 1));
    }
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "import_kineto FILE\n");
    return 2;
  }
  const long before = status_kib("VmRSS");
  const double start = cpu_seconds();
  const traintrace::KinetoTrace trace = traintrace::read_kineto(argv[1]);
  const double seconds = cpu_seconds() - start;
  std::printf(
      "{\"events\": %llu, \"work\": %zu, \"calls\": %zu, \"errors\": %zu, \"cpu_s\": %.3f, "
      "\"resident_bytes\": %ld, \"peak_bytes\": %ld}\n",
      static_cast<unsigned long long>(trace.events), trace.timeline.work.size(),
      trace.timeline.calls.size(), trace.errors.size(), seconds,
      (status_kib("VmRSS") - before) * 1024, (status_kib("VmHWM") - before) * 1024);
  return 0;
}
