#include "analyzer/model/older_operations.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

#include "analyzer/model/event_operations.h"
#include "analyzer/model/process/activity.h"
#include "analyzer/model/process/ending.h"
#include "analyzer/model/progress.h"
#include "analyzer/model/waiting/stream_order.h"

namespace traintrace {
namespace {

constexpr size_t kMostOlder = 1 << 14;     // of a communicator: 1.6 MB
constexpr size_t kMostProcesses = 128;     // each takes the events of a process
constexpr uint32_t kOwnGroups = 1U << 31;  // numbers of groups that no table has

// Where nobody has ever looked what is over, nothing says how far back to go.
bool lacks_oldest(const Run& run, const Member& member) {
  const std::vector<OperationText>& recent = text_of(run, member).recent;
  if (recent.empty() || recent.front().index == 0 ||
      recent.front().position == format::kNeverReached ||
      pending(run, member, &recent.front()) == nullptr) {
    return false;
  }
  const std::vector<StreamText>& streams = run.processes[member.process].streams;
  return recent.front().stream <= streams.size() &&
         streams[recent.front().stream - 1].completed != 0;
}

// By process the indices of its communicators.
std::map<size_t, std::set<size_t>> those_that_lack(const Run& run) {
  std::map<size_t, std::set<size_t>> found;
  for (const Communicator& communicator : run.communicators) {
    for (const Member& member : communicator.members) {
      if (communicator.size != 1 && !exited_normally(run, *state_of(run, member.rank)) &&
          lacks_oldest(run, member)) {
        found[member.process].insert(member.element);
      }
    }
  }
  return found;
}

struct Issued {
  EventOperation event;
  uint64_t handle = 0;  // of the stream
  int device = -1;
  uint32_t group = 0;  // 0: none
};

// What was put on one stream: an operation, or a wait for an event.
struct PutThere {
  TimeNs enter = 0;
  size_t operation = 0;  // index in what was issued; kWait: none
};
constexpr size_t kWait = ~size_t{0};

// The calls of one process, by the time of their entry.
class Calls {
 public:
  explicit Calls(const ProcessTrace& trace) {
    std::vector<const CallRecord*> calls;
    for (const CallRecord& event : trace.events) {
      if (!event.moment && !event.enter_lost && schema_of(trace, event.call) != nullptr) {
        calls.push_back(&event);
      }
    }
    std::stable_sort(calls.begin(), calls.end(),
                     [](const CallRecord* a, const CallRecord* b) { return a->enter < b->enter; });
    for (const CallRecord* const call : calls) {
      add(trace, *call);
    }
  }

  const std::vector<Issued>& issued() const { return issued_; }
  bool tells_groups() const { return tells_groups_; }

  // Default streams have the same handle on each device.
  std::vector<PutThere> on(const StreamText& stream) const {
    std::vector<PutThere> found;
    for (const auto& [key, one] : put_) {
      constexpr uint64_t kDefault = 2;
      if (key.first == stream.handle && (key.first > kDefault || key.second == stream.device)) {
        found.insert(found.end(), one.begin(), one.end());
      }
    }
    std::stable_sort(found.begin(), found.end(),
                     [](const PutThere& a, const PutThere& b) { return a.enter < b.enter; });
    return found;
  }

 private:
  struct Bracket {
    int depth = 0;
    uint32_t group = 0;
  };

  void add(const ProcessTrace& trace, const CallRecord& call) {
    const CallSchema& schema = *schema_of(trace, call.call);
    const bool failed = call.returned && call.result != 0;
    Bracket& bracket = brackets_[call.thread];
    if (schema.kind == "group-start" && !failed) {
      tells_groups_ = true;
      bracket.group = ++bracket.depth == 1 ? kOwnGroups | ++groups_ : bracket.group;
    } else if (schema.kind == "group-end") {
      bracket.depth -= bracket.depth > 0 ? 1 : 0;
    }
    const auto handle = value_of(trace, call, "stream");
    const int device = call.device == format::kNoDevice ? -1 : call.device;
    if (failed || !handle) {
      return;
    }
    if (const auto event = operation_in(trace, call)) {
      put_[{*handle, device}].push_back({call.enter, issued_.size()});
      issued_.push_back({*event, *handle, device, bracket.depth > 0 ? bracket.group : 0});
    } else if (schema.kind == "wait") {
      put_[{*handle, device}].push_back({call.enter, kWait});
    }
  }

