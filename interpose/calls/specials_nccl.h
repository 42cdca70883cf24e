// What rows of calls.def cannot say about NCCL: who is created from what, and what an ended or
// failed communicator means.
#pragma once

#include <nccl.h>

#include <cstddef>

#include "interpose/calls/traced.h"
#include "interpose/gpu/own_gpu.h"
#include "interpose/life/on_abort.h"

namespace traintrace {

// What NCCL_CONFIG_INITIALIZER begins with.  Without it the rest is anything, and NCCL refuses it.
inline constexpr unsigned kConfigMagic = 0xcafebeef;

// A program compiled with an older NCCL has a shorter structure; `size` says how long.
template <class Value>
Value config_or(const ncclConfig_t* config, Value ncclConfig_t::*member, Value fallback) {
  if (!config || config->magic != kConfigMagic) {
    return fallback;
  }
  const auto* const value = &(config->*member);
  const auto end = reinterpret_cast<const char*>(value + 1) - reinterpret_cast<const char*>(config);
  return static_cast<size_t>(end) <= config->size ? *value : fallback;
}

inline bool does_not_block(const ncclConfig_t* config) {
  return config_or(config, &ncclConfig_t::blocking, 1) == 0;
}
inline const char* name_in(const ncclConfig_t* config) {
  return config_or<const char*>(config, &ncclConfig_t::commName, nullptr);
}

inline uint64_t handle(ncclComm_t communicator) {
  return reinterpret_cast<uint64_t>(communicator);
}
inline uint64_t handle_at(const ncclComm_t* where, int result) {
  return where && (result == ncclSuccess || result == ncclInProgress) ? handle(*where) : 0;
}

inline CommunicatorArguments creation(const OpenFrame& frame, format::CommunicatorOrigin origin,
                                      const ncclConfig_t* config) {
  CommunicatorArguments arguments = {};
  arguments.origin = origin;
  arguments.size = -1;
  arguments.rank = -1;
  arguments.device = -1;
  arguments.non_blocking = does_not_block(config);
  arguments.name = name_in(config);
  arguments.stack = frame.stack;
  arguments.ticks = frame.ticks;
  return arguments;
}

template <>
struct Special<format::CallId::ncclGetUniqueId> {
  static void before(OpenFrame& frame, Scratch&, auto...) {
    own_gpu_prepare(*frame.thread, GpuOccasion::kUniqueId);
  }
  static void after(OpenFrame&, Scratch&, int, uint64_t, auto...) {}
};

struct InitRank {
  static void start(OpenFrame& frame, Scratch& scratch, const ncclUniqueId* id, int ranks, int rank,
                    const ncclConfig_t* config) {
    own_gpu_prepare(*frame.thread, GpuOccasion::kCommunicator);
    CommunicatorArguments arguments = creation(frame, format::kInitRank, config);
    arguments.unique_id = id;
    arguments.size = ranks;
    arguments.rank = rank;
    scratch.element = communicator_entered(*frame.thread, arguments);
  }
  static void end(OpenFrame& frame, Scratch& scratch, int result, uint64_t ticks,
                  const ncclComm_t* where) {
    communicator_ready(*frame.thread, scratch.element, handle_at(where, result), result, ticks);
  }
};

template <>
struct Special<format::CallId::ncclCommInitRank> {
  static void before(OpenFrame& frame, Scratch& scratch, ncclComm_t*, int ranks, ncclUniqueId id,
                     int rank) {
    InitRank::start(frame, scratch, &id, ranks, rank, nullptr);
  }
  static void after(OpenFrame& frame, Scratch& scratch, int result, uint64_t ticks,
                    ncclComm_t* where, int, const ncclUniqueId&, int) {
    InitRank::end(frame, scratch, result, ticks, where);
  }
};

template <>
struct Special<format::CallId::ncclCommInitRankConfig> {
  static void before(OpenFrame& frame, Scratch& scratch, ncclComm_t*, int ranks, ncclUniqueId id,
                     int rank, ncclConfig_t* config) {
    InitRank::start(frame, scratch, &id, ranks, rank, config);
  }
  static void after(OpenFrame& frame, Scratch& scratch, int result, uint64_t ticks,
                    ncclComm_t* where, int, const ncclUniqueId&, int, ncclConfig_t*) {
    InitRank::end(frame, scratch, result, ticks, where);
  }
};

// Several unique ids only spread the load of the rendezvous: the first one names the communicator.
template <>
struct Special<format::CallId::ncclCommInitRankScalable> {
  static void before(OpenFrame& frame, Scratch& scratch, ncclComm_t*, int ranks, int rank,
                     int count, ncclUniqueId* ids, ncclConfig_t* config) {
    InitRank::start(frame, scratch, count > 0 ? ids : nullptr, ranks, rank, config);
  }
  static void after(OpenFrame& frame, Scratch& scratch, int result, uint64_t ticks,
                    ncclComm_t* where, int, int, int, ncclUniqueId*, ncclConfig_t*) {
    InitRank::end(frame, scratch, result, ticks, where);
  }
};

template <>
struct Special<format::CallId::ncclCommInitAll> {
  static void before(OpenFrame& frame, Scratch& scratch, ncclComm_t*, int count,
                     const int* devices) {
    own_gpu_prepare(*frame.thread,
                    count == 1 ? GpuOccasion::kCommunicator : GpuOccasion::kSeveralDevices);
    for (int i = 0; i < count && i < Scratch::kMaxElements; ++i) {
      CommunicatorArguments arguments = creation(frame, format::kInitAll, nullptr);
      arguments.size = count;
      arguments.rank = i;
      arguments.init_all_index = i;
      arguments.device = devices ? devices[i] : i;
      scratch.elements[i] = communicator_entered(*frame.thread, arguments);
    }
  }
  static void after(OpenFrame& frame, Scratch& scratch, int result, uint64_t ticks,
                    ncclComm_t* where, int count, const int*) {
    for (int i = 0; i < count && i < Scratch::kMaxElements; ++i) {
      communicator_ready(*frame.thread, scratch.elements[i],
                         where ? handle_at(where + i, result) : 0, result, ticks);
    }
  }
};

// A child is stored in *where only when it is ready: inside a group or without blocking, later.
inline void child_made(OpenFrame& frame, uint32_t element, int result, uint64_t ticks,
                       const ncclComm_t* where) {
  if (result == ncclInProgress || (result == ncclSuccess && frame.thread->group_depth)) {
    communicator_deferred(*frame.thread, element, where);
  } else {
    communicator_ready(*frame.thread, element, handle_at(where, result), result, ticks);
  }
}

template <>
struct Special<format::CallId::ncclCommSplit> {
  static void before(OpenFrame& frame, Scratch& scratch, ncclComm_t parent, int color, int key,
                     ncclComm_t*, ncclConfig_t* config) {
    CommunicatorArguments arguments = creation(frame, format::kSplit, config);
    arguments.parent = handle(parent);
    arguments.color = color;
    arguments.key = key;
    scratch.element = communicator_entered(*frame.thread, arguments);
  }
  static void after(OpenFrame& frame, Scratch& scratch, int result, uint64_t ticks, ncclComm_t, int,
                    int, ncclComm_t* where, ncclConfig_t*) {
    child_made(frame, scratch.element, result, ticks, where);
  }
};

template <>
struct Special<format::CallId::ncclCommShrink> {
  static constexpr int kAborts = NCCL_SHRINK_ABORT;
  static void before(OpenFrame& frame, Scratch& scratch, ncclComm_t parent, int* excluded,
                     int count, ncclComm_t*, ncclConfig_t* config, int flags) {
    CommunicatorArguments arguments = creation(frame, format::kShrink, config);
    arguments.parent = handle(parent);
    arguments.excluded = excluded;
    arguments.excluded_count = count;
    if (flags & kAborts) {
      communicator_ending(*frame.thread, handle(parent), CommunicatorEnd::kRevoke, frame.stack,
                          frame.ticks);
      on_abort();
    }
    scratch.element = communicator_entered(*frame.thread, arguments);
  }
  static void after(OpenFrame& frame, Scratch& scratch, int result, uint64_t ticks,
                    ncclComm_t parent, int*, int, ncclComm_t* where, ncclConfig_t*, int flags) {
    child_made(frame, scratch.element, result, ticks, where);
    if (flags & kAborts) {
      communicator_ended(*frame.thread, handle(parent), CommunicatorEnd::kRevoke, result);
    }
  }
};

// A rank that joins has no parent, and a rank of the parent that is not the first may have no id.
template <>
struct Special<format::CallId::ncclCommGrow> {
  static void before(OpenFrame& frame, Scratch& scratch, ncclComm_t parent, int ranks,
                     const ncclUniqueId* id, int rank, ncclComm_t*, ncclConfig_t* config) {
    if (!parent) {
      own_gpu_prepare(*frame.thread, GpuOccasion::kCommunicator);
    }
    CommunicatorArguments arguments = creation(frame, format::kGrow, config);
    arguments.parent = handle(parent);
    arguments.unique_id = id;
    arguments.size = ranks;
    arguments.rank = rank;
    scratch.element = communicator_entered(*frame.thread, arguments);
  }
  static void after(OpenFrame& frame, Scratch& scratch, int result, uint64_t ticks,
                    ncclComm_t parent, int, const ncclUniqueId*, int, ncclComm_t* where,
                    ncclConfig_t*) {
    if (parent) {
      child_made(frame, scratch.element, result, ticks, where);
    } else {
      InitRank::end(frame, scratch, result, ticks, where);
    }
  }
};

template <CommunicatorEnd kHow>
struct Ending {
  static void before(OpenFrame& frame, Scratch&, ncclComm_t communicator, auto...) {
    communicator_ending(*frame.thread, handle(communicator), kHow, frame.stack, frame.ticks);
    if constexpr (kHow == CommunicatorEnd::kAbort || kHow == CommunicatorEnd::kRevoke) {
      on_abort();
    }
  }
  static void after(OpenFrame& frame, Scratch&, int result, uint64_t, ncclComm_t communicator,
                    auto...) {
    communicator_ended(*frame.thread, handle(communicator), kHow, result);
  }
};
template <>
struct Special<format::CallId::ncclCommFinalize> : Ending<CommunicatorEnd::kFinalize> {};
template <>
struct Special<format::CallId::ncclCommDestroy> : Ending<CommunicatorEnd::kDestroy> {};
template <>
struct Special<format::CallId::ncclCommAbort> : Ending<CommunicatorEnd::kAbort> {};
template <>
struct Special<format::CallId::ncclCommRevoke> : Ending<CommunicatorEnd::kRevoke> {};

template <>
struct Special<format::CallId::ncclCommGetAsyncError> {
  static void before(OpenFrame&, Scratch&, auto...) {}
  static void after(OpenFrame& frame, Scratch&, int result, uint64_t ticks, ncclComm_t communicator,
                    const ncclResult_t* error) {
    if (result == ncclSuccess && error) {
      communicator_error(*frame.thread, handle(communicator), *error, ticks);
      if (*error != ncclSuccess && *error != ncclInProgress) {
        on_abort();
      }
    }
  }
};

}  // namespace traintrace
