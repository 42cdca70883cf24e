// uses: analyzer
// What counts as growth: from the live memory before each allocation, and the steps.
#include <gtest/gtest.h>

#include <functional>

#include "analyzer/memory/growth/growth.h"

namespace traintrace {
namespace {

// What is live of one stack, step by step: `play` is told the step, and allocates and frees blocks
// of 1 KiB, of which a step is one microsecond long.
class Play {
 public:
  void take(TimeNs time) { builder_.add({7, 0, 0, 1024, time}); }
  void give() { builder_.remove(7, 1024); }

  std::vector<Births> births() {
    std::vector<Births> births;
    const StackSeries series = builder_.finish();
    for (const LeftOver& left : left_over(series.at(7))) {
      births.push_back({left.time / 1000 + 1, left.blocks});
    }
    return births;
  }

 private:
  SeriesBuilder builder_;
};

bool grows(int64_t steps, const std::function<void(Play&, int64_t step, TimeNs time)>& step,
           const std::function<void(Play&)>& end = {}) {
  Play play;
  for (int64_t i = 0; i < steps; ++i) {
    step(play, i, i * 1000);
  }
  if (end) {
    end(play);
  }
  return grows_throughout(play.births(), 0, steps, BeginsWhen::kEarly);
}

void keep_one(Play& play, int64_t /*step*/, TimeNs time) {
  play.take(time);
}

TEST(MemoryGrowth, OneBlockAStepIsFoundAtEveryLength) {
  for (int64_t steps = 10; steps <= 400; ++steps) {
    EXPECT_TRUE(grows(steps, keep_one)) << steps;
  }
}

TEST(MemoryGrowth, ThatAllIsFreedInTheEndChangesNothing) {
  for (int64_t steps = 10; steps <= 200; ++steps) {
    const auto free_all = [&](Play& play) {
      for (int64_t i = 0; i < steps; ++i) {
        play.give();
      }
    };
    EXPECT_TRUE(grows(steps, keep_one, free_all)) << steps;
  }
}

TEST(MemoryGrowth, AmongBlocksThatComeAndGo) {
  for (int64_t steps = 12; steps <= 200; ++steps) {
    EXPECT_TRUE(grows(steps, [](Play& play, int64_t, TimeNs time) {
      for (int64_t i = 0; i < 6; ++i) {
        play.take(time + 100 * i);
      }
      for (int i = 0; i < 5; ++i) {
        play.give();
      }
    })) << steps;
  }
}

TEST(MemoryGrowth, EverySecondOrFifthStep) {
  for (const int64_t every : {2, 3, 5}) {
    for (int64_t steps = 10 * every; steps <= 300; ++steps) {
      EXPECT_TRUE(grows(steps,
                        [&](Play& play, int64_t step, TimeNs time) {
                          if (step % every == 0) {
                            play.take(time);
                          }
                        }))
          << steps << " every " << every;
    }
  }
}

TEST(MemoryGrowth, WhatComesAndGoesDoesNotGrow) {
  for (int64_t steps = 10; steps <= 200; ++steps) {
    for (const int blocks : {1, 7, 40}) {
      EXPECT_FALSE(grows(steps,
                         [&](Play& play, int64_t, TimeNs time) {
                           for (int i = 0; i < blocks; ++i) {
                             play.take(time + i);
                           }
                           for (int i = 0; i < blocks; ++i) {
                             play.give();
                           }
                         }))
          << steps << ", " << blocks << " blocks";
    }
  }
}

TEST(MemoryGrowth, APlateauIsNoLeak) {
  for (int64_t steps = 20; steps <= 200; ++steps) {
    for (int64_t full = 8; full + 8 <= steps; full += 3) {
      EXPECT_FALSE(grows(steps,
                         [&](Play& play, int64_t step, TimeNs time) {
                           if (step < full) {
                             play.take(time);
                           }
                         }))
          << "full in step " << full << " of " << steps;
    }
  }
}

TEST(MemoryGrowth, AQueueThatIsFullIsNoLeak) {
  for (int64_t steps = 20; steps <= 200; ++steps) {
    for (int64_t full = 8; 4 * full <= 3 * steps; full += 3) {
      EXPECT_FALSE(grows(steps,
                         [&](Play& play, int64_t step, TimeNs time) {
                           play.take(time);
                           if (step >= full) {
                             play.give();
                           }
                         }))
          << "full in step " << full << " of " << steps;
    }
  }
}

TEST(MemoryGrowth, WhatIsCollectedNowAndThenIsNoLeak) {
  for (const int64_t every : {4, 10, 25, 50}) {
    for (int64_t steps = 2 * every; steps <= 300; ++steps) {
      EXPECT_FALSE(grows(steps,
                         [&](Play& play, int64_t step, TimeNs time) {
                           play.take(time);
                           for (int64_t i = 0; step % every == every - 1 && i < every; ++i) {
                             play.give();
                           }
                         }))
          << steps << ", collected every " << every;
    }
  }
}

TEST(MemoryGrowth, ACacheThatFillsMoreAndMoreSlowlyIsNoLeak) {
  int64_t next = 0;
  EXPECT_FALSE(grows(400, [&](Play& play, int64_t step, TimeNs time) {
    if (step == next) {
      play.take(time);
      next += 1 + step / 8;
    }
  }));
}

TEST(MemoryGrowth, TooFewStepsSayNothing) {
  EXPECT_FALSE(grows(8, keep_one));
}

}  // namespace
}  // namespace traintrace
