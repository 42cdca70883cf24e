// Which processes of a job ended, and how, in the words of what started or watched them: Slurm,
// MPI, DeepSpeed, Lightning, Ray, Kubernetes, the kernel (launcher_lines.def).
#pragma once

#include <string>
#include <string_view>

#include "analyzer/importers/logs/testimony.h"

namespace traintrace {

struct LauncherLog {
  Testimony testimony;  // no witnesses: there was no such line
  // From outside the job's processes, so that it explains what these say: memory of the host, a
  // node that failed, a time limit.
  bool tells_outer_cause = false;
};

bool looks_like_launcher_log(std::string_view bytes);
LauncherLog read_launcher_log(std::string_view bytes, const std::string& file);

}  // namespace traintrace
