// One record of PyTorch's Flight Recorder, whatever version wrote it.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "analyzer/importers/plain_value.h"
#include "analyzer/reader/process_trace.h"

namespace traintrace {

struct FlightEntry {
  int64_t record_id = -1;
  int64_t group_number = -1;  // pg_id: counts the groups of its process
  int64_t collective = 0;     // collective_seq_id; of a send: that of the collective before it
  int64_t peer_sequence = 0;  // p2p_seq_id, of all pairs of the group
  int64_t created = 0;        // ns since the epoch
  int64_t started = 0;        // when it was seen to be on the GPU; 0: it was not
  int64_t completed = 0;      // when it was seen to be; 0: it was not
  int64_t timeout_ms = 0;
  std::string_view name;  // without "nccl:"
  std::string_view state;
  std::string_view group;        // pg_uid
  std::string_view description;  // of the group
  std::string_view thread;
  const Value* input_sizes = nullptr;
  const Value* output_sizes = nullptr;
  const Value* input_types = nullptr;
  const Value* output_types = nullptr;
  const Value* frames = nullptr;
  bool retired = false;
  bool between_peers = false;

  bool finished() const { return state == "completed" || completed > 0; }
};

// Remembers where the last record had which key: all of a dump are alike.
class FlightEntryReader {
 public:
  FlightEntry read(const Value& value);

 private:
  struct Place {
    std::string_view key;
    int field = -1;
  };
  int field_at(size_t place, std::string_view key);

  std::vector<Place> places_;
};

// Both ends of "send 0->3" and "recv 0<-3", as ranks of the group.
struct FlightPeers {
  int own = -1;
  int peer = -1;  // -1: any
  bool receive = false;
};
std::optional<FlightPeers> flight_peers(std::string_view name);

// What NCCL is asked for by an operation of that name, and which sizes are its count.
struct FlightFunction {
  std::string_view function;
  enum class Count : uint8_t { kInput, kOutput, kExchanged, kUnknown } count = Count::kUnknown;
  CalledAs as = CalledAs::kItself;
};
FlightFunction flight_function(std::string_view name);
// The inverse, for those of NCCL; empty if there is none.
std::string_view flight_name(std::string_view function);

// ncclDataType_t, -1: none of NCCL's.
int flight_data_type(std::string_view name);
std::string_view flight_type_name(int data_type);

// Elements of all tensors together; 0 if that is not known.
uint64_t flight_elements(const Value* sizes);

// "[0, 1, 2]"; empty if it is no such list, or an abridged one.
std::vector<int> flight_ranks(std::string_view text);

}  // namespace traintrace
