// Communicators, streams, events, graphs and pools that are created with every step and not
// destroyed.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "analyzer/detectors/memory/detectors.h"
#include "analyzer/detectors/memory/memory_finding.h"
#include "analyzer/memory/growth/growth.h"
#include "analyzer/model/process/activity.h"

namespace traintrace {
namespace {

bool creates_stream(const ProcessTrace& trace, uint32_t call) {
  return call_name(trace, call).find("StreamCreate") != std::string::npos;
}

std::vector<HandleGroup> list_of(std::map<uint32_t, HandleGroup>&& groups) {
  std::vector<HandleGroup> list;
  for (auto& [stack, group] : groups) {
    std::sort(group.births.begin(), group.births.end());
    list.push_back(std::move(group));
  }
  return list;
}

// The table of streams says more than the records: it forgets none.
std::vector<HandleGroup> streams_of(const ProcessTrace& trace) {
  std::map<uint32_t, HandleGroup> groups;
  for (const StreamText& stream : trace.streams) {
    if ((stream.flags & (format::kImplicit | format::kStreamDestroyed)) == 0 &&
        stream.created != 0) {
      groups[stream.stack].stack = stream.stack;
      groups[stream.stack].births.push_back(stream.created);
    }
  }
  return list_of(std::move(groups));
}

// By the call that made them; the table forgets none.  What was there after the last step was kept:
// PyTorch aborts all that are left at its exit.
std::vector<HandleGroup> communicators_of(const ProcessTrace& trace, const Steps& steps) {
  std::map<uint32_t, HandleGroup> groups;
  for (const CommunicatorText& communicator : trace.communicators) {
    if (communicator.origin != format::kUnknownOrigin &&
        (communicator.ended == 0 || communicator.ended > steps.last()) &&
        (communicator.flags & format::kInitDone) != 0 && communicator.created_stack != 0 &&
        (communicator.flags & format::kNoColor) == 0) {
      groups[communicator.created_stack].stack = communicator.created_stack;
      groups[communicator.created_stack].births.push_back(communicator.created);
    }
  }
  return list_of(std::move(groups));
}

// The caching allocators of the GPU and of pinned memory.  What a job makes in Python comes from
// libtorch_python.
bool is_in_allocator(const ProcessTrace& trace, uint64_t address) {
  return std::any_of(trace.modules.begin(), trace.modules.end(), [&](const ModuleText& module) {
    return address >= module.begin && address < module.end &&
           (module.path.find("/libc10_cuda.so") != std::string::npos ||
            module.path.find("/libtorch_cuda.so") != std::string::npos);
  });
}

// PyTorch's own events: those of the works that c10d returns, and those of the caching allocators,
// which keep them to use them again: as many as the host runs ahead of the GPU.
bool is_of_pytorch(const ProcessTrace& trace, const HandleGroup& group) {
  const auto found = trace.stacks.find(group.stack);
  if (found == trace.stacks.end() || !call_name(trace, group.call).starts_with("cudaEventCreate")) {
    return false;
  }
  const StackText& stack = found->second;
  return (!stack.python.empty() &&
          stack.python.front().file.find("torch/distributed/") != std::string::npos) ||
         (!stack.native.empty() && is_in_allocator(trace, stack.native.front()));
}

bool grows(const ProcessTrace& trace, const MemoryHistory& history, const HandleGroup& group) {
  std::vector<Births> births;
  for (const TimeNs birth : group.births) {
    births.push_back({history.step_at(birth)});
  }
  return grows_throughout(births, first_step(trace, history),
                          static_cast<int64_t>(history.steps.starts.size()), BeginsWhen::kEarly);
}

const char* objects_made_by(std::string_view call) {
  constexpr std::pair<std::string_view, const char*> kObjects[] = {
      {"Event", "events"}, {"Graph", "graphs"}, {"Pool", "memory pools"}, {"Stream", "streams"}};
  for (const auto& [part, objects] : kObjects) {
    if (call.find(part) != call.npos) {
      return objects;
    }
  }
  return "objects";
}

class HandleLeaks {
 public:
  explicit HandleLeaks(const Run& run) : run_(run) {}
  std::vector<MemorySite> sites;
  std::set<std::string_view> objects;  // of all sites

  void look_at(size_t process, const MemoryHistory& history) {
    const ProcessTrace& trace = run_.processes[process];
    for (const HandleGroup& group : streams_of(trace)) {
      add(process, history, group, "streams");
    }
    for (const HandleGroup& group : communicators_of(trace, history.steps)) {
      add(process, history, group, "communicators");
    }
    for (const HandleGroup& group : history.handles) {
      if (!creates_stream(trace, group.call)) {
        add(process, history, group, objects_made_by(call_name(trace, group.call)));
      }
    }
  }

 private:
  void add(size_t process, const MemoryHistory& history, const HandleGroup& group,
           const char* what) {
    const ProcessTrace& trace = run_.processes[process];
    const Rank rank = rank_on(run_, process, -1);
    const Owner owner = owner_of(trace, group.stack);
    const bool counts = !is_library(owner) && !is_of_pytorch(trace, group) &&
                        user_place(trace, rank, group.stack).has_value();
    if (!counts || rank.value < 0 || !grows(trace, history, group)) {
      return;
    }
    MemorySite site;
    site.rank = rank;
    site.process = process;
    site.stack = group.stack;
    site.count = group.births.size();
    site.text = fmt::format("{} {} that no step destroyed", site.count, what);
    sites.push_back(site);
    objects.insert(what);
  }
  const Run& run_;
};

// Of a large run the records of a few processes are read.
void say_how_many_were_read(const RunMemory& memory, Finding& finding) {
  const auto read =
      std::count_if(memory.processes.begin(), memory.processes.end(),
                    [](const ProcessMemory& each) { return each.history.has_value(); });
  const size_t all = memory.processes.size();
  if (static_cast<size_t>(read) < all) {
    finding.evidence.push_back(fmt::format(
        "the records of {} of {} processes were looked at: others may do the same", read, all));
  }
}

}  // namespace

std::vector<Finding> find_handle_leaks(const Run& run, const RunMemory& memory) {
  HandleLeaks leaks(run);
  for (size_t i = 0; i < memory.processes.size(); ++i) {
    if (memory.processes[i].history) {
      leaks.look_at(i, *memory.processes[i].history);
    }
  }
  if (leaks.sites.empty()) {
    return {};
  }
  Finding finding = memory_finding(run, "memory.handle-leak", leaks.sites);
  finding.certainty = Certainty::kLikely;
  const auto count = finding.values.back().second;
  const bool is_one = finding.culprits.size() == 1;
  finding.title = fmt::format(
      "{} {} {} with every step and {} not destroy them: {} so far{}", ranks_text(finding.culprits),
      is_one ? "creates" : "create", fmt::join(leaks.objects, " and "), is_one ? "does" : "do",
      count, finding.where.empty() ? "" : ", at " + place_text(finding.where.front()));
  finding.values = {{"handle_count", count}};
  say_how_many_were_read(memory, finding);
  finding.advice = "create them once and use them again, or destroy them at the end of the step";
  return {finding};
}

}  // namespace traintrace
