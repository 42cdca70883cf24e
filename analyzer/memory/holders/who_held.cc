#include "analyzer/memory/holders/who_held.h"

#include <fmt/format.h>

#include <algorithm>

#include "analyzer/memory/allocator/shortage.h"
#include "analyzer/memory/holders/device_users.h"
#include "analyzer/memory/holders/holders.h"
#include "analyzer/model/process/activity.h"
#include "analyzer/reader/sections/stored_reports.h"

namespace traintrace {
namespace {

constexpr size_t kMostHolders = 6;
constexpr uint64_t kLittle = 200;  // one in so many of the device: such lines are told as one
constexpr size_t kMostOtherRanks = 4;

std::string name_of_owner(const MemoryHolder& holder) {
  switch (holder.owner) {
    case Owner::kNccl:
    case Owner::kCudaLibrary:
      return holder.library;
    case Owner::kTorch:
      return holder.role == MemoryRole::kWorkspace
                 ? "PyTorch"
                 : "PyTorch itself or a thread of autograd's, no line of the job";
    default:
      return "an unknown place";
  }
}

// Of the device, if its size is known; else of all that is held.
struct Whole {
  uint64_t bytes = 0;
  const char* name = "";
};

bool is_little(uint64_t bytes, const Whole& whole) {
  return whole.bytes != 0 && bytes < whole.bytes / kLittle;
}

// "320 bytes (8 % of the device)"; of little there is no share.
std::string size_text(uint64_t bytes, const Whole& whole) {
  return fmt::format(
      "{} bytes{}", bytes,
      whole.bytes == 0 || is_little(bytes, whole)
          ? ""
          : fmt::format(" ({:.0f} % of {})",
                        100.0 * static_cast<double>(bytes) / static_cast<double>(whole.bytes),
                        whole.name));
}

// Who holds how much, whatever it is.
struct HeldLine {
  uint64_t bytes = 0;
  std::string text;
};

// Those with most first; what is little is told as one.
std::vector<std::string> lines_by_size(std::vector<HeldLine> held, const Whole& whole) {
  std::stable_sort(held.begin(), held.end(),
                   [](const HeldLine& a, const HeldLine& b) { return a.bytes > b.bytes; });
  std::vector<std::string> lines;
  uint64_t rest = 0;
  for (const HeldLine& each : held) {
    if (lines.empty() || (lines.size() < kMostHolders && !is_little(each.bytes, whole))) {
      lines.push_back("held: " + each.text);
    } else {
      rest = sum_of(rest, each.bytes);
    }
  }
  const size_t others = held.size() - lines.size();
  if (others == 1) {
    lines.push_back("held: " + held.back().text);
  } else if (rest != 0) {
    lines.push_back(fmt::format("held: {} at {} more places", size_text(rest, whole), others));
  }
  return lines;
}

std::string holder_text(const MemoryHolder& holder, const Whole& whole, bool numbered) {
  std::string text = fmt::format("{} in {} block{}, {}", size_text(holder.bytes, whole),
                                 holder.blocks, holder.blocks == 1 ? "" : "s",
                                 holder.place.empty() ? name_of_owner(holder)
                                 : holder.place_is == PlaceIs::kBefore
                                     ? "autograd or PyTorch itself, after " + holder.place
                                     : holder.place);
  text += holder.caller.empty() ? "" : ", called from " + holder.caller;
  if (is_left_by_steps(holder)) {
    return fmt::format("{}: kept since they were made, in {} steps{}", text, holder.steps.size(),
                       numbered ? fmt::format(" from step {} on", *holder.steps.begin()) : "");
  }
  return holder.role == MemoryRole::kUnknown ? text : text + ": " + name_of(holder.role);
}

// "268435456 bytes (6 % of the device's 4294967296 bytes)"
std::string of_device(uint64_t bytes, uint64_t total) {
  return fmt::format("{} bytes ({:.0f} % of the device's {} bytes)", bytes,
                     100.0 * static_cast<double>(bytes) / static_cast<double>(total), total);
}

std::string lack_text(uint64_t wanted, uint64_t room) {
  return fmt::format(", {} bytes less than the {} bytes asked for", wanted - room, wanted);
}

// Of the segment that PyTorch asked for, as of what its own message tells.
std::string free_text(const Shortage& shortage) {
  const uint64_t free = *shortage.free;
  const uint64_t wanted = std::max(shortage.segment, shortage.failure->bytes);
  const std::string lack = shortage.kind == ShortageKind::kLimit
                               ? ", but the job's own limit was reached"
                           : free >= wanted ? ", but in no piece as large as the request"
                           : shortage.kind == ShortageKind::kFragmentation
                               ? ""  // with the allocator's pieces there was enough
                               : lack_text(wanted, free);
  return fmt::format("free: {}{}", of_device(free, *shortage.total), lack);
}

// Where nobody asked what was free, no more was than what this process did not hold.
std::string room_text(const Shortage& shortage, const Whole& whole) {
  const uint64_t room = room_alone(shortage);
  const uint64_t wanted = std::max(shortage.segment, shortage.failure->bytes);
  return room >= wanted || shortage.in_driver_pool || shortage.kind == ShortageKind::kFragmentation
             ? ""
             : fmt::format("free: {}, if no other process uses the device{}",
                           of_device(room, whole.bytes), lack_text(wanted, room));
}

// Of a line of the job alone.
std::string place_of_holder(const MemoryHolder& holder) {
  return holder.place.empty() || holder.place_is == PlaceIs::kBefore ? ""
         : holder.caller.empty()                                     ? holder.place
                                 : holder.place + ", called from " + holder.caller;
}

// Of what others hold: each of them, as far as it is known, and then the rest.
void add_neighbours(const DeviceUsers& users, const Shortage& shortage, const Whole& whole,
                    std::vector<HeldLine>& by_whom) {
  uint64_t rest = shortage.others.value_or(0);
  bool named = false;
  for (const DeviceUser& user : users.others) {
    if (users.names_own && user.bytes) {
      by_whom.push_back(
          {*user.bytes, fmt::format("{} by {}", size_text(*user.bytes, whole), user_text(user))});
      rest -= std::min(rest, *user.bytes);
      named = true;
    }
  }
  if (rest != 0) {
    by_whom.push_back(
        {rest, fmt::format("{} by {}{}CUDA contexts", size_text(rest, whole),
                           named ? "" : "other processes",
                           shortage.in_driver_pool
                               ? ", the driver's memory pool, which keeps what is freed, and "
                           : named ? ""
                                   : " and ")});
  }
}

// By numbers of which none is that of the process itself.
void add_unplaced(const DeviceUsers& users, std::vector<std::string>& lines) {
  if (users.names_own || users.others.empty()) {
    return;
  }
  constexpr size_t kMost = 4;
  std::string text;
  for (size_t i = 0; i < users.others.size() && i < kMost; ++i) {
    const DeviceUser& user = users.others[i];
    text += fmt::format("{}{} ({})", i == 0 ? "" : ", ", user.pid,
                        user.bytes ? fmt::format("{} bytes", *user.bytes) : "size not told");
  }
  lines.push_back(
      fmt::format("NVML listed these PIDs on the device: {}; this process's own is not among them, "
                  "so they are the host's, and one of them is this process",
                  text));
}

struct RankBytes {
  Rank rank;
  uint64_t allocated = 0, reserved = 0;
};

// Most that each of the others had in use.
std::vector<RankBytes> others(const Run& run, Rank rank) {
  std::vector<RankBytes> all;
  for (const RankState& state : run.ranks) {
    for (const TensorDeviceText& device : trace_of(run, state).tensor_devices) {
      if (state.rank != rank && (state.device < 0 || state.device == device.device)) {
        all.push_back({state.rank, device.peak_allocated, device.peak_reserved});
        break;
      }
    }
  }
  std::stable_sort(all.begin(), all.end(), [](const RankBytes& a, const RankBytes& b) {
    return a.allocated > b.allocated;
  });
  return all;
}

void add_others(const Run& run, Rank rank, const OutOfMemoryText& failure,
                std::vector<std::string>& lines) {
  const std::vector<RankBytes> all = others(run, rank);
  if (all.empty() || failure.reserved == 0) {
    return;
  }
  lines.push_back(fmt::format("rank {} had {} bytes in use then, of {} bytes held", rank.value,
                              failure.allocated, failure.reserved));
  if (all.size() > kMostOtherRanks) {
    lines.push_back(fmt::format(
        "{} others had at most {} bytes to {} bytes in use, half of them {} bytes or more",
        all.size(), all.back().allocated, all.front().allocated, all[all.size() / 2].allocated));
    return;
  }
  for (const RankBytes& other : all) {
    lines.push_back(fmt::format("rank {} had at most {} bytes in use, of {} bytes held",
                                other.rank.value, other.allocated, other.reserved));
  }
}

}  // namespace

WhoHeld who_held(const Run& run, const RankState& state, const OutOfMemoryText& failure) {
  const ProcessTrace& trace = trace_of(run, state);
  WhoHeld who;
  if (failure.held.empty()) {
    return who;
  }
  const MemoryHistory history = has_events(trace) ? history_of(trace) : MemoryHistory();
  const std::vector<MemoryHolder> holders = holders_at(trace, history, failure);
  const Shortage shortage = shortage_of(trace, failure);
  uint64_t held = shortage.idle.value_or(0);
  for (const MemoryHolder& holder : holders) {
    held = sum_of(held, holder.bytes);
  }
  const Whole whole =
      shortage.total ? Whole{*shortage.total, "the device"} : Whole{held, "what is held"};
  constexpr size_t kOthers = 2;
  std::vector<HeldLine> by_whom;
  by_whom.reserve(holders.size() + kOthers);
  for (const MemoryHolder& holder : holders) {
    by_whom.push_back({holder.bytes, holder_text(holder, whole, history.whole)});
  }
  if (shortage.idle && *shortage.idle != 0) {
    by_whom.push_back(
        {*shortage.idle, size_text(*shortage.idle, whole) + " by PyTorch's allocator, not in use"});
  }
  const DeviceUsers users = device_users(run, state, failure);
  add_neighbours(users, shortage, whole, by_whom);
  who.most = holders.empty() ? "" : place_of_holder(holders.front());
  who.most_bytes = holders.empty() ? 0 : holders.front().bytes;
  who.lines = lines_by_size(std::move(by_whom), whole);
  if (shortage.total && shortage.free) {
    who.lines.push_back(free_text(shortage));
  } else if (const std::string room = shortage.total ? room_text(shortage, whole) : "";
             !room.empty()) {
    who.lines.push_back(room);
  }
  add_unplaced(users, who.lines);
  add_others(run, state.rank, failure, who.lines);
  return who;
}

std::optional<FailurePlace> place_of_failure(const ProcessTrace& trace, Rank rank,
                                             const OutOfMemoryText& failure) {
  constexpr int kMostEvents = 4096;
  if (const auto place = user_place(trace, rank, failure.stack)) {
    return FailurePlace{*place, false};
  }
  auto event =
      std::upper_bound(trace.events.begin(), trace.events.end(), failure.time,
                       [](TimeNs time, const CallRecord& each) { return time < each.enter; });
  for (int i = 0; i < kMostEvents && event != trace.events.begin(); ++i) {
    --event;
    const auto place = event->stack == 0 ? std::nullopt : user_place(trace, rank, event->stack);
    if (place) {
      return FailurePlace{*place, true};
    }
  }
  return std::nullopt;
}

}  // namespace traintrace
