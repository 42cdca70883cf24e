#include "analyzer/model/process/told_steps.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <map>
#include <string>
#include <unordered_map>

#include "analyzer/model/process/activity.h"

namespace traintrace {
namespace {

using StepsByThread = std::map<uint32_t, std::vector<ToldStep>>;

std::vector<ToldStep> of_busiest(const StepsByThread& threads) {
  std::vector<ToldStep> most;
  for (const auto& [thread, steps] : threads) {
    if (steps.size() > most.size()) {
      most = steps;
    }
  }
  std::stable_sort(most.begin(), most.end(),
                   [](const ToldStep& a, const ToldStep& b) { return a.began < b.began; });
  return most;
}

std::vector<ToldStep> by_markers(const ProcessTrace& trace) {
  StepsByThread threads;
  for (const CallRecord& event : trace.events) {
    const CallSchema* const schema = event.moment ? schema_of(trace, event.call) : nullptr;
    if (schema != nullptr && schema->kind == "step") {
      const uint64_t number = value_of(trace, event, "step").value_or(0);
      threads[event.thread].push_back({event.enter, static_cast<int64_t>(number)});
    }
  }
  return of_busiest(threads);
}

// Numbers that do not count up are not those of steps.
bool counts_up(const std::vector<ToldStep>& steps) {
  size_t next = 0;
  for (size_t i = 1; i < steps.size(); ++i) {
    next += steps[i].number - 1 == steps[i - 1].number ? 1 : 0;
  }
  return steps.size() > 1 && next * 2 >= steps.size() - 1;
}

std::vector<ToldStep> by_ranges(const ProcessTrace& trace) {
  std::unordered_map<uint64_t, int64_t> numbers;
  for (const auto& [id, range] : trace.ranges) {
    if (const std::optional<int64_t> number = step_number_of(range.name)) {
      numbers.emplace(id, *number);
    }
  }
  if (numbers.empty()) {
    return {};
  }
  StepsByThread threads;
  for (const CallRecord& event : trace.events) {
    const CallSchema* const schema = event.moment ? schema_of(trace, event.call) : nullptr;
    if (schema == nullptr || schema->kind != "range-push") {
      continue;
    }
    const auto found = numbers.find(value_of(trace, event, "range").value_or(0));
    if (found != numbers.end()) {
      threads[event.thread].push_back({event.enter, found->second});
    }
  }
  std::erase_if(threads, [](const auto& thread) { return !counts_up(thread.second); });
  return of_busiest(threads);
}

bool is_word_for_steps(std::string_view word) {
  constexpr std::string_view kWords[] = {"step",          "iteration",          "iter",
                                         "train step",    "train_step",         "training step",
                                         "training_step", "global step",        "global_step",
                                         "profilerstep",  "training iteration", "train iteration"};
  return std::find(std::begin(kWords), std::end(kWords), word) != std::end(kWords);
}

}  // namespace

std::optional<int64_t> step_number_of(std::string_view name) {
  constexpr size_t kLongest = 48;
  const size_t last = name.find_last_not_of("0123456789");
  if (last == name.npos || last + 1 == name.size() || name.size() > kLongest) {
    return std::nullopt;
  }
  const size_t end = name.find_last_not_of(" #:=_-[", last);
  std::string word;
  for (const char character : name.substr(0, end == name.npos ? 0 : end + 1)) {
    word += static_cast<char>(std::tolower(static_cast<unsigned char>(character)));
  }
  int64_t number = 0;
  const char* const stop = name.data() + name.size();
  const auto read = std::from_chars(name.data() + last + 1, stop, number);
  return is_word_for_steps(word) && read.ec == std::errc() && read.ptr == stop
             ? std::optional(number)
             : std::nullopt;
}

std::vector<ToldStep> told_steps(const ProcessTrace& trace) {
  std::vector<ToldStep> steps = by_markers(trace);
  return steps.empty() ? by_ranges(trace) : steps;
}

}  // namespace traintrace
