// uses: state
// Ranges of NVTX in the tracer's tables.
#include <gtest/gtest.h>

#include <thread>

#include "interpose/nvtx/ranges.h"
#include "tests/unit/state_world.h"

namespace traintrace {
namespace {

using testing_world::World;
using Names = std::vector<std::string>;

class Ranges : public ::testing::Test {
 protected:
  uint32_t push(const std::string& name, const Registered* domain = nullptr, uint32_t thread = 0) {
    const RangeName named =
        range_name(domain == nullptr ? kDefaultDomainHash : domain->hash, name.c_str());
    const uint32_t id = id_of_range(world_.thread(thread), domain, named);
    range_opened(world_.thread(thread), domain, id, named, ++ticks_);
    return id;
  }
  bool pop(const Registered* domain = nullptr, uint32_t thread = 0) {
    return range_closed(world_.thread(thread), domain, popped_);
  }
  const format::OpenRanges& table(uint32_t thread = 0) {
    return world_.table<format::OpenRanges>(format::kOpenRanges)[thread];
  }
  // As a reader finds them.
  Names open(uint32_t thread = 0) {
    Names names;
    for (uint64_t i = 0; i < (table(thread).state & 0xffff); ++i) {
      const format::OpenRange& range = table(thread).ranges[i];
      if (range.began_ticks != 0) {
        names.push_back(range.range != 0 ? name_of(range.range)
                                         : std::string(range.name, strnlen(range.name, 48)));
      }
    }
    return names;
  }
  std::string name_of(uint32_t id) {
    for (const auto* head : world_.definitions(format::kRangeName)) {
      const auto& range = *reinterpret_cast<const format::RangeNameDefinition*>(head);
      const auto* text = reinterpret_cast<const char*>(&range + 1);
      if (range.id == id) {
        std::string name(text, range.domain_bytes);
        name += name.empty() ? "" : "/";
        return name.append(text + range.domain_bytes, range.name_bytes);
      }
    }
    return "undefined";
  }

