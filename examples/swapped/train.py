#!/usr/bin/python3
"""Layers that are ready first are sent first - and on one rank another layer is ready first."""
import os
import sys

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir, "common"))
import nccl  # noqa: E402
from job import Job  # noqa: E402

F32, SUM = nccl.ncclFloat32, nccl.ncclSum


def send(job, layer):
    if layer == "attention":
        nccl.ncclReduceScatter(job.memory, job.memory, 256, F32, SUM, job.dp, job.stream)  # the verdict names this line
    else:
        nccl.ncclAllReduce(job.memory, job.memory, 2048, F32, SUM, job.dp, job.stream)


def train(job):
    for step in job.steps():
        ready = ["embedding", "attention"]
        if job.goes_wrong(step):
            ready.reverse()
        for layer in ready:  # THE MISTAKE: NCCL matches calls by their order, which must be the same on all ranks
            send(job, layer)
        nccl.ncclAllReduce(job.memory, job.memory, 1, F32, SUM, job.dp, job.stream)
        nccl.cudaStreamSynchronize(job.stream)


train(Job())
