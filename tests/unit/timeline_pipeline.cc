// uses: analyzer/timeline/collectives/collective_note.cc analyzer/timeline/idle.cc
// uses: analyzer/timeline/collectives/messages.cc analyzer/timeline/collectives/noted_messages.cc
// uses: analyzer/timeline/pipeline.cc analyzer/timeline/predecessors.cc
// uses: analyzer/timeline/missing_work.cc analyzer/timeline/spans.cc analyzer/timeline/steps.cc
#include "analyzer/timeline/pipeline.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "analyzer/timeline/collectives/messages.h"

namespace traintrace {
namespace {

constexpr uint64_t kCommunicator = 77;
constexpr int64_t kForwardNs = 10'000'000;
constexpr int64_t kBackwardNs = 20'000'000;
constexpr int kKernels = 5;  // of a pass
constexpr int kSteps = 4;

// What a rank does, one after the other.
struct Turn {
  int64_t compute_ns = 0;
  bool forward = false;
  std::vector<int> to = {}, from = {};
  uint64_t communicator = kCommunicator;
  bool receives_first = false;  // in the group
};
using Turns = std::vector<Turn>;

Turn sends(int to) {
  return {.to = {to}};
}
Turn receives(int from) {
  return {.from = {from}};
}
Turn computes(bool forward) {
  return {.compute_ns = forward ? kForwardNs : kBackwardNs, .forward = forward};
}

// Ranks whose messages arrive at once; on other communicators nobody waits.
class Ranks {
 public:
  explicit Ranks(const std::vector<Turns>& turns) : turns_(turns), timelines_(turns.size()) {
    for (size_t rank = 0; rank < turns.size(); ++rank) {
      timelines_[rank].rank = static_cast<int>(rank);
      timelines_[rank].names = {"nccl", "cudaLaunchKernel"};
      for (int i = 0; i < 2 * kKernels; ++i) {
        timelines_[rank].names.push_back("kernel" + std::to_string(i));
      }
    }
    run();
  }
  const std::vector<Timeline>& timelines() const { return timelines_; }
  int64_t waited_ns(size_t rank) const { return waited_.at(rank); }

 private:
  using Pair = std::pair<int, int>;  // from, to

  void run() {
    std::vector<size_t> next(turns_.size());
    std::vector<int64_t> now(turns_.size());
    for (bool moved = true; moved;) {
      moved = false;
      for (size_t rank = 0; rank < turns_.size(); ++rank) {
        while (next[rank] < turns_[rank].size() &&
               take(rank, turns_[rank][next[rank]], now[rank])) {
          ++next[rank];
          moved = true;
        }
      }
    }
    for (size_t rank = 0; rank < turns_.size(); ++rank) {
      EXPECT_EQ(next[rank], turns_[rank].size()) << "rank " << rank << " waits for ever";
    }
  }

  bool take(size_t rank, const Turn& turn, int64_t& now) {
    const int own = static_cast<int>(rank);
    if (turn.compute_ns != 0) {
      for (int i = 0; i < kKernels; ++i) {
        const int64_t ns = turn.compute_ns / kKernels;
        add(rank, now, now + ns, WorkKind::kCompute, (turn.forward ? 2 : 2 + kKernels) + i);
        now += ns;
      }
      return true;
    }
    // What is sent leaves when the kernel begins, be it received or not.
    const bool waits = turn.communicator == kCommunicator;
    if (waits && begun_[rank] == 0) {
      for (const int to : turn.to) {
        sent_[{own, to}].push_back(now);
      }
      begun_[rank] = 1;
    }
    int64_t end = now + 1000;
    for (const int from : waits ? turn.from : std::vector<int>()) {
      const size_t nth = received_[{from, own}];
      if (sent_[{from, own}].size() <= nth) {
        return false;
      }
      end = std::max(end, sent_[{from, own}][nth]);
    }
    for (const int from : waits ? turn.from : std::vector<int>()) {
      ++received_[{from, own}];
    }
    begun_[rank] = 0;
    const uint64_t kernel = add(rank, now, end, WorkKind::kCommunication, 0);
    const auto add_messages = [&](const std::vector<int>& peers, bool receives) {
      for (const int peer : peers) {
        timelines_[rank].messages.push_back({kernel, turn.communicator, own, peer, 4096, receives});
      }
    };
    add_messages(turn.receives_first ? turn.from : turn.to, turn.receives_first);
    add_messages(turn.receives_first ? turn.to : turn.from, !turn.receives_first);
    waited_[rank] += waits ? end - now : 0;
    now = end;
    return true;
  }

