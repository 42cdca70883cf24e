#include "format/secret_names.h"

#include "format/secrets.h"

namespace traintrace::format {
namespace {

struct WordRow {
  const char* word;
  Word kind;
};
constexpr WordRow kWords[] = {
#define TT_SECRET_WORD(word, kind) {word, Word::kind},
#include "format/secrets.def"
};

struct VariableRow {
  const char* name;
  Kept kept;
};
constexpr VariableRow kVariables[] = {
#define TT_ENVIRONMENT(name, kept, why) {name, Kept::kept},
#include "format/environment.def"
};

// password, password2
Word kind_of(Span part) {
  const char* bare = part.end;
  while (bare != part.begin && is_digit(bare[-1])) {
    --bare;
  }
  for (const WordRow& row : kWords) {
    if (part.is(row.word) || Span{part.begin, bare}.is(row.word)) {
      return row.kind;
    }
  }
  return Word::Other;
}

// The next part of "--wandb.apiKey_2", which begins at or behind `at`.
Span next_part(const char* at, const char* end) {
  while (at != end && !is_alnum(*at)) {
    ++at;
  }
  const char* last = at;
  while (last != end && is_alnum(*last) && !(last != at && is_upper(*last) && is_lower(last[-1]))) {
    ++last;
  }
  return {at, last};
}

// NAME, or the family NAME*.
bool matches(Span variable, const char* name) {
  const char* at = variable.begin;
  for (; *name != '\0' && *name != '*'; ++name, ++at) {
    if (at == variable.end || *at != *name) {
      return false;
    }
  }
  return *name == '*' || at == variable.end;
}

}  // namespace

Word kind_of_name(Span name) noexcept {
  bool secret = false;
  Word before = Word::Other;
  Word last = Word::Other;
  for (Span part = next_part(name.begin, name.end); !part.empty();
       part = next_part(part.end, name.end)) {
    before = last;
    last = kind_of(part);
    secret = secret || last == Word::Secret;
  }
  if (secret) {
    return last == Word::Property ? Word::Other : Word::Secret;
  }
  const bool shown = (last == Word::Perhaps && before != Word::Harmless) || last == Word::Digest;
  return shown ? last : Word::Other;
}

Kept kept_of_variable(const char* name, size_t bytes) noexcept {
  const Span variable = {name, name + bytes};
  for (const VariableRow& row : kVariables) {
    if (matches(variable, row.name)) {
      return names_a_secret(kind_of_name(variable)) ? Kept::Name : row.kept;
    }
  }
  return Kept::Nothing;
}

}  // namespace traintrace::format
