// The modules of the process as definitions of the trace.
#include <string.h>

#include "interpose/record/clock.h"
#include "interpose/record/definitions.h"
#include "interpose/record/stats.h"
#include "interpose/stacks/modules.h"
#include "interpose/stacks/stacks.h"
#include "interpose/tables/tables.h"

namespace traintrace {
namespace {

// Whoever refreshes the table of modules may be any thread, deep in a walk: what is new waits here
// until a thread that can write definitions comes by.
struct Waiting {
  const Module* module;
  uint64_t loaded_ticks;
};
constexpr uint32_t kMostWaiting = 1U << 12;
Waiting* g_waiting;
uint32_t g_written;  // entries handed over by the refresher, of which there is one at a time
uint32_t g_read;

// A module that comes and goes in a loop is defined again each time, in case another one was at its
// place meanwhile, but not for ever.
constexpr uint32_t kMostIds = 1U << 13;
constexpr uint8_t kMostDefinitions = 8;
uint8_t* g_definitions;

void note_module(const Module& module, bool loaded) noexcept {
  if (!loaded || g_waiting == nullptr) {
    return;
  }
  uint8_t& definitions = g_definitions[module.id % kMostIds];
  if (definitions == kMostDefinitions) {
    return;
  }
  const uint32_t index = g_written;
  if (index - load(g_read) == kMostWaiting) {
    count(format::Stat::DefinitionsFull);
    return;
  }
  ++definitions;
  g_waiting[index % kMostWaiting] = {&module, clock_ticks()};
  publish(g_written, index + 1);
}

void define(ThreadState& thread, const Waiting& waiting) {
  const Module& module = *waiting.module;
  const size_t path_bytes = strnlen(module.path, sizeof module.path);
  auto* const definition = static_cast<format::ModuleDefinition*>(
      begin_definition(thread, format::kModule,
                       sizeof(format::ModuleDefinition) + module.build_id_bytes + path_bytes));
  if (definition == nullptr) {
    return;
  }
  definition->begin = module.begin;
  definition->end = module.end;
  definition->bias = module.bias;
  definition->loaded_ticks = waiting.loaded_ticks;
  definition->build_id_bytes = module.build_id_bytes;
  definition->path_bytes = static_cast<uint32_t>(path_bytes);
  char* const path =
      append(reinterpret_cast<char*>(definition + 1), module.build_id, module.build_id_bytes);
  append(path, module.path, path_bytes);
  commit_definition(thread, definition);
}

}  // namespace

void define_modules(ThreadState& thread) noexcept {
  refresh_modules();
  for (uint32_t index = load(g_read); index != load(g_written); index = load(g_read)) {
    const Waiting waiting = g_waiting[index % kMostWaiting];
    if (exchange_if(g_read, index, index + 1)) {
      define(thread, waiting);
    }
  }
}

void modules_start() noexcept {
  g_written = 0;
  g_read = 0;
  g_waiting = private_array<Waiting>(kMostWaiting);
  g_definitions = private_array<uint8_t>(kMostIds);
  if (g_definitions == nullptr) {
    g_waiting = nullptr;
  }
  listen_to_modules(note_module);
}

void modules_drop() noexcept {
  listen_to_modules(nullptr);
  g_waiting = nullptr;
}

}  // namespace traintrace
