// Parts of the page that several screens use, the card, and the environment.
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "analyzer/model/elapsed.h"
#include "analyzer/page/page_data.h"

namespace traintrace {

size_t TextTable::index(const std::string& text) {
  const auto [place, is_new] = places_.emplace(text, texts_.size());
  if (is_new) {
    texts_.push_back(&place->first);
  }
  return place->second;
}

PageJson TextTable::json() const {
  PageJson list = PageJson::array();
  for (const std::string* const text : texts_) {
    list.push_back(*text);
  }
  return list;
}

PageJson page_json(const Ranks& ranks) {
  PageJson list = PageJson::array();
  for (const Rank rank : ranks) {
    list.push_back(rank.value);
  }
  return list;
}

int64_t page_us(const Run& run, TimeNs time) {
  return elapsed(run.start, time) / 1000;
}

std::string page_place(const ProcessTrace& trace, Rank rank, uint32_t stack) {
  const auto place = user_place(trace, rank, stack);
  return place ? place_text(*place) : "";
}

PageJson page_card(const Card& card) {
  PageJson json = {
      {"kind", card.kind},           {"headline", card.headline}, {"certainty", card.certainty},
      {"notes", card.notes},         {"why", card.why},           {"advice", card.advice},
      {"actors", PageJson::array()}, {"next", PageJson::array()}};
  for (const CardActor& actor : card.actors) {
    PageJson own = {{"ranks", page_json(actor.ranks)},
                    {"title", rank_title(actor.ranks)},
                    {"culprit", actor.culprit},
                    {"who", actor.who},
                    {"doing", actor.doing},
                    {"framesAre", actor.frames_are},
                    {"frames", PageJson::array()},
                    {"source", PageJson::array()}};
    for (const CodePlace& frame : actor.frames) {
      own["frames"].push_back({{"file", short_path(frame.file)},
                               {"path", frame.file},
                               {"line", frame.line},
                               {"function", frame.function}});
    }
    for (const SourceLine& line : actor.source) {
      own["source"].push_back({{"n", line.number}, {"text", line.text}, {"marked", line.marked}});
    }
    json["actors"].push_back(std::move(own));
  }
  for (const CardCommand& next : card.next) {
    json["next"].push_back({{"command", next.command}, {"purpose", next.purpose}});
  }
  return json;
}

// Each fact once for each value, with the ranks that have it.
PageJson page_environment(const Run& run) {
  constexpr size_t kMostValues = 6;
  constexpr size_t kLongest = 400;
  std::map<std::string, std::map<std::string, Ranks>> facts;
  for (const RankState& state : run.ranks) {
    const ProcessTrace& trace = trace_of(run, state);
    for (const auto& [key, value] : trace.facts) {
      // Pages are sent to others, and passwords stand in some command lines; what dumps exchanged
      // is for the analyzer.
      if (key == "command-line" || key == "exchanged") {
        continue;
      }
      std::string text = value.substr(0, kLongest);
      std::replace(text.begin(), text.end(), '\0', ' ');
      insert(facts[key][text], state.rank);
    }
    insert(facts["host"][trace.host], state.rank);
  }
  PageJson list = PageJson::array();
  for (const auto& [key, values] : facts) {
    PageJson own = {{"name", key}, {"count", values.size()}, {"values", PageJson::array()}};
    for (const auto& [value, ranks] : values) {
      if (own["values"].size() < kMostValues) {
        own["values"].push_back({{"value", value}, {"ranks", rank_list(ranks)}});
      }
    }
    list.push_back(std::move(own));
  }
  return list;
}

}  // namespace traintrace
