#include "analyzer/reader/schema.h"

#include <optional>
#include <unordered_set>

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
    calls.push_back({std::string(kUnnamed) + std::to_string(id), "unknown", "unknown", {}});
  }
  return index;
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

}  // namespace traintrace
