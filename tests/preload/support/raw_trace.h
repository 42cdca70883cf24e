// A trace as the tracer's tests see it: every rule of format/trace_format.h is checked while it is
// read, and nothing is repaired.  The analyzer's reader, which forgives, is another one.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "format/trace_format.h"

namespace preload {

struct RawCall {
  std::string name;
  std::string kind;
  std::vector<std::string> ins;
  std::vector<std::string> outs;
};

struct RawRecord {
  uint32_t thread = 0;  // serial
  traintrace::format::RecordType type = {};
  uint16_t call = 0;
  uint8_t device = 0;
  uint32_t stack = 0;  // of a leave record: the result
  uint64_t ticks = 0;
  uint64_t caller = 0;
  std::vector<uint64_t> values;
  int32_t result() const { return static_cast<int32_t>(stack); }
};

struct RawTrace {
  traintrace::format::FileHeader header = {};
  std::map<uint16_t, RawCall> calls;
  std::map<std::string, uint64_t> stats;
  std::map<std::string, std::string> facts;
  std::vector<traintrace::format::Thread> threads;
  std::vector<traintrace::format::OpenRanges> open_ranges;
  std::map<uint64_t, std::string> range_names;  // "domain/name", or "name" in the default one
  std::vector<traintrace::format::Communicator> communicators;
  std::vector<traintrace::format::Allocation> allocations;
  std::vector<traintrace::format::TensorBlock> tensor_blocks;
  std::vector<traintrace::format::TensorDevice> tensor_devices;  // those that reported
  std::vector<traintrace::format::OutOfMemory> failures;
  std::vector<traintrace::format::HeldBlock> held_blocks;
  std::vector<traintrace::format::HostFunction> host_functions;
  std::vector<traintrace::format::Stream> streams;
  std::vector<RawRecord> records;     // of each thread in order
  std::vector<std::string> problems;  // rules that are broken; empty: a sound trace

  const std::string& name_of(const RawRecord& record) const;
  // Enter records of a call.
  uint64_t entered(const std::string& call) const;
  uint64_t left(const std::string& call) const;
  std::vector<RawRecord> of(const std::string& call, traintrace::format::RecordType type) const;
  uint64_t value(const RawRecord& record, const std::string& field) const;
};

// Of a process that ended, when its keeper has copied all; of one that runs, its memory.
RawTrace read_raw(const std::string& path);
// Until the copy at `path` is all there is of a process that has ended.
void wait_for_final(const std::string& path);

}  // namespace preload
