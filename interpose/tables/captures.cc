#include "interpose/tables/captures.h"

#include "interpose/record/stats.h"
#include "interpose/tables/handle_map.h"
#include "interpose/tables/streams.h"

namespace traintrace {
namespace {

// Operations in all graphs that are alive; a training step captured whole has some hundred.
constexpr uint32_t kMostOperations = 1U << 14;
constexpr int kIndexBits = 10;
constexpr uint32_t kMostCaptures = 1U << kIndexBits;  // captures under way, graphs, instances
constexpr uint32_t kMostHandles = 1U << 12;

struct Node {
  OperationRequest request;
  uint32_t next;  // number of the node that follows, 0: none
};

// A list of operations, shared by the graph that it became and by that graph's instances.
struct Capture {
  uint32_t uses;       // 0: free
  uint32_t under_way;  // the capture's number until it ends
  uint32_t generation;
  uint32_t head;
  uint32_t tail;
};
constexpr uint32_t kClosing = ~0U;
// Of a capture that found no room.  Its index bits are those of element 0, which is not handed out.
constexpr uint32_t kLostCapture = kMostCaptures;

Node* g_nodes;
uint32_t g_nodes_used;
uint64_t g_free;  // as in streams.cc
Capture* g_captures;
HandleMap g_lists;  // -> index of a capture

// A graph and an instance never share an address while both live; one of them may be stale here.
uint64_t graph_key(uint64_t graph) {
  return graph | uint64_t{1} << 63;
}

Capture* capture_at(uint32_t capture) {
  const uint32_t index = capture % kMostCaptures;
  return g_captures == nullptr || index == 0 ? nullptr : &g_captures[index];
}

uint32_t take_node() {
  for (uint64_t head = load(g_free); static_cast<uint32_t>(head) != 0; head = load(g_free)) {
    const auto number = static_cast<uint32_t>(head);
    const uint64_t next = ((head >> 32) + 1) << 32 | load(g_nodes[number - 1].next);
    if (exchange_if(g_free, head, next)) {
      return number;
    }
  }
  return g_nodes == nullptr ? 0 : take_number(g_nodes_used, kMostOperations);
}

// The whole list from `head` to `tail` at once.
void give_back(uint32_t head, uint32_t tail) {
  for (;;) {
    const uint64_t old = load(g_free);
    publish(g_nodes[tail - 1].next, static_cast<uint32_t>(old));
    if (exchange_if(g_free, old, ((old >> 32) + 1) << 32 | head)) {
      return;
    }
  }
}

void add_use(Capture& capture) {
  fetch_add(capture.uses, 1U);
}

void release(Capture& capture) {
  for (;;) {
    const uint32_t uses = load(capture.uses);
    if (uses == 0 || uses == kClosing) {
      return;
    }
    if (exchange_if(capture.uses, uses, uses == 1 ? kClosing : uses - 1)) {
      if (uses > 1) {
        return;
      }
      break;
    }
  }
  if (capture.head != 0) {
    give_back(capture.head, capture.tail);
  }
  capture.head = 0;
  capture.tail = 0;
  ++capture.generation;
  publish(capture.uses, 0U);
}

void forget(uint64_t key) {
  const auto index = static_cast<uint32_t>(g_lists.find(key));
  if (index != 0) {
    g_lists.erase(key);
    release(g_captures[index]);
  }
}

}  // namespace

uint32_t begin_capture() noexcept {
  for (uint32_t index = 1; g_captures != nullptr && index < kMostCaptures; ++index) {
    Capture& capture = g_captures[index];
    if (load(capture.uses) == 0 && exchange_if(capture.uses, 0U, 1U)) {
      // Never the same number twice: an event may remember an earlier capture.
      const uint32_t number = (capture.generation + 2) << kIndexBits | index;
      publish(capture.under_way, number);
      return number;
    }
  }
  return kLostCapture;
}

bool is_under_way(uint32_t capture) noexcept {
  const Capture* const at = capture_at(capture);
  return at != nullptr && load(at->under_way) == capture;
}

void capture_operation(uint32_t capture, const OperationRequest& request) noexcept {
  if (capture == 0) {
    return;
  }
  Capture* const into = capture_at(capture);
  const uint32_t number = into == nullptr ? 0 : take_node();
  if (number == 0) {
    count(format::Stat::CapturesFull);
    return;
  }
  Node& node = g_nodes[number - 1];
  node.request = request;
  publish(node.next, 0U);
  const uint32_t before = __atomic_exchange_n(&into->tail, number, __ATOMIC_ACQ_REL);
  publish(before == 0 ? into->head : g_nodes[before - 1].next, number);
}

void finish_capture(uint32_t capture, uint64_t graph) noexcept {
  forget(graph_key(graph));
  Capture* const list = capture_at(capture);
  if (list == nullptr) {
    return;
  }
  publish(list->under_way, 0U);
  // The use of the capture becomes the graph's.
  if (list->head == 0 || !g_lists.put(graph_key(graph), capture % kMostCaptures)) {
    release(*list);
  }
}

void drop_capture(uint32_t capture) noexcept {
  if (Capture* const list = capture_at(capture)) {
    publish(list->under_way, 0U);
    release(*list);
  }
}

void graph_instantiated(ThreadState&, uint64_t exec, uint64_t graph) noexcept {
  const auto index = static_cast<uint32_t>(g_lists.find(graph_key(graph)));
  if (index != 0) {
    add_use(g_captures[index]);
  }
  forget(exec);
  if (index != 0 && !g_lists.put(exec, index)) {
    count(format::Stat::CapturesFull);
    release(g_captures[index]);
  }
}

void graph_launched(ThreadState& thread, uint64_t exec, uint64_t stream, uint64_t entered_ticks,
                    uint64_t ticks) noexcept {
  const auto index = static_cast<uint32_t>(g_lists.find(exec));
  if (index == 0) {
    return;
  }
  const uint32_t on = stream_number(thread, stream, -1);
  if (capture_of(on) != 0) {
    count(format::Stat::CapturesFull);  // a graph in a graph: what runs, runs elsewhere
    return;
  }
  uint32_t left = kMostOperations;  // a job that destroys what it launches must not trap us here
  for (uint32_t number = load(g_captures[index].head); number != 0 && left != 0; --left) {
    const Node& node = g_nodes[number - 1];
    replay_operation(node.request, on, entered_ticks, ticks);
    number = load(node.next);
  }
}

void graph_destroyed(uint64_t graph) noexcept {
  forget(graph_key(graph));
}

void graph_exec_destroyed(uint64_t exec) noexcept {
  forget(exec);
}

void captures_start() noexcept {
  g_nodes_used = 0;
  g_free = 0;
  g_nodes = private_array<Node>(kMostOperations);
  g_captures = private_array<Capture>(kMostCaptures);
  g_lists.start(kMostHandles);
}

void captures_drop() noexcept {
  g_nodes = nullptr;
  g_captures = nullptr;
  g_lists.drop();
}

}  // namespace traintrace
