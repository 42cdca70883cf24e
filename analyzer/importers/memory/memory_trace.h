// A process of which only its memory is known, as other tools' files tell it.
#pragma once

#include <initializer_list>
#include <map>
#include <string>
#include <string_view>
#include <utility>

#include "analyzer/reader/process_trace.h"

namespace traintrace {

class MemoryTrace {
 public:
  ProcessTrace trace;

  MemoryTrace(const std::string& source, const char* tool) {
    trace.source = source;
    trace.facts["source"] = tool;
    trace.parent_pid = -1;  // no process of that number is meant
  }

  // Its number; `name` is in calls.def or moments.def.
  uint32_t call(std::string_view name);

  using Values = std::initializer_list<std::pair<std::string_view, uint64_t>>;
  // A call that returned at once.
  CallRecord& add(std::string_view name, TimeNs time, int device, uint32_t stack, Values values);

  // Of a stack whose innermost frame is in PyTorch's allocator, where its frames do not say so.
  void mark_as_torch(StackText& stack);

  void note_time(TimeNs time);
  void finish();  // threads, times

  static uint8_t device_number(int64_t device);

 private:
  std::map<std::string, uint32_t, std::less<>> calls_;
};

}  // namespace traintrace
