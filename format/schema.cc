#include "format/schema.h"

namespace traintrace::format {
namespace {

// A field macro gives a group of one or more specs.
struct Group {
  FieldSpec specs[6];
  uint8_t count;
};

constexpr Group one(Field field, bool after_call) {
  return {{{field, after_call}, {}}, 1};
}

template <class... Groups>
consteval CallSpec spec(const char* name, Library library, Kind kind, Groups... groups) {
  CallSpec result{name, library, kind, 0, {}};
  [[maybe_unused]] const auto append = [&](const Group& group) {
    for (uint8_t i = 0; i < group.count; ++i) {
      result.fields[result.field_count++] = group.specs[i];
    }
  };
  (append(groups), ...);
  return result;
}

}  // namespace

// clang-format off
#define IN(i, name) one(Field::name, false)
#define IN3(i, name) one(Field::name, false)
#define MEMBER(i, member, name) one(Field::name, false)
#define MEMBER3(i, member, name) one(Field::name, false)
#define OUT_MEMBER(i, member, name) one(Field::name, true)
#define PART(i, member, name) one(Field::name, false)
#define SUM(i, n, name) one(Field::name, false)
#define EXTENTS(i, n, type, name) one(Field::name, false)
#define OUT(i, name) one(Field::name, true)
#define COMM(i) Group{{{Field::Communicator, false}, {Field::Sequence, false}}, 2}
#define IS(value, name) one(Field::name, false)
#define LAYOUTS(a, b, d) \
  Group{{{Field::M, false}, {Field::N, false}, {Field::K, false}, {Field::Batch, false}, {Field::TypeA, false}, {Field::TypeB, false}}, 6}
#define TT_NAMED(name, library, kind, ...) \
  spec(name, Library::library, Kind::kind __VA_OPT__(,) __VA_ARGS__),
#define TT_CALL(library, kind, function, ...) \
  TT_NAMED(#function, library, kind __VA_OPT__(,) __VA_ARGS__)
#define TT_CALL_PTSZ(library, kind, function, ...)             \
  TT_NAMED(#function, library, kind __VA_OPT__(,) __VA_ARGS__) \
  TT_NAMED(#function "_ptsz", library, kind __VA_OPT__(,) __VA_ARGS__)
#define TT_CALL_PTDS(library, kind, function, ...)             \
  TT_NAMED(#function, library, kind __VA_OPT__(,) __VA_ARGS__) \
  TT_NAMED(#function "_ptds", library, kind __VA_OPT__(,) __VA_ARGS__)
#define TT_CALL_AS(library, kind, exported, typed, ...) \
  TT_NAMED(#exported, library, kind __VA_OPT__(,) __VA_ARGS__)
const CallSpec kCalls[kCallCount] = {
#include "format/calls.def"
};
// clang-format on

}  // namespace traintrace::format
