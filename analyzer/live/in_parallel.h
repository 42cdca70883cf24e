// Work on many processes at once: an answer is due within seconds.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <exception>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

namespace traintrace {

// Calls work(0) .. work(count - 1), each once, in about that order, on as many threads as there are
// cores, 16 at most.  What `work` throws is thrown here once all are done: the first of it.
template <class Work>
void in_parallel(size_t count, const Work& work) {
  constexpr size_t kMostThreads = 16;
  std::atomic<size_t> next{0};
  std::mutex mutex;
  std::exception_ptr first;
  const auto run = [&] {
    for (size_t i = next++; i < count; i = next++) {
      try {
        work(i);
      } catch (...) {
        const std::lock_guard lock(mutex);
        first = first ? first : std::current_exception();
      }
    }
  };
  const size_t cores = std::clamp<size_t>(std::thread::hardware_concurrency(), 1, kMostThreads);
  {
    std::vector<std::jthread> helpers;
    try {
      for (size_t i = 1; i < std::min(cores, count); ++i) {
        helpers.emplace_back(run);
      }
    } catch (const std::system_error&) {  // no more threads: those that there are do it
    }
    run();
  }
  if (first) {
    std::rethrow_exception(first);
  }
}

}  // namespace traintrace
