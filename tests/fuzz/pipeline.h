// All that traintrace does with an input once it is read: judged, reported and exported in every
// form.  What fails says so and ends the process.
#pragma once

#include <string>
#include <vector>

#include "analyzer/reader/process_trace.h"

namespace traintrace::fuzz {

// As the processes of one job, with their events.
void run_pipeline(std::vector<ProcessTrace> processes);
// Files of PyTorch's profiler.
void run_profiles(const std::vector<std::string>& files);

// Another process of the same job.
ProcessTrace twin_of(const ProcessTrace& trace);

// A file in memory, by the path that readers open.
class MemoryFile {
 public:
  MemoryFile();
  void set(const void* bytes, size_t size) const;
  const std::string& path() const { return path_; }

 private:
  int descriptor_;
  std::string path_;
};

}  // namespace traintrace::fuzz
