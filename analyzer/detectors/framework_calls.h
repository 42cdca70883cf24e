// What a collective or message is to the framework that made it, as the functions on its stack say.
#pragma once

#include <string>
#include <string_view>

#include "analyzer/model/run.h"

namespace traintrace {

enum class FrameworkCall : uint8_t {
  kNone,
  kMessages,        // PyTorch's batch_isend_irecv, whoever called that
  kDataParallel,    // DistributedDataParallel's, but no bucket
  kGradientBucket,  // of DistributedDataParallel
  kGatherUnit,      // the parameters of an FSDP unit
  kReduceUnit,      // the gradients of an FSDP unit
  kMegatronBucket,  // of Megatron-LM's DistributedDataParallel
  kPipeline,        // a message between stages
};

struct FrameworkCallOf {
  FrameworkCall call = FrameworkCall::kNone;
  std::string_view function;  // the framework's; empty: a thread without Python
  bool batched = false;       // within PyTorch's batch_isend_irecv
  bool operator==(const FrameworkCallOf&) const = default;
};

FrameworkCallOf framework_call_of(const ProcessTrace& trace, const OperationText& operation);

// "DistributedDataParallel's gradient bucket 1 of step 5; the step before had 3 of them": which of
// the calls of its sort it is in its step, if the job tells its steps and they are all known.
// Empty: its stack does not say what it is.
std::string framework_words(const ProcessTrace& trace, const CommunicatorText& communicator,
                            const OperationText& operation);

}  // namespace traintrace
