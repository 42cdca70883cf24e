// The options of traintrace analyze.
#include <memory>

#include "analyzer/commands/analyze.h"
#include "analyzer/commands/analyze_mpi.h"
#include "analyzer/commands/command.h"
#include "analyzer/detectors/catalogue.h"
#include "analyzer/text/nearest.h"
#include "analyzer/text/words.h"

namespace traintrace {
namespace {

std::string complaint_about(const std::vector<std::string>& codes) {
  std::vector<std::string> known;
  for (const CatalogueRow& row : catalogue()) {
    known.emplace_back(row.code);
  }
  for (const std::string& code : codes) {
    if (catalogue_row(code) == nullptr) {
      return "no finding has the code " + code + did_you_mean(code, known);
    }
  }
  return "";
}

enum class Processes { kThis, kOfLauncher };

int run_analysis(AnalyzeOptions& options, const std::string& hang_after, Processes processes) {
  const auto ns = parse_duration(hang_after);
  if (!ns || *ns < 0) {
    return fail("--hang-after=" + hang_after + ": write a time as 5s or 500ms");
  }
  options.run.hang_after = *ns;
  if (const std::string complaint = complaint_about(options.only); !complaint.empty()) {
    return fail(complaint);
  }
  const bool to_file = !options.output.empty() && options.output != "-";
  options.screen = to_file ? Screen() : stdout_screen();
  return processes == Processes::kThis ? analyze(options) : analyze_with_others(options);
}

}  // namespace

void declare_analyze(CLI::App& command, Invocation& invocation) {
  auto options = std::make_shared<AnalyzeOptions>();
  auto hang_after = std::make_shared<std::string>("5s");
  add_debuginfod(command);
  add_communication_kernels(command);
  add_traces(command, options->traces);
  command.get_option("TRACE")->description(
      "folders or files (default: ./traintrace): traces; traces of PyTorch's profiler, dumps of "
      "its "
      "Flight Recorder, snapshots of its memory; and beside these, or alone, logs: of the job "
      "and its launcher, NCCL's, the kernel's; NCCL's RAS status; kubectl describe pod");
  command.add_option("--only", options->only, "report only findings with these codes")
      ->delimiter(',')
      ->allow_extra_args(false);
  command.add_option("--run", options->run.run, "analyze this run, if the folder has several");
  command
      .add_option("--hang-after", *hang_after,
                  "report a hang only if ranks have been blocked this long")
      ->capture_default_str();
  add_format(command, options->format, {"text", "json", "html"});
  command.add_option("-o,--output", options->output, "write the result to this file; - is stdout");
  auto mpi = std::make_shared<bool>(false);
  command.add_flag("--mpi", *mpi,
                   "under mpirun or srun, one process per host: each reads what lies there, the "
                   "first one judges");
  command
      .add_option("--patience", options->patience_seconds,
                  "seconds that --mpi waits for a process that says nothing")
      ->check(CLI::PositiveNumber)
      ->group("");
  // The processes of other hosts may see what this one does not.
  command.parse_complete_callback([options, mpi] {
    take_inputs(options->traces);
    if (!*mpi) {
      need_answers(options->traces);
      ask_again_later(options->traces);
    }
  });
  command.callback([options, hang_after, mpi, &invocation] {
    invocation.status =
        run_analysis(*options, *hang_after, *mpi ? Processes::kOfLauncher : Processes::kThis);
  });
}

}  // namespace traintrace
