"""mixed_job.py SEED: a rank of a healthy job whose collectives and messages have types, sizes, scales and operations of chance, the same in each step."""
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, f"{HERE}/site-packages")
from gpu import HOST_TO_DEVICE, Communicator, allocate, call
from mixed_shape import REDUCTIONS, Shape, element, given

rank, ranks, seed = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"]), sys.argv[1]
shape = Shape(seed)
call("cudaSetDevice", rank)
world = Communicator.of_all(rank, ranks, os.environ["NUMBERS_DIR"])


def exchange(number, step, kind, count, what, scale, in_place):
    sent = count * (ranks if what == "scatter" else 1)
    data = b"".join(element(kind, value) for value in given(seed, rank, number, step, sent, scale))
    call("cudaMemcpy", send, data, len(data), HOST_TO_DEVICE)
    if what in REDUCTIONS:
        world.call("ncclAllReduce", send, send if in_place else got, count, kind, REDUCTIONS[what])
    elif what == "gather":
        world.call("ncclAllGather", send, got, count, kind)
    elif what == "scatter":
        world.call("ncclReduceScatter", send, got, count, kind, REDUCTIONS["sum"])
    elif what == "broadcast":
        world.call("ncclBroadcast", send, got, count, kind, step % ranks)
    else:
        world.check(world.nccl.ncclGroupStart())
        world.call("ncclSend", send, count, kind, (rank + 1) % ranks)
        world.call("ncclRecv", got, count, kind, (rank - 1) % ranks)
        world.check(world.nccl.ncclGroupEnd())


send, got = allocate(8 * 1536 * ranks), allocate(8 * 1536 * ranks)
for number, step, bucket in shape.exchanges():
    exchange(number, step, **bucket)
    if bucket is shape.buckets[-1]:
        call("cudaStreamSynchronize", None)
