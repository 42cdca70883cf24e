#include "analyzer/top/job_view.h"

#include <fmt/format.h>
#include <sys/wait.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <set>
#include <tuple>
#include <unordered_map>

#include "analyzer/memory/blocks.h"
#include "analyzer/model/code_place.h"
#include "analyzer/model/elapsed.h"
#include "analyzer/model/rank_assignment.h"
#include "analyzer/model/split_runs.h"
#include "analyzer/reader/this_machine.h"
#include "analyzer/reader/trace_memory.h"
#include "analyzer/text/units.h"
#include "analyzer/thresholds.h"
#include "analyzer/top/steps_seen.h"

namespace traintrace {
namespace {

constexpr size_t kMostCommunicators =
    8;  // of a process, those used last: their operations are read
constexpr size_t kLagCollectives = 10;
// A rank is called slow if it was last in most of these collectives, at least so many, later than
// chance makes it: a millisecond, and several times what is usual among its peers.
constexpr int kFewestCollectives = 5;
constexpr int64_t kLeastLag = 1'000'000;
constexpr int64_t kLagTimes = 4;
constexpr size_t kMostStepsKept = 32;

TimeNs now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

std::vector<std::string> files_of(const std::vector<std::string>& inputs) {
  std::vector<std::string> files;
  for (const std::string& input : inputs) {
    std::error_code ignored;
    for (const auto& entry : std::filesystem::directory_iterator(input, ignored)) {
      const std::filesystem::path extension = entry.path().extension();
      if (extension == ".trace" || extension == ".pointer") {
        files.push_back(entry.path().string());
      }
    }
    const std::vector<std::string> memories = memories_not_copied(input);
    files.insert(files.end(), memories.begin(), memories.end());
  }
  std::sort(files.begin(), files.end());
  return files;
}

bool is_query(const CallSchema& call) {
  return call.kind == "query" || call.kind == "comm-query";
}

std::string how_it_ended(const LiveSample& sample) {
  if (sample.exited != 0) {
    return fmt::format("exited with status {}", sample.exit_status);
  }
  if (sample.wait_status >= 0 && WIFSIGNALED(sample.wait_status)) {
    const char* const name = sigabbrev_np(WTERMSIG(sample.wait_status));
    return fmt::format("killed by {}{}", name == nullptr ? "signal " : "SIG",
                       name == nullptr ? std::to_string(WTERMSIG(sample.wait_status)) : name);
  }
  if (sample.wait_status >= 0 && WIFEXITED(sample.wait_status)) {
    return fmt::format("exited with status {}", WEXITSTATUS(sample.wait_status));
  }
  return "is gone, without an exit record";
}

int64_t median(std::vector<int64_t> values) {
  if (values.empty()) {
    return 0;
  }
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

}  // namespace

const char* live_state_name(LiveState state) {
  constexpr const char* kNames[] = {"moving", "blocked", "on-host", "stopped", "silent", "ended"};
  return kNames[static_cast<size_t>(state)];
}

size_t JobView::count(LiveState state) const {
  size_t count = 0;
  for (const RankView& rank : ranks) {
    count += rank.state == state ? rank.ranks.size() : 0;
  }
  return count;
}

// A process that is looked at again and again, and what was seen of it before.
struct LiveJob::Followed {
  explicit Followed(LiveProcess opened) : process(std::move(opened)) {}

  LiveProcess process;
  RankView identity;  // what does not change
  // Places in the job's code by stack; none: the stack has no frame of it.
  std::unordered_map<uint32_t, std::optional<std::string>> places;
  uint64_t events = 0;
  TimeNs moved = 0;  // when it was last seen to do something other than to poll
  std::optional<uint64_t> first_allocated;
  StepsSeen steps;
  // Of this look:
  LiveSample sample;
  const LiveCommunicator* main = nullptr;  // the one whose collectives are compared
  std::vector<LiveOperation> operations;   // of `main`
  LiveOperation newest;                    // of all communicators
  const LiveCommunicator* newest_in = nullptr;

