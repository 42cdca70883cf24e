#include <fmt/format.h>

#include "tests/unit/model/case_text.h"
#include "tests/unit/model/families.h"

namespace traintrace {
namespace {

// A communicator of all that each rank describes for itself.
struct Seat {
  int rank = 0;
  int size = 0;
  std::string more;  // further keys
};

std::string seats(const std::vector<Seat>& all, const std::string& common) {
  std::string text = fmt::format("ranks 0-{}\n", all.size() - 1);
  for (size_t i = 0; i < all.size(); ++i) {
    text += fmt::format("communicator dp members={} rank={} size={} {} {}\n", i, all[i].rank,
                        all[i].size, common, all[i].more);
  }
  return text;
}

std::vector<Seat> in_order(int ranks) {
  std::vector<Seat> all;
  all.reserve(static_cast<size_t>(ranks));
  for (int rank = 0; rank < ranks; ++rank) {
    all.push_back({rank, ranks, ""});
  }
  return all;
}

FamilyCase named(const char* family, const char* code, int ranks, int culprit, bool blamed) {
  FamilyCase one;
  one.family = family;
  one.name = fmt::format("{} by rank {} of {}", family, culprit, ranks);
  one.code = code;
  one.culprits = blamed ? Ranks{{culprit}} : Ranks{};
  return one;
}

// All wait in the creation: `absent=` of nobody says that it never returned.
FamilyCase contradiction(const char* family, int ranks, int culprit) {
  const std::string what = family;
  const bool always = what == "claimed rank";
  FamilyCase one = named(family, "comm.init-mismatch", ranks, culprit, always || ranks > 2);
  std::vector<Seat> all = in_order(ranks);
  Seat& own = all[static_cast<size_t>(culprit)];
  if (what == "told size") {
    own.size = ranks + 1;
  } else if (what == "unique id") {
    own.more = "id=0x99";
  } else {
    own.rank = (culprit + 1) % ranks;
  }
  one.text = seats(all, "absent=999") + "end +60\n";
  return one;
}

// The device of the next rank, whose place LOCAL_RANK says.
FamilyCase shared_device(int ranks, int culprit) {
  FamilyCase one = named("shared device", "comm.init-mismatch", ranks, culprit, true);
  const int other = (culprit + 1) % ranks;
  std::vector<Seat> all = in_order(ranks);
  for (int rank = 0; rank < ranks; ++rank) {
    const bool refused = rank == culprit || rank == other;
    all[static_cast<size_t>(rank)].more =
        fmt::format("device={} flags=init-failed async-error={}", rank == culprit ? other : rank,
                    refused ? 5 : 6);
  }
  one.text = seats(all, "") + "end +60\n";
  return one;
}

constexpr const char* kStep = "calls ncclAllReduce on dp x5 every=50ms @train.py:9:step";

FamilyCase never_created(int ranks, int culprit) {
  FamilyCase one = named("creation missing", "comm.init-incomplete", ranks, culprit, ranks > 2);
  one.text = fmt::format(
      "ranks 0-{0}\ncommunicator dp members=0-{0} absent={1}\n+1 {1} calls cudaMalloc bytes=4096 "
      "@load.py:7:load\nend +60\n",
      ranks - 1, culprit);
  return one;
}

FamilyCase destroyed(int ranks, int culprit) {
  FamilyCase one = named("destroyed", "comm.destroy-mismatch", ranks, culprit, ranks > 2);
  one.sequence = 6;
  const std::string others = rank_list(all_but(ranks, culprit));
  one.text = fmt::format(
      "ranks 0-{0}\ncommunicator dp members=0-{0}\n+1 0-{0} {2}\n+3 {1} calls ncclCommDestroy on "
      "dp\n+3 {3} enqueues ncclAllReduce on dp @train.py:9:step\n+3.1 {3} enters "
      "cudaStreamSynchronize @train.py:10:step\nend +60\n",
      ranks - 1, culprit, kStep, others);
  return one;
}

FamilyCase used_after_abort(int ranks, int culprit) {
  FamilyCase one = named("used after abort", "comm.use-after-abort", ranks, culprit, true);
  one.text = fmt::format(
      "ranks 0-{0}\ncommunicator dp members=0-{0}\ncommunicator gone members={1} unnamed "
      "origin=unknown size=-1 rank=-1 id=0x99 flags=ready+after-end parent-index=1\n+1 0-{0} {2}\n"
      "+3 {1} calls ncclCommAbort on dp\n+3.1 {1} calls ncclAllReduce on gone "
      "=ncclInvalidArgument @train.py:9:step\nend +4\n",
      ranks - 1, culprit, kStep);
  return one;
}

// Of those that are told of it, the first.
FamilyCase told_first(int ranks, int culprit) {
  FamilyCase one = named("asynchronous error", "comm.async-error", ranks, culprit, true);
  std::vector<Seat> all = in_order(ranks);
  for (int rank = 0; rank < ranks; ++rank) {
    all[static_cast<size_t>(rank)].more = fmt::format(
        "flags=ready+async-error async-error=6 error-at=+{}", rank == culprit ? 5 : 7 + rank);
  }
  one.text = seats(all, "") + fmt::format("+1 0-{} {}\nend +90\n", ranks - 1, kStep);
  return one;
}

FamilyCase split_left_out(int ranks, int culprit) {
  FamilyCase one = named("split left out", "comm.split-mismatch", ranks, culprit, true);
  const std::string others = rank_list(all_but(ranks, culprit));
  one.text = fmt::format(
      "ranks 0-{0}\ncommunicator dp members=0-{0}\n"
      "communicator tp members={2} parent=dp color=0 ordinal=1 id=0x51 size={0} @g.py:5:tensor\n"
      "communicator own members={1} name=pp parent=dp color=1 ordinal=1 id=0x52 size=1 "
      "@g.py:6:pipeline\n"
      "communicator pp members={2} parent=dp color=0 ordinal=2 id=0x53 absent={1} created=+1 "
      "@g.py:6:pipeline\nend +60\n",
      ranks - 1, culprit, others);
  return one;
}

FamilyCase window_left_out(int ranks, int culprit) {
  FamilyCase one =
      named("window left out", "comm.registration-mismatch", ranks, culprit, ranks > 2);
  one.text = fmt::format(
      "ranks 0-{0}\ncommunicator dp members=0-{0}\n+1 0-{0} {2}\n+3 {3} enters "
      "ncclCommWindowRegister on dp bytes=4096 @w.py:4:register\n+3 {1} calls cudaMalloc bytes=64 "
      "@load.py:7:load\nend +60\n",
      ranks - 1, culprit, kStep, rank_list(all_but(ranks, culprit)));
  return one;
}

FamilyCase healthy(int ranks) {
  FamilyCase one = named("life in order", "", ranks, -1, false);
  one.text = fmt::format(
      "ranks 0-{0}\ncommunicator dp members=0-{0}\ncommunicator tp members=0-{0} parent=dp color=0 "
      "@g.py:5:tensor\n+1 0-{0} {1}\n+2 0-{0} calls ncclCommWindowRegister on dp bytes=4096\n"
      "+3 0-{0} calls ncclCommDestroy on tp\n+3.1 0-{0} calls ncclCommDestroy on dp\n"
      "+4 0-{0} exits\n",
      ranks - 1, kStep);
  return one;
}

}  // namespace

std::vector<FamilyCase> creation_families() {
  std::vector<FamilyCase> cases;
  for (const int ranks : {2, 3, 4, 8, 64}) {
    for (const int culprit : culprits_of(ranks)) {
      for (const char* family : {"told size", "unique id", "claimed rank"}) {
        cases.push_back(contradiction(family, ranks, culprit));
      }
      cases.push_back(shared_device(ranks, culprit));
      cases.push_back(never_created(ranks, culprit));
      cases.push_back(destroyed(ranks, culprit));
      cases.push_back(used_after_abort(ranks, culprit));
      cases.push_back(told_first(ranks, culprit));
      cases.push_back(window_left_out(ranks, culprit));
      if (ranks > 2) {
        cases.push_back(split_left_out(ranks, culprit));
      }
    }
    cases.push_back(healthy(ranks));
  }
  return cases;
}

}  // namespace traintrace
