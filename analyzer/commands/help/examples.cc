#include "analyzer/commands/help/examples.h"

#include <algorithm>
#include <iterator>

namespace traintrace {
namespace {

struct Notes {
  std::string_view command;
  std::string_view examples;
  std::string_view status;
};

constexpr std::string_view kPlain =
    "0 on success, 2 for a usage error or if no input could be read";

constexpr Notes kNotes[] = {
    {"",  // of all of it
     R"(  traintrace run -- torchrun --nproc_per_node=8 train.py     record
  traintrace analyze                                         then: which rank, where, why
  traintrace attach --all                                    a job that hangs and was not recorded
)",
     "0 on success, 2 for a usage error or if no input could be used\n"
     "  analyze, attach: 1 with a finding of severity error\n"
     "  run: that of the program, 128 + N if signal N ended it"},
    {"run",
     R"(  traintrace run -- torchrun --nproc_per_node=8 train.py
  traintrace run --out=/shared/traces -- srun python train.py
  traintrace run --gpu-timeline=cupti --mode=full -- python train.py
)",
     "that of PROGRAM; 128 + N if signal N ended it; 2 for a usage error"},
    {"analyze",
     R"(  traintrace analyze                       the run in ./traintrace; of several, the worst
  traintrace analyze host1/ host2/         traces that lie on several hosts
  traintrace analyze fr_dumps/             dumps of PyTorch's Flight Recorder
  traintrace analyze traintrace/ job.log   with what the launcher says as evidence
  traintrace analyze --format=html -o report.html
)",
     "0 without a finding of severity error, 1 with one, 2 if no input could be used"},
    {"attach",
     R"(  traintrace attach ./traintrace           sample the job whose traces these are
  traintrace attach --all                  every process here that uses CUDA or is recorded
  traintrace attach ./traintrace --watch --on-hang='mail -s hang me@example.org'
)",
     "0 without a finding of severity error, 1 with one, 2 if nothing could be sampled"},
    {"top",
     R"(  traintrace top                           the job that records into ./traintrace
  traintrace top --all --sort=memory       every recorded process of this machine
  traintrace top --once --format=json      one look, for a script
)",
     kPlain},
    {"diff",
     R"(  traintrace diff fast/ slow/              what changed between two runs
)",
     kPlain},
    {"report",
     R"(  traintrace report                        one row per function: calls, time, bytes
  traintrace report --by=rank              how each GPU's time divides, and its peak memory
  traintrace report --by=stack --frames=all    where memory and time went, by call stack
  traintrace report --by=rank --columns=rank,idle_ns,mfu_percent
  traintrace report --by=step --format=csv > steps.csv
)",
     kPlain},
    {"dump",
     R"(  traintrace dump ./traintrace --rank=2 | tail -40
  traintrace dump ./traintrace --call='nccl*'
)",
     kPlain},
    {"import",
     R"(  traintrace import flight-recorder dumps/* --out=traces/
  traintrace import kineto trace.json.gz --out=traces/
)",
     kPlain},
    {"export",
     R"(  traintrace export perfetto ./traintrace -o run.pftrace     for ui.perfetto.dev
  traintrace export torch-snapshot ./traintrace -o snap.pickle   for pytorch.org/memory_viz
)",
     kPlain},
    {"telemetry",
     R"(  srun --overlap --ntasks-per-node=1 traintrace telemetry --dir=/shared/traces &
  traintrace telemetry --dir=traintrace --prometheus=/var/lib/node_exporter/traintrace.prom
)",
     "0 when the job has ended or a signal asked for the end, 2 if NVML cannot be used or nothing "
     "can be written"},
    {"collect",
     R"(  srun --ntasks-per-node=1 traintrace collect /shared/traces    once on each host
  traintrace collect ./traintrace --to=/shared/traces --ring=30s
  traintrace analyze /shared/traces                             then
)",
     kPlain},
    {"calls",
     R"(  traintrace calls | grep -i malloc
)",
     kPlain},
    {"findings",
     R"(  traintrace findings                      all codes
  traintrace findings collective.missing-rank    causes, how to confirm, how to fix
  traintrace findings oom                  all that mention a word
  traintrace findings --thresholds         every number that decides a verdict
)",
     kPlain},
    {"settings",
     R"(  traintrace settings                      all, with defaults and values
  traintrace settings TRAINTRACE_MODE      one
)",
     kPlain},
    {"help",
     R"(  traintrace help analyze
  traintrace help --man | man -l -
)",
     kPlain},
};

const Notes* notes_of(std::string_view command) {
  const auto* const notes =
      std::find_if(std::begin(kNotes), std::end(kNotes),
                   [&](const Notes& each) { return each.command == command; });
  return notes == std::end(kNotes) ? nullptr : notes;
}

}  // namespace

std::string examples_of(std::string_view command) {
  const Notes* const notes = notes_of(command);
  return notes == nullptr ? "" : std::string(notes->examples);
}

std::string usage_notes(std::string_view command) {
  const Notes* const notes = notes_of(command);
  return notes == nullptr ? ""
                          : "Examples:\n" + std::string(notes->examples) +
                                "\nExit status: " + std::string(notes->status);
}

}  // namespace traintrace
