// NCCL_DEBUG=VERSION|WARN|INFO and the text of ncclGetLastError.
#pragma once
#include <cstdint>

namespace simgpu::nccl {

enum class DebugLevel { kNone, kVersion, kWarn, kInfo };

DebugLevel debug_level();
void reload_debug_level();

// One line on stdout, as NCCL writes it.  warn() also becomes the last error.
void warn(const char* format, ...) __attribute__((format(printf, 1, 2)));
void info(const char* format, ...) __attribute__((format(printf, 1, 2)));
void print_version_once();

// Valid until the calling thread asks again.
const char* last_error();

}  // namespace simgpu::nccl
