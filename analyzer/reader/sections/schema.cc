#include "analyzer/reader/sections/schema.h"

#include <algorithm>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "analyzer/text/schema_text.h"
#include "analyzer/text/words.h"

namespace traintrace {
namespace {

// A record has at most 63 words, 3 of which are its head, time and caller.
constexpr size_t kMostFields = 60;
constexpr std::string_view kUnnamed = "call#";

std::vector<std::string_view> blank_separated(std::string_view line) {
  std::vector<std::string_view> words;
  while (!line.empty()) {
    const size_t blank = line.find(' ');
    if (blank != 0) {
      words.push_back(line.substr(0, blank));
    }
    line = blank == line.npos ? "" : line.substr(blank + 1);
  }
  return words;
}

using Names = std::unordered_set<std::string_view>;

bool read_call(Schema& schema, const std::vector<std::string_view>& words, Names& names) {
  const auto id = words.size() >= 5 ? parse_unsigned(words[1]) : std::nullopt;
  // What no line names is called so.
  if (!id || *id > 0xffff || words.size() - 5 > kMostFields || words[2].starts_with(kUnnamed)) {
    return false;
  }
  CallSchema call{std::string(words[2]), std::string(words[3]), std::string(words[4]), {}};
  for (size_t i = 5; i < words.size(); ++i) {
    auto field = parse_field(words[i]);
    if (!field) {
      return false;
    }
    call.fields.push_back(std::move(*field));
  }
  if (schema.index_of_id.size() <= *id) {
    schema.index_of_id.resize(*id + 1, Schema::kNoCall);
  }
  if (schema.index_of_id[*id] != Schema::kNoCall || !names.insert(words[2]).second) {
    return false;
  }
  schema.index_of_id[*id] = static_cast<uint32_t>(schema.calls.size());
  schema.calls.push_back(std::move(call));
  return true;
}

bool read_stat(Schema& schema, const std::vector<std::string_view>& words) {
  const auto index = words.size() == 4 ? parse_unsigned(words[1]) : std::nullopt;
  if (!index || *index > 0xffff) {
    return false;
  }
  return schema.stats.emplace(*index, StatRow{std::string(words[2]), std::string(words[3])}).second;
}

}  // namespace

uint32_t Schema::call(uint16_t id) {
  if (index_of_id.size() <= id) {
    index_of_id.resize(size_t{id} + 1, kNoCall);
  }
  uint32_t& index = index_of_id[id];
  if (index == kNoCall) {
    index = static_cast<uint32_t>(calls.size());
    const uint32_t other =
        others == nullptr || others->index_of_id.size() <= id ? kNoCall : others->index_of_id[id];
    if (other != kNoCall) {
      calls.push_back(others->calls[other]);
    } else {
      calls.push_back({std::string(kUnnamed) + std::to_string(id), "unknown", "unknown", {}});
    }
  }
  return index;
}

const StatRow* Schema::stat(uint32_t index) const {
  const std::map<uint32_t, StatRow>& rows = others == nullptr ? stats : others->stats;
  const auto row = rows.find(index);
  return row == rows.end() ? nullptr : &row->second;
}

void Schema::put_first(std::span<const CallSchema> rows) {
  std::unordered_map<std::string, uint32_t> places;
  std::vector<CallSchema> ordered;
  for (const CallSchema& row : rows) {
    if (places.emplace(row.name, static_cast<uint32_t>(ordered.size())).second) {
      ordered.push_back(row);
    }
  }
  std::vector<uint32_t> moved;  // by old index
  for (CallSchema& row : calls) {
    const auto [place, is_new] = places.emplace(row.name, static_cast<uint32_t>(ordered.size()));
    if (is_new) {
      ordered.push_back(std::move(row));
    }
    moved.push_back(place->second);
  }
  for (uint32_t& index : index_of_id) {
    index = index == kNoCall ? kNoCall : moved[index];
  }
  // Those that have not been asked for yet.
  for (size_t id = 0; others != nullptr && id < others->index_of_id.size(); ++id) {
    const uint32_t other = others->index_of_id[id];
    const auto place = other == kNoCall ? places.end() : places.find(others->calls[other].name);
    if (place != places.end()) {
      index_of_id.resize(std::max(index_of_id.size(), id + 1), kNoCall);
      index_of_id[id] = place->second;
    }
  }
  // What no line of the schema names is called after its id.
  for (const auto& [name, place] : places) {
    const auto id = name.starts_with(kUnnamed)
                        ? parse_unsigned(std::string_view(name).substr(kUnnamed.size()))
                        : std::nullopt;
    if (id && *id <= 0xffff) {
      index_of_id.resize(std::max<size_t>(index_of_id.size(), *id + 1), kNoCall);
      index_of_id[*id] = place;
    }
  }
  calls = std::move(ordered);
}

Schema parse_schema(std::string_view text, size_t& bad_lines) {
  Schema schema;
  Names names;
  bad_lines = 0;
  text = text.substr(0, text.find('\0'));
  while (!text.empty()) {
    const size_t end = text.find('\n');
    const auto words = blank_separated(text.substr(0, end));
    text = end == text.npos ? "" : text.substr(end + 1);
    if (words.empty()) {
      continue;
    }
    // Other lines belong to newer versions.
    const bool good = words[0] == "call"   ? read_call(schema, words, names)
                      : words[0] == "stat" ? read_stat(schema, words)
                                           : true;
    bad_lines += good ? 0 : 1;
  }
  return schema;
}

namespace {

struct KnownSchema {
  std::string text;
  std::shared_ptr<const Schema> schema;
  size_t bad_lines;
};

// Of the last few texts.
KnownSchema known_schema(std::string_view text) {
  constexpr size_t kKept = 4;
  static std::mutex mutex;
  static auto& known = *new std::vector<KnownSchema>;
  const std::lock_guard lock(mutex);
  for (const KnownSchema& one : known) {
    if (one.text == text) {
      return one;
    }
  }
  if (known.size() == kKept) {
    known.erase(known.begin());
  }
  KnownSchema& added = known.emplace_back(KnownSchema{std::string(text), nullptr, 0});
  added.schema = std::make_shared<const Schema>(parse_schema(text, added.bad_lines));
  return added;
}

}  // namespace

Schema lean_schema(std::string_view text, size_t& bad_lines) {
  KnownSchema known = known_schema(text.substr(0, text.find('\0')));
  bad_lines = known.bad_lines;
  Schema schema;
  schema.others = std::move(known.schema);
  return schema;
}

}  // namespace traintrace
