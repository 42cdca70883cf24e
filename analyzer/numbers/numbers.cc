#include "analyzer/numbers/numbers.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <tuple>

#include "analyzer/model/activity.h"
#include "analyzer/reader/stored_reports.h"

namespace traintrace {
namespace {

std::string_view base_name(std::string_view path) {
  return path.substr(path.rfind('/') + 1);
}

// Who fetched it, where a process holds several ranks.
Rank rank_with(const Run& run, size_t process, int device) {
  const std::vector<const RankState*> states = states_of(run, process);
  const auto found = std::find_if(states.begin(), states.end(),
                                  [&](const RankState* state) { return state->device == device; });
  return found != states.end() ? (*found)->rank : states.empty() ? Rank{} : states.front()->rank;
}

constexpr size_t kMostFrames = 8;

// Where a stack is in the job's code.
struct Site {
  std::optional<CodePlace> place;
  std::string callers;
  std::vector<std::string> frames;

  auto key() const { return std::tuple(place ? place_text(*place) : "", callers, frames); }
};

Site site_of(const ProcessTrace& trace, Rank rank, uint32_t id) {
  Site site{user_place(trace, rank, id), "", {}};
  const auto stack = trace.stacks.find(id);
  if (stack == trace.stacks.end()) {
    return site;
  }
  const std::vector<PythonFrameText>& frames = stack->second.python;
  for (size_t i = 0; i < frames.size() && i < kMostFrames; ++i) {
    site.frames.push_back(fmt::format("{} {}", base_name(frames[i].file), frames[i].function));
    if (is_user_file(frames[i].file)) {
      break;
    }
  }
  bool innermost = true;
  for (const PythonFrameText& frame : frames) {
    if (!is_user_file(frame.file)) {
      continue;
    }
    if (!innermost) {
      site.callers += fmt::format("{}{}:{}", site.callers.empty() ? "" : " < ",
                                  base_name(frame.file), frame.line);
    }
    innermost = false;
  }
  return site;
}

class ScalarReader {
 public:
  ScalarReader(const Run& run, size_t process, const ProcessTrace& trace)
      : run_(run), process_(process), trace_(trace) {}

  void read(Numbers& numbers) {
    std::map<Key, ScalarSeries> found;
    each_event(trace_, [&](const CallRecord& event, std::span<const uint64_t> values) {
      const CallSchema* const schema = schema_of(trace_, event.call);
      if (schema != nullptr && event.moment && schema->kind == "scalar" && values.size() >= 2) {
        add(event, values, found);
      }
    });
    for (auto& [key, series] : found) {
      series.type = type_of_series(series.values, series.bytes);
      numbers.scalars.push_back(std::move(series));
    }
  }

 private:
  using Key =
      std::tuple<std::tuple<std::string, std::string, std::vector<std::string>>, uint64_t, Rank>;

  void add(const CallRecord& event, std::span<const uint64_t> values,
           std::map<Key, ScalarSeries>& found) {
    const Rank rank = rank_with(run_, process_, event.device);
    const auto [known, is_new] = sites_.try_emplace(event.stack);
    if (is_new) {
      known->second = site_of(trace_, rank, event.stack);
    }
    const Site& site = known->second;
    ScalarSeries& series = found[{site.key(), values[0], rank}];
    if (series.values.empty()) {
      series.rank = rank;
      series.process = process_;
      series.place = site.place;
      series.callers = site.callers;
      series.frames = site.frames;
      series.bytes = values[0];
    }
    series.times.push_back(event.enter);
    series.values.push_back(values[1]);
  }

  const Run& run_;
  const size_t process_;
  const ProcessTrace& trace_;
  std::map<uint32_t, Site> sites_;  // by stack
};

}  // namespace

bool has_numbers(const ProcessTrace& trace) {
  const auto level = trace.facts.find("setting.TRAINTRACE_PAYLOAD");
  return level != trace.facts.end() && level->second != "off" && !trace.facts.contains("payload");
}

void add_numbers(const Run& run, size_t process, const ProcessTrace& events, Numbers& numbers) {
  ScalarReader(run, process, events).read(numbers);
}

void complete(Numbers& numbers) {
  const auto key = [](const ScalarSeries& series) {
    return std::tuple(place_text(series), series.callers, series.frames, series.bytes, series.rank);
  };
  std::stable_sort(numbers.scalars.begin(), numbers.scalars.end(),
                   [&](const ScalarSeries& a, const ScalarSeries& b) { return key(a) < key(b); });
}

std::string place_text(const ScalarSeries& series) {
  return series.place ? place_text(*series.place) : "an unknown place";
}

std::string text_at(const ScalarSeries& series, size_t index) {
  return scalar_text(series.type.type, series.values[index], series.bytes);
}

}  // namespace traintrace
