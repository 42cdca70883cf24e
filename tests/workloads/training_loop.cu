// run: ranks=1 devices=1 name=alone
// run: ranks=2 devices=2 name=2 SIMGPU_KERNEL_US=200
// run: ranks=4 devices=4 name=4
// Data-parallel training in small: a batch comes from pinned memory on a stream of its own, kernels
// compute gradients layer by layer, each bucket is averaged over all ranks on the communication
// stream while the next is computed, the optimiser waits for all of them, and every few steps the
// host asks for the loss.  The model is linear and all its layers are summed, so a host can compute
// what must come out.
//
//   training_loop [steps]
#include <cuda_runtime.h>
#include <nccl.h>
#include <simgpu.h>

#include <cmath>

#include "common/buffer.h"
#include "common/nccl_ranks.h"

constexpr int kLayers = 4;
constexpr int kWidth = 64;   // weights of a layer
constexpr int kBatch = 128;  // samples of a rank and step
constexpr int kInputs = kLayers * kWidth;
constexpr int kLossEvery = 10;
constexpr float kRate = 0.05F;

// What is to be learnt, and the samples: every rank and every host can compute them.
__host__ __device__ inline float true_weight(int input) {
  return static_cast<float>(input % 7) - 3;
}
float sample_value(int rank, int step, int sample, int input) {
  const auto u = [](int value) { return static_cast<unsigned>(value); };
  const unsigned mixed =
      (((u(rank) * 131 + u(step)) * 977 + u(sample)) * 769 + u(input)) * 2654435761U;
  return static_cast<float>(mixed >> 16) / 65536.0F - 0.5F;
}

// errors[s] = prediction - truth of sample s; the loss is their mean square.
__host__ __device__ inline float error_of(const float* batch, const float* weights, int sample) {
  float error = 0;
  for (int i = 0; i < kInputs; ++i) {
    error += (weights[i] - true_weight(i)) * batch[sample * kInputs + i];
  }
  return error;
}
__host__ __device__ inline float gradient_of(const float* batch, const float* errors, int input) {
  float sum = 0;
  for (int sample = 0; sample < kBatch; ++sample) {
    sum += errors[sample] * batch[sample * kInputs + input];
  }
  return sum * 2 / kBatch;
}

__global__ void forward(const float* batch, const float* weights, float* errors) {
  const int sample = static_cast<int>(threadIdx.x);
  errors[sample] = error_of(batch, weights, sample);
}
__global__ void backward(const float* batch, const float* errors, float* gradients, int first) {
  const int input = first + static_cast<int>(threadIdx.x);
  gradients[input] = gradient_of(batch, errors, input);
}
__global__ void optimise(float* weights, const float* gradients, float rate) {
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  weights[i] -= rate * gradients[i];
}
__global__ void mean_square(const float* errors, float* loss) {
  float sum = 0;
  for (int sample = 0; sample < kBatch; ++sample) {
    sum += errors[sample] * errors[sample];
  }
  *loss = sum / kBatch;
}

void register_bodies() {
  simgpu::kernel(
      "forward", +[](simgpu::Grid, const float* batch, const float* weights, float* errors) {
        for (int sample = 0; sample < kBatch; ++sample) {
          errors[sample] = error_of(batch, weights, sample);
        }
      });
  simgpu::kernel(
      "backward",
      +[](simgpu::Grid, const float* batch, const float* errors, float* gradients, int first) {
        for (int input = first; input < first + kWidth; ++input) {
          gradients[input] = gradient_of(batch, errors, input);
        }
      });
  simgpu::kernel(
      "optimise", +[](simgpu::Grid, float* weights, const float* gradients, float rate) {
        for (int i = 0; i < kInputs; ++i) {
          weights[i] -= rate * gradients[i];
        }
      });
  simgpu::kernel(
      "mean_square", +[](simgpu::Grid, const float* errors, float* loss) {
        *loss = 0;
        for (int sample = 0; sample < kBatch; ++sample) {
          *loss += errors[sample] * errors[sample] / kBatch;
        }
      });
}

