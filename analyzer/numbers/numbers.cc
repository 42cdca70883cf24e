#include "analyzer/numbers/numbers.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "analyzer/model/process/activity.h"
#include "analyzer/numbers/sites.h"
#include "analyzer/reader/sections/stored_reports.h"

namespace traintrace {
namespace {

// Who fetched it, where a process holds several ranks.
Rank rank_with(const Run& run, size_t process, int device) {
  const std::vector<const RankState*> states = states_of(run, process);
  const auto found = std::find_if(states.begin(), states.end(),
                                  [&](const RankState* state) { return state->device == device; });
  return found != states.end() ? (*found)->rank : states.empty() ? Rank{} : states.front()->rank;
}

class NumbersReader {
 public:
  NumbersReader(const Run& run, size_t process, const ProcessTrace& trace)
      : run_(run), process_(process), trace_(trace) {}

  void read(Numbers& numbers) {
    each_event(trace_, [&](const CallRecord& event, std::span<const uint64_t> values) {
      const CallSchema* const schema = schema_of(trace_, event.call);
      if (schema == nullptr) {
        return;
      }
      const bool collective = schema->kind == "collective";
      if (collective || schema->kind == "send-recv") {
        add_exchange(event, collective, numbers);
      } else if (!event.moment || values.size() < 2) {
        return;
      } else if (schema->kind == "scalar") {
        add_scalar(event, values[0], values[1]);
      } else if (schema->kind == "batch") {
        add_batch(event, values[0], values[1]);
      }
    });
    for (auto& [key, series] : scalars_) {
      series.type = type_of_series(series.values, series.bytes);
      numbers.scalars.push_back(std::move(series));
    }
    for (auto& [key, series] : batches_) {
      numbers.batches.push_back(std::move(series));
    }
  }

 private:
  void add_exchange(const CallRecord& event, bool collective, Numbers& numbers) const {
    const Rank rank = rank_with(run_, process_, event.device);
    if (collective) {
      numbers.collectives[rank].push_back(event.enter);
    }
    if (value_of(trace_, event, "count").value_or(0) > 1) {
      const auto type = value_of(trace_, event, "type");
      numbers.exchanges[rank].push_back(
          {event.enter, event.call, event.stack, type ? static_cast<int>(*type) : -1, collective});
    }
  }

  using SiteKey = std::tuple<std::string, std::string, std::vector<std::string>>;

  const Site& site(Rank rank, uint32_t stack) {
    const auto [known, is_new] = sites_.try_emplace(stack);
    if (is_new) {
      known->second = site_of(trace_, rank, stack);
    }
    return known->second;
  }

  void add_time(const CallRecord& event, Rank rank, const Site& site, ValueSeries& series) const {
    if (series.times.empty()) {
      series.rank = rank;
      series.process = process_;
      series.place = site.place;
      series.callers = site.callers;
      series.frames = site.frames;
    }
    series.times.push_back(event.enter);
  }

  void add_scalar(const CallRecord& event, uint64_t bytes, uint64_t value) {
    const Rank rank = rank_with(run_, process_, event.device);
    const Site& where = site(rank, event.stack);
    ScalarSeries& series = scalars_[{where.key(), bytes, rank}];
    add_time(event, rank, where, series);
    series.bytes = bytes;
    series.values.push_back(value);
  }

  void add_batch(const CallRecord& event, uint64_t bytes, uint64_t hash) {
    const Rank rank = rank_with(run_, process_, event.device);
    const Site& where = site(rank, event.stack);
    BatchSeries& series = batches_[{where.key(), rank}];
    add_time(event, rank, where, series);
    series.sizes.push_back(bytes);
    series.hashes.push_back(hash);
  }

  const Run& run_;
  const size_t process_;
  const ProcessTrace& trace_;
  std::map<uint32_t, Site> sites_;  // by stack
  std::map<std::tuple<SiteKey, uint64_t, Rank>, ScalarSeries> scalars_;
  std::map<std::tuple<SiteKey, Rank>, BatchSeries> batches_;
};

}  // namespace

bool has_numbers(const ProcessTrace& trace) {
  const auto level = trace.facts.find("setting.TRAINTRACE_PAYLOAD");
  return level != trace.facts.end() && level->second != "off" && !trace.facts.contains("payload");
}

void add_numbers(const Run& run, size_t process, const ProcessTrace& events, Numbers& numbers) {
  NumbersReader(run, process, events).read(numbers);
  add_checks(run, process, events, numbers.checks);
}

void complete(Numbers& numbers) {
  complete(numbers.checks);
  const auto of_scalars = [](const ScalarSeries& series) {
    return std::tuple(place_text(series), series.callers, series.frames, series.bytes, series.rank);
  };
  const auto of_batches = [](const BatchSeries& series) {
    return std::tuple(place_text(series), series.callers, series.frames, series.rank);
  };
  std::stable_sort(numbers.scalars.begin(), numbers.scalars.end(),
                   [&](const auto& a, const auto& b) { return of_scalars(a) < of_scalars(b); });
  std::stable_sort(numbers.batches.begin(), numbers.batches.end(),
                   [&](const auto& a, const auto& b) { return of_batches(a) < of_batches(b); });
}

bool are_of_one_line(const ScalarSeries& a, const ScalarSeries& b) {
  return place_text(a) == place_text(b) && a.callers == b.callers && a.frames == b.frames &&
         a.bytes == b.bytes;
}

std::string place_text(const ValueSeries& series) {
  return place_text(series.place);
}

std::string text_at(const ScalarSeries& series, size_t index) {
  return scalar_text(series.type.type, series.values[index], series.bytes);
}

}  // namespace traintrace
