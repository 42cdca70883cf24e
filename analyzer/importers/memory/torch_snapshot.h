// Snapshots of PyTorch's memory (torch.cuda.memory._dump_snapshot), as a process of which only its
// memory is known: blocks and segments as its tables have them, the recorded history as events.
//
// What a snapshot does not say: when the process ended, what others on the device hold, and of a
// block that is gone how far the allocator had rounded it up (it is taken to be 512 bytes).
#pragma once

#include <string>

#include "analyzer/importers/plain_value.h"
#include "analyzer/reader/process_trace.h"
#include "analyzer/reader/result.h"

namespace traintrace {

// By the first bytes of a file.
bool looks_like_torch_snapshot(std::string_view head);

Result<ProcessTrace> torch_snapshot_trace(const Value& root, const std::string& file);
Result<ProcessTrace> read_torch_snapshot(const std::string& path);

}  // namespace traintrace
