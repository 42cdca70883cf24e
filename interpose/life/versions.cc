#include "interpose/life/versions.h"

#include <link.h>

#include "interpose/base/files.h"
#include "interpose/calls/resolve.h"
#include "interpose/life/facts.h"
#include "interpose/life/told.h"
#include "interpose/stacks/objects.h"
#include "interpose/tables/tables.h"

namespace traintrace {
namespace {

using format::Library;

// Both only store a number, before any initialisation too, whichever thread asks.
// cudaRuntimeGetVersion is none of them: it waits for the runtime's own start.
using GetVersion = int (*)(int*);
struct Version {
  Library library;
  const char* function;
  const char* fact;
  GetVersion get;
  uint32_t written;
};
constinit Version g_versions[] = {
    {Library::Driver, "cuDriverGetVersion", "cuda-driver-version", nullptr, 1},
    {Library::Nccl, "ncclGetVersion", "nccl-version", nullptr, 1},
};

constinit bool g_runtime_in_program = false;
constinit uint32_t g_runtime_written = 0;

// 13020 is CUDA 13.2; 22809 is NCCL 2.28.9, 2708 is 2.7.8.
void write_text(Library library, int64_t version, Text& text) {
  if (library == Library::Driver) {
    text << version / 1000 << "." << version % 1000 / 10;
    return;
  }
  const int64_t major = version < 10'000 ? 1000 : 10'000;
  text << version / major << "." << version % major / 100 << "." << version % 100;
}

}  // namespace

constinit bool g_new_version = false;

void version_sought(Library library, void* handle) noexcept {
  for (Version& version : g_versions) {
    if (version.library == library && load(version.get) == nullptr) {
      publish(version.get, reinterpret_cast<GetVersion>(real_lookup(handle, version.function)));
      publish(g_new_version, true);
    }
  }
}

void runtime_asks(const void* caller) noexcept {
  const link_map* const map = map_of(caller);
  if (map && !map->l_prev) {  // the program comes first, and has no name
    publish(g_runtime_in_program, true);
    publish(g_new_version, true);
  }
}

void define_versions(ThreadState& thread) noexcept {
  publish(g_new_version, false);
  if (load(g_runtime_in_program) && exchange_if(g_runtime_written, 0U, 1U)) {
    write_fact(thread, "cuda-runtime", "program");
    tell_static_runtime();
  }
  for (Version& version : g_versions) {
    const GetVersion get = load(version.written) == 0 ? load(version.get) : nullptr;
    int number = 0;
    if (get == nullptr || !exchange_if(version.written, 0U, 1U) || get(&number) != 0) {
      continue;
    }
    WordText text;
    write_text(version.library, number, text);
    write_fact(thread, version.fact, text.c_str());
  }
}

void versions_start() noexcept {
  publish(g_runtime_written, 0U);
  for (Version& version : g_versions) {
    publish(version.written, 0U);
  }
  publish(g_new_version, true);
}

}  // namespace traintrace
