// Which rank this process is, and the folder through which ranks tell each other something (a
// launcher gives both).
#pragma once
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>

#include "check.h"

inline int environment_number(const char* name, int otherwise) {
  const char* text = getenv(name);
  return text ? atoi(text) : otherwise;
}
inline int world_rank() {
  return environment_number("RANK", 0);
}
inline int local_rank() {
  return environment_number("LOCAL_RANK", world_rank());
}
inline int world_size() {
  return environment_number("WORLD_SIZE", 1);
}

inline int device_count() {
  int devices = 0;
  CUDA_CHECK(cudaGetDeviceCount(&devices));
  CHECK(devices > 0, "there is no device");
  return devices;
}

// One device per process, as it is usual.
inline int select_device() {
  const int device = local_rank() % device_count();
  CUDA_CHECK(cudaSetDevice(device));
  return device;
}

inline std::string shared_path(const std::string& name) {
  const char* folder = getenv("WORKLOAD_DIR");
  CHECK(folder, "WORKLOAD_DIR is not set: ranks need a folder that they share");
  return std::string(folder) + "/" + name;
}

// Renamed when complete, so that nobody reads half of it.
inline void publish(const std::string& name, const void* data, size_t bytes) {
  const std::string path = shared_path(name);
  const std::string draft = path + ".draft";
  FILE* file = fopen(draft.c_str(), "wb");
  CHECK(file, "cannot write %s", draft.c_str());
  const size_t written = fwrite(data, 1, bytes, file);
  CHECK(fclose(file) == 0 && written == bytes && rename(draft.c_str(), path.c_str()) == 0,
        "cannot write %s", path.c_str());
}

// Waits until it is there.
inline void fetch(const std::string& name, void* data, size_t bytes) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(50);
  FILE* file = nullptr;
  while (!(file = fopen(shared_path(name).c_str(), "rb"))) {
    CHECK(std::chrono::steady_clock::now() < end, "%s did not come", name.c_str());
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  const size_t read = fread(data, 1, bytes, file);
  fclose(file);
  CHECK(read == bytes, "%s has %zu bytes, not %zu", name.c_str(), read, bytes);
}

// All ranks wait for each other.  A name is used once.
inline void meet(const std::string& name) {
  char token = 0;
  publish(name + "." + std::to_string(world_rank()), &token, 1);
  for (int rank = 0; rank < world_size(); ++rank) {
    fetch(name + "." + std::to_string(rank), &token, 1);
  }
}
