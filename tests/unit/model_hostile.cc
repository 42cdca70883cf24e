// test: timeout=120 labels=sequential processors=3
// uses: tests/unit/model/random_job.cc analyzer
// Traces are untrusted: whatever their tables say, there is a report.
#include <gtest/gtest.h>

#include <limits>

#include "analyzer/judge/judge.h"
#include "analyzer/page/page.h"
#include "analyzer/reporters/verdict/findings_report.h"
#include "tests/unit/model/random_job.h"

namespace traintrace {
namespace {

constexpr uint32_t kJobs = jobs_of(1000);

class Vandal {
 public:
  explicit Vandal(uint32_t seed) : random_(seed) {}

  void damage(std::vector<ProcessTrace>& traces) {
    for (int hits = pick(1, 12); hits > 0; --hits) {
      ProcessTrace& trace = traces[index(traces.size())];
      damage_process(trace);
      if (!trace.communicators.empty()) {
        damage_communicator(trace.communicators[index(trace.communicators.size())]);
      }
      if (!trace.threads.empty()) {
        damage_thread(trace.threads[0]);
      }
    }
  }

 private:
  int pick(int from, int to) { return std::uniform_int_distribution(from, to)(random_); }
  size_t index(size_t size) { return static_cast<size_t>(pick(0, static_cast<int>(size) - 1)); }

  template <class Number>
  void hit(Number& value) {
    if (pick(0, 5) != 0) {
      return;
    }
    constexpr auto kLeast = std::numeric_limits<Number>::min();
    constexpr auto kMost = std::numeric_limits<Number>::max();
    const Number choices[] = {kLeast,           kMost, Number(0), Number(1), Number(pick(0, 100)),
                              Number(kMost - 1)};
    value = choices[index(std::size(choices))];
  }

  void damage_process(ProcessTrace& trace) {
    hit(trace.armed);
    hit(trace.last_alive);
    hit(trace.exited);
    hit(trace.parent_pid);
    hit(trace.pid);
    if (pick(0, 5) == 0) {
      trace.exit_kind = static_cast<format::ExitKind>(pick(0, 9));
      trace.running_now = pick(0, 1) == 0;
      trace.facts["env.RANK"] = std::to_string(pick(-3, 2000));
      trace.facts["env.WORLD_SIZE"] = pick(0, 9) == 0 ? "131071" : "999999999";
    }
    if (pick(0, 20) == 0) {
      trace.calls.clear();
    }
    if (pick(0, 20) == 0) {
      trace.streams.clear();
    }
    trace.modules.push_back({0, ~uint64_t{0}, 5, "", "/opt/program"});
    trace.stacks[1].native = {~uint64_t{0} - 1};
  }

  void damage_communicator(CommunicatorText& text) {
    hit(text.id);
    hit(text.size);
    hit(text.rank);
    hit(text.flags);
    hit(text.created);
    hit(text.ready);
    hit(text.ended);
    hit(text.last);
    hit(text.collectives);
    hit(text.parent_index);
    hit(text.ordinal);
    hit(text.key);
    if (pick(0, 3) == 0) {
      text.origin = static_cast<format::CommunicatorOrigin>(pick(0, 9));
      text.parent = pick(0, 1) == 0 ? text.id : 1000 + static_cast<uint64_t>(pick(0, 5));
      text.rank = -1;
    }
    if (!text.recent.empty()) {
      OperationText& operation = text.recent[index(text.recent.size())];
      hit(operation.sequence);
      hit(operation.call);
      hit(operation.stack);
      hit(operation.enter);
      hit(operation.count);
      hit(operation.data_type);
      hit(operation.peer);
      hit(operation.flags);
      hit(operation.stream);
      hit(operation.position);
      operation.collective = pick(0, 3) != 0;
      operation.receive = pick(0, 1) == 0;
    }
  }

  void damage_thread(ThreadText& thread) {
    hit(thread.last_stack);
    hit(thread.last_call_time);
    hit(thread.group_depth);
    hit(thread.open[0].enter);
    hit(thread.open[1].enter);
    hit(thread.open[1].call);
    if (pick(0, 5) == 0) {
      thread.last_call = ~uint32_t{0};
    }
  }

  std::mt19937 random_;
};

constexpr Screen kTerminal{true, 80, true};

// In all formats, with a verdict.
bool gives_reports(std::vector<ProcessTrace> traces) {
  const Result<JudgedRun> judged = judge(std::move(traces), {}, {});
  if (!judged) {
    return false;
  }
  const Run& run = judged->run;
  const FindingsReport report = report_findings(run, judged->findings);
  return !report.findings.empty() && !report.verdict.empty() &&
         !findings_json(run, report).empty() && !findings_text(run, report, {}, {}).empty() &&
         !findings_text(run, report, {}, kTerminal).empty() && !page_html(run, report, {}).empty();
}

TEST(HostileTraces, AlwaysGiveAReport) {
  for (uint32_t seed = 0; seed < kJobs; ++seed) {
    RandomJob job(seed);
    job.let(static_cast<RandomJob::Mishap>(seed % 4));
    std::vector<ProcessTrace> traces =
        job.traces(job.last_finished + 20'000'000'000, 1'000'000'000);
    Vandal(seed).damage(traces);
    ASSERT_TRUE(gives_reports(std::move(traces))) << seed;
  }
}

}  // namespace
}  // namespace traintrace
