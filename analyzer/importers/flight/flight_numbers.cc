#include "analyzer/importers/flight/flight_numbers.h"

#include <algorithm>
#include <iterator>
#include <set>

namespace traintrace {
namespace {

// By how much calls up to that number raised it more often than once.
uint64_t more_until(const FlightGroup& group, uint64_t sequence) {
  const auto next = std::upper_bound(
      group.coalesced.begin(), group.coalesced.end(), sequence,
      [](uint64_t value, const CoalescedCall& call) { return value < call.sequence; });
  return next == group.coalesced.begin() ? 0 : std::prev(next)->more;
}

const OperationText* first_collective(const CommunicatorText& text) {
  const auto first =
      std::find_if(text.recent.begin(), text.recent.end(),
                   [](const OperationText& operation) { return operation.collective; });
  return first == text.recent.end() ? nullptr : &*first;
}

}  // namespace

FlightNumbers::FlightNumbers(const std::vector<FlightFile>& files) {
  std::set<uint64_t> coalesced, unknown;
  for (const FlightFile& file : files) {
    for (const FlightGroup& group : file.dump.groups) {
      if (!group.coalesced.empty()) {
        coalesced.insert(group_id(group));
      }
      // Batches of messages count as well, and not alike on all members.
      if (group.with_peers || file.dump.active_only) {
        unknown.insert(group_id(group));
      }
    }
  }
  for (const uint64_t group : coalesced) {
    if (!unknown.contains(group)) {
      groups_[group];
    }
  }
  for (const auto step : {&FlightNumbers::add, &FlightNumbers::add_shift}) {
    for (const FlightFile& file : files) {
      for (size_t i = 0; i < file.dump.groups.size(); ++i) {
        const FlightGroup& group = file.dump.groups[i];
        if (groups_.contains(group_id(group))) {
          (this->*step)(group, file.dump.trace.communicators[i]);
        }
      }
    }
  }
}

void FlightNumbers::add(const FlightGroup& group, const CommunicatorText& text) {
  const OperationText* const first = first_collective(text);
  if (first == nullptr) {
    return;
  }
  GroupNumbers& numbers = groups_.at(group_id(group));
  numbers.known_since = std::max(numbers.known_since, first->sequence);
  numbers.least = std::min(numbers.least, text.collectives);
}

void FlightNumbers::add_shift(const FlightGroup& group, const CommunicatorText& text) {
  GroupNumbers& numbers = groups_.at(group_id(group));
  if (text.collectives == numbers.least && numbers.least > numbers.known_since) {
    numbers.shift = more_until(group, numbers.least) - more_until(group, numbers.known_since);
  }
}

void FlightNumbers::renumber(const FlightGroup& group, CommunicatorText& text) const {
  const auto found = groups_.find(group_id(group));
  if (found == groups_.end()) {
    return;
  }
  const GroupNumbers& numbers = found->second;
  const uint64_t until = more_until(group, numbers.known_since);
  const auto put = [&](uint64_t& number) {
    number = number == 0 ? 0 : number + numbers.shift + until - more_until(group, number);
  };
  for (OperationText& operation : text.recent) {
    if (operation.collective) {
      put(operation.sequence);
    }
  }
  put(text.collectives);
  // How often the calls between were counted is not kept here.
  text.finished = text.finished < numbers.known_since ? 0 : text.finished;
  put(text.finished);
}

}  // namespace traintrace
