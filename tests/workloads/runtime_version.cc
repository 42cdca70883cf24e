// run: ranks=2 devices=1
// The smallest program of its kind: each rank asks the runtime which one it is.
#include <cuda_runtime_api.h>

#include <cstdio>
#include <cstdlib>

int main() {
  const char* rank = getenv("RANK");
  int version = 0;
  const cudaError_t error = cudaRuntimeGetVersion(&version);
  printf("rank %s: runtime %d (error %d)\n", rank ? rank : "?", version, error);
  return error == cudaSuccess && version == CUDART_VERSION ? 0 : 1;
}
