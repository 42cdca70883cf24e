// What the environment asks for (settings.def), read once when recording starts.
#pragma once

#include <cstdint>

#include "format/schema.h"

namespace traintrace {

enum class Stacks : uint8_t { kOff, kNative, kPython, kAll };  // as settings.def names them

enum class Payload : uint8_t { kOff, kScalars, kBatches, kSmall, kCheck };

enum class GpuProgress : uint8_t { kObserve, kMarks, kPlugin };

struct Settings {
  const char* dir;
  bool default_dir;  // nobody named one
  uint32_t ring_mb;
  bool ring_mb_asked;
  uint32_t finished_ring_mb;
  uint32_t folder_mb;
  bool folder_mb_asked;
  Stacks stacks;
  GpuProgress gpu_progress;
  Payload payload;
  bool payload_asked;  // not the default
  const char* calls;
  const char* collect;  // null: off
  bool disabled;
  bool log;
  bool snapshot_on_abort;
  bool full;
  bool gpu_timeline;
  // Why a setting is not what was asked for; null: it is.  The default is in force.
  const char* errors[static_cast<int>(format::Setting::kCount)];
};

// The strings are those of the environment.
Settings read_settings() noexcept;

// The value in force, as text.
const char* value_in_force(const Settings& settings, format::Setting setting) noexcept;

// `*` and `?`, and several patterns separated by commas.
bool matches_any(const char* patterns, const char* name) noexcept;

}  // namespace traintrace
