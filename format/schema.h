// Names and shapes of the intercepted calls, expanded from the tables of this folder.  Shared by
// the tracer and the analyzer; knows no CUDA or NCCL type.  The analyzer reads what a trace's own
// schema says: these are for `traintrace calls` and for the tracer that writes the schema.
#pragma once

#include <cstddef>
#include <cstdint>

#include "format/trace_format.h"

namespace traintrace::format {

enum class Library : uint8_t { Runtime, Driver, Nccl, Cublas, CublasLt };
inline constexpr const char* kLibraryNames[] = {"runtime", "driver", "nccl", "cublas", "cublaslt"};
inline constexpr size_t kLibraryCount = sizeof kLibraryNames / sizeof *kLibraryNames;

enum class Kind : uint8_t {
#define TT_KIND(name, text, stack, arms) name,
#include "format/kinds.def"
};
struct KindSpec {
  const char* name;
  bool stack;
  bool arms;
};
inline constexpr KindSpec kKinds[] = {
#define TT_KIND(name, text, stack, arms) {text, stack, arms},
#include "format/kinds.def"
};
constexpr const KindSpec& spec_of(Kind kind) {
  return kKinds[static_cast<size_t>(kind)];
}

enum class Field : uint8_t {
#define TT_FIELD(name, text, format) name,
#include "format/fields.def"
};
struct FieldName {
  const char* name;
  const char* format;
};
inline constexpr FieldName kFieldNames[] = {
#define TT_FIELD(name, text, format) {text, #format},
#include "format/fields.def"
};

struct FieldSpec {
  Field field;
  bool after_call;  // known only once the real function has returned successfully
};

struct CallSpec {
  const char* name;
  Library library;
  Kind kind;
  uint8_t field_count;
  FieldSpec fields[kMaxFields];
};

enum class CallId : uint16_t {
#define TT_CALL(library, kind, function, ...) function,
#define TT_CALL_PTSZ(library, kind, function, ...) function, function##_ptsz,
#define TT_CALL_PTDS(library, kind, function, ...) function, function##_ptds,
#define TT_CALL_AS(library, kind, exported, typed, ...) exported,
#include "format/calls.def"
  kCount
};
inline constexpr size_t kCallCount = static_cast<size_t>(CallId::kCount);

extern const CallSpec kCalls[kCallCount];  // schema.cc NOLINT(readability-identifier-naming)

// What is recorded without being a call.  Ids go on from those of the calls.
enum class Moment : uint16_t {
#define TT_MOMENT(library, kind, function, ...) function,
#include "format/moments.def"
  kCount
};
inline constexpr size_t kMomentCount = static_cast<size_t>(Moment::kCount);
constexpr uint16_t id_of(Moment moment) {
  return static_cast<uint16_t>(kCallCount + static_cast<size_t>(moment));
}
struct MomentSpec {
  const char* name;
  const char* library;  // torch, cupti, nvtx, marker, payload
  Kind kind;
  uint8_t field_count;
  Field fields[kMaxFields];
};
inline constexpr MomentSpec kMoments[] = {
#define IN(i, name) Field::name
#define TT_MOMENT(library, kind, function, ...) \
  {#function, #library, Kind::kind, sizeof(Field[]){__VA_ARGS__}, {__VA_ARGS__}},
#include "format/moments.def"
#undef IN
};

enum class Stat : uint8_t {
#define TT_STAT(name, text, severity, meaning, advice) name,
#include "format/stats.def"
  kCount
};
struct StatSpec {
  const char* name;
  const char* severity;
  const char* meaning;
  const char* advice;
};
inline constexpr StatSpec kStatSpecs[] = {
#define TT_STAT(name, text, severity, meaning, advice) {text, #severity, meaning, advice},
#include "format/stats.def"
};

enum class Setting : uint8_t {
#define TT_SETTING(name, environment, option, fallback, values, meaning) name,
#include "format/settings.def"
  kCount
};
struct SettingSpec {
  const char* environment;
  const char* option;
  const char* fallback;
  const char* values;
  const char* meaning;
};
inline constexpr SettingSpec kSettings[] = {
#define TT_SETTING(name, environment, option, fallback, values, meaning) \
  {environment, option, fallback, values, meaning},
#include "format/settings.def"
};

}  // namespace traintrace::format
