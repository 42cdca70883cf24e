// What the graph tests share: a log that nodes write to, and the shape of graphs.
#pragma once
#include <algorithm>
#include <memory>
#include <vector>

#include "driver_support.h"

namespace graph_test {

// What ran, in order.
class Log {
 public:
  void add(int entry) {
    const std::lock_guard lock(mutex_);
    entries_.push_back(entry);
    changed_.notify_all();
  }
  std::vector<int> entries() {
    const std::lock_guard lock(mutex_);
    return entries_;
  }
  bool contains(int entry) {
    const std::lock_guard lock(mutex_);
    return std::count(entries_.begin(), entries_.end(), entry) > 0;
  }
  // False if it does not come in time.
  bool wait_for(int entry, std::chrono::milliseconds limit = std::chrono::seconds(10)) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(
        lock, limit, [&] { return std::count(entries_.begin(), entries_.end(), entry) > 0; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<int> entries_;
};

// A host function that logs a number.  Lives until the test ends.
struct Entry {
  Log* log;
  int number;
  static void write(void* self) {
    static_cast<Entry*>(self)->log->add(static_cast<Entry*>(self)->number);
  }
};

// Holds up whatever waits for it until it is released.
class Latch {
 public:
  static void wait(void* self) {
    auto* latch = static_cast<Latch*>(self);
    std::unique_lock lock(latch->mutex_);
    latch->changed_.wait(lock, [&] { return latch->released_; });
  }
  void release() {
    const std::lock_guard lock(mutex_);
    released_ = true;
    changed_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool released_ = false;
};

class Graph : public driver_test::Driver {
 protected:
  // Puts "log `number`" on the stream.
  void put(CUstream s, int number) { ASSERT_OK(cuLaunchHostFunc(s, Entry::write, entry(number))); }

  CUgraphNode host_node(CUgraph graph, int number, const std::vector<CUgraphNode>& after = {}) {
    const CUDA_HOST_NODE_PARAMS parameters = {Entry::write, entry(number)};
    return host_node(graph, parameters, after);
  }
  CUgraphNode host_node(CUgraph graph, const CUDA_HOST_NODE_PARAMS& parameters,
                        const std::vector<CUgraphNode>& after = {}) {
    CUgraphNode node = nullptr;
    EXPECT_OK(cuGraphAddHostNode(&node, graph, after.data(), after.size(), &parameters));
    return node;
  }
  // Blocks its branch until the latch is released.
  CUgraphNode latch_node(CUgraph graph, Latch& latch, const std::vector<CUgraphNode>& after = {}) {
    return host_node(graph, {Latch::wait, &latch}, after);
  }

  CUgraph new_graph() {
    CUgraph graph = nullptr;
    EXPECT_OK(cuGraphCreate(&graph, 0));
    return graph;
  }
  CUgraphExec instantiate(CUgraph graph) {
    CUgraphExec exec = nullptr;
    EXPECT_OK(cuGraphInstantiate(&exec, graph, 0));
    return exec;
  }
  CUevent event(unsigned flags = CU_EVENT_DISABLE_TIMING) {
    CUevent out = nullptr;
    EXPECT_OK(cuEventCreate(&out, flags));
    return out;
  }
  static size_t node_count(CUgraph graph) {
    size_t count = 0;
    EXPECT_OK(cuGraphGetNodes(graph, nullptr, &count));
    return count;
  }
  static std::vector<CUgraphNode> nodes(CUgraph graph) {
    size_t count = node_count(graph);
    std::vector<CUgraphNode> out(count);
    EXPECT_OK(cuGraphGetNodes(graph, out.data(), &count));
    return out;
  }
  static size_t edge_count(CUgraph graph) {
    size_t count = 0;
    EXPECT_OK(cuGraphGetEdges(graph, nullptr, nullptr, nullptr, &count));
    return count;
  }
  static CUgraphNodeType type_of(CUgraphNode node) {
    CUgraphNodeType type = CU_GRAPH_NODE_TYPE_CONDITIONAL;
    EXPECT_OK(cuGraphNodeGetType(node, &type));
    return type;
  }
  static CUstreamCaptureStatus status(CUstream s) {
    CUstreamCaptureStatus out = CU_STREAM_CAPTURE_STATUS_NONE;
    EXPECT_OK(cuStreamIsCapturing(s, &out));
    return out;
  }

  Log log_;

 private:
  Entry* entry(int number) {
    entries_.push_back(std::make_unique<Entry>(Entry{&log_, number}));
    return entries_.back().get();
  }
  std::vector<std::unique_ptr<Entry>> entries_;
};

}  // namespace graph_test
