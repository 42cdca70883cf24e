#!/usr/bin/python3
"""Each step hands a line to a logger, from a function that CUDA calls on the stream - and nobody takes the lines."""
import os
import queue
import sys

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir, "common"))
import nccl  # noqa: E402
from job import Job  # noqa: E402

F32, SUM = nccl.ncclFloat32, nccl.ncclSum


def train(job):
    lines = queue.Queue(maxsize=1)

    @nccl.HostFunction
    def log(_):
        lines.put("a step is done")  # THE MISTAKE: it blocks once the queue is full, and with it the stream

    for step in job.steps():
        if job.goes_wrong(step):
            lines.put("the logger is gone")
        nccl.cudaLaunchHostFunc(job.stream, log, None)  # the verdict names this line
        nccl.ncclAllReduce(job.memory, job.memory, 4096, F32, SUM, job.dp, job.stream)
        nccl.cudaStreamSynchronize(job.stream)
        lines.get()


train(Job())
