#include "interpose/nvtx/early_ranges.h"

#include <string.h>

#include "interpose/base/files.h"
#include "interpose/nvtx/range_records.h"
#include "interpose/record/clock.h"
#include "interpose/tables/tables.h"

namespace traintrace {
namespace {

constexpr uint32_t kMostThreads = 64;
constexpr size_t kMostText = 240;

struct EarlyRange {
  uint64_t ticks;  // 0: popped, while others were above it
  const Registered* domain;
  uint32_t domain_number;
  uint32_t bytes;      // of text
  uint32_t key_bytes;  // of a note: text behind them
  uint32_t reserved;
  int64_t step;
  char text[kMostText];
};

struct EarlyThread {
  int32_t taken;  // 0: free
  int32_t depth;  // it may be more than there is room for
  EarlyRange ranges[format::kMostOpenRanges];
};
constinit EarlyThread g_threads[kMostThreads] = {};  // untouched pages take no memory
constinit thread_local EarlyThread* t_early = nullptr;
constinit bool g_clock_chosen = false;

// Null: there is no room.
EarlyThread* claim() {
  if (t_early == nullptr) {
    if (!load(g_clock_chosen)) {
      choose_clock();
      publish(g_clock_chosen, true);
    }
    for (EarlyThread& place : g_threads) {
      if (load(place.taken) == 0 && exchange_if(place.taken, 0, 1)) {
        place.depth = 0;
        t_early = &place;
        break;
      }
    }
  }
  return t_early;
}

void give_back() {
  EarlyThread* const early = t_early;
  t_early = nullptr;
  publish(early->taken, 0);
}

int32_t kept(const EarlyThread& early) {
  constexpr auto kMost = static_cast<int32_t>(format::kMostOpenRanges);
  return early.depth < kMost ? early.depth : kMost;
}

void set_text(EarlyRange& range, const char* text, size_t bytes) {
  range.bytes = static_cast<uint32_t>(bytes < kMostText ? bytes : kMostText);
  memcpy(range.text, text, range.bytes);
}

// Where one of that domain is open, if `replaces`; else one more.  Null: there is no room.
EarlyRange* place_for(uint32_t domain_number, bool replaces) {
  EarlyThread* const early = claim();
  if (early == nullptr) {
    return nullptr;
  }
  for (int32_t i = 0; replaces && i < kept(*early); ++i) {
    if (early->ranges[i].domain_number == domain_number && early->ranges[i].ticks != 0) {
      return &early->ranges[i];
    }
  }
  const int32_t at = early->depth++;
  if (at >= static_cast<int32_t>(format::kMostOpenRanges)) {
    return nullptr;
  }
  EarlyRange& range = early->ranges[at];
  range = {};
  range.domain_number = domain_number;
  return &range;
}

}  // namespace

void early_pushed(const Registered* domain, uint32_t domain_number,
                  const RangeName& name) noexcept {
  if (EarlyRange* const range = place_for(domain_number, false)) {
    set_text(*range, name.text, name.bytes);
    range->domain = domain;
    range->ticks = clock_ticks();
  }
}

void early_popped(uint32_t domain_number) noexcept {
  EarlyThread* const early = t_early;
  if (early == nullptr) {
    return;
  }
  if (early->depth > kept(*early)) {
    --early->depth;
    return;
  }
  int32_t at = early->depth - 1;
  while (at >= 0 &&
         (early->ranges[at].domain_number != domain_number || early->ranges[at].ticks == 0)) {
    --at;
  }
  if (at < 0) {
    return;
  }
  early->ranges[at].ticks = 0;
  while (early->depth > 0 && early->ranges[early->depth - 1].ticks == 0) {
    --early->depth;
  }
  if (early->depth == 0) {
    give_back();
  }
}

void early_step(int64_t number) noexcept {
  if (EarlyRange* const range = place_for(format::kStepDomain, true)) {
    range->step = number;
    range->ticks = clock_ticks();
  }
}

void early_note(const RangeName& key, const char* text) noexcept {
  if (EarlyRange* const range = place_for(note_domain(key), true)) {
    char both[kMostText + 1];
    Text writer(both, sizeof both);
    writer.append(key.text, key.bytes);
    range->key_bytes =
        static_cast<uint32_t>(writer.length() < kMostText ? writer.length() : kMostText);
    writer.append(text, strnlen(text, kMostText));
    set_text(*range, both, strnlen(both, kMostText));
    range->ticks = clock_ticks();
  }
}

bool has_early_ranges() noexcept {
  return t_early != nullptr;
}

void record_early_ranges(ThreadState& thread) noexcept {
  const EarlyThread& early = *t_early;
  for (int32_t i = 0; i < kept(early); ++i) {
    const EarlyRange& range = early.ranges[i];
    char text[kMostText + 1] = {};
    memcpy(text, range.text, range.bytes);
    const uint64_t hash = range.domain == nullptr ? kDefaultDomainHash : range.domain->hash;
    if (range.ticks == 0) {
      continue;
    }
    if (range.domain_number == format::kStepDomain) {
      record_step(thread, range.step, range.ticks);
    } else if (range.domain_number >= format::kNoteDomain) {
      char key[kMostText + 1] = {};
      memcpy(key, text, range.key_bytes);
      record_note(thread, range_name(kDefaultDomainHash, key), text + range.key_bytes, range.ticks);
    } else {
      record_push(thread, range.domain, range.domain_number, range_name(hash, text), range.ticks);
    }
  }
  give_back();
}

}  // namespace traintrace
