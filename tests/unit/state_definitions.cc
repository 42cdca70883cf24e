// uses: state
// Definitions: whole or not there; stacks, code and modules stored once.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <set>
#include <thread>

#include "tests/unit/state_world.h"

namespace traintrace {
namespace {

using testing_world::Sizes;
using testing_world::World;

template <class T>
const T& as(const format::DefinitionHead* head) {
  return *reinterpret_cast<const T*>(head);
}
std::string text_behind(const void* end, size_t skip, size_t bytes) {
  return {static_cast<const char*>(end) + skip, bytes};
}

[[gnu::noinline]] uint32_t stack_here(World& world, uint32_t thread = 0) {
  const uint32_t id = current_stack(world.thread(thread), walk_from_here());
  asm volatile("");  // no tail call: this frame is wanted
  return id;
}
[[gnu::noinline]] uint32_t stack_from_elsewhere(World& world) {
  const uint32_t id = stack_here(world);
  asm volatile("");
  return id;
}

TEST(Definitions, AreNotSeenBeforeTheyAreWhole) {
  World world;
  void* const definition = begin_definition(world.thread(), format::kFact, 24);
  ASSERT_NE(definition, nullptr);
  EXPECT_TRUE(world.definitions(format::kFact).empty());
  commit_definition(world.thread(), definition);
  EXPECT_EQ(world.definitions(format::kFact).size(), 1u);
}

TEST(Definitions, AreFactsToo) {
  World world;
  define_fact(world.thread(), "env.RANK", "12", 2);
  define_fact(world.thread(), "command-line", "a\0b", 3);
  const auto facts = world.definitions(format::kFact);
  ASSERT_EQ(facts.size(), 2u);
  const auto& rank = as<format::FactDefinition>(facts[0]);
  EXPECT_EQ(text_behind(&rank + 1, 0, rank.key_bytes), "env.RANK");
  EXPECT_EQ(text_behind(&rank + 1, rank.key_bytes, rank.value_bytes), "12");
  EXPECT_EQ(as<format::FactDefinition>(facts[1]).value_bytes, 3u);
}

TEST(Definitions, TooLargeAreRefusedOrCut) {
  World world;
  EXPECT_EQ(begin_definition(world.thread(), format::kFact, 16384), nullptr);
  EXPECT_EQ(world.stat(format::Stat::DefinitionsFull), 1u);
  const std::string value(100000, 'x');
  define_fact(world.thread(), "env.LONG", value.c_str(), value.size());
  ASSERT_EQ(world.definitions(format::kFact).size(), 1u);
  EXPECT_EQ(as<format::FactDefinition>(world.definitions(format::kFact)[0]).value_bytes, 8192u);
}

TEST(Definitions, ChunksOfEndedThreadsGoOn) {
  Sizes sizes;
  sizes.definition_chunks = 4;
  World world(sizes);
  for (int i = 0; i < 300; ++i) {
    ThreadState& thread = world.thread(0);
    define_fact(thread, "key", "value", 5);
    release_definitions(thread);
    EXPECT_EQ(thread.definitions, nullptr);
  }
  EXPECT_EQ(world.definitions(format::kFact).size(), 300u);
  EXPECT_EQ(world.header().next_definition_chunk, 1u);
  EXPECT_EQ(world.stat(format::Stat::DefinitionsFull), 0u);
}

TEST(Definitions, TooManyAreCounted) {
  Sizes sizes;
  sizes.definition_chunks = 2;
  World world(sizes);
  const std::string value(1000, 'x');
  for (int i = 0; i < 40; ++i) {
    define_fact(world.thread(), "key", value.c_str(), value.size());
  }
  const size_t kept = world.definitions(format::kFact).size();
  EXPECT_EQ(kept + world.stat(format::Stat::DefinitionsFull), 40u);
  EXPECT_EQ(kept, 30u);
}

TEST(Definitions, OfManyThreadsAreAllThere) {
  World world;
  constexpr uint32_t kThreads = 8;
  world.thread(kThreads);
  std::vector<std::thread> threads;
  for (uint32_t t = 0; t < kThreads; ++t) {
    threads.emplace_back([&world, t] {
      for (int i = 0; i < 200; ++i) {
        define_fact(world.thread(t), "key", std::to_string(t).c_str(), 1);
        if (i % 10 == 0) {
          release_definitions(world.thread(t));
        }
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  std::map<std::string, int> counts;
  for (const auto* head : world.definitions(format::kFact)) {
    const auto& fact = as<format::FactDefinition>(head);
    ++counts[text_behind(&fact + 1, fact.key_bytes, fact.value_bytes)];
  }
  EXPECT_EQ(counts.size(), kThreads);
  for (const auto& [thread, count] : counts) {
    EXPECT_EQ(count, 200) << thread;
  }
}

TEST(Stacks, AreStoredOnce) {
  World world;
  uint32_t ids[3];
  for (uint32_t& id : ids) {
    id = stack_here(world);
  }
  EXPECT_NE(ids[0], 0u);
  EXPECT_EQ(ids[0], ids[1]);
  EXPECT_EQ(ids[0], ids[2]);
  EXPECT_NE(stack_from_elsewhere(world), ids[0]);
  EXPECT_EQ(world.definitions(format::kStack).size(), 2u);
  const auto& stack = as<format::StackDefinition>(world.definitions(format::kStack)[0]);
  EXPECT_EQ(stack.id, ids[0]);
  EXPECT_EQ(stack.python_frames, 0);
  ASSERT_GT(stack.native_frames, 3);
  uint64_t caller;
  std::memcpy(&caller, &stack + 1, sizeof caller);
  Dl_info info;
  EXPECT_NE(dladdr(reinterpret_cast<void*>(caller), &info), 0);
}

TEST(Stacks, BringTheModulesTheyAreIn) {
  World world;
  stack_here(world);
  bool found = false;
  for (const auto* head : world.definitions(format::kModule)) {
    const auto& module = as<format::ModuleDefinition>(head);
    const auto here = reinterpret_cast<uint64_t>(&stack_here);
    if (module.begin <= here && here < module.end) {
      found = true;
      const std::string path = text_behind(&module + 1, module.build_id_bytes, module.path_bytes);
      EXPECT_NE(path.find("state_definitions"), std::string::npos) << path;
      EXPECT_GT(module.loaded_ticks, 0u);
    }
  }
  EXPECT_TRUE(found);
  const size_t modules = world.definitions(format::kModule).size();
  EXPECT_GT(modules, 3u);
  stack_from_elsewhere(world);
  EXPECT_EQ(world.definitions(format::kModule).size(), modules);
}

TEST(Stacks, HavePythonOnTop) {
  World world;
  g_played_frames = {{50, 12}, {40, 6}};
  const uint32_t first = stack_here(world);
  ASSERT_EQ(world.definitions(format::kPythonCode).size(), 2u);
  const auto& code = as<format::PythonCodeDefinition>(world.definitions(format::kPythonCode)[0]);
  EXPECT_EQ(text_behind(&code + 1, 0, code.name_bytes), "code50");
  EXPECT_EQ(text_behind(&code + 1, code.name_bytes, code.file_bytes), "train.py");
  EXPECT_EQ(code.first_line, 50);
  EXPECT_EQ(code.minor, 11u);
  EXPECT_EQ(code.line_table_bytes, 5u);
  const auto& stack = as<format::StackDefinition>(world.definitions(format::kStack)[0]);
  ASSERT_EQ(stack.python_frames, 2);
  const auto* frames = reinterpret_cast<const format::PythonFrame*>(&stack + 1);
  EXPECT_EQ(frames[0].code, code.id);
  EXPECT_EQ(frames[0].instruction, 12);
  EXPECT_NE(frames[1].code, code.id);

  g_played_frames[0].instruction = 14;  // another line of the same function
  const uint32_t second = stack_here(world);
  EXPECT_NE(second, first);
  EXPECT_EQ(world.definitions(format::kPythonCode).size(), 2u);
}

TEST(Stacks, FindPythonThatComesLater) {
  World world;
  g_played_frames = {{50, 12}};
  g_played_python = false;
  g_stack_mode = Stacks::kPython;
  EXPECT_EQ(stack_here(world), 0u);
  EXPECT_EQ(stack_here(world), 0u);
  g_played_python = true;
  EXPECT_EQ(stack_here(world), 0u) << "no module was loaded since";
  void* const module = dlopen("libresolv.so.2", RTLD_NOW);
  ASSERT_NE(module, nullptr);
  state_tick(world.thread(1));
  EXPECT_NE(stack_here(world), 0u);
  dlclose(module);
}

TEST(Stacks, AreOfTheSortThatIsWanted) {
  World world;
  g_played_frames = {{50, 12}};
  const auto frames_of = [&](Stacks mode) {
    g_stack_mode = mode;
    const uint32_t id = stack_here(world);
    for (const auto* head : world.definitions(format::kStack)) {
      const auto& stack = as<format::StackDefinition>(head);
      if (stack.id == id) {
        return std::pair(stack.python_frames > 0, stack.native_frames > 0);
      }
    }
    return std::pair(false, false);
  };
  EXPECT_EQ(frames_of(Stacks::kAll), std::pair(true, true));
  EXPECT_EQ(frames_of(Stacks::kNative), std::pair(false, true));
  EXPECT_EQ(frames_of(Stacks::kPython), std::pair(true, false));
  g_stack_mode = Stacks::kOff;
  EXPECT_EQ(stack_here(world), 0u);
}

[[gnu::noinline]] uint32_t deep(World& world, int depth) {
  const uint32_t id = depth == 0 ? stack_here(world) : deep(world, depth - 1);
  asm volatile("");
  return id;
}

TEST(Stacks, AreCutWhereTheyAreTooDeep) {
  World world;
  g_played_frames.assign(300, {50, 12});
  const uint32_t id = deep(world, 200);
  EXPECT_NE(id, 0u);
  EXPECT_EQ(deep(world, 200), id);
  const auto& stack = as<format::StackDefinition>(world.definitions(format::kStack)[0]);
  EXPECT_EQ(stack.python_frames, 128);
  EXPECT_EQ(stack.native_frames, 64);
  EXPECT_EQ(world.stat(format::Stat::StackTruncated), 1u);
}

TEST(Stacks, LongLineTablesAreCut) {
  World world;
  g_played_frames = {{999, 12}};
  stack_here(world);
  const auto& code = as<format::PythonCodeDefinition>(world.definitions(format::kPythonCode)[0]);
  EXPECT_EQ(code.line_table_bytes, 8192u);
}

TEST(Stacks, ThatFindNoRoomAreCounted) {
  Sizes sizes;
  sizes.definition_chunks = 1;
  World world(sizes);
  g_stack_mode = Stacks::kPython;
  for (int i = 0; i < 1000; ++i) {
    g_played_frames = {{static_cast<uint64_t>(i + 1), 12}};
    stack_here(world);
  }
  EXPECT_GT(world.stat(format::Stat::DefinitionsFull), 0u);
  EXPECT_GT(world.definitions(format::kStack).size(), 10u);
}

TEST(Stacks, OfManyThreadsHaveOneDefinitionEach) {
  World world;
  g_stack_mode = Stacks::kNative;
  constexpr uint32_t kThreads = 8;
  world.thread(kThreads);
  std::vector<std::thread> threads;
  std::vector<std::vector<uint32_t>> ids(kThreads);
  for (uint32_t t = 0; t < kThreads; ++t) {
    threads.emplace_back([&world, &ids, t] {
      for (int i = 0; i < 2000; ++i) {
        ids[t].push_back(stack_here(world, t));
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  std::set<uint32_t> used;
  for (const auto& list : ids) {
    used.insert(list.begin(), list.end());
  }
  std::set<uint32_t> defined;
  for (const auto* head : world.definitions(format::kStack)) {
    EXPECT_TRUE(defined.insert(as<format::StackDefinition>(head).id).second);
  }
  EXPECT_EQ(used, defined);
  EXPECT_EQ(used.count(0), 0u);
}

TEST(Ticks, ReadTheNamesOfThreads) {
  World world;
  world.thread().slot->tid = static_cast<int32_t>(gettid());
  world.thread(1).slot->tid = 0x7fffffff;  // gone
  pthread_setname_np(pthread_self(), "trainer");
  state_tick(world.thread(2));
  EXPECT_STREQ(world.thread().slot->name, "trainer");
  EXPECT_STREQ(world.thread(1).slot->name, "");
  pthread_setname_np(pthread_self(), "other name");
  state_tick(world.thread(2));
  EXPECT_STREQ(world.thread().slot->name, "other name");
}

}  // namespace
}  // namespace traintrace
