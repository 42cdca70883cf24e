// Memory of graph nodes: an allocation node has one address for all launches, physical memory only
// from the first launch on.  Freed memory stays with the device's graphs until graph_memory_trim.
#pragma once
#include <cuda.h>

#include <memory>

#include "cuda/state.h"

namespace simgpu {

// Reserves the address and stores it in `parameters.dptr`.  The address range lives as long as the
// work (a node shares its work with all clones and execs of its graph).
CUresult make_alloc_work(CUDA_MEM_ALLOC_NODE_PARAMS& parameters, std::shared_ptr<const Work>& work);
// Frees an address that an alloc work reserved; CUDA_ERROR_INVALID_VALUE if it is none.
CUresult make_free_work(CUdeviceptr address, std::shared_ptr<const Work>& work);
// What cuMemFree does with such an address; CUDA_ERROR_INVALID_VALUE if nothing is allocated there.
CUresult free_graph_memory(CUdeviceptr address);
// The same in stream order, for cuMemFreeAsync outside a capture.
std::shared_ptr<const Work> free_graph_memory_work(CUdeviceptr address);
bool alloc_params_of(const Work& work, CUDA_MEM_ALLOC_NODE_PARAMS& parameters);
bool free_address_of(const Work& work, CUdeviceptr& address);

// True while memory is allocated at the address of `alloc_work`: launching the graph again fails,
// or with CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH frees it first (graph_memory_free).
bool graph_memory_live(const Work& alloc_work);
void graph_memory_free(const Work& alloc_work);
// Gets physical memory for an alloc work before the launch that runs it: a launch that does not fit
// fails at the call with CUDA_ERROR_OUT_OF_MEMORY.  The memory counts as live from here on.
CUresult graph_memory_commit(const Work& alloc_work);

// cuDeviceGetGraphMemAttribute, cuDeviceSetGraphMemAttribute (high water marks: reset to 0 only),
// cuDeviceGraphMemTrim.
CUresult graph_memory_attribute(int device, CUgraphMem_attribute attribute, cuuint64_t& value);
CUresult graph_memory_reset_high(int device, CUgraphMem_attribute attribute);
void graph_memory_trim(int device);

}  // namespace simgpu
