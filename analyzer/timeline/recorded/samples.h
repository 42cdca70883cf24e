// Where a thread was while it made no call, from looks at its Python frames now and then.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "analyzer/reader/process_trace.h"
#include "analyzer/timeline/spans.h"
#include "analyzer/timeline/timeline.h"

namespace traintrace {

// "torch/utils/data/dataloader.py(733): __next__": the loaders of PyTorch, DALI, torchdata and
// TensorFlow, as the consumer calls them.
bool is_loader_frame(std::string_view frame);

// One look.
struct HostSample {
  TimeNs time;
  uint32_t stack;  // key in ProcessTrace::stacks
};

// Time for which one stack stands.
struct SampledSpan {
  Span span;
  uint32_t stack;
};

// What lies between two calls is shared out among the looks there, each as far as the middle to the
// next; the first and the last as far as the calls.  `calls` of the same thread; both in any order.
std::vector<SampledSpan> sampled_spans(std::vector<HostSample> samples, std::vector<Span> calls);

// By thread, in their order.
using SampledThreads = std::map<uint32_t, std::vector<SampledSpan>>;

// Timeline::spent_in.  `site_of`: in Timeline::names, by stack.
std::vector<uint32_t> spent_in(const Timeline& timeline, const SampledThreads& threads,
                               const std::function<uint32_t(uint32_t)>& site_of);

// The frame that makes it the loader's; none: the thread was elsewhere.
std::optional<std::string> loader_frame(const StackText& stack);

}  // namespace traintrace
