#include "interpose/python_frames.h"

#include <atomic>
#include <cstdlib>

#include <pthread.h>

#include "interpose/python_memory.h"
#include "interpose/python_runtime.h"

namespace traintrace {
namespace {

constexpr uint16_t kNone = PythonLayout::kNone;

enum class Search : uint8_t { kNotFound, kPublishing, kUnproven, kProven, kRejected };

std::atomic<Search> search{Search::kNotFound};
std::atomic<int> failed_proofs{0};
std::atomic<uint64_t> empty_state{0};  // thread state of the last attempt, until one succeeds
std::atomic<uint32_t> rests{0};
std::atomic<void* (*)(const char*)> lookup_symbol{nullptr};
// Written once, between kPublishing and kUnproven.
PythonRuntime found;

// A frame that may never have run (3.9, 3.10: -1) or just begins (3.11: before the first).
int32_t normal_instruction(int64_t offset) {
  return offset < 0 ? -1 : static_cast<int32_t>(offset);
}

enum class Step { kFrame, kSkipped, kBroken };

// One walk over a frame chain; the reads are the only difference between believing and checking.
template <class Memory>
class Walk {
 public:
  explicit Walk(const PythonRuntime& python) : python_(python), at_(python.layout) {}

  // Begins with a thread state's innermost frame: 0 where it runs no Python.  False if this is not
  // the state of this thread.
  bool begin(uint64_t state, uint64_t& frame) {
    uint64_t id = 0;
    frame = 0;
    if (!plausible_address(state) || !memory_.load(state + at_.thread_id, id) ||
        id != static_cast<uint64_t>(pthread_self())) {
      return false;
    }
    if (is_dying(state)) {
      return true;
    }
    return memory_.load(state + at_.thread_frame, frame) &&
           (at_.cframe_frame == kNone ||
            (plausible_address(frame) && memory_.load(frame + at_.cframe_frame, frame)));
  }

  // Reads the frame and goes to the one that called it.
  Step next(uint64_t& frame, PythonFrame& out) {
    const uint64_t here = frame;
    if (!plausible_address(here) || !memory_.load(here + at_.frame_previous, frame)) {
      return Step::kBroken;
    }
    if (at_.frame_owner != kNone) {
      uint8_t owner = 0;
      if (!memory_.load(here + at_.frame_owner, owner) || owner > kLastOwner) {
        return Step::kBroken;
      }
      if (owner >= kFirstShim) {
        return Step::kSkipped;
      }
    } else if (!is_a(here, at_.frame_type, python_.frame_type)) {
      return Step::kBroken;
    }
    return read(here, out) ? Step::kFrame : Step::kBroken;
  }

 private:
  // enum _frameowner: thread, generator, frame object; from 3.12 on frames without bytecode, which
  // stand for C code that called the interpreter.
  static constexpr uint8_t kFirstShim = 3;
  static constexpr uint8_t kLastOwner = 4;
  // From 3.14 on the lowest bits say how the reference is counted.
  static constexpr uint64_t kTagBits = 7;

  // The finalising thread deletes the states of threads that still run C code, and their frames.
  // Those of a daemon thread can go in the middle of a walk that began just before: some 100 ns
  // against the microseconds at least from this flag to the first deletion.
  bool is_dying(uint64_t state) {
    uint64_t finalizing = 0;
    return !memory_.load(python_.runtime + at_.runtime_finalizing, finalizing) ||
           (finalizing != 0 && finalizing != state);
  }

  bool is_a(uint64_t object, uint16_t type_offset, uint64_t type) {
    uint64_t actual = 0;
    return memory_.load(object + type_offset, actual) && actual == type;
  }

  bool read(uint64_t frame, PythonFrame& out) {
    if (!memory_.load(frame + at_.frame_code, out.code)) {
      return false;
    }
    out.code &= ~kTagBits;
    if (!plausible_address(out.code) || !is_a(out.code, at_.object.type, python_.code_type)) {
      return false;
    }
    if (at_.instruction_unit == 0) {
      return read_pointer(frame, out);
    }
    int32_t units = 0;
    if (!memory_.load(frame + at_.frame_instruction, units)) {
      return false;
    }
    out.instruction = normal_instruction(int64_t{units} * at_.instruction_unit);
    return true;
  }

