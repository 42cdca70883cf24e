#include "analyzer/text/key_reader.h"

#include "analyzer/text/nearest.h"

namespace traintrace {

KeyReader::KeyReader(std::span<const std::string> words, Draft* draft, DraftSet& drafts)
    : draft_(draft), drafts_(drafts) {
  for (const std::string& word : words) {
    const size_t equals = word.find('=');
    if (equals == word.npos || equals == 0 || word[0] == '@') {
      items_.push_back({"", word});
    } else {
      items_.push_back({word.substr(0, equals), word.substr(equals + 1)});
    }
  }
}

std::optional<std::string> KeyReader::take(std::string_view key) {
  asked_.emplace_back(key);
  for (Item& item : items_) {
    if (!item.used && item.key == key) {
      item.used = true;
      return item.value;
    }
  }
  return std::nullopt;
}

bool KeyReader::take_word(std::string_view word) {
  asked_.emplace_back(word);
  for (Item& item : items_) {
    if (!item.used && item.key.empty() && item.value == word) {
      item.used = true;
      return true;
    }
  }
  return false;
}

std::optional<std::string> KeyReader::take_behind(std::string_view prefix) {
  for (Item& item : items_) {
    if (!item.used && item.key.empty() && item.value.starts_with(prefix)) {
      item.used = true;
      return item.value.substr(prefix.size());
    }
  }
  return std::nullopt;
}

std::optional<TimeNs> KeyReader::take_time(std::string_view key) {
  const auto text = take(key);
  if (!text) {
    return std::nullopt;
  }
  const auto time = parse_time(*text, drafts_.start);
  if (!time) {
    drafts_.fail(std::string(key) + "=TIME, as +12.5 or +300ms, instead of " + *text);
    return std::nullopt;
  }
  drafts_.note_time(*time);
  return time;
}

std::optional<uint64_t> KeyReader::take_number(std::string_view key) {
  uint64_t value = 0;
  const auto text = take(key);
  if (!text) {
    return std::nullopt;
  }
  if (!read_number(*text, value)) {
    drafts_.fail(std::string(key) + "=NUMBER instead of " + *text);
  }
  return value;
}

std::optional<int64_t> KeyReader::take_duration(std::string_view key) {
  const auto text = take(key);
  const auto ns = text ? parse_duration(*text) : std::nullopt;
  if (text && (!ns || *ns < 0)) {
    drafts_.fail(std::string(key) + "=DURATION, as 50ms, instead of " + *text);
    return std::nullopt;
  }
  return ns;
}

bool KeyReader::finish() {
  for (const Item& item : items_) {
    if (!item.used) {
      const std::string& name = item.key.empty() ? item.value : item.key;
      return drafts_.fail("nothing like " + name + " here" + did_you_mean(name, asked_));
    }
  }
  return drafts_.problem.empty();
}

void KeyReader::time(std::string_view key, TimeNs& value) {
  value = take_time(key).value_or(value);
}

void KeyReader::text(std::string_view key, std::string& value) {
  value = take(key).value_or(value);
}

void KeyReader::letter(std::string_view key, char& value, char /*absent*/) {
  const auto text = take(key);
  if (text && text->size() != 1) {
    drafts_.fail(std::string(key) + "=LETTER instead of " + *text);
  } else if (text) {
    value = text->front();
  }
}

void KeyReader::yes_no(std::string_view key, std::optional<bool>& value) {
  const auto text = take(key);
  if (text && *text != "yes" && *text != "no") {
    drafts_.fail(std::string(key) + "=yes or no instead of " + *text);
  } else if (text) {
    value = *text == "yes";
  }
}

void KeyReader::stack(uint32_t& id) {
  const auto text = take_behind("@");
  if (!text) {
    return;
  }
  const auto found = draft_->stack(*text);
  if (!found) {
    drafts_.fail("@NUMBER or @file:line:function,.. instead of @" + *text);
  }
  id = found.value_or(0);
}

void KeyReader::call(std::string_view key, uint32_t& value) {
  std::optional<uint32_t> found;
  call(key, found);
  value = found.value_or(value);
}

void KeyReader::call(std::string_view key, std::optional<uint32_t>& value) {
  const auto text = take(key);
  if (!text) {
    return;
  }
  value = draft_->call(*text);
  if (!value) {
    drafts_.fail("the name of a call instead of " + *text);
  }
}

void KeyReader::data_type(std::string_view key, int& value) {
  if (const auto text = take(key)) {
    const auto number = parse_value(ValueFormat::kDataType, *text);
    if (!number || *number > std::numeric_limits<int>::max()) {
      drafts_.fail("a type, as float32, instead of " + *text);
    }
    value = static_cast<int>(number.value_or(0));
  }
}

void KeyReader::reduction(std::string_view key, int& value) {
  if (const auto text = take(key)) {
    const auto number = parse_value(ValueFormat::kRedOp, *text);
    if (!number || *number > std::numeric_limits<int>::max()) {
      drafts_.fail("a reduction, as sum, instead of " + *text);
    }
    value = static_cast<int>(number.value_or(0));
  }
}

std::optional<size_t> KeyReader::find_name(std::string_view text,
                                           std::span<const char* const> names,
                                           std::string_view key) {
  const std::vector<std::string> candidates(names.begin(), names.end());
  for (size_t i = 0; i < candidates.size(); ++i) {
    if (candidates[i] == text) {
      return i;
    }
  }
  drafts_.fail("one of the words for " + std::string(key) + " instead of " + std::string(text) +
               did_you_mean(text, candidates));
  return std::nullopt;
}

uint32_t KeyReader::read_flags(std::string_view text, std::span<const char* const> names,
                               std::string_view key) {
  uint32_t flags = 0;
  while (!text.empty()) {
    const size_t plus = text.find('+');
    const std::string_view name = text.substr(0, plus);
    if (const auto bits = parse_unsigned(name); bits && *bits <= 0xffffffff) {
      flags |= static_cast<uint32_t>(*bits);
    } else if (const auto bit = find_name(name, names, key)) {
      flags |= uint32_t{1} << *bit;
    }
    text = plus == text.npos ? "" : text.substr(plus + 1);
  }
  return flags;
}

}  // namespace traintrace
