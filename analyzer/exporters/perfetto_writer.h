// Traces for Perfetto's viewer: packets of its public protocol
// (perfetto/trace/track_event/*.proto), of which few fields are needed, so that they are written by
// hand.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "analyzer/reader/process_trace.h"

namespace traintrace {

class PerfettoWriter {
 public:
  // Tracks are known by the number that is returned.
  uint64_t process(std::string_view name, int pid);
  uint64_t track(std::string_view name, uint64_t parent);
  uint64_t counter_of_bytes(std::string_view name, uint64_t parent);

  void count(uint64_t counter, TimeNs time, int64_t value);
  void instant(uint64_t track, TimeNs time, std::string_view name);
  // Slices of one track nest: what begins in one ends in it.
  void begin(uint64_t track, TimeNs time, std::string_view name);
  void end(uint64_t track, TimeNs time);

  std::string finish() { return std::move(out_); }

 private:
  uint64_t describe(std::string_view name, uint64_t parent, uint32_t field,
                    const std::string& about);
  void event(uint64_t track, TimeNs time, uint64_t type, std::string_view name,
             const std::string& more);

  std::string out_;
  uint64_t tracks_ = 0;
};

}  // namespace traintrace
