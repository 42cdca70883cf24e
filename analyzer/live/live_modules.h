// The code of a running process: its modules, their symbols and unwind tables, through elfutils.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "analyzer/live/call_arguments.h"
#include "analyzer/live/proc_files.h"
#include "analyzer/live/stack_snapshot.h"
#include "analyzer/symbols/symbolizer.h"

namespace traintrace {

class LiveModules {
 public:
  explicit LiveModules(const ProcProcess& process);
  ~LiveModules();
  LiveModules(const LiveModules&) = delete;
  LiveModules& operator=(const LiveModules&) = delete;

  // Addresses of those names that the module whose file name contains `module` exports; empty
  // where there is no such module.
  std::map<std::string, uint64_t> symbols(const std::string& path,
                                          const std::vector<std::string>& names) const;

  // The functions of that stack, innermost first; beyond the first the addresses are return
  // addresses.  Ends where a table needs a register that is not known.
  std::vector<LiveFrame> unwind(const StackSnapshot& snapshot) const;

  // What lies there, at least one frame; in the user's modules innermost first, where functions
  // were inlined.  `is_return`: the call before that address.
  std::vector<NativeFrame> frames_at(uint64_t address, bool is_return) const;

  // What `caller` has passed to that function, which it is inside: call_arguments.h.
  std::string arguments(const LiveFrame& caller, const std::string& function) const;

  struct State;

 private:
  std::unique_ptr<State> state_;
};

}  // namespace traintrace
