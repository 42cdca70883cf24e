#include "analyzer/timeline/recorded/samples.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>

namespace traintrace {
namespace {

constexpr std::string_view kLoaders[] = {"torch/utils/data/dataloader.py(", "nvidia/dali/plugin/",
                                         "torchdata/",
                                         "tensorflow/python/data/ops/iterator_ops.py("};

// Of the name of a file, from where the package begins.
size_t place_of_loader(std::string_view frame) {
  for (const std::string_view loader : kLoaders) {
    const size_t at = frame.find(loader);
    if (at != frame.npos && (at == 0 || frame[at - 1] == '/')) {
      return at;
    }
  }
  return frame.npos;
}

}  // namespace

bool is_loader_frame(std::string_view frame) {
  constexpr std::string_view kNext = "__next__";
  return frame.ends_with(kNext) && place_of_loader(frame) != frame.npos;
}

std::vector<SampledSpan> sampled_spans(std::vector<HostSample> samples, std::vector<Span> calls) {
  std::sort(samples.begin(), samples.end(),
            [](const HostSample& a, const HostSample& b) { return a.time < b.time; });
  const Spans busy = united(std::move(calls));
  std::vector<SampledSpan> spans;
  for (size_t i = 0; i < samples.size(); ++i) {
    const TimeNs time = samples[i].time;
    const auto next =
        std::upper_bound(busy.begin(), busy.end(), time,
                         [](TimeNs at, const Span& call) { return at < call.begin_ns; });
    // Before the first call and after the last nothing says how far a look reaches.
    if (next == busy.begin() || next == busy.end() || (next - 1)->end_ns > time) {
      continue;
    }
    Span span = {(next - 1)->end_ns, next->begin_ns};
    if (i > 0 && samples[i - 1].time >= span.begin_ns) {
      span.begin_ns = samples[i - 1].time + (time - samples[i - 1].time) / 2;
    }
    if (i + 1 < samples.size() && samples[i + 1].time < span.end_ns) {
      span.end_ns = time + (samples[i + 1].time - time) / 2;
    }
    const bool goes_on = !spans.empty() && spans.back().stack == samples[i].stack &&
                         spans.back().span.end_ns == span.begin_ns;
    if (goes_on) {
      spans.back().span.end_ns = span.end_ns;
    } else {
      spans.push_back({span, samples[i].stack});
    }
  }
  return spans;
}

std::vector<uint32_t> spent_in(const Timeline& timeline, const SampledThreads& threads,
                               const std::function<uint32_t(uint32_t)>& site_of) {
  if (threads.empty()) {
    return {};
  }
  std::vector<uint32_t> result(timeline.calls.size(), kNoName);
  std::vector<int64_t> until(timeline.threads.size(), 0);
  for (size_t i = 0; i < timeline.calls.size(); ++i) {
    const HostCall& call = timeline.calls[i];
    const Span between = {until[call.thread], call.start_ns};
    until[call.thread] = std::max(between.begin_ns, call.end_ns);
    const auto thread = threads.find(call.thread);
    if (thread == threads.end()) {
      continue;
    }
    auto sampled = std::upper_bound(
        thread->second.begin(), thread->second.end(), timeline.base_ns + between.begin_ns,
        [](TimeNs time, const SampledSpan& each) { return time < each.span.end_ns; });
    std::map<uint32_t, int64_t> times;  // by site
    for (; sampled != thread->second.end(); ++sampled) {
      const Span span = {sampled->span.begin_ns - timeline.base_ns,
                         sampled->span.end_ns - timeline.base_ns};
      if (span.begin_ns >= between.end_ns) {
        break;
      }
      times[site_of(sampled->stack)] += length_ns(within({span}, between));
    }
    const auto most =
        std::max_element(times.begin(), times.end(),
                         [](const auto& a, const auto& b) { return a.second < b.second; });
    result[i] = most == times.end() ? kNoName : most->first;
  }
  return result;
}

std::optional<std::string> loader_frame(const StackText& stack) {
  for (const PythonFrameText& frame : stack.python) {
    const std::string text = fmt::format("{}({}): {}", frame.file, frame.line, frame.function);
    if (is_loader_frame(text)) {
      return text.substr(place_of_loader(text));
    }
  }
  return std::nullopt;
}

}  // namespace traintrace
