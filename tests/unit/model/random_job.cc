#include "tests/unit/model/random_job.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>

namespace traintrace {
namespace {

constexpr TimeNs kMs = 1'000'000;
constexpr size_t kRunAhead = 8;  // operations that a host puts on a stream before it waits

const std::vector<CallSchema>& calls() {
  static const std::vector<CallSchema> all = {
      {"ncclAllReduce", "nccl", "collective", {}},
      {"cudaStreamSynchronize", "runtime", "sync", {}},
      {"cudaStreamQuery", "runtime", "query", {}},
  };
  return all;
}

}  // namespace

RandomJob::RandomJob(uint32_t seed) : random_(seed) {
  ranks = pick(3, 9);
  std::vector<int> all(static_cast<size_t>(ranks));
  std::iota(all.begin(), all.end(), 0);
  communicators_.push_back(all);
  for (int more = pick(0, 5); more > 0; --more) {
    std::vector<int> some = all;
    std::shuffle(some.begin(), some.end(), random_);
    some.resize(static_cast<size_t>(pick(2, ranks)));
    std::sort(some.begin(), some.end());
    communicators_.push_back(some);
  }
  program_.resize(static_cast<size_t>(ranks));
  const int steps = pick(5, 90);
  for (int i = 0; i < steps; ++i) {
    const size_t on = static_cast<size_t>(pick(0, static_cast<int>(communicators_.size()) - 1));
    steps_.push_back({on, {}, {}});
    think_.push_back(pick(0, 9) == 0 ? pick(1, 1500) * kMs : pick(1, 60) * kMs);
    for (const int rank : communicators_[on]) {
      program_[static_cast<size_t>(rank)].push_back(steps_.size() - 1);
    }
  }
  for (int rank = 0; rank < ranks; ++rank) {
    blocking_.push_back(pick(0, 1) == 0);
    observed_.push_back(pick(0, 2) != 0);
  }
  victim = pick(0, ranks - 1);
  run(Mishap::kNone, 0);
}

void RandomJob::let(Mishap mishap) {
  // Somebody must need it afterwards: every operation has at least two members.
  const auto own = static_cast<int>(program_[static_cast<size_t>(victim)].size());
  run(mishap, static_cast<size_t>(pick(0, std::max(own - 1, 0))));
}

void RandomJob::run(Mishap mishap, size_t stops_at) {
  mishap_ = mishap;
  happened = kNever;
  last_finished = kStart;
  const auto n = static_cast<size_t>(ranks);
  std::vector<TimeNs> ready(n, kStart + 10 * kMs);  // of the host
  std::vector<TimeNs> stream_free(n, kStart);
  std::vector<std::vector<TimeNs>> finished(n);
  for (size_t i = 0; i < steps_.size(); ++i) {
    Step& step = steps_[i];
    const std::vector<int>& members = communicators_[step.communicator];
    step.entered.clear();
    TimeNs begin = 0;
    for (const int rank : members) {
      const auto r = static_cast<size_t>(rank);
      const size_t done = finished[r].size();
      TimeNs enter = ready[r];
      if (done >= kRunAhead) {
        enter = std::max(enter, finished[r][done - kRunAhead]);
      }
      if (mishap != Mishap::kNone && rank == victim && done >= stops_at) {
        happened = done == stops_at ? std::min(happened, enter) : happened;
        enter = kNever;
      }
      step.entered.push_back(std::min(enter, kNever));
      begin = std::max({begin, step.entered.back(), stream_free[r]});
    }
    TimeNs end = begin >= kNever ? kNever : begin + kMs;
    // What a dead process had on its stream never finishes.
    const bool dead = mishap == Mishap::kDies || mishap == Mishap::kFails;
    if (dead && end > happened && std::count(members.begin(), members.end(), victim) > 0) {
      end = kNever;
    }
    step.finished.assign(members.size(), end);
    last_finished = end < kNever ? std::max(last_finished, end) : last_finished;
    for (size_t place = 0; place < members.size(); ++place) {
      const auto r = static_cast<size_t>(members[place]);
      stream_free[r] = end;
      finished[r].push_back(end);
      ready[r] = std::min(
          kNever, (blocking_[r] ? end : step.entered[place]) + think_[i] + pick(0, 20) * kMs);
    }
  }
}

std::set<int> RandomJob::stuck() const {
  std::set<int> result;
  for (const Step& step : steps_) {
    const std::vector<int>& members = communicators_[step.communicator];
    for (size_t place = 0; place < members.size(); ++place) {
      if (members[place] != victim && step.finished[place] >= kNever &&
          step.entered[place] < kNever) {
        result.insert(members[place]);
      }
    }
  }
  return result;
}

void RandomJob::write_rank(ProcessTrace& trace, int rank, TimeNs end) {
  const auto r = static_cast<size_t>(rank);
  trace.calls = calls();
  std::map<size_t, size_t> element;
  for (size_t c = 0; c < communicators_.size(); ++c) {
    const std::vector<int>& members = communicators_[c];
    const auto place = std::find(members.begin(), members.end(), rank);
    if (place != members.end()) {
      element[c] = trace.communicators.size();
      CommunicatorText& text = trace.communicators.emplace_back();
      text.id = 1000 + c;
      text.size = static_cast<int>(members.size());
      text.rank = static_cast<int>(place - members.begin());
      text.origin = format::kInitRank;
      text.flags = format::kInitDone;
      text.created = kStart + static_cast<TimeNs>(c);
      text.ready = kStart + 5 * kMs;
    }
  }
  ThreadText& thread = trace.threads.emplace_back();
  thread.serial = 1;
  StreamText& stream = trace.streams.emplace_back();
  for (const size_t i : program_[r]) {
    const Step& step = steps_[i];
    const std::vector<int>& members = communicators_[step.communicator];
    const auto place =
        static_cast<size_t>(std::find(members.begin(), members.end(), rank) - members.begin());
    if (step.entered[place] >= end) {
      break;
    }
    CommunicatorText& text = trace.communicators[element[step.communicator]];
    OperationText operation;
    operation.index = text.operations++;
    operation.sequence = ++text.collectives;
    operation.enter = step.entered[place];
    operation.leave = operation.enter + 10'000;
    operation.count = 16;
    operation.data_type = 7;
    operation.flags = format::kLaunched;
    operation.stream = 1;
    operation.position = ++stream.issued;
    text.last = operation.enter;
    text.recent.push_back(operation);
    if (text.recent.size() > format::kRecentOperations) {
      text.recent.erase(text.recent.begin());
    }
    stream.completed =
        observed_[r] && step.finished[place] < end ? stream.issued : stream.completed;
    thread.last_call = 0;
    thread.last_call_time = operation.enter;
    if (blocking_[r] && step.finished[place] >= end) {
      thread.open[0] = {operation.leave, 1, 0};
    }
  }
}

std::vector<ProcessTrace> RandomJob::traces(TimeNs end, TimeNs together) {
  std::vector<ProcessTrace> result;
  for (int rank = 0; rank < ranks; ++rank) {
    ProcessTrace& trace = result.emplace_back();
    TimeNs own_end = end - static_cast<TimeNs>(pick(0, 1000)) * (together / 1000);
    const bool ends_early =
        rank == victim && (mishap_ == Mishap::kDies || mishap_ == Mishap::kFails);
    if (ends_early) {
      own_end = std::min(own_end, happened + kMs);
    }
    trace.host = std::string{"a"};
    trace.pid = 100 + rank;
    trace.facts["env.RANK"] = fmt::format("{}", rank);
    trace.facts["env.WORLD_SIZE"] = fmt::format("{}", ranks);
    trace.armed = kStart;
    // Written each second, at a time of its own within it.
    const TimeNs phase = pick(0, 999) * kMs;
    trace.last_alive = own_end - (own_end - kStart + phase) % 1'000'000'000;
    write_rank(trace, rank, own_end);
    if (ends_early && mishap_ == Mishap::kDies) {
      trace.gone = own_end;
    }
    if (ends_early && mishap_ == Mishap::kFails) {
      trace.exit_kind = format::kExit;
      trace.exit_status = 1;
      trace.exited = own_end;
    }
  }
  return result;
}

}  // namespace traintrace
