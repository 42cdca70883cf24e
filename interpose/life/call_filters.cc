#include "interpose/life/call_filters.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "interpose/base/files.h"
#include "interpose/base/own_files.h"
#include "interpose/tables/tables.h"

namespace traintrace {
namespace {

constexpr const char* kStatus = "/proc/thread-self/status";

// Of the own thread, in its own table of descriptors: where it shares the job's, none is kept.
constinit int g_status = -1;
constinit uint64_t g_filters_before = 0;
constinit uint32_t g_added = 0;

constinit uint64_t g_filters_at_load = 0;

// proc_pid_status(5); since Linux 5.9, as close_range.
bool parse_filters(const char* status, uint64_t& filters) {
  constexpr const char* kName = "\nSeccomp_filters:";
  const char* at = strstr(status, kName);
  if (at == nullptr) {
    return false;
  }
  at += strlen(kName);
  filters = parse_number(at + strspn(at, " \t"), nullptr);
  return true;
}

bool count_filters(uint64_t& filters) {
  char text[4096];  // of the own thread's stack
  const ssize_t got = pread(g_status, text, sizeof text - 1, 0);
  text[got > 0 ? got : 0] = '\0';
  return parse_filters(text, filters);
}

// By the thread that loads this library, and the one that begins to record, whose stack may be
// small.
uint64_t filters_here() {
  static constinit char text[4096] = {};
  uint64_t filters = 0;
  read_file(kStatus, text, sizeof text);
  return parse_filters(text, filters) ? filters : 0;
}

[[gnu::constructor]] void remember_filters() {
  const int saved_errno = errno;
  g_filters_at_load = filters_here();
  errno = saved_errno;
}

}  // namespace

bool call_filters_since_load() noexcept {
  return filters_here() > g_filters_at_load;
}

void call_filters_watch() noexcept {
  publish(g_added, 0U);
  g_status = -1;
  if (!has_own_files()) {
    return;
  }
  g_status = open(kStatus, O_RDONLY | O_CLOEXEC);
  if (g_status >= 0 && !count_filters(g_filters_before)) {
    close(g_status);
    g_status = -1;
  }
}

bool call_filters_added() noexcept {
  uint64_t filters = 0;
  if (g_status >= 0 && load(g_added) == 0 && count_filters(filters) && filters > g_filters_before) {
    publish(g_added, 1U);
  }
  return call_filters_were_added();
}

bool call_filters_were_added() noexcept {
  return load(g_added) != 0;
}

}  // namespace traintrace
