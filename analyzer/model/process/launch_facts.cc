#include "analyzer/model/process/launch_facts.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

namespace traintrace {

std::string_view environment(const ProcessTrace& trace, const std::string& name) {
  const auto found = trace.facts.find("env." + name);
  return found == trace.facts.end() ? std::string_view() : std::string_view(found->second);
}

std::optional<int> environment_number(const ProcessTrace& trace, const std::string& name) {
  const std::string_view text = environment(trace, name);
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || error != std::errc() || end != text.data() + text.size() || value < 0 ||
      value >= kMostRanks) {
    return std::nullopt;
  }
  return value;
}

std::optional<int> launched_rank(const ProcessTrace& trace) {
  for (const RankVariables& variables : kRankVariables) {
    if (const auto rank = environment_number(trace, variables.rank)) {
      return rank;
    }
  }
  return std::nullopt;
}

std::string launch_key(const ProcessTrace& trace) {
  std::string key;
  for (const char* name :
       {"TORCHELASTIC_RUN_ID", "TORCHELASTIC_RESTART_COUNT", "SLURM_JOB_ID", "SLURM_STEP_ID",
        "PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid", "MASTER_ADDR", "MASTER_PORT", "WORLD_SIZE",
        "OMPI_COMM_WORLD_SIZE", "PMI_SIZE"}) {
    const std::string_view value = environment(trace, name);
    if (!value.empty()) {
      key += fmt::format("{}={}\n", name, value);
    }
  }
  return key;
}

std::string launch_name(const ProcessTrace& trace) {
  std::string name(environment(trace, "TORCHELASTIC_RUN_ID"));
  if (name.empty() || name == "none") {  // what torchrun says without --rdzv-id
    const std::string_view job = environment(trace, "SLURM_JOB_ID");
    const std::string_view step = environment(trace, "SLURM_STEP_ID");
    name = job.empty() ? "" : fmt::format("slurm-{}{}{}", job, step.empty() ? "" : ".", step);
  }
  const auto restarts = environment_number(trace, "TORCHELASTIC_RESTART_COUNT");
  if (restarts.value_or(0) > 0) {
    name += fmt::format("{}restart{}", name.empty() ? "" : "-", *restarts);
  }
  return name;
}

TimeNs first_sign_of_life(const ProcessTrace& trace) {
  TimeNs first = 0;
  const auto consider = [&](TimeNs time) {
    first = time != 0 && (first == 0 || time < first) ? time : first;
  };
  for (const ThreadText& thread : trace.threads) {
    consider(thread.started);
    consider(thread.last_call_time);
  }
  for (const CommunicatorText& communicator : trace.communicators) {
    consider(communicator.created);
    for (const OperationText& operation : communicator.recent) {
      consider(operation.enter);
    }
  }
  for (const AllocationText& allocation : trace.allocations) {
    consider(allocation.time);
  }
  for (const TensorBlockText& block : trace.tensor_blocks) {
    consider(block.time);
  }
  for (const TensorDeviceText& device : trace.tensor_devices) {
    consider(device.peak_time);
    consider(device.time);
  }
  for (const OutOfMemoryText& failure : trace.out_of_memory) {
    consider(failure.time);
  }
  return first;
}

TimeNs last_sign_of_life(const ProcessTrace& trace) {
  TimeNs last = std::max({trace.armed, trace.last_alive, trace.exited});
  for (const ThreadText& thread : trace.threads) {
    last = std::max({last, thread.last_call_time, thread.last_query_time, thread.open[0].enter,
                     thread.open[1].enter});
  }
  for (const CommunicatorText& communicator : trace.communicators) {
    last = std::max({last, communicator.last, communicator.created, communicator.ended});
  }
  return last;
}

}  // namespace traintrace
