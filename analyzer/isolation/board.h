// What a supervised child is doing, in memory that its parent shares and that outlives it.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <string>
#include <vector>

#include "analyzer/isolation/stage.h"

namespace traintrace {

struct Board {
  static constexpr size_t kThreads = 32;
  static constexpr size_t kLongest = 1000;  // bytes of a stage's name
  struct Slot {
    std::atomic<bool> used;  // by a thread that is inside a stage
    std::array<char, kLongest + 1> stage;
  };
  std::array<Slot, kThreads> slots;
  std::atomic<bool> spoken;  // something was written to stdout: it cannot be done once more
};

// Null: nobody supervises.
extern Board* board;
// Stages not to run, since they have killed an earlier attempt.
extern std::vector<InternalError> deadly_stages;
// The same, since they wait for files that do not answer.
extern std::vector<std::string> silent_stages;
// Some file did not answer.
extern bool anything_silent;

// As names of stages are compared and kept.
std::string stage_name(const std::string& stage);

}  // namespace traintrace
