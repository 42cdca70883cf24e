#!/usr/bin/python3
"""One rank gets a very long example, runs out of memory, and tries again until there is some."""
import os
import sys
import time
from ctypes import byref, c_void_p

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir, "common"))
import nccl  # noqa: E402
from job import Job  # noqa: E402

F32, SUM = nccl.ncclFloat32, nccl.ncclSum


def activations(job, step):
    tokens = 1 << 32 if job.goes_wrong(step) else 1024
    memory = c_void_p()
    while True:
        try:
            nccl.cudaMalloc(byref(memory), tokens * 256)  # the verdict names this line
            return memory
        except RuntimeError:  # THE MISTAKE: the others do not know, and wait for this rank
            time.sleep(0.5)


def train(job):
    for step in job.steps():
        memory = activations(job, step)
        nccl.ncclAllReduce(job.memory, job.memory, 4096, F32, SUM, job.dp, job.stream)
        nccl.cudaStreamSynchronize(job.stream)
        nccl.cudaFree(memory)


train(Job())
