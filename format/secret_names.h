// Text in pieces, and what the names in it speak of.
#pragma once

#include <cstddef>
#include <cstdint>

namespace traintrace::format {

constexpr bool is_digit(char c) {
  return c >= '0' && c <= '9';
}
constexpr bool is_lower(char c) {
  return c >= 'a' && c <= 'z';
}
constexpr bool is_upper(char c) {
  return c >= 'A' && c <= 'Z';
}
constexpr bool is_alnum(char c) {
  return is_digit(c) || is_lower(c) || is_upper(c);
}
constexpr char lower(char c) {
  return is_upper(c) ? static_cast<char>(c - 'A' + 'a') : c;
}
constexpr bool is_blank(char c) {
  return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}
constexpr bool is_quote(char c) {
  return c == '"' || c == '\'' || c == '`';
}
constexpr bool is_name(char c) {
  return is_alnum(c) || c == '_' || c == '.' || c == '-';
}

// Part of a text.  Not std::string_view: it calls what sanitizers replace.
struct Span {
  const char* begin;
  const char* end;
  size_t size() const { return static_cast<size_t>(end - begin); }
  bool empty() const { return begin == end; }
  bool starts_with(const char* beginning) const {
    const char* at = begin;
    for (; *beginning != '\0'; ++beginning, ++at) {
      if (at == end || *at != *beginning) {
        return false;
      }
    }
    return true;
  }
  // Whatever the case of the text; `word` is in small letters.
  bool is(const char* word) const {
    const char* at = begin;
    for (; at != end && *word != '\0' && lower(*at) == *word; ++at, ++word) {
    }
    return at == end && *word == '\0';
  }
  template <class Predicate>
  const char* first_not(Predicate belongs) const {
    const char* at = begin;
    while (at != end && belongs(*at)) {
      ++at;
    }
    return at;
  }
};

// By format/secrets.def.
enum class Word : uint8_t { Other, Secret, Perhaps, Property, Harmless, Digest };

// Secret, Perhaps, Digest or Other, for a name in parts: --wandb.apiKey, NCCL_SOCKET_IFNAME.
Word kind_of_name(Span name) noexcept;

constexpr bool names_a_secret(Word kind) {
  return kind == Word::Secret || kind == Word::Perhaps;
}

}  // namespace traintrace::format