cudaStream_t new_stream(int priority) {
  cudaStream_t stream;
  CUDA_CHECK(cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, priority));
  return stream;
}
cudaEvent_t new_event() {
  cudaEvent_t event;
  CUDA_CHECK(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
  return event;
}

class Trainer {
 public:
  explicit Trainer(ncclComm_t comm) : comm_(comm) {
    CUDA_CHECK(cudaMallocHost(&pinned_, batch_.bytes()));
    // All start from what rank 0 has.
    weights_.upload(std::vector<float>(kInputs, world_rank() == 0 ? 0.0F : 1.0F));
    NCCL_CHECK(
        ncclBroadcast(weights_.data(), weights_.data(), kInputs, ncclFloat, 0, comm_, compute_));
  }
  Trainer(const Trainer&) = delete;
  Trainer& operator=(const Trainer&) = delete;
  ~Trainer() {
    for (cudaEvent_t event : {batch_ready_, batch_used_, averaged_}) {
      CUDA_CHECK(cudaEventDestroy(event));
    }
    for (cudaEvent_t event : gradient_ready_) {
      CUDA_CHECK(cudaEventDestroy(event));
    }
    for (cudaStream_t stream : {compute_, communicate_, load_}) {
      CUDA_CHECK(cudaStreamDestroy(stream));
    }
    CUDA_CHECK(cudaFreeHost(pinned_));
  }

  void step(int number) {
    load_batch(number);
    CUDA_CHECK(cudaStreamWaitEvent(compute_, batch_ready_, 0));
    forward<<<1, kBatch, 0, compute_>>>(batch_.data(), weights_.data(), errors_.data());
    CUDA_CHECK(cudaGetLastError());
    for (int layer = kLayers - 1; layer >= 0; --layer) {
      compute_gradients(layer);
      average_gradients(layer);
    }
    CUDA_CHECK(cudaEventRecord(batch_used_, compute_));
    CUDA_CHECK(cudaEventRecord(averaged_, communicate_));
    CUDA_CHECK(cudaStreamWaitEvent(compute_, averaged_, 0));
    optimise<<<kLayers, kWidth, 0, compute_>>>(weights_.data(), gradients_.data(), kRate);
    CUDA_CHECK(cudaGetLastError());
  }

  // The host waits here, as for loss.item().
  float loss() {
    mean_square<<<1, 1, 0, compute_>>>(errors_.data(), loss_.data());
    CUDA_CHECK(cudaGetLastError());
    float value = 0;
    CUDA_CHECK(
        cudaMemcpyAsync(&value, loss_.data(), sizeof value, cudaMemcpyDeviceToHost, compute_));
    CUDA_CHECK(cudaStreamSynchronize(compute_));
    return value;
  }

  std::vector<float> weights() {
    CUDA_CHECK(cudaStreamSynchronize(compute_));
    return weights_.values();
  }

  // The weights of all ranks, one after the other.
  std::vector<float> everybodys_weights() {
    const DeviceBuffer<float> all(size_t{kInputs} * static_cast<size_t>(world_size()));
    NCCL_CHECK(ncclAllGather(weights_.data(), all.data(), kInputs, ncclFloat, comm_, compute_));
    CUDA_CHECK(cudaStreamSynchronize(compute_));
    return all.values();
  }

 private:
  void load_batch(int number) {
    CUDA_CHECK(cudaEventSynchronize(batch_ready_));  // the pinned memory has been read
    for (int i = 0; i < kBatch * kInputs; ++i) {
      pinned_[i] = sample_value(world_rank(), number, i / kInputs, i % kInputs);
    }
    CUDA_CHECK(cudaStreamWaitEvent(load_, batch_used_, 0));
    CUDA_CHECK(
        cudaMemcpyAsync(batch_.data(), pinned_, batch_.bytes(), cudaMemcpyHostToDevice, load_));
    CUDA_CHECK(cudaEventRecord(batch_ready_, load_));
  }

  void compute_gradients(int layer) {
    backward<<<1, kWidth, 0, compute_>>>(batch_.data(), errors_.data(), gradients_.data(),
                                         layer * kWidth);
    CUDA_CHECK(cudaGetLastError());
    CUDA_CHECK(cudaEventRecord(gradient_ready_[layer], compute_));
  }

  void average_gradients(int layer) {
    float* const bucket = gradients_.data() + layer * kWidth;
    CUDA_CHECK(cudaStreamWaitEvent(communicate_, gradient_ready_[layer], 0));
    NCCL_CHECK(ncclAllReduce(bucket, bucket, kWidth, ncclFloat, ncclAvg, comm_, communicate_));
  }

  ncclComm_t comm_;
  float* pinned_ = nullptr;
  DeviceBuffer<float> batch_{size_t{kBatch} * kInputs}, errors_{kBatch}, weights_{kInputs},
      gradients_{kInputs}, loss_{1};
  cudaStream_t compute_ = new_stream(0), communicate_ = new_stream(-1), load_ = new_stream(0);
  cudaEvent_t batch_ready_ = new_event(), batch_used_ = new_event(), averaged_ = new_event();
  cudaEvent_t gradient_ready_[kLayers] = {new_event(), new_event(), new_event(), new_event()};
};

// The same on the host alone.
std::vector<float> reference(int steps) {
  std::vector<float> weights(kInputs, 0), batch(size_t{kBatch} * kInputs), errors(kBatch);
  for (int step = 0; step < steps; ++step) {
    std::vector<float> gradients(kInputs, 0);
    for (int rank = 0; rank < world_size(); ++rank) {
      for (int i = 0; i < kBatch * kInputs; ++i) {
        batch[static_cast<size_t>(i)] = sample_value(rank, step, i / kInputs, i % kInputs);
      }
      for (int sample = 0; sample < kBatch; ++sample) {
        errors[static_cast<size_t>(sample)] = error_of(batch.data(), weights.data(), sample);
      }
      for (int i = 0; i < kInputs; ++i) {
        gradients[static_cast<size_t>(i)] +=
            gradient_of(batch.data(), errors.data(), i) / static_cast<float>(world_size());
      }
    }
    for (size_t i = 0; i < weights.size(); ++i) {
      weights[i] -= kRate * gradients[i];
    }
  }
  return weights;
}

void check_weights(Trainer& trainer, int steps) {
  const std::vector<float> weights = trainer.weights();
  check_values("the weights of all ranks", trainer.everybodys_weights(),
               [&](size_t i) { return weights[i % kInputs]; });
  const std::vector<float> expected = reference(steps);
  for (size_t i = 0; i < weights.size(); ++i) {
    CHECK(std::fabs(weights[i] - expected[i]) < 1e-3F, "weight %zu is %g, not %g", i,
          static_cast<double>(weights[i]), static_cast<double>(expected[i]));
  }
}

int main(int argc, char** argv) {
  const int steps = argc > 1 ? atoi(argv[1]) : 50;
  register_bodies();
  select_device();
  const ncclComm_t comm = world_communicator();
  {
    Trainer trainer(comm);
    float first = 0, last = 0;
    for (int step = 0; step < steps; ++step) {
      trainer.step(step);
      if (step % kLossEvery == 0 || step == steps - 1) {
        last = trainer.loss();
        first = step ? first : last;
        if (world_rank() == 0) {
          printf("step %4d loss %.5f\n", step, static_cast<double>(last));
        }
      }
    }
    CHECK(steps < 50 || last < first / 2, "nothing was learnt: %g, then %g",
          static_cast<double>(first), static_cast<double>(last));
    check_weights(trainer, steps);
  }
  finish(comm);
  return 0;
}
