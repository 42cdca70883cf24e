// Interpreters made of a few bytes: versions that no test machine has, and some not to be believed.
// uses: interpose/python/python_frames.cc interpose/python/python_code.cc cpython/layout.cc
#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <functional>
#include <utility>
#include <vector>

#include "interpose/python/python_frames.h"
#include "tests/unit/python/fake_interpreter.h"

namespace traintrace {
namespace {

using test::Address;
using test::Arena;
using test::Interpreter;
using test::Shape;

// There is one interpreter per process, so each scene is a process of its own; it says whether all
// was well.
void expect_in_child(const std::function<bool()>& scene) {
  EXPECT_EXIT(std::_Exit(scene() ? 0 : 1), testing::ExitedWithCode(0), "");
}

std::vector<PythonFrame> frames_now() {
  std::vector<PythonFrame> frames(16);
  frames.resize(python_frames(frames.data(), frames.size()));
  return frames;
}

bool sees(const std::vector<PythonFrame>& frames, std::vector<std::pair<Address, int>> expected) {
  if (frames.size() != expected.size()) {
    return false;
  }
  for (size_t i = 0; i < frames.size(); ++i) {
    if (frames[i].code != expected[i].first || frames[i].instruction != expected[i].second) {
      return false;
    }
  }
  return true;
}

bool has_name(Address code, const char* name) {
  PythonCode description;
  return describe_python_code(code, description) && std::strcmp(description.qualname, name) == 0 &&
         std::strcmp(description.file, "/home/train.py") == 0 && description.first_line == 17 &&
         description.line_table_bytes == 4 && description.line_table[0] == 1;
}

bool reads(Shape shape) {
  Interpreter python(shape);
  const Address main = python.code("<module>");
  const Address train = python.code("train");
  const Address none = python.arena.allocate(16);
  python.call(none, 0, 3);  // C called the interpreter
  python.call(main, 20);
  python.call(none, 0, 3);
  python.call(train | 1, 98);  // a borrowed reference
  python.call(main, 0, 1);     // a generator's frame
  python.install();
  return find_python() && sees(frames_now(), {{main, 0}, {train, 98}, {main, 20}}) &&
         has_name(train, "train") && has_name(main, "<module>") &&
         python_code_key(train) != python_code_key(main);
}

TEST(PythonLayouts, OfThreeFourteen) {
  expect_in_child([] { return reads({}); });
  expect_in_child([] { return reads({.interned_bits = 2}); });
  expect_in_child([] { return reads({.interned_bits = 8}); });
}

TEST(PythonLayouts, PublishedTableOfOtherLengths) {
  expect_in_child([] {
    return reads({.version = 0x030d01f0,
                  .interpreter_words = 13,
                  .frame_words = 6,
                  .code_words = 10,
                  .interned_bits = 2,
                  .owner = 70});
  });
  expect_in_child(
      [] { return reads({.interpreter_words = 14, .frame_words = 7, .code_words = 10}); });
}

TEST(PythonLayouts, FreeThreaded) {
  expect_in_child([] {
    return reads({.version = 0x030d00f0,
                  .free_threaded = true,
                  .interpreter_words = 13,
                  .frame_words = 6,
                  .code_words = 10,
                  .interned_bits = 8,
                  .header = 32});
  });
}

TEST(PythonLayouts, FreeThreadedCopiesOfBytecode) {
  expect_in_child([] {
    Shape shape{.free_threaded = true, .interned_bits = 8, .header = 32};
    Interpreter python(shape);
    const Address train = python.code("train");
    const Address copy = python.arena.allocate(100);
    const Address copies = python.arena.allocate(24);
    python.arena.put<uint64_t>(copies, 2);
    python.arena.put(copies + 8, train + shape.bytecode);
    python.arena.put(copies + 16, copy);
    python.arena.put(train + shape.tlbc, copies);
    python.call(train | 1, 30);
    const Address in_copy = python.call(train | 1, 0);
    python.arena.put<int32_t>(in_copy + shape.tlbc_index, 1);
    python.arena.put(in_copy + shape.instr_ptr, copy + 44);
    python.install();
    const bool good = find_python() && sees(frames_now(), {{train, 44}, {train, 30}});
    python.arena.put<int32_t>(in_copy + shape.tlbc_index, 2);  // there is none
    return good && frames_now().empty();
  });
}

TEST(PythonLayouts, NothingIsBelievedOfOtherVersions) {
  for (const uint64_t version : {0x030800f0u, 0x030f00f0u, 0x030e00a1u, 0x020700f0u, 0x040000f0u}) {
    expect_in_child([version] {
      Interpreter python({.version = version});
      python.call(python.code("train"), 0);
      python.install();
      return !find_python() && frames_now().empty();
    });
  }
}

// One word of the published table is wrong: no frames, or the right ones; never a fault.
TEST(PythonLayouts, WrongOffsetsEndInNoFrames) {
  const size_t words = 3 + 3 + 16 + 9 + 8 + 11 + 2;
  for (const uint64_t wrong : {uint64_t{0}, uint64_t{1}, uint64_t{24}, uint64_t{40}, uint64_t{3000},
                               uint64_t{1} << 40, ~uint64_t{0}}) {
    for (size_t word = 0; word < words; ++word) {
      expect_in_child([word, wrong] {
        Interpreter python;
        const Address main = python.code("<module>");
        const Address train = python.code("train");
        python.call(main, 20);
        python.call(train, 40);
        python.table[word] = wrong;
        python.publish_table();
        python.install();
        find_python();
        for (int i = 0; i < 100; ++i) {
          const auto frames = frames_now();
          PythonCode description;
          if (!frames.empty() && (frames[0].code != train || frames.back().code != main ||
                                  !describe_python_code(train, description))) {
            return false;
          }
        }
        return true;
      });
    }
  }
}

struct Damage {
  const char* name;
  std::function<void(Interpreter&, Address frame, Address code)> happen;
};

TEST(PythonLayouts, DamagedMemoryEndsInNoFrames) {
  const Damage damages[] = {
      {"frame beyond memory", [](auto& p, auto, auto) { p.set_innermost(Arena::forbidden()); }},
      {"frame out of line", [](auto& p, auto frame, auto) { p.set_innermost(frame + 1); }},
      {"frame nowhere", [](auto& p, auto, auto) { p.set_innermost(0x123456789abcdef0); }},
      {"caller beyond memory",
       [](auto& p, auto frame, auto) { p.arena.put(frame + 8, Arena::forbidden()); }},
      {"caller of itself", [](auto& p, auto frame, auto) { p.arena.put(frame + 8, frame); }},
      {"code beyond memory",
       [](auto& p, auto frame, auto) { p.arena.put(frame, Arena::forbidden()); }},
      {"no code", [](auto& p, auto frame, auto) { p.arena.put(frame, p.text("no code")); }},
      {"unknown owner", [](auto& p, auto frame, auto) { p.arena.put(frame + 78, char{9}); }},
      {"instruction before the code",
       [](auto& p, auto frame, auto code) { p.arena.put(frame + 56, code); }},
      {"instruction after the code",
       [](auto& p, auto frame, auto code) { p.arena.put(frame + 56, code + 216 + 100); }},
      {"file name beyond memory",
       [](auto& p, auto, auto code) { p.arena.put(code + 112, Arena::forbidden()); }},
      {"name is no text", [](auto& p, auto, auto code) { p.arena.put(code + 128, code); }},
      {"name too long",
       [](auto& p, auto, auto code) {
         const Address name = p.text("x");
         p.arena.put(name + 16, uint64_t{1} << 33);
         p.arena.put(code + 128, name);
       }},
      {"table is no bytes", [](auto& p, auto, auto code) { p.arena.put(code + 136, p.text("x")); }},
      {"another thread's state",
       [](auto& p, auto, auto) { p.arena.put(p.thread_state + 152, uint64_t{77}); }},
      {"state beyond memory", [](auto& p, auto, auto) { p.thread_state = Arena::forbidden(); }},
      {"no state", [](auto& p, auto, auto) { p.thread_state = 0; }},
      {"finalising", [](auto& p, auto, auto) { p.arena.put(p.runtime + 640, p.runtime); }},
  };
  for (const Damage& damage : damages) {
    SCOPED_TRACE(damage.name);
    expect_in_child([&] {
      Interpreter python;
      python.call(python.code("<module>"), 20);
      const Address code = python.code("train");
      const Address frame = python.call(code, 40);
      damage.happen(python, frame, code);
      python.install();
      find_python();
      for (int i = 0; i < 100; ++i) {
        if (!frames_now().empty()) {
          return false;
        }
      }
      return true;
    });
  }
}

// The first captures may be on threads that Python knows and that run none.
TEST(PythonLayouts, IsBelievedOnceThereAreFrames) {
  for (const int without_frames : {0, 1, 2, 1000}) {
    expect_in_child([without_frames] {
      Interpreter python;
      const Address train = python.code("train");
      const Address state = python.thread_state;
      python.install();
      bool good = find_python();
      for (int i = 0; i < without_frames; ++i) {
        python.thread_state = i % 3 == 2 ? 0 : state;
        good = frames_now().empty() && good;
      }
      python.thread_state = state;
      python.call(train, 40);
      for (int i = 0; without_frames > 0 && i < 8; ++i) {
        frames_now();
      }
      return good && sees(frames_now(), {{train, 40}});
    });
  }
}

TEST(PythonLayouts, OwnFramesWhileThisThreadFinalises) {
  expect_in_child([] {
    Interpreter python;
    const Address train = python.code("train");
    python.call(train, 40);
    python.arena.put(python.runtime + 640, python.thread_state);
    python.install();
    return find_python() && sees(frames_now(), {{train, 40}});
  });
}

TEST(PythonLayouts, NoInterpreter) {
  expect_in_child([] {
    set_python_lookup([](const char*) -> void* { return nullptr; });
    return !find_python() && !find_python() && frames_now().empty();
  });
}

}  // namespace
}  // namespace traintrace
