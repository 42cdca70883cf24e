// What the reader knows about the machine it runs on, to compare with what a trace says.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>

#include "analyzer/reader/process_trace.h"
#include "format/trace_format.h"

namespace traintrace {

std::optional<std::array<uint64_t, 2>> boot_id();

// Inode of /proc/self/ns/pid.
std::optional<uint64_t> own_pid_namespace();

// As uname(2) has it, and so traces; empty: it is not known.
std::string name_of_this_host();

// Whether the process of that header runs right now, by the kernel's own word: same start of the
// machine, same PID namespace, same PID and start time.  Nothing: it lives, or lived, where this
// process cannot look.
std::optional<bool> is_running(const format::FileHeader& header);

// What keeps it from running, if that can be seen.  `root` stands for /, for tests.
Halt halt_of(int pid, const std::string& root = "");

}  // namespace traintrace