  uint64_t add(size_t rank, int64_t begin, int64_t end, WorkKind kind, int name) {
    std::vector<GpuWork>& work = timelines_[rank].work;
    const uint64_t correlation = work.size() + 1;
    work.push_back({begin, end, correlation, static_cast<uint32_t>(name), 7, 0, kind});
    return correlation;
  }

  const std::vector<Turns>& turns_;
  std::vector<Timeline> timelines_;
  std::map<Pair, std::vector<int64_t>> sent_;
  std::map<Pair, size_t> received_;
  std::map<size_t, int64_t> waited_, begun_;
};

// All forward passes and then all backward ones, over and over.
std::vector<Turns> all_forward_first(int stages, int micro_batches, int pieces = 1) {
  std::vector<Turns> all(static_cast<size_t>(stages));
  for (int stage = 0; stage < stages; ++stage) {
    Turns& turns = all[static_cast<size_t>(stage)];
    const auto add = [&](const Turn& turn, bool is_there) {
      for (int i = 0; is_there && i < pieces; ++i) {
        turns.push_back(turn);
      }
    };
    const bool has_previous = stage > 0;
    const bool has_next = stage + 1 < stages;
    for (int step = 0; step < kSteps; ++step) {
      for (int i = 0; i < micro_batches; ++i) {
        add(receives(stage - 1), has_previous);
        turns.push_back(computes(true));
        add(sends(stage + 1), has_next);
      }
      for (int i = 0; i < micro_batches; ++i) {
        add(receives(stage + 1), has_next);
        turns.push_back(computes(false));
        add(sends(stage - 1), has_previous);
      }
    }
  }
  return all;
}

TEST(Pipeline, HasStagesMicroBatchesAndABubble) {
  for (const int pieces : {1, 3}) {
    const std::vector<Turns> turns = all_forward_first(4, 6, pieces);
    const Ranks ranks(turns);
    const auto stages = find_stages(ranks.timelines());
    for (size_t rank = 0; rank < 4; ++rank) {
      ASSERT_TRUE(stages[rank]) << rank;
      EXPECT_EQ(stages[rank]->stage, static_cast<int>(rank));
      EXPECT_EQ(stages[rank]->stages, 4);
      EXPECT_EQ(stages[rank]->micro_batches, 6) << "of " << pieces << " pieces";
      const Timeline& timeline = ranks.timelines()[rank];
      EXPECT_EQ(bubble_ns(timeline, *stages[rank], timeline.work), ranks.waited_ns(rank));
    }
    // Of the steps, all but what the first stage is ahead in the first.
    const double bubble = static_cast<double>(ranks.waited_ns(0));
    const double computed = static_cast<double>(kForwardNs + kBackwardNs) * kSteps * 6;
    EXPECT_NEAR(bubble / (bubble + computed), schedule_share(4, 6), 0.01);
  }
}

// Less than is worth a warning.
TEST(Pipeline, HardlyHasABubbleWithManyMicroBatches) {
  const std::vector<Turns> turns = all_forward_first(4, 80);
  const Ranks ranks(turns);
  for (size_t rank = 0; rank < 4; ++rank) {
    const Timeline& timeline = ranks.timelines()[rank];
    const auto window = static_cast<double>(timeline.work.back().end_ns);
    const auto stage = find_stages(ranks.timelines())[rank];
    ASSERT_TRUE(stage);
    EXPECT_EQ(stage->micro_batches, 80);
    EXPECT_LT(static_cast<double>(bubble_ns(timeline, *stage, timeline.work)) / window, 0.05);
  }
}

TEST(Pipeline, OfTwoStagesHasABubbleAndIsNotCounted) {
  const std::vector<Turns> turns = all_forward_first(2, 6);
  const Ranks ranks(turns);
  const auto stages = find_stages(ranks.timelines());
  ASSERT_TRUE(stages[1]);
  EXPECT_EQ(stages[1]->stages, 2);
  EXPECT_FALSE(stages[1]->micro_batches);
}

TEST(Pipeline, NeedsAllItsRanks) {
  const std::vector<Turns> turns = all_forward_first(4, 6);
  const Ranks ranks(turns);
  const std::span<const Timeline> all = ranks.timelines();
  EXPECT_FALSE(find_stages(all.first(3))[0]);
  EXPECT_FALSE(find_stages(all.subspan(1))[0]);
}

TEST(Pipeline, IsNotWhatGoesRound) {
  // Each rank has two parts of the model: what the last one computes goes to the first again.
  std::vector<Turns> turns(3);
  for (int step = 0; step < kSteps; ++step) {
    for (int part = 0; part < 6; ++part) {
      Turns& own = turns[static_cast<size_t>(part % 3)];
      if (part > 0) {
        own.push_back(receives((part + 2) % 3));
      }
      own.push_back(computes(true));
      if (part < 5) {
        own.push_back(sends((part + 1) % 3));
      }
    }
    for (int part = 5; part >= 0; --part) {
      Turns& own = turns[static_cast<size_t>(part % 3)];
      if (part < 5) {
        own.push_back(receives((part + 1) % 3));
      }
      own.push_back(computes(false));
      if (part > 0) {
        own.push_back(sends((part + 2) % 3));
      }
    }
  }
  const Ranks ranks(turns);
  for (const auto& stage : find_stages(ranks.timelines())) {
    EXPECT_FALSE(stage);
  }
}

TEST(Pipeline, IsNoRingOfAttention) {
  std::vector<Turns> turns(4);
  for (int rank = 0; rank < 4; ++rank) {
    for (int i = 0; i < 20; ++i) {
      turns[static_cast<size_t>(rank)].push_back(computes(i % 2 == 0));
      turns[static_cast<size_t>(rank)].push_back(
          {.to = {(rank + 1) % 4}, .from = {(rank + 3) % 4}});
    }
  }
  const Ranks ranks(turns);
  EXPECT_FALSE(find_stages(ranks.timelines())[1]);
  // It is no collective either: its kernels do not end together.
  EXPECT_EQ(communicators_of_pairs(ranks.timelines()[0]), std::set<uint64_t>{kCommunicator});
}

TEST(Pipeline, IsNoExchange) {
  for (const int size : {2, 3}) {
    std::vector<Turns> turns(static_cast<size_t>(size));
    for (int rank = 0; rank < size; ++rank) {
      Turn all;
      all.receives_first = rank == 1;
      for (int peer = 0; peer < size; ++peer) {
        if (peer != rank) {
          all.to.push_back(peer);
          all.from.push_back(peer);
        }
      }
      for (int i = 0; i < 20; ++i) {
        turns[static_cast<size_t>(rank)].push_back(computes(i % 2 == 0));
        turns[static_cast<size_t>(rank)].push_back(all);
      }
    }
    const Ranks ranks(turns);
    EXPECT_FALSE(find_stages(ranks.timelines())[0]);
    EXPECT_TRUE(communicators_of_pairs(ranks.timelines()[0]).empty());
  }
}

// Ranks of a stage exchange with others, or send round, on another communicator.
TEST(Pipeline, IsFoundBesideOtherMessages) {
  for (const bool round : {false, true}) {
    std::vector<Turns> turns = all_forward_first(4, 6);
    for (int rank = 0; rank < 4; ++rank) {
      Turn other = {.to = {(rank + 1) % 4}, .from = {(rank + 3) % 4}};
      if (!round) {
        other = {.to = {rank ^ 1}, .from = {rank ^ 1}};
      }
      other.communicator = kCommunicator + 1;
      Turns with_others;
      for (const Turn& turn : turns[static_cast<size_t>(rank)]) {
        with_others.push_back(turn);
        if (turn.compute_ns != 0) {
          with_others.push_back(other);
        }
      }
      turns[static_cast<size_t>(rank)] = with_others;
    }
    const Ranks ranks(turns);
    for (size_t rank = 0; rank < 4; ++rank) {
      const auto stage = find_stages(ranks.timelines())[rank];
      ASSERT_TRUE(stage) << rank;
      EXPECT_EQ(stage->micro_batches, 6);
      const Timeline& timeline = ranks.timelines()[rank];
      EXPECT_EQ(bubble_ns(timeline, *stage, timeline.work), ranks.waited_ns(rank));
    }
  }
}

TEST(Pipeline, BubbleIsNotWhatIsComputedBeside) {
  const std::vector<Turns> turns = all_forward_first(3, 6);
  const Ranks ranks(turns);
  Timeline timeline = ranks.timelines()[1];
  const PipelineStage stage = *find_stages(ranks.timelines())[1];
  const int64_t before = bubble_ns(timeline, stage, timeline.work);
  const auto longest = std::max_element(
      timeline.work.begin(), timeline.work.end(), [](const GpuWork& a, const GpuWork& b) {
        const auto length = [](const GpuWork& work) {
          return work.kind == WorkKind::kCommunication ? work.end_ns - work.start_ns : 0;
        };
        return length(a) < length(b);
      });
  GpuWork beside = *longest;
  beside.kind = WorkKind::kCompute;
  beside.stream = 8;
  beside.correlation = 0;
  const int64_t computed = beside.end_ns - beside.start_ns;
  timeline.work.insert(longest + 1, beside);
  EXPECT_EQ(bubble_ns(timeline, stage, timeline.work), before - computed);
}

// The host came late with the launch before one gap, and not before the other; and nobody knows why
// a kernel that computes came late.
TEST(Pipeline, BubbleHasIdleTimeThatIsNotTheHosts) {
  const std::vector<Turns> turns = all_forward_first(3, 6);
  const Ranks ranks(turns);
  Timeline timeline = ranks.timelines()[1];
  const PipelineStage stage = *find_stages(ranks.timelines())[1];
  const int64_t before = bubble_ns(timeline, stage, timeline.work);
  timeline.threads = {"1"};
  const GpuWork& last =
      *std::find_if(timeline.work.rbegin(), timeline.work.rend(),
                    [](const GpuWork& work) { return work.kind == WorkKind::kCompute; });
  int messages = 0;
  int64_t shift = 0;
  constexpr int64_t kGapNs = 1'000'000;
  for (GpuWork& work : timeline.work) {
    const bool is_message = work.kind == WorkKind::kCommunication;
    const int64_t end = work.start_ns + shift;
    const bool is_delayed = is_message ? ++messages >= 2 && messages <= 3 : &work == &last;
    if (is_delayed) {
      shift += kGapNs;
      const bool in_time = messages == 2 || !is_message;
      timeline.calls.push_back({in_time ? 0 : end + kGapNs - 10, in_time ? 10 : end + kGapNs,
                                work.correlation, 1, 0, HostCallKind::kOther});
    }
    work.start_ns += shift;
    work.end_ns += shift;
  }
  EXPECT_EQ(bubble_ns(timeline, stage, timeline.work), before + kGapNs);
}

}  // namespace
}  // namespace traintrace