  bool look(TimeNs now);
  RankView view(TimeNs now, TimeNs blocked_after, int world_size);

 private:
  void choose_communicators();
  void note_motion();
  const LiveThread* working_thread() const;
  bool ended_or_silent(TimeNs now, RankView& view) const;
};

bool LiveJob::Followed::look(TimeNs now) {
  main = newest_in = nullptr;
  operations.clear();
  newest = {};
  std::optional<LiveSample> seen = process.sample();
  if (!seen) {
    return false;
  }
  sample = std::move(*seen);
  choose_communicators();
  note_motion();
  moved = std::min(moved, now);
  return true;
}

void LiveJob::Followed::choose_communicators() {
  for (const LiveCommunicator& one : sample.communicators) {
    if (one.size != 1 && !one.ended && one.collectives > 0 &&
        (main == nullptr ||
         std::tuple(one.size, one.collectives) > std::tuple(main->size, main->collectives))) {
      main = &one;
    }
    if (one.last != 0 && (newest_in == nullptr || one.last > newest_in->last)) {
      newest_in = &one;
    }
  }
  if (main != nullptr) {
    operations = process.operations(*main);
  }
  if (newest_in != nullptr) {
    const std::vector<LiveOperation> own =
        newest_in == main ? operations : process.operations(*newest_in);
    if (!own.empty()) {
      newest = own.back();
    }
  }
}

// Polling is no motion.
void LiveJob::Followed::note_motion() {
  uint64_t written = 0;
  TimeNs newest_call = newest.enter;
  for (const LiveThread& thread : sample.threads) {
    written += thread.events;
    newest_call = std::max(
        {newest_call, thread.open.time, thread.queries == 0 ? thread.last.time : TimeNs{0}});
  }
  if (moved == 0) {
    moved = newest_call;
  } else if (written != events) {
    moved = std::max({moved, newest_call, now_ns()});
  }
  events = written;
}

// That of the job's own code, as far as can be told; else the one heard of last.
const LiveThread* LiveJob::Followed::working_thread() const {
  const auto key = [&](const LiveThread& thread) {
    const LiveCall& call = thread.open.time != 0 ? thread.open : thread.last;
    const auto place = places.find(call.stack);
    const int known = place == places.end() ? 1 : place->second.has_value() ? 2 : 0;
    return std::tuple(known, std::max(thread.open.time, thread.last.time));
  };
  const auto best =
      std::max_element(sample.threads.begin(), sample.threads.end(),
                       [&](const LiveThread& a, const LiveThread& b) { return key(a) < key(b); });
  return best == sample.threads.end() ? nullptr : &*best;
}

bool LiveJob::Followed::ended_or_silent(TimeNs now, RankView& view) const {
  if (sample.exited != 0 || sample.gone) {
    view.state = LiveState::kEnded;
    view.since = sample.exited != 0 ? sample.exited : sample.last_alive;
    view.doing = how_it_ended(sample);
    return true;
  }
  if (elapsed(sample.last_alive, now) < kDeadAfter) {
    return false;
  }
  view.since = sample.last_alive;
  const std::optional<bool> running = is_running(process.header());
  const Halt halt = running == true ? halt_of(process.header().pid) : Halt::kNot;
  if (running == false) {
    view.state = LiveState::kEnded;
    view.doing = how_it_ended(sample);
  } else if (halt != Halt::kNot) {
    view.state = LiveState::kStopped;
    view.doing = halt == Halt::kTraced   ? "held by a debugger"
                 : halt == Halt::kFrozen ? "its cgroup is frozen"
                                         : "stopped by a signal";
  } else {
    view.state = LiveState::kSilent;
    view.doing = sample.is_copy ? "seen through a copy of its trace" : "its trace is not written";
  }
  return true;
}

RankView LiveJob::Followed::view(TimeNs now, TimeNs blocked_after, int world_size) {
  RankView view = identity;
  const LiveThread* const thread = working_thread();
  const LiveCall call = thread == nullptr        ? LiveCall()
                        : thread->open.time != 0 ? thread->open
                                                 : thread->last;
  view.stack = call.stack;
  if (newest_in != nullptr && newest.enter != 0) {
    view.collective = process.call(newest.call).name;
    view.communicator = !newest_in->name.empty()        ? newest_in->name
                        : newest_in->size == world_size ? "all ranks"
                        : newest_in->size > 0           ? fmt::format("{} ranks", newest_in->size)
                                                        : "?";
    view.sequence = newest.sequence;
    view.pending = !newest.finished;
  }
  for (const LiveMemory& memory : sample.memory) {
    view.allocated = sum_of(view.allocated, memory.allocated);
    view.reserved = sum_of(view.reserved, memory.reserved);
    view.peak = sum_of(view.peak, memory.peak);
  }
  first_allocated = first_allocated ? first_allocated : view.allocated;
  view.growth = static_cast<int64_t>(view.allocated - *first_allocated);
  view.steps_ns = steps.lengths();
  view.step_ns = view.steps_ns.empty() ? 0 : view.steps_ns.back();
  view.step = steps.number();
  if (ended_or_silent(now, view) || elapsed(moved, now) < blocked_after) {
    return view;
  }
  view.since = moved;
  const bool polls = thread != nullptr && thread->queries > 0 &&
                     is_query(process.call(call.call)) && elapsed(call.time, now) < kPollsLately;
  if (thread != nullptr && thread->open.time != 0) {
    view.state = LiveState::kBlocked;
    view.doing = "in " + process.call(call.call).name;
  } else if (polls) {
    view.state = LiveState::kBlocked;
    view.doing = "polls " + process.call(call.call).name;
  } else {
    view.state = LiveState::kOnHost;
    view.doing = "no call of CUDA or NCCL";
  }
  return view;
}

LiveJob::LiveJob() = default;
LiveJob::LiveJob(LiveJob&&) noexcept = default;
LiveJob::~LiveJob() = default;

Result<LiveJob> LiveJob::open(const std::vector<std::string>& inputs, TimeNs blocked_after) {
  LiveJob job;
  job.inputs_ = inputs;
  job.blocked_after_ = blocked_after;
  job.files_ = files_of(inputs.empty() ? std::vector<std::string>{"traintrace"} : inputs);
  TraceSet set = read_traces(inputs, {.events = false});
  if (set.processes.empty()) {
    ReadError none;
    none.message = "no traces to look at";
    return set.errors.empty() ? none : set.errors.front();
  }
  std::vector<RunInput> runs = split_runs(std::move(set.processes));
  // The latest that runs, else the latest.
  const auto running = std::find_if(runs.rbegin(), runs.rend(), [](const RunInput& run) {
    return std::any_of(run.processes.begin(), run.processes.end(),
                       [](const ProcessTrace& trace) { return trace.running_now == true; });
  });
  const RunInput& run = running == runs.rend() ? runs.back() : *running;
  job.run_ = run.about.id;
  job.started_ = run.about.start;
  const RankAssignment seats = assign_ranks(run.processes);
  job.world_size_ = seats.world_size;
  for (size_t i = 0; i < run.processes.size(); ++i) {
    const ProcessTrace& trace = run.processes[i];
    Result<LiveProcess> process = LiveProcess::open(trace);
    if (!process) {
      continue;
    }
    auto followed = std::make_unique<Followed>(std::move(*process));
    RankView& identity = followed->identity;
    for (const RankSeat& seat : seats.seats) {
      if (seat.process == i) {
        insert(identity.ranks, seat.rank);
      }
    }
    identity.host = trace.host;
    identity.pid = trace.pid;
    identity.source = trace.source;
    for (const CommunicatorText& communicator : trace.communicators) {
      identity.device = identity.device < 0 ? communicator.device : identity.device;
    }
    for (const ThreadText& thread : trace.threads) {
      for (const uint32_t stack : {thread.open[0].stack, thread.open[1].stack, thread.last_stack}) {
        const auto place = user_place(trace, {}, stack);
        followed->places[stack] = place ? std::optional(place_text(*place)) : std::nullopt;
      }
    }
    job.processes_.push_back(std::move(followed));
  }
  if (job.processes_.empty()) {
    ReadError none;
    none.message = "none of the traces can be followed";
    return none;
  }
  std::sort(job.processes_.begin(), job.processes_.end(),
            [](const auto& a, const auto& b) { return a->identity.ranks < b->identity.ranks; });
  return job;
}

bool LiveJob::is_outdated() const {
  return files_of(inputs_.empty() ? std::vector<std::string>{"traintrace"} : inputs_) != files_;
}

// All members of a communicator step at the same collectives.
void LiveJob::note_steps() {
  std::unordered_map<uint64_t, StepRule> rules;
  for (const auto& followed : processes_) {
    if (followed->main == nullptr) {
      continue;
    }
    const auto [rule, is_new] = rules.try_emplace(followed->main->id);
    if (is_new) {
      std::vector<const LiveCommunicator*> used;
      for (const LiveCommunicator& one : followed->sample.communicators) {
        if (one.collectives > 0 && !one.ended && &one != followed->main) {
          used.push_back(&one);
        }
      }
      std::sort(used.begin(), used.end(),
                [](const auto* a, const auto* b) { return a->last > b->last; });
      used.resize(std::min(used.size(), kMostCommunicators));
      std::vector<std::vector<LiveOperation>> others;
      others.reserve(used.size());
      for (const LiveCommunicator* const one : used) {
        others.push_back(followed->process.operations(*one));
      }
      rule->second = find_steps(followed->operations, others);
    }
    followed->steps.note(rule->second, followed->operations, kMostStepsKept);
  }
}

namespace {

struct LagGroup {
  std::vector<size_t> members;  // in the views
  uint64_t from = 1, to = UINT64_MAX;
};

}  // namespace

// Of the last collectives that all members have entered: who did so how much later than the median.
void LiveJob::note_lags(std::vector<RankView>& views) {
  std::unordered_map<uint64_t, LagGroup> groups;
  const auto enters = [&](size_t i) {
    std::map<uint64_t, TimeNs> times;
    for (const LiveOperation& operation : processes_[i]->operations) {
      if (operation.collective && operation.runs && operation.sequence != 0) {
        times[operation.sequence] = operation.enter;
      }
    }
    return times;
  };
  std::vector<std::map<uint64_t, TimeNs>> times(views.size());
  for (size_t i = 0; i < views.size(); ++i) {
    if (processes_[i]->main == nullptr || views[i].state == LiveState::kEnded ||
        views[i].state == LiveState::kSilent) {
      continue;
    }
    times[i] = enters(i);
    if (!times[i].empty()) {
      LagGroup& group = groups[processes_[i]->main->id];
      group.members.push_back(i);
      group.from = std::max(group.from, times[i].begin()->first);
      group.to = std::min(group.to, times[i].rbegin()->first);
    }
  }
  for (auto& [id, group] : groups) {
    if (group.members.size() < 2 || group.from > group.to) {
      continue;
    }
    group.from = std::max(group.from, group.to - std::min<uint64_t>(group.to, kLagCollectives - 1));
    std::unordered_map<size_t, int64_t> sums;
    int count = 0;
    for (uint64_t sequence = group.from; sequence <= group.to; ++sequence) {
      std::vector<int64_t> entered;
      for (const size_t i : group.members) {
        const auto found = times[i].find(sequence);
        if (found != times[i].end()) {
          entered.push_back(found->second);
        }
      }
      if (entered.size() < group.members.size()) {
        continue;
      }
      ++count;
      const int64_t middle = median(entered);
      const size_t last =
          static_cast<size_t>(std::max_element(entered.begin(), entered.end()) - entered.begin());
      for (size_t j = 0; j < group.members.size(); ++j) {
        sums[group.members[j]] += entered[j] - middle;
      }
      ++views[group.members[last]].last_count;
    }
    std::vector<int64_t> distances;
    for (const size_t i : group.members) {
      views[i].of_count = count;
      if (count > 0) {
        views[i].lag_ns = sums[i] / count;
        distances.push_back(std::abs(*views[i].lag_ns));
      }
    }
    const int64_t usual = median(distances);
    for (const size_t i : group.members) {
      RankView& view = views[i];
      view.is_slow = view.state == LiveState::kMoving && count >= kFewestCollectives &&
                     2 * view.last_count > count && view.lag_ns &&
                     *view.lag_ns > std::max(kLeastLag, kLagTimes * usual);
    }
  }
}

JobView LiveJob::look(TopOrder order) {
  JobView view;
  view.run = run_;
  view.started = started_;
  view.world_size = world_size_;
  std::set<std::string> hosts;
  for (const auto& followed : processes_) {
    followed->look(now_ns());
  }
  note_steps();
  view.time = now_ns();
  std::vector<int64_t> steps;
  for (const auto& followed : processes_) {
    const RankView& rank =
        view.ranks.emplace_back(followed->view(view.time, blocked_after_, world_size_));
    hosts.insert(rank.host);
    view.step = std::max(view.step, rank.step);
    if (rank.state == LiveState::kMoving && rank.step_ns > 0) {
      steps.push_back(rank.step_ns);
    }
  }
  view.median_step_ns = median(std::move(steps));
  view.hosts.assign(hosts.begin(), hosts.end());
  note_lags(view.ranks);
  for (size_t i = 0; i < view.ranks.size(); ++i) {
    if (view.ranks[i].is_slow &&
        (!view.slowest || view.ranks[i].lag_ns > view.ranks[*view.slowest].lag_ns)) {
      view.slowest = i;
    }
  }
  fold_ranks(view, order);
  return view;
}

std::string LiveJob::place(const RankView& rank) {
  for (const auto& followed : processes_) {
    if (followed->identity.source != rank.source) {
      continue;
    }
    const auto known = followed->places.find(rank.stack);
    if (known != followed->places.end()) {
      return known->second.value_or("");
    }
    const Result<ProcessTrace> trace = read_trace(rank.source, {.events = false});
    if (!trace) {
      return "";
    }
    for (const auto& [id, stack] : trace->stacks) {
      const auto place = user_place(*trace, {}, id);
      followed->places[id] = place ? std::optional(place_text(*place)) : std::nullopt;
    }
    return followed->places[rank.stack].value_or("");
  }
  return "";
}

std::vector<std::string> LiveJob::frames(const RankView& rank, size_t most) {
  const Result<ProcessTrace> trace = read_trace(rank.source, {.events = false});
  if (!trace) {
    return {trace.error().message};
  }
  const auto stack = trace->stacks.find(rank.stack);
  std::vector<std::string> lines;
  if (stack != trace->stacks.end()) {
    for (const PythonFrameText& frame : stack->second.python) {
      if (is_user_file(frame.file) && lines.size() < most) {
        lines.push_back(fmt::format("{}:{}  {}", frame.file, frame.line, frame.function));
      }
    }
  }
  if (lines.empty()) {
    const auto place = user_place(*trace, {}, rank.stack);
    lines.push_back(place ? place_text(*place) : "its last call has no stack of the job's code");
  }
  return lines;
}

std::vector<std::string> LiveJob::memory(const RankView& rank, size_t most) {
  const Result<ProcessTrace> trace = read_trace(rank.source, {.events = false});
  if (!trace) {
    return {trace.error().message};
  }
  std::vector<BlockGroup> groups = tensor_groups(*trace);
  if (groups.empty()) {
    groups = live_groups(*trace);
  }
  std::map<std::string, std::pair<uint64_t, size_t>> by_place;
  uint64_t all = 0;
  for (const BlockGroup& group : groups) {
    const auto place = user_place(*trace, {}, group.stack);
    auto& [bytes, count] = by_place[place ? place_text(*place) : "not in the job's code"];
    bytes = sum_of(bytes, group.bytes);
    count += group.blocks.size();
    all = sum_of(all, group.bytes);
  }
  std::vector<std::tuple<uint64_t, size_t, std::string>> sorted;
  for (const auto& [place, held] : by_place) {
    sorted.emplace_back(held.first, held.second, place);
  }
  std::sort(sorted.rbegin(), sorted.rend());
  std::vector<std::string> lines;
  for (const auto& [bytes, count, place] : sorted) {
    if (lines.size() < most) {
      constexpr size_t kBar = 20;
      const double share = all == 0 ? 0 : static_cast<double>(bytes) / static_cast<double>(all);
      const auto filled = static_cast<size_t>(share * kBar + 0.5);
      lines.push_back(fmt::format("{:>9}  {:>3.0f} %  {:<{}}  {:>5} x  {}", bytes_text(bytes),
                                  100 * share, std::string(filled, '#'), kBar, count, place));
    }
  }
  return lines.empty() ? std::vector<std::string>{"it holds no device memory that was recorded"}
                       : lines;
}

namespace {

// What is urgent first: a rank that is gone, then those that stand still.
int urgency(const RankView& rank) {
  switch (rank.state) {
    case LiveState::kEnded:
      return rank.doing == "exited with status 0" ? 6 : 0;
    case LiveState::kStopped:
      return 1;
    case LiveState::kSilent:
      return 2;
    case LiveState::kOnHost:
      return 3;
    case LiveState::kBlocked:
      return 4;
    case LiveState::kMoving:
      return 5;
  }
  return 5;
}

int64_t weight(const RankView& rank, TopOrder order) {
  switch (order) {
    case TopOrder::kRank:
      return 0;
    case TopOrder::kLag:
      return rank.lag_ns.value_or(0);
    case TopOrder::kMemory:
      return static_cast<int64_t>(std::max(rank.allocated, rank.reserved));
    case TopOrder::kGrowth:
      return rank.growth;
  }
  return 0;
}

}  // namespace

void fold_ranks(JobView& view, TopOrder order) {
  using Key = std::tuple<LiveState, std::string, std::string, std::string, uint64_t, size_t>;
  std::map<Key, RowView> rows;
  for (size_t i = 0; i < view.ranks.size(); ++i) {
    const RankView& rank = view.ranks[i];
    const bool moves = rank.state == LiveState::kMoving;
    const bool alone = rank.is_slow;
    RowView& row = rows[moves || rank.state == LiveState::kEnded
                            ? Key{rank.state, moves ? "" : rank.doing, "", "", 0, alone ? i + 1 : 0}
                            : Key{rank.state, rank.doing, rank.communicator, rank.collective,
                                  rank.sequence, 0}];
    row.members.push_back(i);
    for (const Rank one : rank.ranks) {
      row.ranks.push_back(one);
    }
  }
  const auto before = [&](size_t a, size_t b) {
    const int64_t first = weight(view.ranks[a], order);
    const int64_t second = weight(view.ranks[b], order);
    return first != second ? first > second : view.ranks[a].ranks < view.ranks[b].ranks;
  };
  view.rows.clear();
  for (auto& [key, row] : rows) {
    std::sort(row.members.begin(), row.members.end(), before);
    std::sort(row.ranks.begin(), row.ranks.end());
    view.rows.push_back(std::move(row));
  }
  std::sort(view.rows.begin(), view.rows.end(), [&](const RowView& a, const RowView& b) {
    const RankView& first = view.ranks[a.members.front()];
    const RankView& second = view.ranks[b.members.front()];
    // Of those that stand still the odd ones out come first.
    const auto key = [&](const RankView& rank, const RowView& row) {
      const int64_t within = rank.state == LiveState::kMoving || order != TopOrder::kLag
                                 ? -weight(rank, order)
                                 : static_cast<int64_t>(row.ranks.size());
      return order == TopOrder::kRank ? std::tuple(0, 0, int64_t{0})
                                      : std::tuple(urgency(rank), rank.is_slow ? 0 : 1, within);
    };
    return key(first, a) != key(second, b) ? key(first, a) < key(second, b)
                                           : first.ranks < second.ranks;
  });
}

}  // namespace traintrace