  std::vector<Issued> issued_;
  std::map<std::pair<uint64_t, int>, std::vector<PutThere>> put_;
  std::map<uint32_t, Bracket> brackets_;  // by thread
  uint32_t groups_ = 0;
  bool tells_groups_ = false;
};

// Where on its stream an operation lies.
struct Position {
  uint64_t least = 0, most = 0;
};

// Of one process.
class OlderOperations {
 public:
  OlderOperations(const ProcessTrace& trace, ProcessTrace& tables)
      : calls_(trace), tables_(tables), positions_(calls_.issued().size()) {
    std::map<uint32_t, Kept> kept;
    for (const CommunicatorText& communicator : tables.communicators) {
      for (const OperationText& operation : communicator.recent) {
        if (operation.stream != 0 && operation.position != 0 &&
            operation.position != format::kNeverReached) {
          kept[operation.stream].emplace(operation.position, operation.enter);
        }
      }
    }
    for (const auto& [stream, own] : kept) {
      place(tables.streams[stream - 1], own);
    }
  }

  bool add(size_t element) {
    std::vector<OperationText>& recent = tables_.communicators[element].recent;
    const std::vector<Issued>& issued = calls_.issued();
    auto at = std::find_if(issued.rbegin(), issued.rend(), [&](const Issued& one) {
      return is_same(one, element, recent.front());
    });
    if (at == issued.rend()) {
      return false;
    }
    const uint32_t front_group = at->group;
    std::vector<OperationText> older;  // newest first
    std::map<uint64_t, uint64_t> expected = numbers_of(recent);
    uint64_t index = recent.front().index;
    // Of those that are over as many as a table has: their peers may stand there.
    size_t over = 0;
    for (++at; at != issued.rend() && index != 0 && over < format::kRecentOperations &&
               older.size() < kMostOlder;
         ++at) {
      if (at->event.communicator != element) {
        continue;
      }
      const auto number = static_cast<size_t>(std::distance(at, issued.rend())) - 1;
      OperationText own = at->event.operation;
      if (own.sequence == 0 || !positions_[number] || !continues(own, expected)) {
        break;
      }
      const uint64_t completed = tables_.streams[recent.front().stream - 1].completed;
      const bool is_over = completed >= positions_[number]->most;
      if (!is_over && completed >= positions_[number]->least) {
        break;
      }
      over += is_over ? 1 : 0;
      own.index = --index;
      own.flags = static_cast<uint8_t>(format::kLaunched | (is_over ? format::kFinished : 0) |
                                       (own.count == 0 ? format::kEmpty : 0));
      own.stream = recent.front().stream;
      own.position = positions_[number]->least;
      own.group = at->group == front_group && at->group != 0 ? recent.front().group : at->group;
      older.push_back(own);
    }
    set_groups(recent, older);
    recent.insert(recent.begin(), older.rbegin(), older.rend());
    return !older.empty();
  }

 private:
  using Kept = std::map<uint64_t, TimeNs>;  // entry by position

  static bool is_same(const Issued& one, size_t element, const OperationText& kept) {
    const OperationText& own = one.event.operation;
    return one.event.communicator == element && own.collective == kept.collective &&
           own.receive == kept.receive && own.sequence == kept.sequence &&
           (own.collective || own.peer == kept.peer);
  }

  // Collectives, and messages to and from each peer, are counted apart.
  static uint64_t counter_of(const OperationText& operation) {
    return operation.collective
               ? 0
               : (uint64_t{1} << 40 | static_cast<uint64_t>(operation.receive) << 33 |
                  static_cast<uint32_t>(operation.peer));
  }

  // The number of the oldest of each that is kept.
  static std::map<uint64_t, uint64_t> numbers_of(const std::vector<OperationText>& recent) {
    std::map<uint64_t, uint64_t> numbers;
    for (const OperationText& operation : recent) {
      if (operation.sequence != 0) {
        numbers.emplace(counter_of(operation), operation.sequence);
      }
    }
    return numbers;
  }

  // Nothing is missing between it and what came after it.
  static bool continues(const OperationText& own, std::map<uint64_t, uint64_t>& expected) {
    const auto [next, is_new] = expected.emplace(counter_of(own), own.sequence);
    const bool follows = is_new || next->second == own.sequence + 1;
    next->second = own.sequence;
    return follows;
  }

