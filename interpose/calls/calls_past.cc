#include "interpose/calls/calls_past.h"

#include <fcntl.h>
#include <link.h>
#include <unistd.h>

#include <cstring>

#include "interpose/base/files.h"
#include "interpose/base/guard.h"
#include "interpose/calls/copies.h"
#include "interpose/calls/relocations.h"
#include "interpose/life/call_filters.h"
#include "interpose/life/facts.h"
#include "interpose/record/stats.h"
#include "interpose/stacks/loader_walk.h"
#include "interpose/stacks/modules.h"

namespace traintrace {
namespace {

// A function is bound when it is called first, so looking once is not enough.
constexpr uint32_t kLooksAfterALoad = 7;

int read_loads(dl_phdr_info* info, size_t, void* loads) {
  *static_cast<uint64_t*>(loads) = info->dlpi_adds;
  return 1;
}

uint64_t parse_hex(const char* text, const char*& end) {
  uint64_t value = 0;
  for (end = text; (*end >= '0' && *end <= '9') || (*end >= 'a' && *end <= 'f'); ++end) {
    value = value << 4 | static_cast<uint64_t>(*end <= '9' ? *end - '0' : *end - 'a' + 10);
  }
  return value;
}

bool is_in_vendor_library(uint64_t address) {
  const Module* const module = module_of(address);
  return module && is_vendor_library(module->path);
}

}  // namespace

bool CallsPast::Places::has(uint64_t wanted) const noexcept {
  for (int i = 0; i < count; ++i) {
    if (address[i] == wanted) {
      return true;
    }
  }
  return false;
}

void CallsPast::Places::add(uint64_t another) noexcept {
  if (count < kMost) {
    address[count++] = another;
  }
}

// In seconds 1, 2, 4, .. after the last load.
bool CallsPast::is_due() noexcept {
  uint64_t loads = 0;
  walk_loader(read_loads, &loads);
  if (loads != seen_loads_) {
    seen_loads_ = loads;
    seconds_ = 0;
    looks_ = 0;
  }
  ++seconds_;
  return looks_ < kLooksAfterALoad && seconds_ == 1U << looks_;
}

void CallsPast::report(ThreadState& own, uint64_t address, const char* path,
                       const char* how) noexcept {
  if (found_.count == Places::kMost || found_.has(address)) {
    return;
  }
  found_.add(address);
  traintrace::count(format::Stat::CallsPast);
  ShortText key;
  key << "calls-past." << int64_t{found_.count};
  ShortText value;
  value << path << ": " << how;
  write_fact(own, key.c_str(), value.c_str());
}

// "7f12000-7f13000 r-xp 00000000 08:01 1234   /usr/lib/libcuda.so.1": code of a vendor's library
// that the loader does not know of here.
void CallsPast::look_at_mapping(ThreadState& own, const char* line, Places& candidates) noexcept {
  const char* end = nullptr;
  const uint64_t begin = parse_hex(line, end);
  const char* const rights = strchr(end, ' ');
  const char* const path = rights ? strchr(rights, '/') : nullptr;
  if (!path || rights[3] != 'x' || !is_vendor_library(path) || module_of(begin)) {
    return;
  }
  if (candidates_.has(begin)) {
    report(own, begin, path, "loaded into a namespace of its own (dlmopen)");
  }
  candidates.add(begin);
}

void CallsPast::look_at_mappings(ThreadState& own) noexcept {
  const int file = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
  Places candidates = {};
  char text[8192];
  size_t length = 0;
  for (ssize_t got = 1; file >= 0 && got > 0;) {
    got = read(file, text + length, sizeof text - 1 - length);
    length += got > 0 ? static_cast<size_t>(got) : 0;
    text[length] = '\0';
    char* line = text;
    for (char* end = strchr(line, '\n'); end; end = strchr(line, '\n')) {
      *end = '\0';
      look_at_mapping(own, line, candidates);
      line = end + 1;
    }
    length -= static_cast<size_t>(line - text);
    memmove(text, line, length);
  }
  if (file >= 0) {
    close(file);
  }
  candidates_ = candidates;
}

void CallsPast::look_at_callers(ThreadState& own) noexcept {
  constexpr int kMost = 32;
  Importer importers[kMost];
  const int count = find_importers(importers, kMost);
  for (int i = 0; i < count; ++i) {
    if (!found_.has(importers[i].base) && any_bound_past_us(importers[i], is_in_vendor_library)) {
      report(own, importers[i].base, importers[i].path,
             "bound to CUDA or NCCL past the tracer (RTLD_DEEPBIND)");
    }
  }
}

// Before it is armed, nothing can be counted.
void CallsPast::look(ThreadState& own) noexcept {
  if (armed_generation() && loader_can_be_asked() && is_due() && !call_filters_added()) {
    ++looks_;
    refresh_modules();
    look_at_mappings(own);
    look_at_callers(own);
  }
}

}  // namespace traintrace
