// Work on many processes at once: an answer is due within seconds.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <thread>
#include <vector>

namespace traintrace {

// Calls work(0) .. work(count - 1), each once, in about that order, on as many threads as there are
// cores, 16 at most.
template <class Work>
void in_parallel(size_t count, const Work& work) {
  constexpr size_t kMostThreads = 16;
  std::atomic<size_t> next{0};
  const auto run = [&] {
    for (size_t i = next++; i < count; i = next++) {
      work(i);
    }
  };
  const size_t cores = std::clamp<size_t>(std::thread::hardware_concurrency(), 1, kMostThreads);
  std::vector<std::thread> helpers;
  for (size_t i = 1; i < std::min(cores, count); ++i) {
    helpers.emplace_back(run);
  }
  run();
  for (std::thread& helper : helpers) {
    helper.join();
  }
}

}  // namespace traintrace
