// Memory of a rank's GPU that failed during the run, or that waits to be repaired.
#include <fmt/format.h>

#include <algorithm>

#include "analyzer/detectors/catalogue.h"
#include "analyzer/detectors/device/memory_errors.h"
#include "analyzer/detectors/device/telemetry_findings.h"

namespace traintrace {
namespace {

std::string rows_text(const MemoryErrors& errors) {
  std::string text;
  if (errors.remapped > 0) {
    text += fmt::format("; {} row{} remapped", errors.remapped, errors.remapped == 1 ? "" : "s");
  }
  text += errors.is_failed ? "; a remapping has failed" : "";
  return text + (errors.is_pending ? "; a remapping waits for the GPU to be reset" : "");
}

std::optional<Finding> finding_about(const RankGpu& gpu) {
  const MemoryErrors errors = memory_errors_of(gpu);
  const bool is_new = errors.uncorrected > 0 || errors.remapped > 0;
  if (!is_new && !errors.is_failed && !errors.is_pending) {
    return std::nullopt;
  }
  Finding finding;
  finding.code = "device.ecc";
  finding.severity = errors.uncorrected > 0       ? catalogue_row(finding.code)->severity
                     : is_new || errors.is_failed ? Severity::kWarning
                                                  : Severity::kInfo;
  const std::string what = errors.uncorrected > 0
                               ? fmt::format("{} uncorrected ECC error{} in", errors.uncorrected,
                                             errors.uncorrected == 1 ? "" : "s")
                           : errors.remapped > 0 ? fmt::format("rows were remapped in")
                           : errors.is_failed    ? "remapping a row has failed in"
                                                 : "a row waits to be remapped in";
  finding.title = fmt::format("{} the memory of the GPU of {}{}", what, ranks_text(gpu.ranks),
                              is_new ? " during the run" : ", since before the run");
  finding.culprits = is_new ? gpu.ranks : Ranks{};
  finding.sides = {gpu.ranks};
  finding.values = {{"uncorrected_count", errors.uncorrected},
                    {"corrected_count", errors.corrected},
                    {"remapped_count", errors.remapped}};
  finding.evidence = {gpu_text(*gpu.history) + rows_text(errors)};
  finding.advice =
      errors.is_failed
          ? "replace the GPU: `nvidia-smi -q -d ROW_REMAPPER,ECC`, `dcgmi diag -r 3`"
          : "drain the node and reset the GPU (`nvidia-smi -r`), which puts spare rows "
            "into use; `dcgmi diag -r 3` before it goes back";
  return finding;
}

}  // namespace

std::vector<Finding> find_memory_errors(const std::vector<RankGpu>& gpus) {
  std::vector<Finding> findings;
  for (const RankGpu& gpu : gpus) {
    if (std::optional<Finding> finding = finding_about(gpu)) {
      findings.push_back(std::move(*finding));
    }
  }
  return findings;
}

}  // namespace traintrace
