#include "format/secrets.h"

#include "format/secret_names.h"

namespace traintrace::format {
namespace {

constexpr size_t kShortestToken = 16;  // behind the prefix of a known service
constexpr size_t kShortestRandom = 20;
constexpr size_t kAwsSecret = 40;

constexpr const char* kPrefixes[] = {
#define TT_SECRET_PREFIX(prefix, service) prefix,
#include "format/secrets.def"
};

constexpr const char* kSwitches[] = {"true", "false", "none", "null", "auto"};

bool is_option(Span argument) {
  return argument.starts_with("--") && argument.size() > 2 && is_alnum(argument.begin[2]);
}

bool is_path(Span text) {
  return (text.starts_with("/") && !text.starts_with("//")) || text.starts_with("./") ||
         text.starts_with("../") || text.starts_with("~/");
}

// Short numbers, switches and paths.
bool is_plain(Span value) {
  constexpr size_t kShortNumber = 8;
  const char* const behind =
      value.first_not([](char c) { return is_digit(c) || c == '.' || c == '-' || c == 'e'; });
  if (behind == value.end && value.size() < kShortNumber) {
    return true;
  }
  for (const char* word : kSwitches) {
    if (value.is(word)) {
      return true;
    }
  }
  return is_path(value);
}

int class_of(char c) {
  return is_lower(c) ? 1 : is_upper(c) ? 2 : is_digit(c) ? 4 : 8;
}

// In random text, characters of one kind stand beside those of another more often than in words:
// of 62 letters and digits 62 % of all neighbours differ, of lower case and digits 40 %; in
// DistributedDataParallelStrategy it is 27 %, in checkpoint0001000step2 14 %.
bool looks_random(Span text, size_t shortest) {
  int classes = 0;
  size_t changes = 0;
  for (const char* at = text.begin; at != text.end; ++at) {
    classes |= class_of(*at);
    changes += at != text.begin && class_of(*at) != class_of(at[-1]) ? 1 : 0;
  }
  const bool both_cases = (classes & 3) == 3;
  const bool mixed = both_cases || ((classes & 4) != 0 && (classes & 3) != 0);
  return mixed && text.size() >= shortest &&
         (both_cases ? changes * 5 >= text.size() * 2 : changes * 5 >= text.size());
}

// Edits a text in place: what is written is never longer than what was read.
class Masker {
 public:
  Masker(char* text, size_t bytes) : text_(text), end_(text + bytes), in_(text), out_(text) {}
  size_t length() const { return static_cast<size_t>(end_ - text_); }

  void urls();
  void named();
  void tokens(bool random_too);

 protected:
  void rewind() {
    end_ = out_;
    in_ = out_ = text_;
  }
  void copy_until(const char* end) {
    while (in_ != end) {
      *out_++ = *in_++;
    }
  }
  void mask_until(const char* end) {
    for (int stars = 0; stars < 3 && in_ + stars != end; ++stars) {
      *out_++ = '*';
    }
    in_ = end;
  }
  void mask_value(Span value, Word kind) {
    copy_until(value.begin);
    if (kind == Word::Perhaps && is_plain(value)) {
      copy_until(value.end);
    } else {
      mask_until(value.end);
    }
  }
  const char* end_of_argument() const {
    return Span{in_, end_}.first_not([](char c) { return c != '\0'; });
  }
  Word named_in_argument(const char* begin, const char* end);
  Span assigned(Span name, const char* begin, const char* end) const;
  Span behind_option(Span name, const char* end) const;
  bool is_in_path() const;
  bool is_named_digest() const;
  bool at_start_of_word() const;
  const char* end_of_known_token() const;
  const char* end_of_random() const;