  bool read_pointer(uint64_t frame, PythonFrame& out) {
    uint64_t instruction = 0;
    uint64_t units = 0;
    uint64_t begin = out.code + at_.code_bytecode;
    if (!memory_.load(frame + at_.frame_instruction, instruction) ||
        !memory_.load(out.code + at_.object.size, units) ||
        (at_.frame_bytecode != kNone && !find_copy(frame, out.code, begin))) {
      return false;
    }
    const int64_t offset = static_cast<int64_t>(instruction - begin);
    // -2: just begins.
    if (offset < -2 || offset >= static_cast<int64_t>(2 * units)) {
      return false;
    }
    out.instruction = normal_instruction(offset);
    return true;
  }

  // Free-threaded: where the copy begins that this frame runs.
  bool find_copy(uint64_t frame, uint64_t code, uint64_t& begin) {
    int32_t index = 0;
    uint64_t copies = 0;
    uint64_t size = 0;
    if (!memory_.load(frame + at_.frame_bytecode, index) ||
        !memory_.load(code + at_.code_bytecode_copies, copies) || !plausible_address(copies) ||
        !memory_.load(copies, size) || index < 0 || static_cast<uint64_t>(index) >= size ||
        size > 1 << 20) {
      return false;
    }
    return memory_.load(copies + 8 + 8 * static_cast<uint64_t>(index), begin);
  }

  const PythonRuntime& python_;
  const PythonLayout& at_;
  Memory memory_;
};

uint64_t this_thread_state() {
  return reinterpret_cast<uint64_t>(found.this_thread_state());
}

// Whether the frames of this thread are as the layout says, all the way down; nothing where it runs
// none.
enum class Proof { kHolds, kFails, kNothingToSee };
Proof prove() {
  constexpr int kMaxSteps = 1000;  // so many frames of code are no accident
  Walk<ProbedMemory> walk(found);
  const uint64_t state = this_thread_state();
  if (state == 0) {
    return Proof::kNothingToSee;
  }
  uint64_t frame = 0;
  if (!walk.begin(state, frame)) {
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
      case Step::kBroken:
        return Proof::kFails;
      case Step::kSkipped:
        break;
      case Step::kFrame:
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

std::optional<PythonLayout> layout_of(uint64_t runtime, uint64_t version) {
  constexpr uint64_t kReleaseLevel = 0xf0;
  const uint64_t minor = version >> 16 & 0xff;
  if (version >> 24 != 3 || minor > 14 || (version & kReleaseLevel) < 0xc0) {
    return std::nullopt;
  }
  return minor >= 13 ? published_python_layout(runtime, version)
                     : known_python_layout(static_cast<int>(minor));
}

bool search_python(PythonRuntime& into) {
  const auto lookup = lookup_symbol.load(std::memory_order_relaxed);
  const auto address = [&](const char* name) { return reinterpret_cast<uint64_t>(lookup(name)); };
  into.this_thread_state = reinterpret_cast<void* (*)()>(lookup("PyGILState_GetThisThreadState"));
  if (into.this_thread_state == nullptr) {
    return false;
  }
  into.runtime = address("_PyRuntime");
  into.code_type = address("PyCode_Type");
  into.frame_type = address("PyFrame_Type");
  into.text_type = address("PyUnicode_Type");
  into.bytes_type = address("PyBytes_Type");
  const std::optional<PythonLayout> layout = layout_of(into.runtime, python_version());
  if (!layout || !into.runtime || !into.code_type || !into.frame_type || !into.text_type ||
      !into.bytes_type) {
    return false;
  }
  into.layout = *layout;
  return true;
}

}  // namespace

void set_python_lookup(void* (*lookup)(const char* name)) noexcept {
  lookup_symbol.store(lookup, std::memory_order_relaxed);
}

bool find_python() noexcept {
  PythonRuntime python{};
  Search expected = Search::kNotFound;
  if (search.load(std::memory_order_acquire) == expected &&
      lookup_symbol.load(std::memory_order_relaxed) != nullptr && search_python(python) &&
      search.compare_exchange_strong(expected, Search::kPublishing)) {
    found = python;
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

size_t python_frames(PythonFrame* out, size_t max) noexcept {
  if (!is_proven()) {
    return 0;
  }
  const uint64_t state = this_thread_state();
  if (state == 0) {
    return 0;
  }
  Walk<DirectMemory> walk(found);
  uint64_t frame = 0;
  size_t count = 0;
  if (!walk.begin(state, frame)) {
    return 0;
  }
  while (frame != 0 && count < max) {
    const Step step = walk.next(frame, out[count]);
    if (step == Step::kBroken) {
      break;
    }
    count += step == Step::kFrame ? 1 : 0;
  }
  return count;
}

}  // namespace traintrace
