#include "interpose/life/facts.h"

#include <unistd.h>

#include <cstring>

#include "format/secrets.h"
#include "interpose/base/files.h"
#include "interpose/calls/call_names.h"
#include "interpose/record/definitions.h"

namespace traintrace {
namespace {

// A value or a command line, masked, at most so long.
char g_text[format::kMostText + 1];

void write_value(ThreadState& thread, const char* key, format::Kept kept, const char* value) {
  if (kept == format::Kept::Name) {
    write_fact(thread, key, format::kNameOnly);
    return;
  }
  Text text(g_text, sizeof g_text);
  text << value;
  if (text.whole()) {
    define_fact(thread, key, g_text, format::mask_value(kept, g_text, text.length()));
  } else {
    write_fact(thread, key, format::kTooLong);
  }
}

void write_environment(ThreadState& thread) {
  for (char** at = environ; at && *at; ++at) {
    const char* const equals = strchr(*at, '=');
    const size_t length = equals ? static_cast<size_t>(equals - *at) : 0;
    const format::Kept kept = format::kept_of_variable(*at, length);
    if (kept != format::Kept::Nothing) {
      ShortText key;
      key << "env.";
      key.append(*at, length);
      write_value(thread, key.c_str(), kept, equals + 1);
    }
  }
}

void write_command_line(ThreadState& thread) {
  size_t line = read_file("/proc/self/cmdline", g_text, sizeof g_text);
  if (line == format::kMostText) {  // the last argument may have been cut
    while (line && g_text[line - 1]) {
      --line;
    }
  }
  while (line && !g_text[line - 1]) {
    --line;
  }
  define_fact(thread, "command-line", g_text, format::mask_secrets(g_text, line));
}

void write_program(ThreadState& thread) {
  const ssize_t exe = readlink("/proc/self/exe", g_text, sizeof g_text);
  if (exe > 0) {
    define_fact(thread, "exe", g_text, static_cast<size_t>(exe));
  }
  write_command_line(thread);
  if (getcwd(g_text, sizeof g_text)) {
    write_fact(thread, "cwd", g_text);
  }
}

// What is there, and not as it was asked for.
void write_limits(ThreadState& thread, const Settings& settings, const MemoryRegion& region) {
  ShortText unmatched;
  name_unmatched(settings.calls, unmatched);
  if (unmatched.length()) {
    write_fact(thread, "calls-unmatched", unmatched.c_str());
  }
  if (settings.ring_mb_asked && region.ring_mb < settings.ring_mb) {
    ShortText why;
    why << region.why_smaller << " (" << int64_t{settings.ring_mb} << " MiB were asked for)";
    write_fact(thread, "ring-smaller", why.c_str());
  }
}

void write_settings(ThreadState& thread, const Settings& settings, uint32_t ring_mb) {
  for (int i = 0; i < static_cast<int>(format::Setting::kCount); ++i) {
    const auto setting = static_cast<format::Setting>(i);
    ShortText key;
    ShortText value;
    key << "setting." << format::kSettings[i].environment;
    if (setting == format::Setting::RingMb) {
      value << int64_t{ring_mb};
    } else {
      value << value_in_force(settings, setting);
    }
    write_fact(thread, key.c_str(), value.c_str());
    if (settings.errors[i]) {
      ShortText error;
      error << "setting-error." << format::kSettings[i].environment;
      write_fact(thread, error.c_str(), settings.errors[i]);
    }
  }
}

}  // namespace

void write_fact(ThreadState& thread, const char* key, const char* value) noexcept {
  define_fact(thread, key, value, strlen(value));
}

void write_facts(ThreadState& thread, const Settings& settings,
                 const MemoryRegion& region) noexcept {
  write_fact(thread, "traintrace-version", TT_VERSION);
  write_environment(thread);
  write_program(thread);
  write_settings(thread, settings, region.ring_mb);
  write_limits(thread, settings, region);
}

}  // namespace traintrace
