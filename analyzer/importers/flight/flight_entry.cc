#include "analyzer/importers/flight/flight_entry.h"

#include <algorithm>
#include <charconv>
#include <iterator>

#include "analyzer/model/process/launch_facts.h"

namespace traintrace {
namespace {

enum Field : int {
  kUnknown = -1,
  kRecordId,
  kGroupNumber,
  kGroup,
  kThread,
  kCollective,
  kOldSequence,
  kPeerSequence,
  kName,
  kCreated,
  kInputSizes,
  kOutputSizes,
  kInputTypes,
  kOutputTypes,
  kState,
  kStarted,
  kCompleted,
  kRetired,
  kTimeout,
  kBetweenPeers,
  kFrames,
};

constexpr std::string_view kFieldNames[] = {"record_id",
                                            "pg_id",
                                            "process_group",
                                            "thread_name",
                                            "collective_seq_id",
                                            "seq_id",  // before 2.0
                                            "p2p_seq_id",
                                            "profiling_name",
                                            "time_created_ns",
                                            "input_sizes",
                                            "output_sizes",
                                            "input_dtypes",
                                            "output_dtypes",
                                            "state",
                                            "time_discovered_started_ns",
                                            "time_discovered_completed_ns",
                                            "retired",
                                            "timeout_ms",
                                            "is_p2p",
                                            "frames"};

struct NameRow {
  std::string_view name;
  std::string_view function;
  FlightFunction::Count count;
  CalledAs as = CalledAs::kItself;
};
using Count = FlightFunction::Count;

// The first of a function is what an export calls it.  What all-to-all moves may differ between
// ranks, and a root's sizes are its own affair.
constexpr NameRow kNames[] = {
    {"all_reduce", "ncclAllReduce", Count::kInput},
    {"allreduce_coalesced", "ncclAllReduce", Count::kInput},
    {"all_reduce_barrier", "ncclAllReduce", Count::kInput, CalledAs::kBarrier},
    {"barrier", "ncclAllReduce", Count::kInput, CalledAs::kBarrier},
    {"_all_gather_base", "ncclAllGather", Count::kInput},
    {"all_gather", "ncclAllGather", Count::kInput},
    {"ALLGATHER_coalesced", "ncclAllGather", Count::kInput},
    {"all_gather_into_tensor_coalesced", "ncclAllGather", Count::kInput},
    {"_reduce_scatter_base", "ncclReduceScatter", Count::kOutput},
    {"reduce_scatter", "ncclReduceScatter", Count::kOutput},
    {"REDUCE_SCATTER_coalesced", "ncclReduceScatter", Count::kOutput},
    {"reduce_scatter_tensor_coalesced", "ncclReduceScatter", Count::kOutput},
    {"broadcast", "ncclBroadcast", Count::kInput},
    {"_broadcast_oop", "ncclBroadcast", Count::kInput},
    {"reduce", "ncclReduce", Count::kInput},
    {"_reduce_oop", "ncclReduce", Count::kInput},
    {"all_to_all", "ncclAlltoAll", Count::kExchanged},
    {"gather", "ncclGather", Count::kInput},
    {"scatter", "ncclScatter", Count::kOutput},
};

struct TypeRow {
  std::string_view name;
  int type;
};
constexpr TypeRow kTypes[] = {
    {"Char", 0},           {"Byte", 1},         {"Int", 2},   {"UInt32", 3}, {"Long", 4},
    {"UInt64", 5},         {"Half", 6},         {"Float", 7}, {"Double", 8}, {"BFloat16", 9},
    {"Float8_e4m3fn", 10}, {"Float8_e5m2", 11}, {"Bool", 1}};

// "nccl:all_reduce"; a backend's own name may have colons ("cuda:nccl").
std::string_view without_backend(std::string_view name) {
  const size_t colon = name.rfind(':');
  return colon == name.npos ? name : name.substr(colon + 1);
}

void set_group(const Value& value, FlightEntry& entry) {
  const std::span<const Value> parts = value.list();
  if (parts.size() >= 2) {
    entry.group = parts[0].as_text();
    entry.description = parts[1].as_text();
  }
}

void set_size(int field, const Value& value, FlightEntry& entry) {
  switch (field) {
    case kInputSizes:
      entry.input_sizes = &value;
      break;
    case kOutputSizes:
      entry.output_sizes = &value;
      break;
    case kInputTypes:
      entry.input_types = &value;
      break;
    case kOutputTypes:
      entry.output_types = &value;
      break;
    default:
      break;
  }
}

// 0, not known, where no clock can have said it.
int64_t time_of(const Value& value) {
  constexpr int64_t kYear2116 = int64_t{1} << 62;
  const int64_t time = value.as_integer(0);
  return time > 0 && time < kYear2116 ? time : 0;
}

void set_number(int field, const Value& value, FlightEntry& entry) {
  switch (field) {
    case kRecordId:
      entry.record_id = value.as_integer(-1);
      break;
    case kGroupNumber:
      entry.group_number = value.as_integer(-1);
      break;
    case kCollective:
    case kOldSequence:
      entry.collective = value.as_integer(0);
      break;
    case kPeerSequence:
      entry.peer_sequence = value.as_integer(0);
      break;
    case kCreated:
      entry.created = time_of(value);
      break;
    case kStarted:
      entry.started = time_of(value);
      break;
    case kCompleted:
      entry.completed = time_of(value);
      break;
    case kTimeout:
      entry.timeout_ms = value.as_integer(0);
      break;
    default:
      set_size(field, value, entry);
  }
}

void set(int field, const Value& value, FlightEntry& entry) {
  switch (field) {
    case kGroup:
      set_group(value, entry);
      break;
    case kThread:
      entry.thread = value.as_text();
      break;
    case kName:
      entry.name = without_backend(value.as_text());
      break;
    case kState:
      entry.state = value.as_text();
      break;
    case kRetired:
      entry.retired = value.as_bool();
      break;
    case kBetweenPeers:
      entry.between_peers = value.as_bool();
      break;
    case kFrames:
      entry.frames = &value;
      break;
    default:
      set_number(field, value, entry);
  }
}

}  // namespace

int FlightEntryReader::field_at(size_t place, std::string_view key) {
  if (place < places_.size() && places_[place].key.data() == key.data() &&
      places_[place].key.size() == key.size()) {
    return places_[place].field;
  }
  const auto* const found = std::find(std::begin(kFieldNames), std::end(kFieldNames), key);
  const int field =
      found == std::end(kFieldNames) ? kUnknown : static_cast<int>(found - kFieldNames);
  constexpr size_t kMostPlaces = 64;
  if (place < kMostPlaces) {
    places_.resize(std::max(places_.size(), place + 1));
    places_[place] = {key, field};
  }
  return field;
}

FlightEntry FlightEntryReader::read(const Value& value) {
  FlightEntry entry;
  const std::span<const Value> pairs = value.pairs();
  for (size_t i = 0; i + 1 < pairs.size(); i += 2) {
    set(field_at(i / 2, pairs[i].as_text()), pairs[i + 1], entry);
  }
  entry.between_peers =
      entry.between_peers || entry.name.starts_with("send ") || entry.name.starts_with("recv ");
  return entry;
}

std::optional<FlightPeers> flight_peers(std::string_view name) {
  FlightPeers peers;
  peers.receive = name.starts_with("recv ");
  if (!peers.receive && !name.starts_with("send ")) {
    return std::nullopt;
  }
  const char* const end = name.data() + name.size();
  const auto own = std::from_chars(name.data() + 5, end, peers.own);
  const std::string_view arrow = peers.receive ? "<-" : "->";
  if (own.ec != std::errc() || !std::string_view(own.ptr, end).starts_with(arrow)) {
    return std::nullopt;
  }
  if (std::from_chars(own.ptr + 2, end, peers.peer).ec != std::errc()) {
    peers.peer = -1;
  }
  return peers;
}

FlightFunction flight_function(std::string_view name) {
  const auto* const row = std::find_if(std::begin(kNames), std::end(kNames),
                                       [&](const NameRow& other) { return other.name == name; });
  return row == std::end(kNames) ? FlightFunction{name, Count::kUnknown}
                                 : FlightFunction{row->function, row->count, row->as};
}

std::string_view flight_name(std::string_view function) {
  const auto* const row =
      std::find_if(std::begin(kNames), std::end(kNames),
                   [&](const NameRow& other) { return other.function == function; });
  return row == std::end(kNames) ? std::string_view() : row->name;
}

int flight_data_type(std::string_view name) {
  const auto* const row = std::find_if(std::begin(kTypes), std::end(kTypes),
                                       [&](const TypeRow& other) { return other.name == name; });
  return row == std::end(kTypes) ? -1 : row->type;
}

std::string_view flight_type_name(int data_type) {
  const auto* const row =
      std::find_if(std::begin(kTypes), std::end(kTypes),
                   [&](const TypeRow& other) { return other.type == data_type; });
  return row == std::end(kTypes) ? std::string_view() : row->name;
}

uint64_t flight_elements(const Value* sizes) {
  constexpr size_t kMostTensors = 4096;
  constexpr size_t kMostDimensions = 64;
  uint64_t sum = 0;
  const std::span<const Value> tensors =
      sizes == nullptr ? std::span<const Value>() : sizes->list();
  for (const Value& tensor : tensors.first(std::min(tensors.size(), kMostTensors))) {
    const std::span<const Value> dimensions = tensor.list();
    uint64_t product = 1;
    for (const Value& size : dimensions.first(std::min(dimensions.size(), kMostDimensions))) {
      const int64_t length = size.as_integer(-1);
      if (length < 0 || __builtin_mul_overflow(product, static_cast<uint64_t>(length), &product)) {
        return 0;
      }
    }
    if (__builtin_add_overflow(sum, product, &sum)) {
      return 0;
    }
  }
  return sum;
}

std::vector<int> flight_ranks(std::string_view text) {
  std::vector<int> ranks;
  const char* at = text.data();
  const char* const end = at + text.size();
  while (at != end) {
    if (*at < '0' || *at > '9') {
      if (*at == '.' || *at == '-') {
        return {};
      }
      ++at;
      continue;
    }
    int rank = 0;
    const auto [behind, problem] = std::from_chars(at, end, rank);
    if (problem != std::errc() || rank >= kMostRanks) {
      return {};
    }
    ranks.push_back(rank);
    at = behind;
  }
  return ranks;
}

}  // namespace traintrace
