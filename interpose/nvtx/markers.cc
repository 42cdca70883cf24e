// What the job says of itself by include/traintrace.h or the package of Python.
#include "interpose/nvtx/range_records.h"
#include "interpose/tables/tables.h"

namespace traintrace {

extern "C" {  // NOLINTBEGIN
void tt_hook_traintrace_step(int64_t number);
void tt_hook_traintrace_range_push(const char* name);
void tt_hook_traintrace_range_pop();
void tt_hook_traintrace_range_end(const char* name);
void tt_hook_traintrace_mark(const char* text);
void tt_hook_traintrace_note(const char* key, const char* text);
}  // NOLINTEND

namespace {

constinit int64_t g_latest_step = -1;

RangeName named(const char* text) {
  return range_name(kDefaultDomainHash, text);
}

}  // namespace

extern "C" {
// Called what exports.def says.  NOLINTBEGIN(*-identifier-naming)

void tt_hook_traintrace_step(int64_t number) {
  const int64_t step = number >= 0 ? number : load(g_latest_step) + 1;
  publish(g_latest_step, step);
  step_begun(step);
}

void tt_hook_traintrace_range_push(const char* name) {
  marker_pushed(named(name));
}

void tt_hook_traintrace_range_pop() {
  marker_popped();
}

void tt_hook_traintrace_range_end(const char* name) {
  marker_ended(named(name));
}

void tt_hook_traintrace_mark(const char* text) {
  marker_marked(named(text));
}

void tt_hook_traintrace_note(const char* key, const char* text) {
  note_made(named(key), text == nullptr ? "" : text);
}

// NOLINTEND(*-identifier-naming)
}  // extern "C"

}  // namespace traintrace