  World world_;
  uint64_t ticks_ = 0;
  uint32_t popped_ = 0;
};

TEST_F(Ranges, NestAndHaveOneIdForEachName) {
  const uint32_t step = push("step");
  push("backward");
  EXPECT_EQ(push("step"), step);
  EXPECT_EQ(open(), (Names{"step", "backward", "step"}));
  EXPECT_TRUE(pop());
  EXPECT_EQ(popped_, step);
  EXPECT_EQ(open(), (Names{"step", "backward"}));
  EXPECT_EQ(world_.definitions(format::kRangeName).size(), 2u);
}

TEST_F(Ranges, NamesOfAllLengthsAreTellableApart) {
  std::string name;
  for (int i = 0; i < 40; ++i) {
    EXPECT_EQ(name_of(push(name)), name);
    EXPECT_TRUE(pop());
    name += 'x';
  }
  EXPECT_EQ(name_of(push(std::string(2000, 'y'))), std::string(kMostRangeName, 'y'));
}

TEST_F(Ranges, OfAnotherDomainLeaveAHoleUntilWhatIsAboveEnds) {
  const Registered* const domain = register_domain("nccl");
  push("outer", domain);
  push("inner");
  EXPECT_TRUE(pop(domain));
  EXPECT_EQ(open(), Names{"inner"});
  EXPECT_FALSE(pop(domain));
  EXPECT_TRUE(pop());
  EXPECT_EQ(table().state & 0xffff, 0u);
  EXPECT_FALSE(pop());
}

TEST_F(Ranges, TheSameNameInTwoDomainsIsTwoNames) {
  const Registered* const domain = register_domain("nccl");
  EXPECT_EQ(register_domain("nccl"), domain);
  const uint32_t mine = push("step");
  EXPECT_NE(push("step", domain), mine);
  EXPECT_EQ(open(), (Names{"step", "nccl/step"}));
}

TEST_F(Ranges, RegisteredStringsAreTheNamesThatTheyWereMadeFrom) {
  const Registered* const text = register_string(nullptr, "step");
  EXPECT_EQ(registered_of(text), text);
  EXPECT_EQ(id_of_range(world_.thread(), nullptr, {text->hash, text->text, text->bytes}),
            push("step"));
}

// There is room for 512 KiB of texts, which these do not end at.
TEST_F(Ranges, RegisteredTextsStayWhereThereIsNoRoomForMore) {
  std::vector<std::pair<const Registered*, std::string>> all;
  all.reserve(3300);
  for (int i = 0; i < 3300; ++i) {
    const std::string text = std::to_string(i) + std::string(i % 3 == 0 ? 490 : 37, 'x');
    all.emplace_back(register_string(nullptr, text.c_str()), text);
  }
  size_t kept = 0;
  for (const auto& [registered, text] : all) {
    if (registered != nullptr && registered->ready != 0) {
      ++kept;
      ASSERT_EQ(std::string(registered->text, registered->bytes), text);
    }
  }
  EXPECT_GT(kept, 2000U);
  EXPECT_LT(kept, all.size());
}

TEST_F(Ranges, HandlesOfNobodyAreNone) {
  EXPECT_EQ(registered_of(nullptr), nullptr);
  EXPECT_EQ(registered_of(this), nullptr);
  const auto* const text = reinterpret_cast<const char*>(register_string(nullptr, "step"));
  EXPECT_EQ(registered_of(text + 8), nullptr);
  name_handle(this, register_string(nullptr, "theirs"));
  EXPECT_EQ(registered_of(this), register_string(nullptr, "theirs"));
  name_handle(this, register_string(nullptr, "newer"));
  EXPECT_EQ(registered_of(this), register_string(nullptr, "newer"));
}

TEST_F(Ranges, OperatorsOfPyTorchAreCalledByTheirNamesAlone) {
  const auto cut = [](const std::string& text) {
    uint64_t numbers = 0;
    OperatorName room;
    const RangeName name = range_name_of_operator(kDefaultDomainHash, text.c_str(), numbers, room);
    EXPECT_EQ(name.hash,
              range_name(kDefaultDomainHash, std::string(name.text, name.bytes).c_str()).hash);
    return std::string(name.text, name.bytes) + " " + std::to_string(numbers >> 32) + " " +
           std::to_string(numbers & 0xffff'ffff);
  };
  EXPECT_EQ(cut("aten::mm, seq = 7, op_id = 12"), "aten::mm 8 12");
  EXPECT_EQ(cut("aten::empty, op_id = 2"), "aten::empty 0 2");
  EXPECT_EQ(cut("aten::mm, seq = 0, op_id = 999999999"), "aten::mm 1 999999999");
  EXPECT_EQ(cut("aten::mm, seq = 7"), "aten::mm 8 0") << "as PyTorch 1.8 wrote it";
  EXPECT_EQ(cut("mm, op_id = 1234567890123"), "mm 0 1912276171") << "the lower 32 bits";
  for (const std::string whole :
       {"", "7", "]", "step 12", "op_id = 12", "mm, op_id = ", "mm, op_id = 012",
        "mm, op_id = 12345678901234567890", "mm, seq = 07, op_id = 12", "mm, op_id = 12 and 13",
        "mm, sizes = [[2, 3]]", "mm, op_id = 12, shapes = [[2, 3]]", "attention, seq = 2048",
        "attention, seq = 2048, sizes = [[2, 3]]"}) {
    EXPECT_EQ(cut(whole), whole + " 0 0");
  }
}

// What record_shapes=True adds: the sizes are of the name, what the inputs came from is not.
TEST_F(Ranges, OperatorsOfPyTorchKeepTheirSizes) {
  const auto cut = [](const std::string& text) {
    uint64_t numbers = 0;
    OperatorName room;
    const RangeName name = range_name_of_operator(kDefaultDomainHash, text.c_str(), numbers, room);
    return std::string(name.text, name.bytes) + " " + std::to_string(numbers & 0xffff'ffff);
  };
  EXPECT_EQ(cut("mm, seq = 7, op_id = 12, sizes = [[4, 8], [8, 2]], input_op_ids = [(9,0)]"),
            "mm, sizes = [[4, 8], [8, 2]] 12");
  EXPECT_EQ(cut("mm, op_id = 12, sizes = [[], []]"), "mm, sizes = [[], []] 12");
  EXPECT_EQ(cut("mm, op_id = 12, input_op_ids = [(9,0)]"), "mm 12");
  const std::string many(600, '8');
  const std::string cut_off = cut("_foreach_add_, op_id = 12, sizes = [[" + many);
  EXPECT_EQ(cut_off.substr(0, 25), "_foreach_add_, sizes = [[");
  EXPECT_EQ(cut_off.size(),
            kMostRangeName - std::string(", op_id = 12").size() + std::string(" 12").size());
}

TEST_F(Ranges, WideTextIsUtf8) {
  EXPECT_STREQ(NarrowText(L"a\u00e9\u20ac\U0001f600").text, "a\u00e9\u20ac\U0001f600");
  EXPECT_STREQ(NarrowText(nullptr).text, "");
  const std::wstring endless(5000, L'\u20ac');
  EXPECT_LE(std::strlen(NarrowText(endless.c_str()).text), kMostRangeName);
}

TEST_F(Ranges, DeeperOnesAreCounted) {
  for (uint32_t i = 0; i < format::kMostOpenRanges + 3; ++i) {
    push("level");
  }
  EXPECT_EQ(table().deeper, 3u);
  EXPECT_EQ(world_.stat(format::Stat::RangesDeep), 3u);
  for (uint32_t i = 0; i < format::kMostOpenRanges + 3; ++i) {
    EXPECT_TRUE(pop());
  }
  EXPECT_FALSE(pop());
}

TEST_F(Ranges, NamesTakeAQuarterOfTheDefinitionsAtMost) {
  const std::string tail(200, '.');
  for (int i = 0; i < 2000; ++i) {
    push(std::to_string(i) + tail);
    pop();
  }
  EXPECT_GT(world_.stat(format::Stat::RangeNamesFull), 0u);
  EXPECT_EQ(world_.stat(format::Stat::DefinitionsFull), 0u);
  EXPECT_LT(world_.definitions(format::kRangeName).size(), 16u * 16384 / 4 / 200);
  push("1999" + tail);
  EXPECT_EQ(open(), Names{("1999" + tail).substr(0, 48)});
  EXPECT_NE(push("0" + tail), 0u) << "known ones stay known";
}

TEST_F(Ranges, AStepTakesThePlaceOfTheOneBefore) {
  const auto step = [&](const char* name) {
    range_replaced(world_.thread(), format::kStepDomain, range_name(0, name), ++ticks_);
  };
  push("training");
  step("step 1");
  push("forward");
  const uint64_t before = table().state;
  step("step 2");
  EXPECT_NE(table().state, before) << "a reader must notice";
  EXPECT_EQ(open(), (Names{"training", "step 2", "forward"}));
  uint32_t id = 0;
  EXPECT_FALSE(range_closed(world_.thread(), format::kMarkerDomain, id));
  EXPECT_TRUE(pop());
  EXPECT_TRUE(pop());
  EXPECT_EQ(open(), (Names{"step 2"}));
  for (int i = 0; i < 100; ++i) {
    step("step 3");
    push("forward");
    pop();
  }
  EXPECT_EQ(table().state & 0xffff, 2u);
}

TEST_F(Ranges, OfAThreadBeforeAreNotThoseOfThisOne) {
  push("gone", nullptr, 1);
  world_.thread(1).ranges = nullptr;
  world_.thread(1).slot->serial = 77;
  push("here", nullptr, 1);
  EXPECT_EQ(open(1), Names{"here"});
  EXPECT_EQ(table(1).thread, 77u);
}

TEST_F(Ranges, ThreadsThatComeAtOnceAgreeOnIds) {
  constexpr int kThreads = 4;
  std::vector<std::vector<uint32_t>> ids(kThreads);
  std::vector<std::thread> all;
  all.reserve(kThreads);
  for (uint32_t i = 0; i < kThreads; ++i) {
    world_.thread(i);
  }
  for (uint32_t i = 0; i < kThreads; ++i) {
    all.emplace_back([&, i] {
      for (int n = 0; n < 500; ++n) {
        const std::string name = std::to_string(n);
        const RangeName named = range_name(kDefaultDomainHash, name.c_str());
        ids[i].push_back(id_of_range(world_.thread(i), nullptr, named));
        register_string(nullptr, name.c_str());
      }
    });
  }
  for (std::thread& thread : all) {
    thread.join();
  }
  EXPECT_EQ(ids[0], ids[1]);
  EXPECT_EQ(ids[0], ids[2]);
  EXPECT_EQ(ids[0], ids[3]);
  EXPECT_EQ(world_.definitions(format::kRangeName).size(), 500u);
}

}  // namespace
}  // namespace traintrace
