// What the simulated part can do: figures of a large data-centre part of compute capability 9.0.
#pragma once
#include <cuda.h>

namespace simgpu {

constexpr int kComputeMajor = 9;
constexpr int kComputeMinor = 0;
constexpr int kMultiprocessors = 132;
constexpr int kWarpThreads = 32;
constexpr int kMaxBlockThreads = 1024;
constexpr int kMaxBlockZ = 64;
constexpr unsigned kMaxGridX = 2147483647;
constexpr unsigned kMaxGridYZ = 65535;
constexpr int kMaxThreadsPerMultiprocessor = 2048;
constexpr int kMaxBlocksPerMultiprocessor = 32;
constexpr int kRegistersPerMultiprocessor = 65536;
constexpr int kSharedPerBlock = 48 * 1024;
constexpr int kSharedPerBlockOptin = 227 * 1024;
constexpr int kSharedPerMultiprocessor = 228 * 1024;
constexpr int kReservedSharedPerBlock = 1024;
constexpr int kRegistersPerThread = 32;  // what every kernel is said to use
constexpr const char* kDeviceName = "simgpu H";

}  // namespace simgpu
