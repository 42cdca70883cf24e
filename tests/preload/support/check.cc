// preload_check TRACE..: what is wrong with these traces, by the rules of format/trace_format.h.
#include <cstdio>

#include "support/raw_trace.h"

int main(int argc, char** argv) {
  int problems = 0;
  for (int i = 1; i < argc; ++i) {
    const preload::RawTrace trace = preload::read_raw(argv[i]);
    for (const std::string& problem : trace.problems) {
      std::printf("%s: %s\n", argv[i], problem.c_str());
      ++problems;
    }
    for (const auto& [stat, times] : trace.stats) {
      std::printf("%s: %s %lu\n", argv[i], stat.c_str(), static_cast<unsigned long>(times));
    }
    std::printf("%s: %zu records\n", argv[i], trace.records.size());
  }
  return problems ? 1 : 0;
}
