// Which processes share a GPU when its memory runs out.  PyTorch asks NVML then, for its message;
// the tracer listens to the answer, and asks nothing itself: NVML takes locks of the driver.
#pragma once

namespace traintrace {

// Whether NVML answers by it who uses a GPU: the form that PyTorch looks up.
bool asks_for_processes(const char* function) noexcept;

// What the program gets in its place: `real`, or a function that calls it and notes the answer.
void* listens_to_processes(void* real) noexcept;

// The answer becomes the fact `gpu-0-processes`: the time, in ns since the epoch, and of each
// process its pid and bytes, "1764582000000000000 4242:17179869184 4243:0" (0: not told); or
// `gpu-processes`, where the thread's device is not known.  Of several answers the last one counts.
void device_processes_start() noexcept;

}  // namespace traintrace
