#!/usr/bin/python3
"""Two communicators of the same ranks, and on one rank their operations come in the other order."""
import os
import sys

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir, "common"))
import nccl  # noqa: E402
from job import Job  # noqa: E402

F32, SUM = nccl.ncclFloat32, nccl.ncclSum


def gradients(job):
    nccl.ncclAllReduce(job.memory, job.memory, 4096, F32, SUM, job.dp, job.stream)
    nccl.cudaStreamSynchronize(job.stream)


def experts(job, ep):
    nccl.ncclAllReduce(job.memory, job.memory, 1024, F32, SUM, ep, job.stream)
    nccl.cudaStreamSynchronize(job.stream)  # the verdict names this line


def train(job):
    ep = job.split("ep")
    for step in job.steps():
        if job.goes_wrong(step):  # THE MISTAKE: it waits in ep for the others, and they wait in dp for it
            experts(job, ep)
            gradients(job)
        else:
            gradients(job)
            experts(job, ep)


train(Job())
