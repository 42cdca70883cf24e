#include <fmt/format.h>

#include "tests/unit/model/case_text.h"
#include "tests/unit/model/families.h"

namespace traintrace {
namespace {

constexpr int kSteps = 3;  // that are in order before the fault

// A ring: each sends to the next and receives from the one before, in one group.
struct Shift {
  int distance = 1;
  std::string count = "count=1024";
};

void shift(Text& text, int ranks, int rank, const Shift& how, double time, const char* verb) {
  const int to = (rank + how.distance) % ranks;
  const int from = (rank + ranks - 1) % ranks;
  text.call({{rank}}, verb,
            {"ncclSend", fmt::format("peer={} {} grouped", to, how.count), "ring.py:5:shift"},
            time);
  text.call({{rank}}, verb,
            {"ncclRecv", fmt::format("peer={} count=1024 grouped", from), "ring.py:6:shift"}, time);
}

void steps_in_order(Text& text, int ranks) {
  for (int step = 0; step < kSteps; ++step) {
    for (int rank = 0; rank < ranks; ++rank) {
      shift(text, ranks, rank, {}, 1 + step, "calls");
    }
  }
}

FamilyCase ring(const char* family, const char* code, const Shift& mistake, int ranks,
                int culprit) {
  FamilyCase one;
  one.family = family;
  one.name = fmt::format("{} by rank {} of {}", family, culprit, ranks);
  one.code = code;
  one.culprits = {{culprit}};
  one.sequence = kSteps + 1;
  Text text(ranks);
  steps_in_order(text, ranks);
  for (int rank = 0; rank < ranks; ++rank) {
    shift(text, ranks, rank, rank == culprit ? mistake : Shift{}, 1 + kSteps, "enqueues");
  }
  text.line(fmt::format("+{}.5 {} enters cudaStreamSynchronize @ring.py:9:step", 1 + kSteps,
                        rank_list(all_but(ranks, -1))));
  one.text = text.str();
  return one;
}

// Two messages to the next rank, in the other order than it receives them.
FamilyCase crossed(int ranks, int culprit) {
  FamilyCase one;
  one.family = "messages crossed";
  one.name = fmt::format("crossed by rank {} of {}", culprit, ranks);
  one.code = "p2p.order";
  one.culprits = ranks > 2 ? Ranks{{culprit}} : Ranks{};
  one.sequence = 1;
  Text text(ranks);
  for (int rank = 0; rank < ranks; ++rank) {
    const std::string to = fmt::format("peer={}", (rank + 1) % ranks);
    const std::string from = fmt::format("peer={}", (rank + ranks - 1) % ranks);
    const bool turned = rank == culprit;
    text.call({{rank}}, "enqueues",
              {"ncclSend", to + (turned ? " count=16" : " count=4096"), "pipe.py:5:send"}, 1);
    text.call({{rank}}, "enqueues",
              {"ncclSend", to + (turned ? " count=4096" : " count=16"), "pipe.py:6:send"}, 1.1);
    text.call({{rank}}, "enqueues", {"ncclRecv", from + " count=4096", "pipe.py:8:receive"}, 1.2);
    text.call({{rank}}, "enqueues", {"ncclRecv", from + " count=16", "pipe.py:9:receive"}, 1.3);
  }
  text.line(fmt::format("+2 {} enters cudaStreamSynchronize @pipe.py:10:step",
                        rank_list(all_but(ranks, -1))));
  one.text = text.str();
  return one;
}

// All send what does not fit into any buffer, and nobody receives.
FamilyCase all_send(int ranks) {
  FamilyCase one;
  one.family = "all send first";
  one.name = fmt::format("{} ranks", ranks);
  one.code = "p2p.cycle";
  one.sequence = 1;
  Text text(ranks);
  for (int rank = 0; rank < ranks; ++rank) {
    text.call(
        {{rank}}, "enters",
        {"ncclSend", fmt::format("peer={} count=16777216", (rank + 1) % ranks), "ring.py:5:shift"},
        1);
  }
  one.text = text.str();
  return one;
}

FamilyCase healthy_ring(int ranks) {
  FamilyCase one;
  one.family = "messages in order";
  one.name = fmt::format("{} ranks", ranks);
  Text text(ranks);
  steps_in_order(text, ranks);
  text.line(fmt::format("+9 {} exits", rank_list(all_but(ranks, -1))));
  one.text = text.str();
  return one;
}

void put_parts(Text& text, int ranks, int culprit, int to, const char* verb, double time) {
  const auto part = [](int from, int at) { return 100 + 10 * from + at; };
  for (int rank = 0; rank < ranks; ++rank) {
    for (int peer = 0; peer < ranks; ++peer) {
      const int less = rank == culprit && peer != rank && (to < 0 || peer == to) ? 7 : 0;
      text.call({{rank}}, verb,
                {"ncclSend",
                 fmt::format("peer={} count={} group={:.0f}", peer, part(rank, peer) - less, time),
                 "moe.py:5:dispatch"},
                time);
      text.call(
          {{rank}}, verb,
          {"ncclRecv", fmt::format("peer={} count={} group={:.0f}", peer, part(peer, rank), time),
           "moe.py:6:dispatch"},
          time);
    }
  }
}

// One rank sends to all others, or to one of them, less than they expect.
FamilyCase uneven(int ranks, int culprit, bool one_pair) {
  FamilyCase one;
  one.family = "all to all";
  one.name =
      fmt::format("{} by rank {} of {}", one_pair ? "one part" : "all parts", culprit, ranks);
  one.code = "collective.alltoall-mismatch";
  one.culprits = one_pair ? Ranks{} : Ranks{{culprit}};
  one.sequence = 2;
  Text text(ranks);
  put_parts(text, ranks, -1, -1, "calls", 1);
  put_parts(text, ranks, culprit, one_pair ? (culprit + 1) % ranks : -1, "enqueues", 2);
  text.line(fmt::format("+3 {} enters cudaStreamSynchronize @moe.py:9:dispatch",
                        rank_list(all_but(ranks, -1))));
  one.text = text.str();
  return one;
}

// Two collectives in a group, which the culprit calls one by one; or leaves open.
FamilyCase grouped(int ranks, int culprit, bool open) {
  FamilyCase one;
  one.family = open ? "open group" : "other groups";
  one.name = fmt::format("{} of rank {} of {}", one.family, culprit, ranks);
  one.code = open ? "collective.group-unclosed" : "collective.group-mismatch";
  one.culprits = open || ranks > 2 ? Ranks{{culprit}} : Ranks{};
  one.sequence = kSteps + 1;
  const Ranks others = all_but(ranks, culprit);
  const Call small{"ncclAllReduce", "count=64", "bucket.py:5:flush"};
  const Call large{"ncclAllReduce", "count=8192", "bucket.py:6:flush"};
  const auto in_group = [](Call call) {
    call.arguments += " group=9";
    return call;
  };
  Text text(ranks);
  for (int step = 0; step < kSteps; ++step) {
    text.call(all_but(ranks, -1), "calls", {"ncclAllReduce", "count=512", "train.py:9:step"},
              1 + step);
  }
  if (open) {
    text.line(fmt::format("+9 {} calls ncclGroupStart @bucket.py:4:flush", culprit));
  }
  text.call(others, "enqueues", in_group(small), 9.1);
  text.call(others, "enqueues", in_group(large), 9.2);
  text.call({{culprit}}, "enqueues", small, 9.1);
  text.call({{culprit}}, "enqueues", large, 9.2);
  text.line(fmt::format("+9.5 {} enters cudaStreamSynchronize @train.py:12:step",
                        rank_list(open ? others : all_but(ranks, -1))));
  one.text = text.str();
  return one;
}

}  // namespace

std::vector<FamilyCase> message_families() {
  std::vector<FamilyCase> cases;
  for (const int ranks : {2, 3, 4, 8}) {
    for (const int culprit : culprits_of(ranks)) {
      if (ranks > 2) {
        cases.push_back(
            ring("message size", "p2p.count-mismatch", {1, "count=1000"}, ranks, culprit));
        cases.push_back(ring("message type", "p2p.dtype-mismatch", {1, "count=1024 type=float16"},
                             ranks, culprit));
        cases.push_back(ring("other peer", "p2p.wrong-peer", {2, "count=1024"}, ranks, culprit));
        cases.push_back(uneven(ranks, culprit, false));
      }
      if (ranks > 3) {
        cases.push_back(uneven(ranks, culprit, true));
      }
      cases.push_back(crossed(ranks, culprit));
      cases.push_back(grouped(ranks, culprit, false));
      cases.push_back(grouped(ranks, culprit, true));
    }
    cases.push_back(all_send(ranks));
    cases.push_back(healthy_ring(ranks));
  }
  return cases;
}

}  // namespace traintrace
