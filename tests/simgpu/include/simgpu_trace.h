/* Between simgpu's libcuda and its libcupti. */
#ifndef SIMGPU_TRACE_H
#define SIMGPU_TRACE_H
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef int simgpuActivityKind;
enum {
  SIMGPU_NO_ACTIVITY,
  SIMGPU_KERNEL,
  SIMGPU_COPY,
  SIMGPU_SET,
  SIMGPU_EVENT_WAIT, /* of the host: these three are calls */
  SIMGPU_STREAM_WAIT,
  SIMGPU_CONTEXT_WAIT
};

typedef int simgpuMemory;
enum {
  SIMGPU_PAGEABLE = 1, /* as CUpti_ActivityMemoryKind */
  SIMGPU_PINNED,
  SIMGPU_DEVICE,
  SIMGPU_ARRAY,
  SIMGPU_MANAGED
};

typedef struct simgpuActivity {
  simgpuActivityKind kind;
  int64_t start_ns, end_ns; /* CLOCK_MONOTONIC */
  uint32_t correlation, device, context, stream;
  const char* name; /* of a kernel; stays */
  unsigned grid[3], block[3], shared_bytes;
  size_t bytes;
  simgpuMemory from, to;
  unsigned value;
} simgpuActivity;

/* Called on the threads of streams and of the program, several at a time. */
typedef struct simgpuTracer {
  void (*called)(const char* function, uint32_t correlation);
  void (*worked)(const simgpuActivity* activity);
} simgpuTracer;

/* Exported by libcuda.so.1.  `tracer` stays valid; null: nobody traces any more. */
typedef void simgpuTraceFunction(const simgpuTracer* tracer);

#ifdef __cplusplus
}
#endif
#endif
