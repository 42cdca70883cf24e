// What is written once about the process: its environment, program, folder, settings.
#pragma once

#include "interpose/memory_region.h"
#include "interpose/settings.h"
#include "interpose/thread.h"

namespace traintrace {

void write_fact(ThreadState& thread, const char* key, const char* value) noexcept;
void write_facts(ThreadState& thread, const Settings& settings,
                 const MemoryRegion& region) noexcept;

}  // namespace traintrace
