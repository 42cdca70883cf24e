#!/usr/bin/python3
"""Frozen layers: a rank whose layer got no gradients "has nothing to add" and leaves out its all-reduce."""
import os
import sys

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir, "common"))
import nccl  # noqa: E402
from job import Job  # noqa: E402

F32, SUM = nccl.ncclFloat32, nccl.ncclSum


def train(job):
    for step in job.steps():
        has_gradients = not job.goes_wrong(step)
        nccl.ncclAllReduce(job.memory, job.memory, 512, F32, SUM, job.dp, job.stream)
        if has_gradients:  # THE MISTAKE: the others wait for this rank's part, even if it is nothing but zeros
            nccl.ncclAllReduce(job.memory, job.memory, 4096, F32, SUM, job.dp, job.stream)  # the verdict names this line
        nccl.ncclAllReduce(job.memory, job.memory, 1, F32, SUM, job.dp, job.stream)
        nccl.cudaStreamSynchronize(job.stream)


train(Job())
