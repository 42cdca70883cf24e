#include "analyzer/importers/flight/flight_status.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <span>
#include <string>

namespace traintrace {

std::optional<uint64_t> flight_number(const Value* value) {
  if (value == nullptr) {
    return std::nullopt;
  }
  int64_t number = value->as_integer(-1);
  if (const std::string_view text = value->as_text(); !text.empty()) {  // JSON
    std::from_chars(text.data(), text.data() + text.size(), number);
  }
  return number < 0 || number > kMostFlightNumber ? std::nullopt
                                                  : std::optional(static_cast<uint64_t>(number));
}

namespace {

// Names and numbers both count the groups in the order in which they were made; where entries
// say which belong together, that must fit.
void number_groups(const std::map<int64_t, const Value*>& by_number,
                   std::vector<FlightGroup>& groups) {
  std::vector<std::pair<int64_t, size_t>> by_name;
  for (size_t i = 0; i < groups.size(); ++i) {
    const std::string& name = groups[i].name;
    int64_t number = 0;
    const auto [end, problem] = std::from_chars(name.data(), name.data() + name.size(), number);
    if (problem != std::errc() || end != name.data() + name.size()) {
      return;
    }
    by_name.emplace_back(number, i);
  }
  if (by_name.size() != by_number.size()) {
    return;
  }
  std::sort(by_name.begin(), by_name.end());
  std::vector<int64_t> numbers;
  for (const auto& [number, value] : by_number) {
    const FlightGroup& group = groups[by_name[numbers.size()].second];
    if (group.number >= 0 && group.number != number) {
      return;
    }
    numbers.push_back(number);
  }
  for (size_t i = 0; i < numbers.size(); ++i) {
    groups[by_name[i].second].number = numbers[i];
  }
}

}  // namespace

FlightStatus add_flight_status(const Value* status, std::vector<FlightGroup>& groups) {
  FlightStatus told;
  const std::span<const Value> pairs =
      status == nullptr ? std::span<const Value>() : status->pairs();
  std::map<int64_t, const Value*> by_number;
  for (size_t i = 0; i + 1 < pairs.size(); i += 2) {
    if (const auto number = flight_number(&pairs[i])) {
      by_number.emplace(static_cast<int64_t>(*number), &pairs[i + 1]);
    }
  }
  for (const auto& [number, value] : by_number) {
    const auto enqueued = flight_number(value->find("last_enqueued_collective"));
    const auto completed = flight_number(value->find("last_completed_collective"));
    if (enqueued && completed.value_or(0) < *enqueued) {
      told.busy = true;
    }
    told.said = told.said || enqueued;
  }
  number_groups(by_number, groups);
  for (FlightGroup& group : groups) {
    if (const auto found = by_number.find(group.number); found != by_number.end()) {
      group.enqueued = flight_number(found->second->find("last_enqueued_collective"));
      group.started = flight_number(found->second->find("last_started_collective"));
      group.completed = flight_number(found->second->find("last_completed_collective"));
    }
  }
  return told;
}

bool has_counted_starts(const FlightDump& dump) {
  bool counted = false;
  for (size_t i = 0; i < dump.groups.size(); ++i) {
    const FlightGroup& group = dump.groups[i];
    const auto& recent = dump.trace.communicators[i].recent;
    if (group.started && std::any_of(recent.begin(), recent.end(), [&](const auto& operation) {
          return operation.gpu == GpuState::kPending && operation.collective &&
                 operation.sequence <= *group.started;
        })) {
      return false;
    }
    counted = counted || (group.started && !group.with_peers);
  }
  return counted;
}

}  // namespace traintrace
