// Reads the keys of text/records.h from the words of a line.  Absent keys leave a record as it is;
// whatever nobody asked for is an error of finish().
#pragma once

#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "analyzer/text/draft.h"
#include "analyzer/text/values.h"
#include "analyzer/text/words.h"

namespace traintrace {

class KeyReader {
 public:
  KeyReader(std::span<const std::string> words, Draft* draft, DraftSet& drafts);

  // The value of the key, which is used up by that.
  std::optional<std::string> take(std::string_view key);
  bool take_word(std::string_view word);                            // a word without `=`
  std::optional<std::string> take_behind(std::string_view prefix);  // "x811", "@train.py:1"
  std::optional<TimeNs> take_time(std::string_view key);
  std::optional<uint64_t> take_number(std::string_view key);
  std::optional<int64_t> take_duration(std::string_view key);
  bool finish();  // false after a complaint

  template <class Number>
  void number(std::string_view key, Number& value, int64_t /*absent*/) {
    const auto text = take(key);
    if (!text) {
      return;
    }
    if (!read_number(*text, value)) {
      drafts_.fail(std::string(key) + "=NUMBER instead of " + *text);
    }
  }
  void hex(std::string_view key, uint64_t& value) { number(key, value, 0); }
  void time(std::string_view key, TimeNs& value);
  void text(std::string_view key, std::string& value);
  void letter(std::string_view key, char& value, char absent);
  void yes_no(std::string_view key, std::optional<bool>& value);
  void stack(uint32_t& id);
  void call(std::string_view key, uint32_t& value);
  void call(std::string_view key, std::optional<uint32_t>& value);
  void data_type(std::string_view key, int& value);
  void reduction(std::string_view key, int& value);

  template <class Enum, size_t N>
  void choice(std::string_view key, Enum& value, const char* const (&names)[N], Enum /*absent*/) {
    if (const auto text = take(key)) {
      const auto index = find_name(*text, names, key);
      value = index ? static_cast<Enum>(*index) : value;
    }
  }
  template <class Word, size_t N>
  void flags(std::string_view key, Word& value, const char* const (&names)[N]) {
    if (const auto text = take(key)) {
      value = static_cast<Word>(read_flags(*text, names, key));
    }
  }

 private:
  struct Item {
    std::string key;  // empty: a word of its own, in `value`
    std::string value;
    bool used = false;
  };

  template <class Number>
  static bool read_number(std::string_view text, Number& value) {
    const auto wide = parse_value(ValueFormat::kSigned, text);
    value = static_cast<Number>(wide.value_or(0));
    const bool negative = text.starts_with("-");
    return wide && negative == (value < Number{0}) && static_cast<uint64_t>(value) == *wide;
  }
  std::optional<size_t> find_name(std::string_view text, std::span<const char* const> names,
                                  std::string_view key);
  uint32_t read_flags(std::string_view text, std::span<const char* const> names,
                      std::string_view key);

  std::vector<Item> items_;
  std::vector<std::string> asked_;  // for what finish() suggests
  Draft* draft_;
  DraftSet& drafts_;
};

}  // namespace traintrace
