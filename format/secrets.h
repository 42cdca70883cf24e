// What of a process's environment and command line may be kept: the tracer writes it, `attach`
// reads the same of processes that nobody recorded.  No allocation, no locale, nothing that
// sanitizers replace: the tracer calls it while the job runs.
#pragma once

#include <cstddef>
#include <cstdint>

namespace traintrace::format {

enum class Kept : uint8_t { Nothing, Name, Value, Identity };

// By format/environment.def.
Kept kept_of_variable(const char* name, size_t bytes) noexcept;

// Stands for the value of a variable of which the name alone is kept.
inline constexpr char kNameOnly[] = "(set)";
// Of a value with more bytes nothing is kept, of a command line the arguments that fit whole: a
// part does not show whether it belongs to a secret.
inline constexpr size_t kMostText = 4095;
inline constexpr char kTooLong[] = "(too long)";

// Masks what looks like a secret by "***", in place; returns the new length, never a larger one.
// `text` is one value, or arguments separated by NUL as in /proc/PID/cmdline.  Masked are
//   - passwords in URLs, with the user: https://***@host
//   - values of names that speak of secrets: --api-key VALUE, --token=VALUE, {"password": "VALUE"}
//   - tokens that begin like those of a known service (secrets.def)
//   - random strings of 20 characters or more, but for paths and for what is named a digest
size_t mask_secrets(char* text, size_t bytes) noexcept;

// What is kept of a value by Value and Identity: of the latter only URLs and tokens of known
// services are masked.
size_t mask_value(Kept kept, char* value, size_t bytes) noexcept;

}  // namespace traintrace::format
