"""What the small examples have in common: a rank of a job, its communicator and its memory.

The collectives are called in the examples themselves, so that their lines are those of the example.
"""
import argparse
import ctypes
import os
import sys
from ctypes import byref

import torch.distributed

import nccl


class Job:
    def __init__(self):
        self.rank, self.world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
        self.options = parse_options()
        nccl.cudaSetDevice(int(os.environ["LOCAL_RANK"]))
        self.stream = nccl.Stream()
        nccl.cudaStreamCreate(byref(self.stream))
        self.dp = self.communicator("dp")
        self.memory = ctypes.c_void_p()  # 64 KiB, for whatever travels
        nccl.cudaMalloc(byref(self.memory), 1 << 16)

    def communicator(self, name):
        """Of all ranks; torchrun's store carries the unique id."""
        store, _, _ = next(torch.distributed.rendezvous("env://"))
        unique_id = nccl.UniqueId()
        if self.rank == 0:
            nccl.ncclGetUniqueId(byref(unique_id))
            store.set("unique id", bytes(unique_id))
        unique_id = nccl.UniqueId.from_buffer_copy(store.get("unique id"))
        comm = nccl.Comm(name)
        nccl.ncclCommInitRankConfig(byref(comm), self.world, unique_id, self.rank, byref(comm.config))
        return comm

    def split(self, name):
        """Another communicator of the same ranks."""
        comm = nccl.Comm(name)
        nccl.ncclCommSplit(self.dp, 0, self.rank, byref(comm), byref(comm.config))
        return comm

    def steps(self):
        """The numbers of the steps; says so when one is over."""
        for step in range(self.options.steps):
            yield step
            self.say(f"step rank={self.rank} step={step}")
        self.say(f"done rank={self.rank}")

    def goes_wrong(self, step):
        """This rank does, in this step."""
        chosen = self.rank == self.options.defect_rank and step == self.options.defect_step
        return chosen and not self.options.healthy

    @staticmethod
    def say(line):
        sys.stdout.write(line + "\n")  # as one piece: torchrun passes on what it finds, lines or not
        sys.stdout.flush()


def parse_options():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--defect-rank", type=int, default=2)
    parser.add_argument("--defect-step", type=int, default=7)
    parser.add_argument("--healthy", action="store_true", help="nothing goes wrong")
    return parser.parse_args()
