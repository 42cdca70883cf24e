/* Markers: where in its work a job is, for traintrace.
 *
 * Each function does nothing (1 ns) unless the process was started by `traintrace run` or with
 * libtraintrace.so in LD_PRELOAD.  A job needs no library to be linked to for it; before glibc 2.34
 * link with -ldl.  C99 and C++.  Names and texts are copied, and cut to 512 bytes.
 */
#ifndef TRAINTRACE_H
#define TRAINTRACE_H

#include <dlfcn.h>
#include <stdint.h>
#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What the library exports under these names. */
struct traintrace_markers {
  int looked; /* 1: the pointers are as they stay; null: not there */
  void (*step)(int64_t);
  void (*range_push)(const char*);
  void (*range_pop)(void);
  void (*range_end)(const char*);
  void (*mark)(const char*);
  void (*note)(const char*, const char*);
};

static inline void traintrace_look_up_(const char* name, void* pointer) {
  void* const function = dlsym((void*)0 /* RTLD_DEFAULT */, name);
  memcpy(pointer, &function, sizeof function);
}

static inline const struct traintrace_markers* traintrace_markers_(void) {
  static struct traintrace_markers markers;
  if (!__atomic_load_n(&markers.looked, __ATOMIC_ACQUIRE)) {
    traintrace_look_up_("traintrace_step", &markers.step);
    traintrace_look_up_("traintrace_range_push", &markers.range_push);
    traintrace_look_up_("traintrace_range_pop", &markers.range_pop);
    traintrace_look_up_("traintrace_range_end", &markers.range_end);
    traintrace_look_up_("traintrace_mark", &markers.mark);
    traintrace_look_up_("traintrace_note", &markers.note);
    __atomic_store_n(&markers.looked, 1, __ATOMIC_RELEASE);
  }
  return &markers;
}

/* A step of the training loop begins on this thread, and the one before it ends.  Negative: the
 * number after that of the latest step of the process, from 0. */
static inline void tt_step(int64_t number) {
  const struct traintrace_markers* const markers = traintrace_markers_();
  if (markers->step) {
    markers->step(number);
  }
}

/* A part of the work, on this thread, until the matching tt_range_pop().  They nest, and need not
 * nest with ranges of NVTX. */
static inline void tt_range_push(const char* name) {
  const struct traintrace_markers* const markers = traintrace_markers_();
  if (markers->range_push) {
    markers->range_push(name);
  }
}
static inline void tt_range_pop(void) {
  const struct traintrace_markers* const markers = traintrace_markers_();
  if (markers->range_pop) {
    markers->range_pop();
  }
}
/* Ends the innermost range of that name, whatever has been pushed since: where parts of the work
 * take turns on one thread, as coroutines do. */
static inline void tt_range_end(const char* name) {
  const struct traintrace_markers* const markers = traintrace_markers_();
  if (markers->range_end) {
    markers->range_end(name);
  }
}

/* A moment. */
static inline void tt_mark(const char* text) {
  const struct traintrace_markers* const markers = traintrace_markers_();
  if (markers->mark) {
    markers->mark(text);
  }
}

/* What this thread works on from now on, until the next note with that key: tt_note("samples",
 * "88211-88242").  It may be a new text each time. */
static inline void tt_note(const char* key, const char* text) {
  const struct traintrace_markers* const markers = traintrace_markers_();
  if (markers->note) {
    markers->note(key, text);
  }
}

#ifdef __cplusplus
}
#endif

#endif
