// The command line of nccl_perf: OPERATION and the short options of NCCL's public benchmarks.
#pragma once
#include <unistd.h>

#include <cstdlib>
#include <string>

#include "check.h"

struct PerfOptions {
  std::string operation;
  size_t begin_bytes = 1024;  // -b
  size_t end_bytes = 65536;   // -e
  size_t factor = 4;          // -f
  int devices = 1;            // -g, per thread
  int threads = 1;            // -t, per process
  int rounds = 10;            // -n
  int warm_ups = 3;           // -w
  int graph_launches = 0;     // -G: the rounds are a graph that is launched so often
};

// Suffixes K, M, G.
inline size_t byte_count(const char* text) {
  char* end = nullptr;
  const size_t number = strtoull(text, &end, 10);
  const int shift = *end == 'K' ? 10 : *end == 'M' ? 20 : *end == 'G' ? 30 : 0;
  CHECK(number > 0 && end[shift ? 1 : 0] == '\0', "'%s' is no size", text);
  return number << shift;
}

inline PerfOptions perf_options(int argc, char** argv) {
  PerfOptions out;
  CHECK(argc > 1, "which operation?");
  out.operation = argv[1];
  optind = 2;
  for (int option; (option = getopt(argc, argv, "b:e:f:g:t:n:w:G:")) != -1;) {
    switch (option) {
      case 'b':
        out.begin_bytes = byte_count(optarg);
        break;
      case 'e':
        out.end_bytes = byte_count(optarg);
        break;
      case 'f':
        out.factor = byte_count(optarg);
        break;
      case 'g':
        out.devices = atoi(optarg);
        break;
      case 't':
        out.threads = atoi(optarg);
        break;
      case 'n':
        out.rounds = atoi(optarg);
        break;
      case 'w':
        out.warm_ups = atoi(optarg);
        break;
      case 'G':
        out.graph_launches = atoi(optarg);
        break;
      default:
        FAIL("see PerfOptions");
    }
  }
  CHECK(out.factor > 1 && out.devices > 0 && out.threads > 0 && out.rounds > 0, "see PerfOptions");
  return out;
}
