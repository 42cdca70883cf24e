// One event of a trace of PyTorch's profiler, and what its words mean.
#pragma once

#include <simdjson.h>

#include <charconv>
#include <cstdint>
#include <optional>
#include <string_view>

#include "analyzer/timeline/timeline.h"

namespace traintrace::kineto {

// What an event says of itself; views last as long as its piece.
struct Event {
  std::string_view phase, category, name, time, duration, pid, tid;
  std::optional<uint64_t> correlation;
  std::optional<int64_t> device, stream;
  std::string_view grid, block;  // as they are written
  std::string_view kind;         // of a call, in traces that we have written
  // Of a kernel, there.
  std::string_view product, waits, messages;
  std::string_view dims, types;  // of an operator's inputs, as they are written
  // Of a synchronisation row.
  std::string_view sync;
  std::optional<int64_t> awaited_stream, awaited_record;
  // Of a kernel of NCCL.
  std::string_view operation, group, members, data_type;
  std::optional<int64_t> elements, group_size, sequence;
  std::optional<int64_t> from_rank, to_rank;  // of a message; global
};

// As a whole, else nothing.
template <class Number>
std::optional<Number> number_of(std::string_view token) {
  Number value{};
  const auto [end, error] = std::from_chars(token.data(), token.data() + token.size(), value);
  return error == std::errc() && end == token.data() + token.size() ? std::optional(value)
                                                                    : std::nullopt;
}

// A number as it is written; strings are no numbers here.
std::string_view token_of(simdjson::ondemand::value value);

// By HostCallKind: what our own exports say of calls, since names do not say it all.
inline constexpr std::string_view kKindKey = "traintrace kind";
inline constexpr std::string_view kKindNames[] = {"other", "blocking", "allocator", "loader",
                                                  "peer-wait"};

// What our own exports say of a kernel: TYPE BATCH M N K.
inline constexpr std::string_view kProductKey = "traintrace product";

// What it waits for, and the messages of a kernel of NCCL (kineto_waits.h).
inline constexpr std::string_view kKnowsWaitsKey = "traintraceKnowsWaits";  // of the trace
inline constexpr std::string_view kWaitsKey = "traintrace waits";
inline constexpr std::string_view kMessagesKey = "traintrace messages";

// Throws simdjson_error where it is no JSON.
Event read_event(simdjson::ondemand::object object);

// None: it is no work of a GPU.  Of kernels the name tells more (communication_kernels.h).
std::optional<WorkKind> kind_of(const Event& event);

bool is_call(std::string_view category);
// Where annotations and operators of the framework stand.
bool is_range(std::string_view category);

// What CUPTI does for itself; it also tells of what the driver does for the job.
bool is_profiling(const Event& event);
inline constexpr std::string_view kProfiling = "Profiling";  // as our own exports call it

HostCallKind kind_of_call(const Event& event);
std::optional<HostCallKind> kind_of_range(const Event& event);

// What of the framework a range stands for (CallContext).
enum class RangeKind : uint8_t { kOperator, kAnnotation, kModule, kNone };
RangeKind range_kind(const Event& event);
// An operator that moves data between ranks, whatever the names of its kernels are.
bool is_communication_operator(std::string_view name);

// "Float": 4; 0: not known.
int64_t bytes_of_type(std::string_view type);

// "train.py(118): train_step", of the user's own code.
bool is_user_frame(std::string_view name);

}  // namespace traintrace::kineto
