"""mixed_job.py SEED: a rank of a healthy job whose collectives and messages have types, sizes, scales and operations of chance, the same in each step."""
import os
import random
import struct
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, f"{HERE}/site-packages")
from gpu import HOST_TO_DEVICE, Communicator, allocate, call
from mixed_shape import BFLOAT16, FLOAT16, REDUCTIONS, Shape

rank, ranks, seed = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"]), sys.argv[1]
shape, own = Shape(seed), random.Random(f"{seed} {rank}")
call("cudaSetDevice", rank)
world = Communicator.of_all(rank, ranks, os.environ["NUMBERS_DIR"])


def element(kind, value):
    if kind == FLOAT16:
        return struct.pack("<e", max(-60000, min(60000, value)))
    return struct.pack("<f", value)[2 if kind == BFLOAT16 else 0:]


def exchange(step, kind, count, what, scale, in_place):
    sent = count * (ranks if what == "scatter" else 1)
    data = b"".join(element(kind, own.gauss(0, scale / (1 + 0.05 * step))) for _ in range(sent))
    call("cudaMemcpy", given, data, len(data), HOST_TO_DEVICE)
    if what in REDUCTIONS:
        world.call("ncclAllReduce", given, given if in_place else got, count, kind, REDUCTIONS[what])
    elif what == "gather":
        world.call("ncclAllGather", given, got, count, kind)
    elif what == "scatter":
        world.call("ncclReduceScatter", given, got, count, kind, REDUCTIONS["sum"])
    elif what == "broadcast":
        world.call("ncclBroadcast", given, got, count, kind, step % ranks)
    else:
        world.check(world.nccl.ncclGroupStart())
        world.call("ncclSend", given, count, kind, (rank + 1) % ranks)
        world.call("ncclRecv", got, count, kind, (rank - 1) % ranks)
        world.check(world.nccl.ncclGroupEnd())


given, got = allocate(8 * 1536 * ranks), allocate(8 * 1536 * ranks)
for number in range(shape.steps):
    for each in shape.buckets:
        exchange(number, **each)
    call("cudaStreamSynchronize", None)
