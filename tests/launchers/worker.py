"""A rank's work, whoever started its process: collectives of a communicator whose id travels by a file."""
import os
import sys
import time
from ctypes import byref, c_size_t, c_void_p

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "examples", "common"))
import nccl  # pylint: disable=wrong-import-position


def shared_id(path, rank):
    unique_id = nccl.UniqueId()
    if rank == 0:
        nccl.ncclGetUniqueId(byref(unique_id))
        with open(path + ".new", "wb") as file:
            file.write(bytes(unique_id))
        os.rename(path + ".new", path)
    while not os.path.exists(path):
        time.sleep(0.01)
    with open(path, "rb") as file:
        return nccl.UniqueId.from_buffer_copy(file.read())


def train(path, rank, ranks, steps=5, between=lambda step: None):
    """`between` is called before each step."""
    nccl.cudaSetDevice(rank)
    stream, comm, memory = nccl.Stream(), nccl.Comm("dp"), c_void_p()
    nccl.cudaStreamCreate(byref(stream))
    nccl.ncclCommInitRankConfig(byref(comm), ranks, shared_id(path, rank), rank, byref(comm.config))
    nccl.cudaMalloc(byref(memory), 1 << 16)
    for step in range(steps):
        between(step)
        nccl.ncclAllReduce(memory, memory, 1 << 10, nccl.ncclFloat32, nccl.ncclSum, comm, stream)
        nccl.cudaStreamSynchronize(stream)


def load(queue, uses_cuda):
    """What a worker of a loader does; some pin memory or, by mistake, put batches on a GPU."""
    if uses_cuda:
        memory = c_void_p()
        nccl.cudart.cudaMallocHost(byref(memory), c_size_t(1 << 16))
        nccl.cudaMalloc(byref(memory), 1 << 16)
    for batch in range(5):
        queue.put(batch)
    if uses_cuda:  # the keeper of its trace, too, would be the same for a worker that ends at once
        time.sleep(0.2)
