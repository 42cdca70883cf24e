// For tests of GPU progress: a rank with a communicator, and what the dump of its trace says about
// its operations.
#pragma once

#include <cuda_runtime_api.h>
#include <gtest/gtest.h>
#include <nccl.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "support/process.h"
#include "support/raw_trace.h"

namespace preload {

using States = std::vector<std::string>;

struct Rank {
  static constexpr size_t kElements = 1024;

  ncclComm_t comm = nullptr;
  cudaStream_t stream = nullptr;
  float* data = nullptr;

  // The id goes through a file of the test's.
  bool make(const std::string& folder, int ranks, int rank) {
    ncclUniqueId id = {};
    const std::string path = folder + "/id";
    if (cudaSetDevice(rank) != cudaSuccess || cudaFree(nullptr) != cudaSuccess) {
      return false;
    }
    if (rank == 0) {
      if (ncclGetUniqueId(&id) != ncclSuccess) {
        return false;
      }
      std::ofstream(path + ".new", std::ios::binary).write(reinterpret_cast<char*>(&id), sizeof id);
      std::filesystem::rename(path + ".new", path);
    }
    while (!std::filesystem::exists(path)) {
      usleep(1000);
    }
    std::ifstream(path, std::ios::binary).read(reinterpret_cast<char*>(&id), sizeof id);
    return ncclCommInitRank(&comm, ranks, id, rank) == ncclSuccess && make_rest();
  }
  bool make_rest() {
    return cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking) == cudaSuccess &&
           cudaMalloc(reinterpret_cast<void**>(&data), kElements * sizeof(float)) == cudaSuccess;
  }
  bool reduce() const { return reduce_on(stream); }
  bool reduce_on(cudaStream_t on) const {
    return ncclAllReduce(data, data, kElements, ncclFloat32, ncclSum, comm, on) == ncclSuccess;
  }
  // One operation, one captured and replayed, and one more.
  bool reduce_and_replay() const {
    cudaGraph_t graph = nullptr;
    cudaGraphExec_t exec = nullptr;
    return reduce() && cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal) == cudaSuccess &&
           reduce() && cudaStreamEndCapture(stream, &graph) == cudaSuccess &&
           cudaGraphInstantiate(&exec, graph, 0) == cudaSuccess &&
           cudaGraphLaunch(exec, stream) == cudaSuccess && reduce() &&
           cudaStreamSynchronize(stream) == cudaSuccess;
  }
};

inline std::vector<std::string> traces_in(const Folder& folder) {
  std::vector<std::string> traces;
  for (const auto& entry : std::filesystem::directory_iterator(folder.path() + "/traces")) {
    traces.push_back(entry.path());
  }
  return traces;
}

inline std::string dump(const std::string& trace) {
  Program program;
  program.command = {TRAINTRACE_BINARY, "dump", trace};
  program.traced = false;
  return run(program).output;
}

// `gpu=` of each operation line, in order; "-" where there is none.
inline std::vector<std::string> states_in(const std::string& text) {
  std::vector<std::string> states;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("operation ")) {
      const size_t at = line.find(" gpu=");
      states.push_back(at == line.npos ? "-"
                                       : line.substr(at + 5, line.find(' ', at + 1) - at - 5));
    }
  }
  return states;
}

inline std::string fact_in(const std::string& text, const std::string& key) {
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("fact " + key + " ")) {
      return line.substr(key.size() + 6);
    }
  }
  return "";
}

inline std::string dump_of_one(const Folder& folder) {
  const auto traces = traces_in(folder);
  EXPECT_EQ(traces.size(), 1u);
  if (traces.empty()) {
    return "";
  }
  EXPECT_EQ(read_raw(traces.front()).problems, std::vector<std::string>());
  return dump(traces.front());
}

inline size_t count_of(const std::string& text, const std::string& what) {
  size_t count = 0;
  for (size_t at = text.find(what); at != text.npos; at = text.find(what, at + 1)) {
    ++count;
  }
  return count;
}

}  // namespace preload
