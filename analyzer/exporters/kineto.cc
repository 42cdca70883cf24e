#include "analyzer/exporters/kineto.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <unordered_set>

#include "analyzer/importers/kineto/kineto_event.h"
#include "analyzer/importers/kineto/kineto_products.h"
#include "analyzer/importers/kineto/kineto_waits.h"
#include "analyzer/timeline/collectives/collective_note.h"
#include "analyzer/timeline/products/products.h"
#include "analyzer/timeline/steps.h"

namespace traintrace {
namespace {

// Microseconds, to the ns.
std::string us_text(int64_t ns) {
  const char* const sign = ns < 0 ? "-" : "";
  const uint64_t size = ns < 0 ? 0 - static_cast<uint64_t>(ns) : static_cast<uint64_t>(ns);
  return fmt::format("{}{}.{:03}", sign, size / 1000, size % 1000);
}

std::string quoted(const std::string& text) {
  return nlohmann::json(text).dump(-1, ' ', true, nlohmann::json::error_handler_t::replace);
}

struct EventRow {
  const char* category;
  const std::string& name;
  int64_t process;
  int64_t thread;
  int64_t start_ns;
  int64_t end_ns;
};

void add(const EventRow& row, const std::string& arguments, std::string& out) {
  out += fmt::format(
      "{}\n{{\"ph\":\"X\",\"cat\":\"{}\",\"name\":{},\"pid\":{},\"tid\":{},\"ts\":{},\"dur\":{}{}}"
      "}",
      out.back() == '[' ? "" : ",", row.category, quoted(row.name), row.process, row.thread,
      us_text(row.start_ns), us_text(row.end_ns - row.start_ns),
      arguments.empty() ? "" : ",\"args\":{" + arguments + "}");
}

const char* category_of(const Timeline& timeline, const GpuWork& work) {
  if (work.kind != WorkKind::kMemory) {
    return "kernel";
  }
  return timeline.names[work.name].starts_with("Memset") ? "gpu_memset" : "gpu_memcpy";
}

std::string note_text(const Timeline& timeline, uint64_t correlation) {
  const CollectiveNote* const note = collective_note(timeline, correlation);
  if (note == nullptr || note->operation == kNoName) {
    return "";
  }
  std::string text = ",\"Collective name\":" + quoted(timeline.names[note->operation]);
  if (note->group != kNoName) {
    text += ",\"Process Group Name\":" + quoted(timeline.names[note->group]);
  }
  if (note->members != kNoName) {
    text += ",\"Process Group Ranks\":" + quoted(timeline.names[note->members]);
  }
  if (note->bytes >= 0) {
    text += fmt::format(",\"In msg nelems\":{},\"dtype\":\"Byte\"", note->bytes);
  }
  return text + fmt::format(",\"Group size\":{},\"Seq\":{}", note->group_size, note->sequence);
}

void add_words(std::string_view key, const std::string& words, std::string& arguments) {
  if (!words.empty()) {
    arguments += fmt::format(",\"{}\":\"{}\"", key, words);
  }
}

void add_work(const Timeline& timeline, std::string& out) {
  // Once, where several pieces have one correlation.
  std::unordered_set<uint64_t> said, said_order;
  for (const GpuWork& work : timeline.work) {
    std::string arguments = fmt::format("\"device\":{},\"stream\":{},\"correlation\":{}",
                                        work.device, work.stream, work.correlation);
    if (work.kind == WorkKind::kCommunication) {
      arguments += note_text(timeline, work.correlation);
    }
    if (said_order.insert(work.correlation).second) {
      add_words(kineto::kWaitsKey, kineto::told_waits(timeline.waits, work.correlation), arguments);
      add_words(kineto::kMessagesKey, kineto::told_messages(timeline, work.correlation), arguments);
    }
    if (const MatrixProduct* const product = product_of(timeline, work.correlation);
        product != nullptr && said.insert(work.correlation).second) {
      arguments +=
          fmt::format(",\"{}\":\"{}\"", kineto::kProductKey, kineto::told_product(*product));
    }
    add({category_of(timeline, work), timeline.names[work.name], work.device, work.stream,
         work.start_ns, work.end_ns},
        arguments, out);
  }
}

// Host threads are those of a process whose number no device has.
constexpr int64_t kHost = 1'000'000;

// As long as the call: of what is around it only that is known.
void add_context(const Timeline& timeline, const HostCall& call, std::string& out) {
  const CallContext context = timeline.context_of(call);
  const auto add_range = [&](const char* category, uint32_t name) {
    if (name != kNoName) {
      add({category, timeline.names[name], kHost, call.thread, call.start_ns, call.end_ns}, "",
          out);
    }
  };
  add_range("user_annotation", context.annotation);
  add_range("python_function", context.module);
  add_range("cpu_op", context.op);
}

void add_calls(const Timeline& timeline, std::string& out) {
  for (const HostCall& call : timeline.calls) {
    const std::string& name = timeline.names[call.name];
    const char* const category = call.kind == HostCallKind::kLoader ? "python_function"
                                 : name.starts_with("cuda")         ? "cuda_runtime"
                                                                    : "cuda_driver";
    std::string arguments = fmt::format("\"{}\":\"{}\"", kineto::kKindKey,
                                        kineto::kKindNames[static_cast<size_t>(call.kind)]);
    if (call.correlation != 0) {
      arguments += fmt::format(",\"correlation\":{}", call.correlation);
    }
    if (call.device >= 0) {
      arguments += fmt::format(",\"device\":{}", call.device);
    }
    add({category, name, kHost, call.thread, call.start_ns, call.end_ns}, arguments, out);
    if (call.site != kNoName) {
      add({"python_function", timeline.names[call.site], kHost, call.thread, call.start_ns,
           call.end_ns},
          "", out);
    }
    add_context(timeline, call, out);
  }
}

// Steps as the profiler marks them; the last lasts as long as there is work.
void add_steps(const Timeline& timeline, std::string& out) {
  int64_t end = 0;
  for (const GpuWork& work : timeline.work) {
    end = std::max(end, work.end_ns);
  }
  const std::vector<int64_t>& starts = timeline.step_starts;
  for (size_t i = 0; i < starts.size(); ++i) {
    const int64_t until = i + 1 < starts.size() ? starts[i + 1] : std::max(end, starts[i]);
    add({"user_annotation", "ProfilerStep#" + std::to_string(step_number(timeline, i)), kHost, 0,
         starts[i], until},
        "", out);
  }
}

// Those that are called like the profiler's steps are among the steps.
void add_ranges(const Timeline& timeline, std::string& out) {
  for (const HostRange& range : timeline.ranges) {
    const std::string& name = timeline.names[range.name];
    if (!name.starts_with("ProfilerStep#")) {
      add({"user_annotation", name, kHost, range.thread, range.start_ns, range.end_ns}, "", out);
    }
  }
}

void add_models(const Timeline& timeline, std::string& out) {
  out += "\"deviceProperties\":[";
  for (const DeviceModel& model : timeline.models) {
    out += fmt::format("{}{{\"id\":{},\"name\":{},\"computeMajor\":{},\"computeMinor\":{}}}",
                       out.back() == '[' ? "" : ",", model.device, quoted(model.name), model.major,
                       model.minor);
  }
  out += "],";
}

void add_profiling(const Timeline& timeline, std::string& out) {
  static const std::string& name = *new std::string(kineto::kProfiling);
  constexpr int64_t kNoProcess = -1;
  for (const Span& span : timeline.profiling) {
    add({"overhead", name, kNoProcess, 0, span.begin_ns, span.end_ns}, "", out);
  }
}

}  // namespace

std::string kineto_trace(const Timeline& timeline) {
  std::string out =
      fmt::format("{{\"schemaVersion\":1,\"baseTimeNanoseconds\":{},", timeline.base_ns);
  if (timeline.rank && timeline.rank_from != RankSource::kNobody) {
    // Holistic Trace Analysis looks for the rank with a blank after the colon.
    out += fmt::format("\"distributedInfo\":{{\"rank\": {},\"world_size\": {}}},\n", *timeline.rank,
                       timeline.world_size.value_or(*timeline.rank + 1));
  }
  if (timeline.knows_waits) {
    out += fmt::format("\"{}\":true,", kineto::kKnowsWaitsKey);
  }
  add_models(timeline, out);
  out += "\"displayTimeUnit\":\"ms\",\"traceEvents\":[";
  add_work(timeline, out);
  add_calls(timeline, out);
  add_steps(timeline, out);
  add_ranges(timeline, out);
  add_profiling(timeline, out);
  return out + "\n]}\n";
}

}  // namespace traintrace
