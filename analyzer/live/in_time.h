// Work on what others have in their hands and may never let go: memory or a file that a dead server
// has, a symbol table without end.
#pragma once

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "analyzer/live/served_time.h"

namespace traintrace {

// Whether threads are left behind: then this program ends without destroying what they may touch.
inline std::atomic<bool>& somebody_hangs() {
  static std::atomic<bool> hangs = false;
  return hangs;
}

// What each of `works` returns.  Nothing: it threw, or had not returned at `limit` of `time`; then
// it goes on for as long as this program runs, so it must own all that it touches.  Each has a
// thread of its own, up to 512: whoever hangs holds up nobody.
template <class Outcome>
std::vector<std::optional<Outcome>> in_time(std::vector<std::function<Outcome()>> works,
                                            ServedTime& time, ServedTime::Clock::duration limit) {
  struct Shared {
    std::mutex mutex;
    std::condition_variable changed;
    std::vector<std::function<Outcome()>> works;
    std::vector<std::optional<Outcome>> outcomes;
    size_t next = 0, ended = 0;
  };
  constexpr size_t kMostThreads = 512;
  const auto shared = std::make_shared<Shared>();
  const size_t count = works.size();
  shared->works = std::move(works);
  shared->outcomes.resize(count);
  const auto run = [shared] {
    std::unique_lock lock(shared->mutex);
    while (shared->next < shared->works.size()) {
      const size_t i = shared->next++;
      lock.unlock();
      std::optional<Outcome> outcome;
      try {
        outcome = shared->works[i]();
      } catch (...) {  // out of memory: the others may have enough
      }
      lock.lock();
      shared->outcomes[i] = std::move(outcome);
      ++shared->ended;
      shared->changed.notify_all();
    }
  };
  size_t threads = 0;
  try {
    for (; threads < std::min(count, kMostThreads); ++threads) {
      std::thread(run).detach();
    }
  } catch (const std::system_error&) {  // no more threads: those that there are do it
  }
  if (threads == 0) {
    run();
  }
  std::unique_lock lock(shared->mutex);
  constexpr auto kLookAtTime = std::chrono::milliseconds(100);
  while (!shared->changed.wait_for(lock, kLookAtTime, [&] { return shared->ended == count; })) {
    lock.unlock();
    const bool is_late = time.elapsed() >= limit;
    lock.lock();
    if (is_late) {
      somebody_hangs() = somebody_hangs() || shared->ended != count;
      break;
    }
  }
  shared->next = count;  // nothing new is begun
  return std::exchange(shared->outcomes, std::vector<std::optional<Outcome>>(count));
}

}  // namespace traintrace
