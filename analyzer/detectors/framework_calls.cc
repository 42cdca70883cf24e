#include "analyzer/detectors/framework_calls.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <optional>
#include <vector>

#include "analyzer/model/process/activity.h"
#include "analyzer/model/process/code_place.h"
#include "analyzer/model/process/idle_host.h"
#include "analyzer/model/process/open_ranges.h"
#include "analyzer/model/process/range_spans.h"
#include "analyzer/model/process/told_steps.h"

namespace traintrace {
namespace {

// A frame of a framework.  Empty function: any of that file.
struct FrameworkFrame {
  std::string_view file;  // what its path ends with
  std::string_view function;
  FrameworkCall call;
};
constexpr FrameworkFrame kFrames[] = {
    {"torch/distributed/fsdp/_flat_param.py", "_all_gather_flat_param", FrameworkCall::kGatherUnit},
    {"torch/distributed/fsdp/_runtime_utils.py", "_reduce_grad", FrameworkCall::kReduceUnit},
    {"/_fsdp_collectives.py", "foreach_all_gather", FrameworkCall::kGatherUnit},
    {"/_fsdp_collectives.py", "foreach_reduce", FrameworkCall::kReduceUnit},
    {"/distributed/param_and_grad_buffer.py", "start_grad_sync", FrameworkCall::kMegatronBucket},
    {"/pipeline_parallel/p2p_communication.py", "recv_forward", FrameworkCall::kPipeline},
    {"/pipeline_parallel/p2p_communication.py", "recv_backward", FrameworkCall::kPipeline},
    {"/pipeline_parallel/p2p_communication.py", "send_forward", FrameworkCall::kPipeline},
    {"/pipeline_parallel/p2p_communication.py", "send_backward", FrameworkCall::kPipeline},
    {"/pipeline_parallel/p2p_communication.py", "send_forward_recv_backward",
     FrameworkCall::kPipeline},
    {"/pipeline_parallel/p2p_communication.py", "send_backward_recv_forward",
     FrameworkCall::kPipeline},
    {"/pipeline_parallel/p2p_communication.py", "send_forward_recv_forward",
     FrameworkCall::kPipeline},
    {"/pipeline_parallel/p2p_communication.py", "send_backward_recv_backward",
     FrameworkCall::kPipeline},
    {"/runtime/pipe/engine.py", "_exec_send_activations", FrameworkCall::kPipeline},
    {"/runtime/pipe/engine.py", "_exec_recv_activations", FrameworkCall::kPipeline},
    {"/runtime/pipe/engine.py", "_exec_send_grads", FrameworkCall::kPipeline},
    {"/runtime/pipe/engine.py", "_exec_recv_grads", FrameworkCall::kPipeline},
    {"torch/distributed/pipelining/schedules.py", "_step_microbatches", FrameworkCall::kPipeline},
    {"torch/nn/parallel/distributed.py", "", FrameworkCall::kDataParallel},
};

// Python 3.11 and later say "FlatParamHandle.unshard".
bool is_called(const PythonFrameText& frame, std::string_view function) {
  const std::string_view name = frame.function;
  return name.substr(name.rfind('.') + 1) == function;
}

bool has_python(const ProcessTrace& trace) {
  return std::any_of(trace.stacks.begin(), trace.stacks.end(),
                     [](const auto& entry) { return !entry.second.python.empty(); });
}

// ncclFloat16 and what follows.  DistributedDataParallel sums up numbers of unused parameters, too.
bool may_be_gradients(const OperationText& operation) {
  constexpr int kFirstFloat = 6;
  return operation.data_type < 0 || operation.data_type >= kFirstFloat;
}

std::string_view words_of(FrameworkCall call) {
  switch (call) {
    case FrameworkCall::kGradientBucket:
      return "DistributedDataParallel's gradient bucket";
    case FrameworkCall::kMegatronBucket:
      return "Megatron-LM's gradient bucket";
    case FrameworkCall::kGatherUnit:
      return "FSDP's all-gather of a unit's parameters";
    case FrameworkCall::kReduceUnit:
      return "FSDP's reduction of a unit's gradients";
    case FrameworkCall::kPipeline:
      return "the pipeline's";
    case FrameworkCall::kNone:
    case FrameworkCall::kMessages:
    case FrameworkCall::kDataParallel:
      return "";
  }
  return "";
}

// Buckets are exchanged in the order of their numbers, from 0, as PyTorch counts them.
bool is_numbered(FrameworkCall call) {
  return call == FrameworkCall::kGradientBucket;
}

struct PlaceInStep {
  int64_t step;
  size_t before;  // calls of its sort in this step
  std::optional<size_t> in_step_before;
};

// Calls like that operation from `begin` to before `end`; none: some of them may be forgotten.
std::optional<size_t> calls_between(const ProcessTrace& trace, const CommunicatorText& communicator,
                                    const OperationText& operation, TimeNs begin, TimeNs end) {
  const std::vector<OperationText>& all = communicator.recent;
  if (all.empty() || (all.front().index != 0 && all.front().enter >= begin)) {
    return std::nullopt;
  }
  const FrameworkCallOf call = framework_call_of(trace, operation);
  return std::count_if(all.begin(), all.end(), [&](const OperationText& each) {
    return each.enter >= begin && each.enter < end && each.call == operation.call &&
           framework_call_of(trace, each) == call;
  });
}

std::optional<PlaceInStep> place_in_step(const ProcessTrace& trace,
                                         const CommunicatorText& communicator,
                                         const OperationText& operation) {
  const std::vector<ToldStep> steps = told_steps(trace);
  const auto after =
      std::upper_bound(steps.begin(), steps.end(), operation.enter,
                       [](TimeNs time, const ToldStep& step) { return time < step.began; });
  if (after == steps.begin()) {
    return std::nullopt;
  }
  const auto step = std::prev(after);
  const auto before = calls_between(trace, communicator, operation, step->began, operation.enter);
  if (!before) {
    return std::nullopt;
  }
  PlaceInStep place = {step->number, *before, std::nullopt};
  if (step != steps.begin()) {
    place.in_step_before =
        calls_between(trace, communicator, operation, std::prev(step)->began, step->began);
  }
  return place;
}

// FSDP2's "FSDP::all_gather (layers.3)", torch.distributed.pipelining's "Forward 2" of a
// microbatch.
bool names_a_part(std::string_view range) {
  for (const std::string_view pass : {"Forward ", "Backward "}) {
    if (range.starts_with(pass)) {
      range.remove_prefix(pass.size());
      return !range.empty() && std::all_of(range.begin(), range.end(),
                                           [](char each) { return each >= '0' && each <= '9'; });
    }
  }
  return range.starts_with("FSDP::") && range.ends_with(')');
}

// The innermost range that says so and that the process was in when it made the call.  Empty: none.
std::string part_at(const ProcessTrace& trace, TimeNs time) {
  std::string part;
  TimeNs began = 0;
  for (const RangeSpan& span : range_spans(trace)) {
    if (span.pushed && span.began <= time && span.ended > time && span.began >= began) {
      const std::string name = range_name_text(trace, span.range);
      if (names_a_part(name)) {
        part = name;
        began = span.began;
      }
    }
  }
  return part;
}

// Flight Recorder notes the frames of Python alone, and there are none on a thread of the autograd
// engine.
bool is_of_engine(const ProcessTrace& trace, const OperationText& operation) {
  return is_flight_dump(trace) && operation.collective && may_be_gradients(operation) &&
         call_name(trace, operation.call) == "ncclAllReduce" && has_python(trace);
}

}  // namespace

FrameworkCallOf framework_call_of(const ProcessTrace& trace, const OperationText& operation) {
  const auto stack = trace.stacks.find(operation.stack);
  if (stack == trace.stacks.end()) {
    const bool engine = is_of_engine(trace, operation);
    return {engine ? FrameworkCall::kGradientBucket : FrameworkCall::kNone, ""};
  }
  const std::vector<PythonFrameText>& python = stack->second.python;
  const bool batched = std::any_of(python.begin(), python.end(), [](const PythonFrameText& frame) {
    return is_called(frame, "batch_isend_irecv");
  });
  for (const PythonFrameText& frame : python) {
    const auto* const known =
        std::find_if(std::begin(kFrames), std::end(kFrames), [&](const FrameworkFrame& each) {
          return frame.file.ends_with(each.file) &&
                 (each.function.empty() || is_called(frame, each.function));
        });
    if (known != std::end(kFrames)) {
      return {known->call, known->function, batched};
    }
  }
  if (!python.empty()) {
    return {batched ? FrameworkCall::kMessages : FrameworkCall::kNone, "", batched};
  }
  // A thread of the autograd engine, which DistributedDataParallel sends from, has no Python; where
  // no thread has any, none was recorded.
  const bool engine = call_name(trace, operation.call) == "ncclAllReduce" && has_python(trace) &&
                      is_of_torch(trace, stack->second);
  return {!engine                       ? FrameworkCall::kNone
          : may_be_gradients(operation) ? FrameworkCall::kGradientBucket
                                        : FrameworkCall::kDataParallel,
          ""};
}

std::string framework_words(const ProcessTrace& trace, const CommunicatorText& communicator,
                            const OperationText& operation) {
  const FrameworkCallOf call = framework_call_of(trace, operation);
  std::string words(words_of(call.call));
  if (words.empty()) {
    return "";
  }
  if (call.call == FrameworkCall::kPipeline) {
    words += fmt::format(" {}", call.function);
  }
  const std::optional<PlaceInStep> place = place_in_step(trace, communicator, operation);
  if (place) {
    words += is_numbered(call.call)
                 ? fmt::format(" {} of step {}", place->before, place->step)
                 : fmt::format(", call {} of step {}", place->before + 1, place->step);
  }
  const std::string part = part_at(trace, operation.enter);
  words += part.empty() ? "" : fmt::format(", in its range {}", part);
  if (place && place->in_step_before) {
    words += fmt::format("; the step before had {} of them", *place->in_step_before);
  }
  return words;
}

}  // namespace traintrace