  // Whether a wait for an event counts on a stream depends on what lies before the event
  // (format::Stream): those that lie between operations that are kept show whether they do.
  static std::optional<bool> counts_waits(const std::vector<PutThere>& put, const Kept& kept) {
    bool may_count = true;
    bool may_not_count = true;
    bool any = false;
    for (auto one = kept.begin(); std::next(one) != kept.end(); ++one) {
      const auto next = std::next(one);
      uint64_t operations = 0;
      uint64_t waits = 0;
      for (const PutThere& there : put) {
        if (there.enter > one->second && there.enter <= next->second) {
          ++(there.operation == kWait ? waits : operations);
        }
      }
      const uint64_t further = next->first - one->first;
      any = any || waits != 0;
      may_count = may_count && further == operations + waits;
      may_not_count = may_not_count && further == operations;
    }
    return !any || may_count == may_not_count ? std::nullopt : std::optional(may_count);
  }

  void place(const StreamText& stream, const Kept& kept) {
    const std::vector<PutThere> put = calls_.on(stream);
    const std::optional<bool> counted = counts_waits(put, kept);
    Position at{kept.begin()->first, kept.begin()->first};
    for (auto there = put.rbegin(); there != put.rend(); ++there) {
      if (there->enter >= kept.begin()->second) {
        continue;
      }
      const bool is_wait = there->operation == kWait;
      at.least -= std::min<uint64_t>(at.least, !is_wait || counted.value_or(true) ? 1 : 0);
      at.most -= std::min<uint64_t>(at.most, !is_wait || counted.value_or(false) ? 1 : 0);
      if (!is_wait) {
        positions_[there->operation] = at;
      }
    }
  }

  // Where nothing says which calls were one group: neighbours, as long as no peer occurs twice.
  void set_groups(const std::vector<OperationText>& recent,
                  std::vector<OperationText>& older) const {
    const OperationText& front = recent.front();
    const bool by_neighbours = !calls_.tells_groups() && (front.flags & format::kGrouped) != 0;
    std::set<std::pair<bool, int>> peers;
    for (const OperationText& operation : recent) {
      if (!operation.collective && operation.group == front.group) {
        peers.insert({operation.receive, operation.peer});
      }
    }
    uint32_t group = front.group;
    uint32_t groups = 0;
    for (OperationText& operation : older) {
      const std::pair peer(operation.receive, operation.peer);
      if (operation.collective || peers.contains(peer)) {
        peers.clear();
        group = kOwnGroups | ++groups;
      }
      if (by_neighbours && !operation.collective) {
        peers.insert(peer);
        operation.group = group;
      }
      operation.flags |= operation.group != 0 ? format::kGrouped : 0;
    }
  }

  const Calls calls_;
  ProcessTrace& tables_;
  std::vector<std::optional<Position>> positions_;  // of what was issued
};

}  // namespace

bool add_older_operations(Run& run, const ReadEvents& read_events) {
  const std::map<size_t, std::set<size_t>> wanted = those_that_lack(run);
  bool any = false;
  if (wanted.size() > kMostProcesses) {
    return false;
  }
  for (const auto& [process, elements] : wanted) {
    const ProcessTrace* const trace =
        read_events ? read_events(run.processes[process]) : &run.processes[process];
    if (trace == nullptr) {
      continue;
    }
    OlderOperations older(*trace, run.processes[process]);
    for (const size_t element : elements) {
      any = older.add(element) || any;
    }
  }
  return any;
}

WithoutOlderOperations::WithoutOlderOperations(Run& run) : run_(run) {
  for (size_t process = 0; process < run.processes.size(); ++process) {
    ProcessTrace& trace = run.processes[process];
    for (size_t element = 0; element < trace.communicators.size(); ++element) {
      std::vector<OperationText>& recent = trace.communicators[element].recent;
      if (recent.size() > format::kRecentOperations) {
        const auto kept = recent.end() - format::kRecentOperations;
        all_.push_back({process, element, {recent.begin(), kept}});
        recent.erase(recent.begin(), kept);
      }
    }
  }
}

WithoutOlderOperations::~WithoutOlderOperations() {
  for (const Older& older : all_) {
    std::vector<OperationText>& recent =
        run_.processes[older.process].communicators[older.element].recent;
    recent.insert(recent.begin(), older.operations.begin(), older.operations.end());
  }
}

}  // namespace traintrace