 private:
  char* text_;
  const char* end_;
  const char* in_;  // the next character to read
  char* out_;       // and to write
};

// https://user:password@host: up to the last @ before the path.
void Masker::urls() {
  while (in_ != end_) {
    if (!Span{in_, end_}.starts_with("://")) {
      copy_until(in_ + 1);
      continue;
    }
    copy_until(in_ + 3);
    const char* const authority = Span{in_, end_}.first_not([](char c) {
      return c != '/' && c != '?' && c != '#' && c != '\0' && !is_blank(c) && !is_quote(c);
    });
    const char* at = authority;
    while (at != in_ && at[-1] != '@') {
      --at;
    }
    mask_until(at == in_ ? at : at - 1);
  }
  rewind();
}

// What NAME=VALUE, NAME: VALUE, "NAME": "VALUE" assign; empty if nothing is.  `begin` and `end` are
// those of the argument: where the name begins it, all the rest is the value.
Span Masker::assigned(Span name, const char* begin, const char* end) const {
  const char* at = name.end;
  at += at != end && is_quote(*at) ? 1 : 0;
  at = Span{at, end}.first_not(is_blank);
  const char* const sign = at;
  at = Span{at, end}.first_not([](char c) { return c == ':' || c == '='; });
  if (at == sign || Span{sign, end}.starts_with("://")) {
    return {name.end, name.end};
  }
  at = Span{at, end}.first_not(is_blank);
  if (at != end && is_quote(*at)) {
    const char quote = *at++;
    return {at, Span{at, end}.first_not([quote](char c) { return c != quote; })};
  }
  if (name.begin <= begin + 1) {
    return {at, end};
  }
  return {at,
          Span{at, end}.first_not([](char c) { return !is_blank(c) && !is_quote(c) && c != '&'; })};
}

// The word behind an option within one argument, as in sh -c "train --password x".
Span Masker::behind_option(Span name, const char* end) const {
  const char* const at =
      Span{name.end, end}.first_not([](char c) { return is_blank(c) || is_quote(c); });
  const Span word = {at,
                     Span{at, end}.first_not([](char c) { return !is_blank(c) && !is_quote(c); })};
  return is_option(word) ? Span{name.end, name.end} : word;
}

// Other, unless the argument ends with an option that names a secret: then that is the next one.
Word Masker::named_in_argument(const char* begin, const char* end) {
  while (in_ != end) {
    const Span name = {in_, Span{in_, end}.first_not(is_name)};
    if (name.empty()) {
      copy_until(in_ + 1);
      continue;
    }
    const Word kind = kind_of_name(name);
    const bool option = *name.begin == '-';
    if (names_a_secret(kind) && option && name.end == end) {
      copy_until(end);
      return kind;
    }
    Span value = {name.end, name.end};
    if (names_a_secret(kind)) {
      value = assigned(name, begin, end);
      if (value.empty() && option && is_blank(*name.end)) {
        value = behind_option(name, end);
      }
    }
    mask_value(value, kind);
  }
  return Word::Other;
}

void Masker::named() {
  Word named_before = Word::Other;
  while (in_ != end_) {
    const char* const end = end_of_argument();
    if (names_a_secret(named_before) && !is_option({in_, end})) {
      mask_value({in_, end}, named_before);
      named_before = Word::Other;
    } else {
      named_before = named_in_argument(in_, end);
    }
    copy_until(end == end_ ? end : end + 1);
  }
  rewind();
}

// Looks back at what has been written: /data/9f3c.., --file=./9f3c..
bool Masker::is_in_path() const {
  const char* begin = out_;
  while (begin != text_ && begin[-1] != '\0' && begin[-1] != '=' && begin[-1] != ':' &&
         begin[-1] != ',' && !is_blank(begin[-1]) && !is_quote(begin[-1])) {
    --begin;
  }
  return is_path({begin, out_});
}

// --commit 9f3c.., sha256:9f3c.., commit=9f3c..
bool Masker::is_named_digest() const {
  const char* end = out_;
  while (end != text_ && !is_alnum(end[-1]) && end[-1] != '/' && end[-1] != '*') {
    --end;
  }
  const char* begin = end;
  while (begin != text_ && is_name(begin[-1])) {
    --begin;
  }
  return kind_of_name({begin, end}) == Word::Digest;
}

bool Masker::at_start_of_word() const {
  return out_ == text_ || (!is_alnum(out_[-1]) && out_[-1] != '_' && out_[-1] != '+');
}

// Null: none begins here.
const char* Masker::end_of_known_token() const {
  for (const char* prefix : kPrefixes) {
    if (!Span{in_, end_}.starts_with(prefix)) {
      continue;
    }
    const char* begin = in_;
    for (; *prefix != '\0'; ++prefix, ++begin) {
    }
    const Span token = {begin,
                        Span{begin, end_}.first_not([](char c) { return is_name(c) || c == '='; })};
    int classes = 0;
    for (const char* at = token.begin; at != token.end; ++at) {
      classes |= class_of(*at);
    }
    if (token.size() >= kShortestToken && ((classes & 4) != 0 || (classes & 3) == 3)) {
      return token.end;
    }
  }
  return nullptr;
}

// Null: none begins here.  Secret keys of AWS are 40 characters and may contain slashes.
const char* Masker::end_of_random() const {
  const Span all = {
      in_, Span{in_, end_}.first_not([](char c) { return is_alnum(c) || c == '+' || c == '/'; })};
  const Span one = {in_, Span{in_, all.end}.first_not([](char c) { return c != '/'; })};
  const bool aws = all.size() == kAwsSecret && looks_random(all, kAwsSecret);
  if ((!aws && !looks_random(one, kShortestRandom)) || is_in_path() || is_named_digest()) {
    return nullptr;
  }
  return aws ? all.end : one.end;
}

void Masker::tokens(bool random_too) {
  while (in_ != end_) {
    const char* secret = nullptr;
    if (at_start_of_word() && is_alnum(*in_)) {
      secret = end_of_known_token();
      if (secret == nullptr && random_too) {
        secret = end_of_random();
      }
    }
    if (secret != nullptr) {
      mask_until(secret);
    } else {
      copy_until(in_ + 1);
    }
  }
  rewind();
}

}  // namespace

size_t mask_secrets(char* text, size_t bytes) noexcept {
  Masker masker(text, bytes);
  masker.urls();
  masker.named();
  masker.tokens(true);
  return masker.length();
}

size_t mask_value(Kept kept, char* value, size_t bytes) noexcept {
  if (kept != Kept::Identity) {
    return mask_secrets(value, bytes);
  }
  Masker masker(value, bytes);
  masker.urls();
  masker.tokens(false);
  return masker.length();
}

}  // namespace traintrace::format
