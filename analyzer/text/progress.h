// How far a command is with its files: one line on stderr, if that is a terminal and it takes more
// than a second.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

namespace traintrace {

class Progress {
 public:
  // `paths` are read in this order; what cannot be looked at counts as empty.
  explicit Progress(const std::vector<std::string>& paths);
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;
  ~Progress();  // removes the line

  // Before the next of them is read.
  void next();

 private:
  using Clock = std::chrono::steady_clock;

  bool shows_;
  std::vector<uint64_t> bytes_;  // that each of them takes on disk
  uint64_t all_ = 0, done_ = 0;
  size_t begun_ = 0;
  Clock::time_point began_ = Clock::now();
  Clock::time_point shown_ = began_;
  bool is_shown_ = false;
};

// "reading file 12 of 64, 3.1 GB of 6.4 GB, 4 s left"
std::string progress_text(size_t number, size_t count, uint64_t done, uint64_t all,
                          std::chrono::nanoseconds elapsed);

}  // namespace traintrace
