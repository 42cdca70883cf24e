// What is written once about the process: its environment, program, folder, settings.
#pragma once

#include "interpose/life/settings.h"
#include "interpose/record/memory_region.h"
#include "interpose/record/thread.h"

namespace traintrace {

void write_fact(ThreadState& thread, const char* key, const char* value) noexcept;
void write_facts(ThreadState& thread, const Settings& settings,
                 const MemoryRegion& region) noexcept;

}  // namespace traintrace
