#include "interpose/python/python_frames.h"

#include <atomic>
#include <cstdlib>

#include <pthread.h>

#include "cpython/walk.h"
#include "interpose/python/python_memory.h"
#include "interpose/python/python_runtime.h"
#include "interpose/python/python_sampled.h"

namespace traintrace {
namespace {

enum class Search : uint8_t { kNotFound, kPublishing, kUnproven, kProven, kRejected };

std::atomic<Search> search{Search::kNotFound};
std::atomic<int> failed_proofs{0};
std::atomic<uint64_t> empty_state{0};  // thread state of the last attempt, until one succeeds
std::atomic<uint32_t> rests{0};
std::atomic<void* (*)(const char*)> lookup_symbol{nullptr};
std::atomic<void (*)(const void*)> keep_symbol{nullptr};
// Written once, between kPublishing and kUnproven.
PythonRuntime found;
void* (*found_thread_state)();

uint64_t this_thread_state() {
  return reinterpret_cast<uint64_t>(found_thread_state());
}

// Whether the frames of this thread are as the layout says, all the way down; nothing where it runs
// none.
enum class Proof { kHolds, kFails, kNothingToSee };
Proof prove() {
  constexpr int kMaxSteps = 1000;  // so many frames of code are no accident
  ProbedMemory memory;
  PythonWalk walk(found, memory);
  const uint64_t state = this_thread_state();
  if (state == 0) {
    return Proof::kNothingToSee;
  }
  uint64_t frame = 0;
  if (!walk.begin(state, static_cast<uint64_t>(pthread_self()), frame)) {
    return Proof::kFails;
  }
  int frames = 0;
  uint64_t earlier = 0;
  for (int step = 0; frame != 0 && step < kMaxSteps; ++step) {
    if (frame == earlier) {
      return Proof::kFails;  // a ring
    }
    earlier = (step & (step - 1)) == 0 ? frame : earlier;
    PythonFrame out;
    switch (walk.next(frame, out)) {
      case PythonStep::kBroken:
        return Proof::kFails;
      case PythonStep::kSkipped:
        break;
      case PythonStep::kFrame:
        ++frames;
        if (!looks_like_python_code(found, out.code)) {
          return Proof::kFails;
        }
        break;
    }
  }
  return frames > 0 ? Proof::kHolds : Proof::kNothingToSee;
}

// One more attempt, where one is due.
bool try_to_prove() {
  // A thread state can be looked at at a bad moment, but not often.
  constexpr int kMaxFailures = 8;
  const Proof proof = prove();
  if (proof == Proof::kHolds) {
    search.store(Search::kProven, std::memory_order_release);
  } else if (proof == Proof::kFails && failed_proofs.fetch_add(1) + 1 >= kMaxFailures) {
    search.store(Search::kRejected, std::memory_order_release);
  }
  return proof == Proof::kHolds;
}

// On the hot path: where nothing can be seen yet on a thread, it is not asked again each time,
// since an attempt takes system calls.
bool is_proven() {
  constexpr uint32_t kRest = 8;
  const Search now = search.load(std::memory_order_acquire);
  if (now != Search::kUnproven) {
    return now == Search::kProven;
  }
  const uint64_t state = this_thread_state();
  if (state == 0 || (empty_state.load(std::memory_order_relaxed) == state &&
                     rests.fetch_add(1, std::memory_order_relaxed) % kRest != 0)) {
    return false;
  }
  empty_state.store(state, std::memory_order_relaxed);
  return try_to_prove();
}

// As in Py_Version (3.11 and later): major, minor, micro, release level in one word.  Before that
// only as text; 0 for alphas, betas and candidates, whose layout is anybody's guess.
uint64_t python_version() {
  const auto lookup = lookup_symbol.load(std::memory_order_relaxed);
  uint64_t version = 0;
  if (const void* word = lookup("Py_Version")) {
    DirectMemory().load(reinterpret_cast<uint64_t>(word), version);
    return version;
  }
  const auto text = reinterpret_cast<const char* (*)()>(lookup("Py_GetVersion"));
  if (text == nullptr) {
    return 0;
  }
  const char* at = text();
  if (at == nullptr || at[0] != '3' || at[1] != '.') {
    return 0;
  }
  char* end = nullptr;
  const unsigned long minor = std::strtoul(at + 2, &end, 10);
  const unsigned long micro = *end == '.' ? std::strtoul(end + 1, &end, 10) : 256;
  const bool released = *end == ' ' || *end == '+' || *end == '\0';
  return released && minor < 256 && micro < 256 ? 0x030000f0 | minor << 16 | micro << 8 : 0;
}

bool search_python(PythonRuntime& into) {
  const auto lookup = lookup_symbol.load(std::memory_order_relaxed);
  const auto address = [&](const char* name) { return reinterpret_cast<uint64_t>(lookup(name)); };
  if (lookup("PyGILState_GetThisThreadState") == nullptr) {
    return false;
  }
  into.runtime = address("_PyRuntime");
  into.code_type = address("PyCode_Type");
  into.frame_type = address("PyFrame_Type");
  into.text_type = address("PyUnicode_Type");
  into.bytes_type = address("PyBytes_Type");
  ProbedMemory memory;
  const std::optional<PythonLayout> layout =
      plausible_address(into.runtime) ? python_layout(memory, into.runtime, python_version())
                                      : std::nullopt;
  if (!layout || !into.runtime || !into.code_type || !into.frame_type || !into.text_type ||
      !into.bytes_type) {
    return false;
  }
  into.layout = *layout;
  return true;
}

}  // namespace

void set_python_lookup(void* (*lookup)(const char* name),
                       void (*keep)(const void* symbol)) noexcept {
  keep_symbol.store(keep, std::memory_order_relaxed);
  lookup_symbol.store(lookup, std::memory_order_relaxed);
}

bool find_python() noexcept {
  PythonRuntime python{};
  Search expected = Search::kNotFound;
  if (search.load(std::memory_order_acquire) == expected &&
      lookup_symbol.load(std::memory_order_relaxed) != nullptr && search_python(python) &&
      search.compare_exchange_strong(expected, Search::kPublishing)) {
    found = python;
    void* const thread_state =
        lookup_symbol.load(std::memory_order_relaxed)("PyGILState_GetThisThreadState");
    found_thread_state = reinterpret_cast<void* (*)()>(thread_state);
    if (const auto keep = keep_symbol.load(std::memory_order_relaxed)) {
      keep(thread_state);
    }
    search.store(Search::kUnproven, std::memory_order_release);
  }
  if (search.load(std::memory_order_acquire) == Search::kUnproven) {
    try_to_prove();
  }
  const Search now = search.load(std::memory_order_acquire);
  return now == Search::kUnproven || now == Search::kProven;
}

const PythonRuntime* proven_python() noexcept {
  return is_proven() ? &found : nullptr;
}

const PythonRuntime* known_python() noexcept {
  return search.load(std::memory_order_acquire) == Search::kProven ? &found : nullptr;
}

PythonThread this_python_thread() noexcept {
  return known_python() == nullptr
             ? PythonThread{}
             : PythonThread{this_thread_state(), static_cast<uint64_t>(pthread_self())};
}

size_t python_frames(PythonFrame* out, size_t max) noexcept {
  if (!is_proven()) {
    return 0;
  }
  const uint64_t state = this_thread_state();
  if (state == 0) {
    return 0;
  }
  DirectMemory memory;
  PythonWalk walk(found, memory);
  uint64_t frame = 0;
  size_t count = 0;
  if (!walk.begin(state, static_cast<uint64_t>(pthread_self()), frame)) {
    return 0;
  }
  while (frame != 0 && count < max) {
    const PythonStep step = walk.next(frame, out[count]);
    if (step == PythonStep::kBroken) {
      break;
    }
    count += step == PythonStep::kFrame ? 1 : 0;
  }
  return count;
}

}  // namespace traintrace
