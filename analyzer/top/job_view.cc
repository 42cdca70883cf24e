#include "analyzer/top/job_view.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <set>
#include <tuple>
#include <unordered_map>

#include "analyzer/memory/blocks.h"
#include "analyzer/model/process/code_place.h"
#include "analyzer/model/runs/rank_assignment.h"
#include "analyzer/model/runs/split_runs.h"
#include "analyzer/reader/files/trace_memory.h"
#include "analyzer/text/units.h"
#include "analyzer/timeline/median.h"
#include "analyzer/top/followed_process.h"
#include "analyzer/top/lags.h"

namespace traintrace {
namespace {

constexpr size_t kMostStepsKept = 32;
// Of a process, those used last: their operations are read.
constexpr size_t kMostCommunicators = 8;

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

// They are there, and none is called a trace.
bool are_of_other_tools(const std::vector<std::string>& inputs) {
  return !inputs.empty() && files_of(inputs).empty() &&
         std::all_of(inputs.begin(), inputs.end(), [](const std::string& input) {
           std::error_code none;
           return std::filesystem::exists(input, none) && !input.ends_with(".trace");
         });
}

using Places = std::unordered_map<uint32_t, std::optional<std::string>>;

// Where its threads are, or were last.
Places places_of_threads(const ProcessTrace& trace) {
  Places places;
  for (const ThreadText& thread : trace.threads) {
    for (const uint32_t stack : {thread.open[0].stack, thread.open[1].stack, thread.last_stack}) {
      const auto place = user_place(trace, {}, stack);
      places[stack] = place ? std::optional(place_text(*place)) : std::nullopt;
    }
  }
  return places;
}

// What says neither whose run it is of nor which of its ranks; of a thousand processes that is
// nearly all.
void drop_what_is_looked_up(ProcessTrace& trace) {
  trace.calls = {};
  trace.modules = {};
  trace.stacks.clear();
  trace.code.clear();
  trace.kernels.clear();
  trace.ranges.clear();
  trace.streams = {};
  trace.host_functions = {};
  trace.peers = {};
  trace.allocations = {};
  trace.tensor_blocks = {};
  trace.out_of_memory = {};
  for (CommunicatorText& communicator : trace.communicators) {
    communicator.recent = {};
    communicator.checkpoints = {};
  }
}

ReadError nothing_to_follow(const std::vector<std::string>& inputs) {
  ReadError error;
  error.file = inputs.empty() ? "traintrace" : inputs.front();
  error.message =
      "no trace of a recorded job, which is what top shows; for profiles, dumps and imported "
      "files: traintrace analyze " +
      error.file;
  return error;
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

LiveJob::LiveJob() = default;
LiveJob::LiveJob(LiveJob&&) noexcept = default;
LiveJob::~LiveJob() = default;

Result<LiveJob> LiveJob::open(const std::vector<std::string>& inputs, TimeNs blocked_after) {
  LiveJob job;
  job.inputs_ = inputs;
  job.blocked_after_ = blocked_after;
  job.files_ = files_of(inputs.empty() ? std::vector<std::string>{"traintrace"} : inputs);
  std::map<std::string, Places> places;  // by trace
  const auto take_places = [&](ProcessTrace& trace) {
    places[trace.source] = places_of_threads(trace);
    drop_what_is_looked_up(trace);
  };
  TraceSet set = read_traces(inputs, {.events = false, .lean = true, .as_read = take_places});
  if (set.processes.empty() && are_of_other_tools(inputs)) {
    return nothing_to_follow(inputs);
  }
  if (set.processes.empty()) {
    ReadError none;
    none.message = "no traces to look at";
    return set.errors.empty() ? none : set.errors.front();
  }
  std::copy_if(set.errors.begin(), set.errors.end(), std::back_inserter(job.unreadable_),
               [](const ReadError& error) { return !error.not_begun; });
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
      job.unreadable_.push_back(process.error());
      continue;
    }
    auto followed = std::make_unique<FollowedProcess>(std::move(*process));
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
    followed->places = std::move(places[trace.source]);
    job.processes_.push_back(std::move(followed));
  }
  if (job.processes_.empty()) {
    return nothing_to_follow(inputs);
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

void LiveJob::note_behind(std::vector<RankView>& views) const {
  std::unordered_map<uint64_t, uint64_t> furthest;  // by communicator
  for (const auto& followed : processes_) {
    if (followed->main != nullptr) {
      uint64_t& most = furthest[followed->main->id];
      most = std::max(most, followed->main->collectives);
    }
  }
  for (size_t i = 0; i < views.size(); ++i) {
    if (const LiveCommunicator* const own = processes_[i]->main; own != nullptr) {
      views[i].behind = furthest[own->id] - own->collectives;
    }
  }
}

void LiveJob::note_lags(std::vector<RankView>& views) {
  std::vector<Entries> entries(views.size());
  std::unordered_map<uint64_t, std::vector<size_t>> members;  // of a communicator, in `views`
  for (size_t i = 0; i < views.size(); ++i) {
    if (processes_[i]->main == nullptr || views[i].state == LiveState::kEnded ||
        views[i].state == LiveState::kSilent) {
      continue;
    }
    entries[i] = entries_of(processes_[i]->operations);
    if (!entries[i].empty()) {
      members[processes_[i]->main->id].push_back(i);
    }
  }
  note_behind(views);
  for (const auto& [id, places] : members) {
    std::vector<const Entries*> compared;
    compared.reserve(places.size());
    for (const size_t i : places) {
      compared.push_back(&entries[i]);
    }
    const std::vector<Lag> lags = lags_of(compared);
    for (size_t j = 0; j < lags.size(); ++j) {
      RankView& view = views[places[j]];
      view.lag_ns = lags[j].ns;
      view.last_count = lags[j].last;
      view.of_count = lags[j].of;
      view.is_slow = view.state == LiveState::kMoving && lags[j].is_exceptional;
    }
  }
}

static std::vector<size_t> furthest_behind(const std::vector<RankView>& ranks) {
  uint64_t most = 1;
  std::vector<size_t> found;
  for (size_t i = 0; i < ranks.size(); ++i) {
    const uint64_t behind = ranks[i].state == LiveState::kMoving ? 0 : ranks[i].behind.value_or(0);
    if (behind < most) {
      continue;
    }
    if (behind > most) {
      found.clear();
      most = behind;
    }
    found.push_back(i);
  }
  return found;
}

JobView LiveJob::look(TopOrder order) {
  JobView view;
  view.run = run_;
  view.started = started_;
  view.world_size = world_size_;
  view.unreadable = unreadable_;
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
  view.median_step_ns = steps.empty() ? 0 : upper_median(std::move(steps));
  view.hosts.assign(hosts.begin(), hosts.end());
  note_lags(view.ranks);
  for (size_t i = 0; i < view.ranks.size(); ++i) {
    if (view.ranks[i].is_slow &&
        (!view.slowest || view.ranks[i].lag_ns > view.ranks[*view.slowest].lag_ns)) {
      view.slowest = i;
    }
  }
  view.furthest_behind = furthest_behind(view.ranks);
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
  sorted.reserve(by_place.size());
  for (const auto& [place, held] : by_place) {
    sorted.emplace_back(held.first, held.second, place);
  }
  std::sort(sorted.rbegin(), sorted.rend());
  std::vector<std::string> lines;
  for (const auto& [bytes, count, place] : sorted) {
    if (lines.size() < most) {
      constexpr size_t kBar = 20;
      const double share = all == 0 ? 0 : static_cast<double>(bytes) / static_cast<double>(all);
      const auto filled = static_cast<size_t>(std::lround(share * kBar));
      lines.push_back(fmt::format("{:>9}  {:>3.0f} %  {:<{}}  {:>5} x  {}", bytes_text(bytes),
                                  100 * share, std::string(filled, '#'), kBar, count, place));
    }
  }
  return lines.empty() ? std::vector<std::string>{"it holds no device memory that was recorded"}
                       : lines;
}

}  // namespace traintrace
