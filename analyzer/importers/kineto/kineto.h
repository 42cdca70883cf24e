// Traces of PyTorch's profiler (Kineto): JSON in Chrome's format, often compressed with gzip.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "analyzer/reader/result.h"
#include "analyzer/timeline/timeline.h"

namespace traintrace {

// Whether a file begins like one; false where it cannot be read.
bool looks_like_kineto(const std::string& path);

// Those among the arguments of a command, and in the folders among them; sorted.
std::vector<std::string> find_kineto(std::span<const std::string> arguments);

struct KinetoTrace {
  Timeline timeline;
  uint64_t events = 0;  // of all sorts
  std::vector<ReadError> errors;
};

// Reads as far as it can; what could not be read is in `errors`, the first of them fatal if that is
// everything.
KinetoTrace read_kineto(const std::string& path);

// The same of a file that may have the traces of several ranks: at least one.
std::vector<KinetoTrace> read_kineto_ranks(const std::string& path);

}  // namespace traintrace
