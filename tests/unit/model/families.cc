#include "tests/unit/model/families.h"

#include <fmt/format.h>

#include <algorithm>

#include "tests/unit/model/case_text.h"

namespace traintrace {
namespace {

constexpr int kSteps = 5;  // that are in order before the fault

// What becomes of calls that do not belong together.
enum class Mode { kHang, kFinish };

// Three calls a step, of which the first is under test.
Calls step_of(const std::string& function) {
  const bool rooted = function == "ncclBroadcast" || function == "ncclReduce" ||
                      function == "ncclGather" || function == "ncclScatter";
  return {{function, rooted ? "count=1024 root=0" : "count=1024", "train.py:10:forward"},
          {"ncclAllReduce", "count=2048", "train.py:20:backward"},
          {"ncclReduceScatter", "count=512", "train.py:30:shard"}};
}

constexpr const char* kFunctions[] = {"ncclAllReduce", "ncclReduce",        "ncclBroadcast",
                                      "ncclAllGather", "ncclReduceScatter", "ncclAlltoAll",
                                      "ncclGather",    "ncclScatter"};

bool has(const std::string& function, std::initializer_list<const char*> list) {
  return std::find(list.begin(), list.end(), function) != list.end();
}

// What the culprit does in the step with the fault, instead of `normal`.
struct Fault {
  std::string family;
  std::string code;
  Calls calls;
  uint64_t sequence;  // within the step, from 1
};

std::vector<Fault> faults_of(const std::string& function) {
  const Calls normal = step_of(function);
  std::vector<Fault> faults;
  const auto changed = [&](const char* family, const char* code, const char* arguments) {
    Calls calls = normal;
    calls[0].arguments = arguments;
    faults.push_back({family, code, calls, 1});
  };
  const bool rooted = has(function, {"ncclBroadcast", "ncclReduce", "ncclGather", "ncclScatter"});
  faults.push_back({"missing call", "collective.skipped-call", {normal[1], normal[2]}, 1});
  faults.push_back({"missing call", "collective.skipped-call", {normal[0], normal[2]}, 2});
  faults.push_back({"extra call",
                    "collective.extra-call",
                    {{"ncclAllReduce", "count=7", "log.py:5:log"}, normal[0], normal[1], normal[2]},
                    1});
  faults.push_back(
      {"repeated call", "collective.extra-call", {normal[0], normal[1], normal[1], normal[2]}, 3});
  faults.push_back({"order", "collective.order-swapped", {normal[1], normal[0], normal[2]}, 1});
  faults.push_back({"order", "collective.order-swapped", {normal[0], normal[2], normal[1]}, 2});
  Calls other = normal;
  other[0].function = function == "ncclAllGather" ? "ncclAllReduce" : "ncclAllGather";
  other[0].arguments = "count=1024";
  faults.push_back({"operation", "collective.operation-mismatch", other, 1});
  changed("count", "collective.count-mismatch", rooted ? "count=1000 root=0" : "count=1000");
  changed("count 0", "collective.empty-call", rooted ? "count=0 root=0" : "count=0");
  changed("type", "collective.dtype-mismatch",
          rooted ? "count=1024 root=0 type=float16" : "count=1024 type=float16");
  if (rooted) {
    changed("root", "collective.root-mismatch", "count=1024 root=1");
  }
  if (has(function, {"ncclAllReduce", "ncclReduce", "ncclReduceScatter"})) {
    changed("reduction", "collective.redop-mismatch",
            rooted ? "count=1024 root=0 op=max" : "count=1024 op=max");
  }
  return faults;
}

double put_step(Text& text, const Ranks& who, const char* verb, const Calls& calls, double time) {
  for (const Call& call : calls) {
    text.call(who, verb, call, time);
    time += 0.01;
  }
  return time;
}

// Everybody waits for the GPU at the end of a step.
FamilyCase case_of(const std::string& function, const Fault& fault, int ranks, int culprit,
                   Mode mode) {
  FamilyCase one;
  one.family = fault.family;
  one.name = fmt::format("{} of {} by rank {} of {}, {}", fault.family, function, culprit, ranks,
                         mode == Mode::kHang ? "hangs" : "finishes");
  one.code = fault.code;
  // Of two ranks, only one that made both calls in another order is told, by its own steps before.
  const bool by_habit = fault.family == "order" && mode == Mode::kHang;
  one.culprits = ranks > 2 || by_habit ? Ranks{{culprit}} : Ranks{};
  const Calls normal = step_of(function);
  one.sequence = kSteps * normal.size() + fault.sequence;
  const Ranks everybody = all_but(ranks, -1);
  const Ranks others = all_but(ranks, culprit);
  Text text(ranks);
  double time = 1;
  for (int step = 0; step < kSteps; ++step, time += 1) {
    put_step(text, everybody, "calls", normal, time);
  }
  const char* verb = mode == Mode::kHang ? "enqueues" : "calls";
  put_step(text, others, verb, normal, time);
  put_step(text, {{culprit}}, verb, fault.calls, time);
  if (mode == Mode::kFinish) {
    // With one more or less, the last one of the step finds no partner.
    for (int step = 0; step < 3; ++step) {
      time += 1;
      put_step(text, everybody, "calls", normal, time);
    }
  }
  time += 0.5;
  text.line(fmt::format("+{:.3f} {} enters cudaStreamSynchronize @train.py:40:step", time,
                        rank_list(everybody)));
  one.text = text.str();
  return one;
}

// The first call of the step on another communicator of the same ranks, or a send instead.
FamilyCase misplaced(const std::string& function, int ranks, int culprit, bool peers, bool waits) {
  FamilyCase one;
  one.family = peers ? "send, receive" : "communicator";
  one.name = fmt::format("{} of {} by rank {} of {}, {}", one.family, function, culprit, ranks,
                         waits ? "waits" : "goes on");
  one.code = peers ? "p2p.against-collective" : "collective.wrong-communicator";
  one.culprits = ranks > 2 ? Ranks{{culprit}} : Ranks{};
  const Calls normal = step_of(function);
  one.sequence = kSteps * normal.size() + 1;
  const Ranks everybody = all_but(ranks, -1);
  const Ranks others = all_but(ranks, culprit);
  Text text(ranks);
  text.line(fmt::format("communicator tp members=0-{}", ranks - 1));
  double time = 1;
  for (int step = 0; step < kSteps; ++step, time += 1) {
    put_step(text, everybody, "calls", normal, time);
    text.call(everybody, "calls", {"ncclAllReduce", "count=8", "train.py:35:tp"}, time + 0.1, "tp");
  }
  const char* verb = waits ? "enters" : "enqueues";
  const std::string peer = fmt::format("count=1024 peer={}", (culprit + 1) % ranks);
  text.call(others, verb, normal[0], time);
  text.call({{culprit}}, verb,
            peers ? Call{culprit % 2 == 0 ? "ncclSend" : "ncclRecv", peer, "train.py:11:forward"}
                  : normal[0],
            time, peers ? "dp" : "tp");
  if (!waits) {
    put_step(text, everybody, "enqueues", {normal[1], normal[2]}, time + 0.1);
    text.line(fmt::format("+{:.3f} {} enters cudaStreamSynchronize @train.py:40:step", time + 0.5,
                          rank_list(everybody)));
  }
  one.text = text.str();
  return one;
}

// Half a job has two communicators in one order, one rank in the other.
FamilyCase other_order(const std::string& function, int ranks, int culprit) {
  FamilyCase one;
  one.family = "order of communicators";
  one.name = fmt::format("{} by rank {} of {}", function, culprit, ranks);
  one.code = "collective.cross-communicator-deadlock";
  one.culprits = ranks > 2 ? Ranks{{culprit}} : Ranks{};
  const Calls normal = step_of(function);
  const Call on_tp = {"ncclAllReduce", "count=8", "train.py:35:tp"};
  const Ranks everybody = all_but(ranks, -1);
  Text text(ranks);
  text.line(fmt::format("communicator tp members=0-{}", ranks - 1));
  double time = 1;
  for (int step = 0; step < kSteps; ++step, time += 1) {
    text.call(everybody, "calls", normal[0], time);
    text.call(everybody, "calls", on_tp, time + 0.1, "tp");
  }
  text.call(all_but(ranks, culprit), "enters", normal[0], time);
  text.call({{culprit}}, "enters", on_tp, time, "tp");
  one.sequence = kSteps + 1;
  one.text = text.str();
  return one;
}

// The same program without a fault, moving or ended.
FamilyCase healthy(const std::string& function, int ranks, bool ended) {
  FamilyCase one;
  one.family = "healthy";
  one.name = fmt::format("{} on {} ranks", function, ranks);
  Text text(ranks);
  const Ranks everybody = all_but(ranks, -1);
  double time = 1;
  for (int step = 0; step < kSteps; ++step, time += 1) {
    put_step(text, everybody, "calls", step_of(function), time);
  }
  if (ended) {
    text.line(fmt::format("+{:.3f} {} exits", time, rank_list(everybody)));
  } else {
    // Caught in the middle: one is a little ahead.
    put_step(text, {{ranks - 1}}, "enqueues", step_of(function), 59.5);
  }
  one.text = text.str();
  return one;
}

}  // namespace

std::vector<FamilyCase> all_families() {
  std::vector<FamilyCase> cases;
  for (const int ranks : {2, 3, 4, 8, 64}) {
    for (const std::string function : kFunctions) {
      for (const int culprit : culprits_of(ranks)) {
        for (const Fault& fault : faults_of(function)) {
          cases.push_back(case_of(function, fault, ranks, culprit, Mode::kHang));
          cases.push_back(case_of(function, fault, ranks, culprit, Mode::kFinish));
        }
        for (const bool waits : {false, true}) {
          cases.push_back(misplaced(function, ranks, culprit, true, waits));
          cases.push_back(misplaced(function, ranks, culprit, false, waits));
        }
        cases.push_back(other_order(function, ranks, culprit));
      }
      cases.push_back(healthy(function, ranks, true));
      cases.push_back(healthy(function, ranks, false));
    }
  }
  return cases;
}

}  // namespace traintrace
