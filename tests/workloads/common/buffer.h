// Memory of the current device that frees itself, and comparison of what came back.
#pragma once
#include <cuda_runtime_api.h>

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "check.h"

template <class T>
class DeviceBuffer {
 public:
  explicit DeviceBuffer(size_t count) : count_(count) {
    void* data = nullptr;
    CUDA_CHECK(cudaMalloc(&data, bytes()));
    data_ = static_cast<T*>(data);
  }
  explicit DeviceBuffer(const std::vector<T>& values) : DeviceBuffer(values.size()) {
    upload(values);
  }
  DeviceBuffer(DeviceBuffer&& other) noexcept
      : count_(other.count_), data_(std::exchange(other.data_, nullptr)) {}
  DeviceBuffer& operator=(DeviceBuffer&&) = delete;
  ~DeviceBuffer() {
    if (data_) {
      CUDA_CHECK(cudaFree(data_));
    }
  }

  T* data() const { return data_; }
  size_t count() const { return count_; }
  size_t bytes() const { return count_ * sizeof(T); }

  // On return every stream sees the values: a copy from pageable memory alone does not promise
  // that.
  void upload(const std::vector<T>& values) {
    CUDA_CHECK(cudaMemcpy(data_, values.data(), bytes(), cudaMemcpyHostToDevice));
    CUDA_CHECK(cudaStreamSynchronize(nullptr));
  }
  // What other streams write must be waited for first.
  std::vector<T> values() const {
    std::vector<T> out(count_);
    CUDA_CHECK(cudaMemcpy(out.data(), data_, bytes(), cudaMemcpyDeviceToHost));
    return out;
  }

 private:
  size_t count_;
  T* data_ = nullptr;
};

// values[i] must be expected(i), for all of them.
template <class T, class Expected>
void check_values(const std::string& what, const T* values, size_t count, Expected expected) {
  for (size_t i = 0; i < count; ++i) {
    CHECK(values[i] == static_cast<T>(expected(i)), "%s: value %zu of %zu is %g, not %g",
          what.c_str(), i, count, static_cast<double>(values[i]), static_cast<double>(expected(i)));
  }
}

template <class T, class Expected>
void check_values(const std::string& what, const std::vector<T>& values, Expected expected) {
  check_values(what, values.data(), values.size(), expected);
}
