#include "analyzer/model/divergence/creations.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <tuple>

#include "analyzer/model/divergence/majority.h"
#include "analyzer/model/elapsed.h"

namespace traintrace {
namespace {

using Values = std::map<int, Ranks>;

constexpr int kInvalidUsage = 5;  // ncclInvalidUsage

std::string fact_of(const ProcessTrace& trace, const char* key) {
  const auto fact = trace.facts.find(key);
  return fact == trace.facts.end() ? "" : fact->second;
}

bool is_open(const CommunicatorText& text) {
  return text.ready == 0 && (text.flags & format::kInitDone) == 0 && text.ended == 0;
}

bool is_by_id(const Run& run, const Communicator& communicator) {
  return std::all_of(
      communicator.members.begin(), communicator.members.end(),
      [&](const Member& member) { return text_of(run, member).origin == format::kInitRank; });
}

// How its creation stands: who waits, for how long, and with what error it failed.
void describe(const Run& run, const Communicator& communicator, CreationMismatch& mismatch) {
  for (const Member& member : communicator.members) {
    const CommunicatorText& text = text_of(run, member);
    if (!is_open(text)) {
      continue;
    }
    if ((text.flags & format::kInitFailed) != 0) {
      mismatch.error = mismatch.error == 0 ? text.async_error : mismatch.error;
    } else {
      mismatch.waited =
          std::max(mismatch.waited, elapsed(text.created, state_of(run, member.rank)->last_seen));
    }
    if (!contains(mismatch.culprits, member.rank)) {
      insert(mismatch.waiting, member.rank);
    }
  }
}

bool matters(const Run& run, const CreationMismatch& mismatch) {
  return mismatch.error != 0 || mismatch.waited >= run.hang_after;
}

std::optional<CreationMismatch> other_size(const Run& run, size_t index) {
  const Communicator& communicator = run.communicators[index];
  Values sizes;
  for (const Member& member : communicator.members) {
    insert(sizes[text_of(run, member).size], member.rank);
  }
  if (sizes.size() < 2) {
    return std::nullopt;
  }
  CreationMismatch mismatch;
  mismatch.fault = CreationFault::kSize;
  mismatch.culprits = outvoted(sizes);
  for (const auto& [size, ranks] : sizes) {
    mismatch.sides.push_back({ranks, fmt::format("{} ranks", size)});
  }
  return mismatch;
}

// Of those who claim one rank: who is not that rank of the world.
std::optional<CreationMismatch> same_rank(const Run& run, size_t index) {
  const Communicator& communicator = run.communicators[index];
  Values claims;
  for (const Member& member : communicator.members) {
    insert(claims[text_of(run, member).rank], member.rank);
  }
  const auto taken = std::find_if(claims.begin(), claims.end(),
                                  [](const auto& claim) { return claim.second.size() > 1; });
  if (taken == claims.end()) {
    return std::nullopt;
  }
  CreationMismatch mismatch;
  mismatch.fault = CreationFault::kRank;
  const bool of_world = communicator.size == run.world_size;
  const bool one_is_right = contains(taken->second, {taken->first});
  for (const Rank rank : taken->second) {
    mismatch.sides.push_back({{rank}, fmt::format("rank {} of it", taken->first)});
    if (of_world && one_is_right && rank.value != taken->first) {
      insert(mismatch.culprits, rank);
    }
  }
  return mismatch;
}

using CreationPlace = std::tuple<std::string, std::string, int>;  // host, devices it sees, device

std::optional<CreationMismatch> same_device(const Run& run, size_t index) {
  const Communicator& communicator = run.communicators[index];
  std::map<CreationPlace, Ranks> places;
  for (const Member& member : communicator.members) {
    const CommunicatorText& text = text_of(run, member);
    const ProcessTrace& trace = run.processes[member.process];
    if (text.device >= 0 && (text.flags & format::kInitFailed) != 0 &&
        text.async_error == kInvalidUsage) {
      insert(places[{trace.host, fact_of(trace, "env.CUDA_VISIBLE_DEVICES"), text.device}],
             member.rank);
    }
  }
  const auto taken = std::find_if(places.begin(), places.end(),
                                  [](const auto& place) { return place.second.size() > 1; });
  if (taken == places.end()) {
    return std::nullopt;
  }
  CreationMismatch mismatch;
  mismatch.fault = CreationFault::kDevice;
  const int device = std::get<int>(taken->first);
  for (const Rank rank : taken->second) {
    mismatch.sides.push_back({{rank}, fmt::format("device {}", device)});
    const std::string own = fact_of(trace_of(run, *state_of(run, rank)), "env.LOCAL_RANK");
    if (!own.empty() && own != std::to_string(device)) {
      insert(mismatch.culprits, rank);
    }
  }
  if (mismatch.culprits.size() == taken->second.size()) {
    mismatch.culprits.clear();
  }
  return mismatch;
}

bool waits_whole(const Run& run, const Communicator& communicator) {
  return std::all_of(
      communicator.members.begin(), communicator.members.end(), [&](const Member& member) {
        const CommunicatorText& text = text_of(run, member);
        return is_open(text) && (text.flags & format::kInitFailed) == 0 &&
               elapsed(text.created, state_of(run, member.rank)->last_seen) >= run.hang_after;
      });
}

// What one lacks the other has: together they are one communicator.
bool complete_each_other(const Run& run, const Communicator& a, const Communicator& b) {
  Ranks places;
  for (const Communicator* one : {&a, &b}) {
    for (const Member& member : one->members) {
      if (contains(places, {member.local_rank}) || (one == &b && member_of(a, member.rank))) {
        return false;
      }
      insert(places, {member.local_rank});
    }
  }
  return a.size == b.size && static_cast<int>(places.size()) == a.size && waits_whole(run, a) &&
         waits_whole(run, b);
}

// All of them call it so, and are several: a name that each rank makes for itself tells nothing.
std::string common_name(const Run& run, const Communicator& communicator) {
  const std::string& name = text_of(run, communicator.members.front()).name;
  const bool common =
      std::all_of(communicator.members.begin(), communicator.members.end(),
                  [&](const Member& member) { return text_of(run, member).name == name; });
  return common ? name : "";
}

// The job calls the one otherwise than the other: they are two, and each side has begun with
// another.
bool are_two(const Run& run, const Communicator& a, const Communicator& b) {
  const std::string one = common_name(run, a);
  const std::string other = common_name(run, b);
  return !one.empty() && !other.empty() && one != other &&
         std::max(a.members.size(), b.members.size()) > 1;
}

std::optional<CreationMismatch> other_id(const Run& run, size_t index) {
  const Communicator& own = run.communicators[index];
  for (size_t i = index + 1; i < run.communicators.size(); ++i) {
    const Communicator& other = run.communicators[i];
    if (!is_by_id(run, other) || !complete_each_other(run, own, other)) {
      continue;
    }
    CreationMismatch mismatch;
    const bool two = are_two(run, own, other);
    mismatch.fault = two ? CreationFault::kOrder : CreationFault::kId;
    mismatch.other = i;
    for (const Communicator* one : {&own, &other}) {
      Ranks ranks;
      for (const Member& member : one->members) {
        insert(ranks, member.rank);
      }
      mismatch.sides.push_back({ranks, two ? "communicator " + one->name
                                           : fmt::format("unique id {:x}", one->id.value)});
    }
    if (own.members.size() != other.members.size()) {
      mismatch.culprits = mismatch.sides[own.members.size() < other.members.size() ? 0 : 1].ranks;
    }
    return mismatch;
  }
  return std::nullopt;
}

}  // namespace

std::vector<CreationMismatch> creation_mismatches(const Run& run) {
  std::vector<CreationMismatch> found;
  for (size_t i = 0; i < run.communicators.size(); ++i) {
    const Communicator& communicator = run.communicators[i];
    if (!is_by_id(run, communicator) ||
        std::none_of(communicator.members.begin(), communicator.members.end(),
                     [&](const Member& member) { return is_open(text_of(run, member)); })) {
      continue;
    }
    for (const auto& look : {other_size, same_rank, same_device, other_id}) {
      if (auto mismatch = look(run, i)) {
        mismatch->communicator = i;
        describe(run, communicator, *mismatch);
        if (is_of_two(mismatch->fault)) {
          describe(run, run.communicators[mismatch->other], *mismatch);
        }
        if (matters(run, *mismatch)) {
          found.push_back(std::move(*mismatch));
        }
        break;
      }
    }
  }
  return found;
}

bool is_creation_mismatch(const Run& run, const Hang& hang) {
  const Wait& wait = run.waits.waits[hang.wait];
  if (wait.kind != WaitKind::kInit) {
    return false;
  }
  const std::vector<CreationMismatch> mismatches = creation_mismatches(run);
  return std::any_of(mismatches.begin(), mismatches.end(), [&](const CreationMismatch& mismatch) {
    return mismatch.communicator == wait.communicator ||
           (is_of_two(mismatch.fault) && mismatch.other == wait.communicator);
  });
}

}  // namespace traintrace
