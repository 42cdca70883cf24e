// One rank that all-reduces for ever and keeps its own account of it, in a file that survives
// SIGKILL as the trace does: what the account says must be in the trace.
//   counted_ranks ACCOUNT_FILE      (RANK, WORLD_SIZE, WORKLOAD_DIR as every workload)
#include <fcntl.h>
#include <sys/mman.h>

#include <atomic>
#include <cstdint>

#include "common/check_nccl.h"
#include "common/nccl_ranks.h"

namespace {

struct Account {
  std::atomic<uint64_t> entered;   // about to call ncclAllReduce for the n-th time
  std::atomic<uint64_t> returned;  // that call has returned
  std::atomic<uint64_t> synchronised;
};

Account& open_account(const char* path) {
  const int file = open(path, O_RDWR | O_CREAT, 0600);
  CHECK(file >= 0 && ftruncate(file, sizeof(Account)) == 0, "cannot write %s", path);
  void* memory = mmap(nullptr, sizeof(Account), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  CHECK(memory != MAP_FAILED, "cannot map %s", path);
  close(file);
  return *static_cast<Account*>(memory);
}

}  // namespace

int main(int argc, char** argv) {
  CHECK(argc == 2, "usage: counted_ranks ACCOUNT_FILE");
  Account& account = open_account(argv[1]);
  select_device();
  ncclComm_t comm = world_communicator();
  cudaStream_t stream = nullptr;
  CUDA_CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  void* buffer = nullptr;
  constexpr size_t kCount = 1024;
  CUDA_CHECK(cudaMalloc(&buffer, kCount * sizeof(float)));
  CUDA_CHECK(cudaMemset(buffer, 0, kCount * sizeof(float)));
  for (;;) {
    account.entered.fetch_add(1);
    NCCL_CHECK(ncclAllReduce(buffer, buffer, kCount, ncclFloat32, ncclSum, comm, stream));
    account.returned.fetch_add(1);
    if (account.returned % 8 == 0) {
      CUDA_CHECK(cudaStreamSynchronize(stream));
      account.synchronised.fetch_add(1);
    }
  }
}
