#include <algorithm>

#include "analyzer/text/nearest.h"
#include "analyzer/text/records.h"
#include "analyzer/text/story.h"
#include "analyzer/text/thread_now_lines.h"

namespace traintrace {
namespace {

constexpr uint64_t kMaxRepeats = 200'000;
constexpr uint64_t kMaxExpanded = 1'000'000;  // 300 MB: a story is written by hand
constexpr uint32_t kMaxThreads = 4096;

const std::pair<std::string_view, Outcome> kVerbs[] = {{"calls", Outcome::kDone},
                                                       {"enqueues", Outcome::kEnqueued},
                                                       {"enters", Outcome::kBlocked},
                                                       {"polls", Outcome::kPolled}};

std::optional<Outcome> outcome_of(std::string_view verb) {
  for (const auto& [name, outcome] : kVerbs) {
    if (name == verb) {
      return outcome;
    }
  }
  return std::nullopt;
}

uint64_t default_value(const FieldSchema& field) {
  if (field.name == "count") {
    return 1024;
  }
  return field.format == "datatype" ? 7 : 0;  // float32
}

}  // namespace

bool Story::find_who(const std::string& word, std::vector<Draft*>& who, uint32_t& thread) {
  const size_t slash = word.rfind('/');
  const std::string name = word.substr(0, slash);
  if (slash != word.npos) {
    const auto number = parse_unsigned(std::string_view(word).substr(slash + 1));
    if (!number || *number == 0 || *number > kMaxThreads) {
      return drafts_.fail("the number of a thread behind the / of " + word);
    }
    thread = static_cast<uint32_t>(*number);
  }
  if (const auto found = drafts_.by_name.find(name); found != drafts_.by_name.end()) {
    who.push_back(found->second);
    return true;
  }
  const auto ranks = parse_ranks(name);
  if (!ranks) {
    return drafts_.fail("ranks, as 0-3,7, or the name of a process instead of " + name);
  }
  for (const int rank : *ranks) {
    const auto found = drafts_.by_name.find(std::to_string(rank));
    if (found == drafts_.by_name.end()) {
      return drafts_.fail("a `ranks` or `process` line above that has rank " +
                          std::to_string(rank));
    }
    who.push_back(found->second);
  }
  return true;
}

bool Story::read_line(std::span<const std::string> words) {
  if (words.size() < 3) {
    return drafts_.fail("TIME WHO VERB ..");
  }
  const auto time = parse_time(words[0], drafts_.start);
  if (!time) {
    return drafts_.fail("a time, as +12.5 or +300ms, instead of " + words[0]);
  }
  drafts_.note_time(*time);
  std::vector<Draft*> who;
  uint32_t thread = 1;
  if (!find_who(words[1], who, thread)) {
    return false;
  }
  if (words[2] == "exits" || words[2] == "dies" || words[2] == "falls-silent") {
    return read_end(who, *time, words.subspan(2));
  }
  if (words[2] == "stands") {
    return read_stand(who, *time, words.subspan(3));
  }
  const auto outcome = outcome_of(words[2]);
  if (!outcome || words.size() < 4) {
    return drafts_.fail(
        "calls, enqueues, enters or polls CALL, stands, exits, dies or falls-silent instead of " +
        words[2]);
  }
  return read_calls(who, thread, *time, words.subspan(3), *outcome);
}

// Somebody looked at it then: its main thread, unless the keys say otherwise.
bool Story::read_stand(std::span<Draft* const> who, TimeNs time,
                       std::span<const std::string> words) {
  return std::all_of(who.begin(), who.end(), [&](Draft* draft) {
    std::vector<std::string> line = {"thread-now", std::to_string(draft->trace.pid), "role=main"};
    if (std::any_of(words.begin(), words.end(),
                    [](const std::string& word) { return word.starts_with("role="); })) {
      line.pop_back();
      line[1] = std::to_string(static_cast<size_t>(draft->trace.pid) + draft->trace.now.size());
    }
    line.insert(line.end(), words.begin(), words.end());
    draft->trace.looked = time;
    return read_thread_now(drafts_, *draft, line);
  });
}

bool Story::read_end(std::span<Draft* const> who, TimeNs time, std::span<const std::string> words) {
  for (Draft* draft : who) {
    KeyReader keys(words.subspan(1), draft, drafts_);
    ProcessTrace& trace = draft->trace;
    trace.last_alive = time;
    if (words[0] == "exits") {
      trace.exited = time;
      trace.exit_kind = keys.take_word("fast") ? format::kFastExit : format::kExit;
      keys.number("status", trace.exit_status, 0);
    } else if (words[0] == "dies") {
      trace.gone = keys.take_word("unnoticed") ? 0 : time;
      keys.number("signal", trace.wait_status, -1);
    }
    if (!keys.finish()) {
      return false;
    }
  }
  return true;
}

bool Story::read_calls(std::span<Draft* const> who, uint32_t thread, TimeNs time,
                       std::span<const std::string> words, Outcome outcome) {
  for (Draft* draft : who) {
    const auto id = draft->call(words[0]);
    if (!id) {
      return drafts_.fail("the name of a call of calls.def instead of " + words[0]);
    }
    StoryCall call;
    call.draft = draft;
    call.thread = thread;
    call.call = *id;
    call.outcome = outcome;
    call.time = time;
    KeyReader keys(words.subspan(1), draft, drafts_);
    if (!read_call(keys, call) || !keys.finish()) {
      return false;
    }
    expanded_ += outcome == Outcome::kPolled ? 1 : call.repeats;
    if (expanded_ > kMaxExpanded) {
      return drafts_.fail("no more than 1000000 calls in one text");
    }
    calls_.push_back(std::move(call));
  }
  return true;
}

bool Story::read_call(KeyReader& keys, StoryCall& call) {
  if (const auto times = keys.take_behind("x")) {
    call.repeats = parse_unsigned(*times).value_or(0);
    if (call.repeats == 0 || call.repeats > kMaxRepeats) {
      return drafts_.fail("xN with N from 1 to 200000 instead of x" + *times);
    }
  }
  if (const auto result = keys.take_behind("=")) {
    const auto code = parse_result(*result);
    if (!code) {
      return drafts_.fail("a result, as ncclSystemError, instead of " + *result);
    }
    call.result = *code;
  }
  call.every_ns = keys.take_duration("every").value_or(call.every_ns);
  call.takes_ns = keys.take_duration("takes").value_or(call.takes_ns);
  call.grouped = keys.take_word("grouped");
  call.captured = keys.take_word("captured");
  call.replayed = keys.take_word("replayed");
  call.streamless = keys.take_word("streamless");
  keys.number("group", call.group, 0);
  call.grouped = call.grouped || call.group != 0;
  keys.choice("gpu", call.gpu, records::kGpuStates, call.gpu);
  call.until = keys.take_time("until");
  keys.stack(call.stack);
  const int64_t repeats = static_cast<int64_t>(call.outcome == Outcome::kPolled ? 1 : call.repeats);
  int64_t length = 0;
  TimeNs last = 0;
  if (__builtin_mul_overflow(repeats, call.every_ns, &length) ||
      __builtin_add_overflow(call.time, length, &last) ||
      __builtin_add_overflow(last, call.takes_ns, &last)) {
    return drafts_.fail("times within the years that 64 bits of ns can hold");
  }
  drafts_.note_time(call.time + length - call.every_ns + call.takes_ns);
  return read_communicator_of(keys, call, call.draft->trace.calls[call.call].kind) &&
         read_values(keys, call);
}

// `on NAME` or `on NAME/RANK`; without it the only communicator there is.
bool Story::read_communicator_of(KeyReader& keys, StoryCall& call, std::string_view kind) {
  Draft& draft = *call.draft;
  if (!keys.take_word("on")) {
    const bool needs_one = kind == "collective" || kind == "send-recv";
    if (needs_one && draft.trace.communicators.size() != 1) {
      return drafts_.fail("`on COMMUNICATOR`: process " + draft.name + " has " +
                          std::to_string(draft.trace.communicators.size()) + " of them");
    }
    call.communicator = needs_one ? std::optional<uint32_t>(0) : std::nullopt;
    return true;
  }
  const std::string label = keys.take_behind("").value_or("");
  const size_t slash = label.find('/');
  const auto found = draft.communicators.find(label.substr(0, slash));
  if (found == draft.communicators.end()) {
    return drafts_.fail("a communicator of process " + draft.name + " instead of '" + label + "'");
  }
  call.communicator = found->second;
  if (slash == label.npos) {
    return true;
  }
  const std::vector<CommunicatorText>& all = draft.trace.communicators;
  for (uint32_t i = 0; i < all.size(); ++i) {
    if (all[i].id == all[found->second].id &&
        std::to_string(all[i].rank) == label.substr(slash + 1)) {
      call.communicator = i;
      return true;
    }
  }
  return drafts_.fail("a rank of that communicator in process " + draft.name + " behind the / of " +
                      label);
}

bool Story::read_values(KeyReader& keys, StoryCall& call) {
  // A copy: the draft's calls may move while keys are read.
  const std::vector<FieldSchema> fields = call.draft->trace.calls[call.call].fields;
  for (const FieldSchema& field : fields) {
    call.values.push_back(default_value(field));
    if (field.format == "communicator") {
      call.values.back() = call.communicator ? *call.communicator + 1 : 0;
    } else if (const auto text = keys.take(field.name)) {
      const auto value = parse_value(value_format(field.format), *text);
      if (!value) {
        return drafts_.fail("a value (" + field.format + ") for " + field.name + " instead of " +
                            *text);
      }
      call.values.back() = *value;
    }
  }
  return drafts_.problem.empty();
}

void Story::set_run_defaults() {
  size_t ranks = 0;
  for (size_t i = drafts_.first_of_run; i < drafts_.all.size(); ++i) {
    ranks += drafts_.all[i].from_ranks ? 1 : 0;
  }
  const TimeNs end = drafts_.end.value_or(drafts_.latest);
  for (size_t i = drafts_.first_of_run; i < drafts_.all.size(); ++i) {
    Draft& draft = drafts_.all[i];
    if (draft.from_ranks) {
      draft.trace.facts.emplace("env.WORLD_SIZE", std::to_string(ranks));
      draft.trace.last_alive = draft.trace.last_alive == 0 ? end : draft.trace.last_alive;
    }
  }
}

bool Story::finish() {
  set_run_defaults();
  struct Step {
    TimeNs time;
    const StoryCall* call;
  };
  std::vector<Step> steps;
  for (const StoryCall& call : calls_) {
    const uint64_t repeats = call.outcome == Outcome::kPolled ? 1 : call.repeats;
    for (uint64_t i = 0; i < repeats; ++i) {
      steps.push_back({call.time + static_cast<int64_t>(i) * call.every_ns, &call});
    }
  }
  std::stable_sort(steps.begin(), steps.end(),
                   [](const Step& a, const Step& b) { return a.time < b.time; });
  for (const Step& step : steps) {
    apply_call(*step.call, step.time);
  }
  for (const StoryCall& call : calls_) {
    if (call.outcome == Outcome::kPolled) {
      apply_polling(call);
    }
  }
  calls_.clear();
  return true;
}

}  // namespace traintrace
