#include "analyzer/text/draft.h"

#include "analyzer/text/labels.h"
#include "analyzer/text/schema_text.h"
#include "analyzer/text/words.h"

namespace traintrace {
namespace {

// The next one, else the first that is left.
uint32_t free_number(const std::map<uint32_t, StackText>& stacks) {
  if (stacks.empty() || stacks.rbegin()->first < ~uint32_t{0}) {
    return stacks.empty() ? 1 : stacks.rbegin()->first + 1;
  }
  uint32_t number = 1;
  for (auto known = stacks.lower_bound(1); known->first == number; ++known) {
    ++number;
  }
  return number;
}

}  // namespace

std::optional<uint32_t> Draft::call(std::string_view call_name) {
  if (const auto found = calls.find(std::string(call_name)); found != calls.end()) {
    return found->second;
  }
  const CallSchema* known = known_call(call_name);
  if (known == nullptr) {
    return std::nullopt;
  }
  const auto index = static_cast<uint32_t>(trace.calls.size());
  trace.calls.push_back(*known);
  calls.emplace(call_name, index);
  return index;
}

std::optional<uint32_t> Draft::stack(std::string_view text) {
  const size_t digits = text.find_first_not_of("0123456789");
  std::optional<uint32_t> id;
  if (digits != 0 && (digits == text.npos || text[digits] == '=')) {
    const auto number = parse_unsigned(text.substr(0, digits));
    if (!number || *number > 0xffffffff) {
      return std::nullopt;
    }
    id = static_cast<uint32_t>(*number);
    if (digits == text.npos || trace.stacks.contains(*id)) {
      return id;
    }
    if (*id == 0) {  // no stack
      return std::nullopt;
    }
    text.remove_prefix(digits + 1);
  } else if (const auto found = stacks.find(std::string(text)); found != stacks.end()) {
    return found->second;
  }
  StackText frames;
  for (std::string_view rest = text;;) {
    const size_t comma = rest.find(',');
    if (!parse_frame(rest.substr(0, comma), frames)) {
      return std::nullopt;
    }
    if (comma == rest.npos) {
      break;
    }
    rest.remove_prefix(comma + 1);
  }
  if (!id) {
    id = free_number(trace.stacks);
    stacks.emplace(text, *id);
  }
  trace.stacks[*id] = std::move(frames);
  return id;
}

ThreadText& Draft::thread(uint32_t serial) {
  for (ThreadText& thread : trace.threads) {
    if (thread.serial == serial) {
      return thread;
    }
  }
  ThreadText& thread = trace.threads.emplace_back();
  thread.serial = serial;
  thread.tid = static_cast<int>(static_cast<uint32_t>(trace.pid) + serial - 1);
  return thread;
}

std::optional<uint8_t> Draft::local_rank() const {
  const auto local = trace.facts.find("env.LOCAL_RANK");
  const auto rank = local == trace.facts.end() ? std::nullopt : parse_unsigned(local->second);
  return rank && *rank < format::kNoDevice ? std::optional(static_cast<uint8_t>(*rank))
                                           : std::nullopt;
}

uint8_t Draft::device() const {
  return local_rank().value_or(0);
}

Draft* DraftSet::add(const std::string& name) {
  if (by_name.contains(name)) {
    fail("another name: process " + name + " is taken");
    return nullptr;
  }
  Draft& draft = all.emplace_back();
  draft.name = name;
  by_name.emplace(name, &draft);
  return &draft;
}

}  // namespace traintrace
