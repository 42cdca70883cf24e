#include "interpose/facts.h"

#include <unistd.h>

#include <cstring>

#include "interpose/definitions.h"
#include "interpose/files.h"

namespace traintrace {
namespace {

// Who a rank is, and what changes how CUDA, NCCL and PyTorch behave.  Nothing else: environments
// hold secrets.
constexpr const char* kExact[] = {
    "RANK",       "LOCAL_RANK",     "WORLD_SIZE",       "LOCAL_WORLD_SIZE",
    "GROUP_RANK", "ROLE_RANK",      "GROUP_WORLD_SIZE", "ROLE_WORLD_SIZE",
    "PMIX_RANK",  "PMIX_NAMESPACE", "OMP_NUM_THREADS",
};
constexpr const char* kPrefixes[] = {
    "MASTER_", "TORCHELASTIC_", "OMPI_COMM_WORLD_", "PMI_",   "SLURM_",      "NCCL_",
    "CUDA_",   "NVIDIA_",       "PYTORCH_",         "TORCH_", "TRAINTRACE_",
};
// Of these only what tells ranks apart: the rest has hundreds of variables.
constexpr const char* kSlurm[] = {
    "SLURM_PROCID",        "SLURM_LOCALID",       "SLURM_NTASKS", "SLURM_JOB_ID",
    "SLURM_STEP_ID",       "SLURM_NODEID",        "SLURM_NNODES", "SLURMD_NODENAME",
    "SLURM_JOB_NUM_NODES", "SLURM_RESTART_COUNT",
};

template <size_t N>
bool names_one_of(const char* variable, size_t length, const char* const (&names)[N]) {
  for (const char* name : names) {
    if (strlen(name) == length && memcmp(name, variable, length) == 0) {
      return true;
    }
  }
  return false;
}

bool is_wanted(const char* variable, size_t length) {
  if (starts_with(variable, "SLURM")) {
    return names_one_of(variable, length, kSlurm);
  }
  for (const char* prefix : kPrefixes) {
    if (starts_with(variable, prefix)) {
      return true;
    }
  }
  return names_one_of(variable, length, kExact);
}

void write_environment(ThreadState& thread) {
  for (char** at = environ; at && *at; ++at) {
    const char* const equals = strchr(*at, '=');
    const size_t length = equals ? static_cast<size_t>(equals - *at) : 0;
    if (length && is_wanted(*at, length)) {
      ShortText key;
      key << "env.";
      key.append(*at, length);
      write_fact(thread, key.c_str(), equals + 1);
    }
  }
}

void write_program(ThreadState& thread) {
  char text[4096];
  const ssize_t exe = readlink("/proc/self/exe", text, sizeof text);
  if (exe > 0) {
    define_fact(thread, "exe", text, static_cast<size_t>(exe));
  }
  size_t line = read_file("/proc/self/cmdline", text, sizeof text);
  while (line && !text[line - 1]) {
    --line;
  }
  define_fact(thread, "command-line", text, line);
  if (getcwd(text, sizeof text)) {
    write_fact(thread, "cwd", text);
  }
}

void write_settings(ThreadState& thread, const Settings& settings, uint32_t ring_mb) {
  for (int i = 0; i < static_cast<int>(format::Setting::kCount); ++i) {
    const auto setting = static_cast<format::Setting>(i);
    ShortText key;
    ShortText value;
    key << "setting." << format::kSettings[i].environment;
    if (setting == format::Setting::RingMb) {
      value << int64_t{ring_mb};
    } else {
      value << value_in_force(settings, setting);
    }
    write_fact(thread, key.c_str(), value.c_str());
    if (settings.errors[i]) {
      ShortText error;
      error << "setting-error." << format::kSettings[i].environment;
      write_fact(thread, error.c_str(), settings.errors[i]);
    }
  }
}

}  // namespace

void write_fact(ThreadState& thread, const char* key, const char* value) noexcept {
  define_fact(thread, key, value, strlen(value));
}

void write_facts(ThreadState& thread, const Settings& settings, uint32_t ring_mb) noexcept {
  write_fact(thread, "traintrace-version", TT_VERSION);
  write_environment(thread);
  write_program(thread);
  write_settings(thread, settings, ring_mb);
}

}  // namespace traintrace
