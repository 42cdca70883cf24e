#include "interpose/life/settings.h"

#include <cstdlib>
#include <cstring>

#include "format/switch_words.h"
#include "interpose/base/files.h"

namespace traintrace {
namespace {

using format::Setting;

constexpr uint32_t kMaxRingMb = 65536;

const char* asked_for(Setting setting) {
  const char* value = getenv(format::kSettings[static_cast<int>(setting)].environment);
  return value && *value ? value : nullptr;
}

// Which of the words that `values` lists ("a|b|c"), or -1.
int choice(const char* values, const char* word) {
  for (int index = 0;; ++index) {
    const char* const end = strchrnul(values, '|');
    if (strlen(word) == static_cast<size_t>(end - values) &&
        strncmp(values, word, static_cast<size_t>(end - values)) == 0) {
      return index;
    }
    if (!*end) {
      return -1;
    }
    values = end + 1;
  }
}

// The index of the value in force among those that the setting can have.
int chosen(Settings& settings, Setting setting) {
  const format::SettingSpec& spec = format::kSettings[static_cast<int>(setting)];
  const int standard = choice(spec.values, spec.fallback);
  const char* const word = asked_for(setting);
  const int index = word ? choice(spec.values, word) : standard;
  if (index < 0) {
    settings.errors[static_cast<int>(setting)] = "not a known value";
  }
  return index < 0 ? standard : index;
}

struct Range {
  uint64_t least;
  uint64_t most;
  const char* complaint;
};

uint32_t number(Settings& settings, Setting setting, const Range& range) {
  const char* const text = asked_for(setting);
  const char* end = "";
  const bool short_enough = text && strlen(text) < 10;
  const uint64_t asked = short_enough ? parse_number(text, &end) : UINT64_MAX;
  if (text && (*end || end == text || asked < range.least || asked > range.most)) {
    settings.errors[static_cast<int>(setting)] = range.complaint;
  } else if (text) {
    return static_cast<uint32_t>(asked);
  }
  return static_cast<uint32_t>(
      parse_number(format::kSettings[static_cast<int>(setting)].fallback, nullptr));
}

void read_sizes(Settings& settings) {
  settings.ring_mb =
      number(settings, Setting::RingMb, {1, kMaxRingMb, "not a number from 1 to 65536"});
  settings.ring_mb_asked =
      asked_for(Setting::RingMb) && !settings.errors[static_cast<int>(Setting::RingMb)];
  settings.finished_ring_mb =
      number(settings, Setting::FinishedRingMb, {0, kMaxRingMb, "not a number from 0 to 65536"});
  if (asked_for(Setting::RingMb) && !asked_for(Setting::FinishedRingMb)) {
    settings.finished_ring_mb = settings.ring_mb;
  }
  settings.folder_mb =
      number(settings, Setting::FolderMb, {1, 1048576, "not a number from 1 to 1048576"});
  settings.folder_mb_asked = asked_for(Setting::FolderMb) != nullptr;
}

// Goes back to the last `*` only, so a pattern cannot take exponential time.
bool matches(const char* pattern, const char* pattern_end, const char* name) {
  const char* star = nullptr;
  const char* star_name = nullptr;
  while (*name) {
    if (pattern != pattern_end && *pattern == '*') {
      star = pattern++;
      star_name = name;
    } else if (pattern != pattern_end && (*pattern == '?' || *pattern == *name)) {
      ++pattern;
      ++name;
    } else if (star) {
      pattern = star + 1;
      name = ++star_name;
    } else {
      return false;
    }
  }
  while (pattern != pattern_end && *pattern == '*') {
    ++pattern;
  }
  return pattern == pattern_end;
}

const char* text_or_default(Setting setting) {
  const char* const text = asked_for(setting);
  return text ? text : format::kSettings[static_cast<int>(setting)].fallback;
}

// What was meant as a switch would make a folder of that name.
const char* folder_for_packs(Settings& settings) {
  const char* const text = text_or_default(Setting::Collect);
  if (format::is_switched_off(text)) {
    return nullptr;
  }
  if (format::is_switch(text)) {
    settings.errors[static_cast<int>(Setting::Collect)] = "no folder";
    return nullptr;
  }
  return text;
}

}  // namespace

Settings read_settings() noexcept {
  Settings settings = {};
  settings.dir = text_or_default(Setting::Dir);
  settings.calls = text_or_default(Setting::Calls);
  settings.collect = folder_for_packs(settings);
  settings.default_dir = asked_for(Setting::Dir) == nullptr;
  read_sizes(settings);
  settings.stacks = static_cast<Stacks>(chosen(settings, Setting::Stacks));
  settings.disabled = chosen(settings, Setting::Disable) == 1;
  settings.log = chosen(settings, Setting::Log) == 1;
  settings.gpu_progress = static_cast<GpuProgress>(chosen(settings, Setting::GpuProgress));
  settings.payload = static_cast<Payload>(chosen(settings, Setting::Payload));
  settings.payload_asked = asked_for(Setting::Payload) != nullptr;
  settings.snapshot_on_abort = chosen(settings, Setting::OnAbort) == 1;
  settings.full = chosen(settings, Setting::Mode) == 1;
  settings.gpu_timeline = chosen(settings, Setting::GpuTimeline) == 1;
  return settings;
}

const char* value_in_force(const Settings& settings, Setting setting) noexcept {
  const int index = static_cast<int>(setting);
  return settings.errors[index] ? format::kSettings[index].fallback : text_or_default(setting);
}

bool matches_any(const char* patterns, const char* name) noexcept {
  for (;;) {
    const char* const end = strchrnul(patterns, ',');
    if (matches(patterns, end, name)) {
      return true;
    }
    if (!*end) {
      return false;
    }
    patterns = end + 1;
  }
}

}  // namespace traintrace
