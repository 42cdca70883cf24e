#include "nccl/enqueue.h"

#include <cstdlib>
#include <cstring>

#include "nccl/debug.h"
#include "nccl/profiler.h"

namespace simgpu::nccl {
namespace {

bool reduces(Call::Kind kind) {
  return kind == Call::Kind::kReduce || kind == Call::Kind::kReduceScatter ||
         kind == Call::Kind::kAllReduce;
}

// NCCL_CHECK_POINTERS=1: buffers must be known to CUDA, and device memory must be of this device.
ncclResult_t check_buffer(const Call& call, const void* pointer, const char* what) {
  cudaPointerAttributes attributes{};
  const cudaError_t error = cudaPointerGetAttributes(&attributes, pointer);
  if (error != cudaSuccess || !attributes.devicePointer) {
    cudaGetLastError();
    warn("%s : %s %p is not a valid pointer", call.name, what, pointer);
    return ncclInvalidArgument;
  }
  if (attributes.type == cudaMemoryTypeDevice && attributes.device != call.comm->device) {
    warn("%s : %s allocated on device %d mismatchs with NCCL device %d", call.name, what,
         attributes.device, call.comm->device);
    return ncclInvalidArgument;
  }
  return ncclSuccess;
}

ncclResult_t check_buffers(const Call& call) {
  static const bool wanted = [] {
    const char* text = getenv("NCCL_CHECK_POINTERS");
    return text && strcmp(text, "0") != 0 && *text;
  }();
  if (!wanted || call.count == 0) {
    return ncclSuccess;
  }
  const bool root = call.root == call.comm->rank;
  const bool sends =
      call.kind != Call::Kind::kRecv &&
      ((call.kind != Call::Kind::kBroadcast && call.kind != Call::Kind::kScatter) || root);
  const bool receives =
      call.kind != Call::Kind::kSend &&
      ((call.kind != Call::Kind::kReduce && call.kind != Call::Kind::kGather) || root);
  ncclResult_t result = sends ? check_buffer(call, call.send, "sendbuff") : ncclSuccess;
  if (result == ncclSuccess && receives) {
    result = check_buffer(call, call.receive, "recvbuff");
  }
  return result;
}

ncclResult_t check_arguments(const Call& call) {
  if (call.root < 0 || call.root >= call.comm->rank_count) {
    warn("%s : invalid root %d (root should be in the 0..%d range)", call.name, call.root,
         call.comm->rank_count);
    return ncclInvalidArgument;
  }
  const int type = static_cast<int>(call.type);
  if (type < 0 || type >= static_cast<int>(ncclNumTypes)) {
    warn("%s : invalid type %d", call.name, type);
    return ncclInvalidArgument;
  }
  return check_buffers(call);
}

class Appender {
 public:
  Appender(const Call& call, void* event)
      : call_(call), bytes_(call.count * type_bytes(call.type)), event_(event) {}

  void collective(const Reduction& reduction) const {
    Operation operation{.function = static_cast<Function>(call_.kind),
                        .send = call_.send,
                        .receive = call_.receive,
                        .count = call_.count,
                        .type = call_.type,
                        .reduction = reduction,
                        .root = call_.root,
                        .call_event = event_};
    group_add(*call_.comm, operation, call_.stream);
  }
  // The part of the buffer that belongs to `index`.
  void send(int peer, int index) const {
    const auto* from = static_cast<const char*>(call_.send) + static_cast<size_t>(index) * bytes_;
    transfer({.function = Function::kSend, .send = from, .root = peer});
  }
  void receive(int peer, int index) const {
    auto* into = static_cast<char*>(call_.receive) + static_cast<size_t>(index) * bytes_;
    transfer({.function = Function::kRecv, .receive = into, .root = peer});
  }

 private:
  void transfer(Operation operation) const {
    operation.count = call_.count;
    operation.type = call_.type;
    operation.call_event = event_;
    group_add(*call_.comm, operation, call_.stream);
  }

  const Call& call_;
  const size_t bytes_;
  void* const event_;
};

void append_transfers(const Call& call, void* event) {
  const Appender add(call, event);
  const int rank = call.comm->rank;
  const int ranks = call.comm->rank_count;
  const bool root = call.root == rank;
  switch (call.kind) {
    case Call::Kind::kSend:
      return add.send(call.root, 0);
    case Call::Kind::kRecv:
      return add.receive(call.root, 0);
    case Call::Kind::kAlltoAll:
      for (int peer = 0; peer < ranks; ++peer) {
        add.send(peer, peer);
        add.receive(peer, peer);
      }
      return;
    case Call::Kind::kGather:
      add.send(call.root, 0);
      for (int peer = 0; root && peer < ranks; ++peer) {
        add.receive(peer, peer);
      }
      return;
    default:
      add.receive(call.root, 0);
      for (int peer = 0; root && peer < ranks; ++peer) {
        add.send(peer, peer);
      }
      return;
  }
}

ncclResult_t append(const Call& call) {
  Reduction reduction;
  if (reduces(call.kind)) {
    if (const ncclResult_t result = resolve(*call.comm, call.op, call.type, reduction);
        result != ncclSuccess) {
      return result;
    }
  }
  if (call.count == 0) {
    return ncclSuccess;  // nothing to do: the rank does not take part and nobody waits for it
  }
  cudaStreamCaptureStatus capture = cudaStreamCaptureStatusNone;
  const bool captured = call.comm->profiler != nullptr &&
                        cudaStreamIsCapturing(call.stream, &capture) == cudaSuccess &&
                        capture != cudaStreamCaptureStatusNone;
  const bool transfer = call.kind == Call::Kind::kSend || call.kind == Call::Kind::kRecv;
  void* const event = profiler_call_begins(call, transfer, captured);
  if (call.kind >= Call::Kind::kSend) {
    append_transfers(call, event);
  } else {
    Appender(call, event).collective(reduction);
  }
  profiler_event_ends(event);
  return ncclSuccess;
}

}  // namespace

ncclResult_t enqueue(const Call& call) {
  ncclResult_t result = check_comm(call.comm, call.name);
  if (result == ncclSuccess && call.comm->revoked.load()) {
    warn("%s : the communicator was revoked", call.name);
    result = ncclInvalidUsage;
  }
  if (result != ncclSuccess) {
    return group_fail(result);
  }
  group_start();
  result = check_ready(call.comm, call.name);
  result = result == ncclSuccess ? check_arguments(call) : result;
  result = result == ncclSuccess ? append(call) : result;
  group_fail(result);
  const ncclResult_t ended = group_end();
  return result == ncclSuccess ? ended : result;
}

}  // namespace simgpu::nccl
