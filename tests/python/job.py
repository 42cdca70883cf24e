"""A rank of a small job that says where it is.   job.py FOLDER RANK RANKS [DEFECT_STEP]

In DEFECT_STEP the last rank leaves in the middle of its evaluation, and the others wait for it."""
import os
import sys
import time
from ctypes import byref, c_size_t, c_void_p

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "examples", "common"))
import nccl  # pylint: disable=wrong-import-position
import traintrace  # pylint: disable=wrong-import-position

folder, rank, ranks = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
defect = int(sys.argv[4]) if len(sys.argv) > 4 else None


def shared_id():
    unique_id, path = nccl.UniqueId(), os.path.join(folder, "unique-id")
    if rank == 0:
        nccl.ncclGetUniqueId(byref(unique_id))
        with open(path + ".new", "wb") as file:
            file.write(bytes(unique_id))
        os.rename(path + ".new", path)
    while not os.path.exists(path):
        time.sleep(0.01)
    with open(path, "rb") as file:
        return nccl.UniqueId.from_buffer_copy(file.read())


@traintrace.range("evaluate")
def evaluate(step):
    if rank == ranks - 1 and step == defect:
        time.sleep(0.5)
        os._exit(3)


def main():
    nccl.cudaSetDevice(rank)
    stream, comm, memory = nccl.Stream(), nccl.Comm("dp"), c_void_p()
    nccl.cudaStreamCreate(byref(stream))
    nccl.ncclCommInitRankConfig(byref(comm), ranks, shared_id(), rank, byref(comm.config))
    nccl.cudaMalloc(byref(memory), 1 << 16)
    for step in range(100, 110):
        traintrace.step(step)
        traintrace.note("samples", range(32 * (step * ranks + rank), 32 * (step * ranks + rank + 1)))
        with traintrace.range("forward"):
            nccl.cudart.cudaMemsetAsync(memory, 0, c_size_t(1 << 16), stream)
        evaluate(step)
        with traintrace.range("backward"):
            nccl.ncclAllReduce(memory, memory, 1 << 10, nccl.ncclFloat32, nccl.ncclSum, comm, stream)
            nccl.cudaStreamSynchronize(stream)
    time.sleep(0.15)  # then all that the GPU did is told
    nccl.cudaStreamSynchronize(stream)
    print("done")


main()
