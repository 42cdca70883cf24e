"""A GPT that says where it is, by torch.cuda.nvtx and autograd's emit_nvtx, under DDP or (--sharded) FSDP.

RIG_OUT/ranges.RANK has what the script itself has pushed.  The mistakes are for verdicts that must name step and phase.
"""
import argparse
import contextlib
import json
import os
import threading
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import FullyShardedDataParallel
from torch.distributed.fsdp.wrap import ModuleWrapPolicy
from torch.nn.parallel import DistributedDataParallel

import rig

parser = argparse.ArgumentParser()
parser.add_argument("--sharded", action="store_true")
parser.add_argument("--markers", action="store_true", help="the package traintrace in place of NVTX")
parser.add_argument("--shapes", action="store_true", help="emit_nvtx says what operators work on")
parser.add_argument("--timeout", type=float, default=60)
parser.add_argument("--mistake", choices=[
    "eval",  # the last rank evaluates longer than the others wait for its gradients
    "raises",  # the last rank raises in the forward of step 5
    "loader",  # the last rank waits for data that do not come
    "logs-alone",  # the last rank sums its loss over all ranks, which no other does
    "out-of-memory",  # the last rank's batch of step 5 is larger than its GPU
])
args = parser.parse_args()
if args.markers:
    import traintrace
WIDTH, WORDS, STEPS = 32, 8, 8
said = []


@contextlib.contextmanager
def named(name):
    said.append((threading.get_native_id(), name))
    with traintrace.range(name) if args.markers else torch.cuda.nvtx.range(name):
        yield


@contextlib.contextmanager
def step(number):
    if args.markers:
        traintrace.step(number)
        traintrace.note("samples", range(8 * number, 8 * number + 8))
        yield
        return
    with named(f"step {number}"):
        yield


class Block(nn.Module):
    def __init__(self, number):
        super().__init__()
        self.number = number
        self.attention = nn.MultiheadAttention(WIDTH, 4, batch_first=True)
        self.norm = nn.LayerNorm(WIDTH)
        self.mlp = nn.Sequential(nn.Linear(WIDTH, 2 * WIDTH), nn.GELU(), nn.Linear(2 * WIDTH, WIDTH))

    def forward(self, x):
        with named(f"layers.{self.number}"):
            y = self.norm(x)
            return x + self.mlp(x + self.attention(y, y, y, need_weights=False)[0])


def parallel(net, rank):
    if args.sharded:
        return FullyShardedDataParallel(net, auto_wrap_policy=ModuleWrapPolicy({Block}), device_id=torch.cuda.current_device())
    return DistributedDataParallel(net, bucket_cap_mb=0.05)


def make_mistake(job, kind):
    if args.mistake != kind or job.rank != job.size - 1:
        return
    if kind == "raises":
        raise RuntimeError("a broken example")
    if kind == "out-of-memory":
        torch.empty(1 << 38, device="cuda")
    elif kind == "logs-alone":
        dist.all_reduce(torch.ones(1, device="cuda"))
    else:
        time.sleep(3 * args.timeout)


with rig.job(args.timeout) as job:
    torch.manual_seed(1)
    net = parallel(nn.Sequential(nn.Linear(8, WIDTH), Block(0), Block(1), nn.Linear(WIDTH, 8)).cuda(), job.rank)
    torch.manual_seed(2 + job.rank)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
    # It pushes a range for each operator, and in the backward pass those that the forward pass had.
    emits = contextlib.nullcontext() if args.mistake else torch.autograd.profiler.emit_nvtx(record_shapes=args.shapes)
    with emits:
        for number in range(STEPS):
            with step(number):
                with named("load"):
                    if number == 5:
                        make_mistake(job, "loader")
                        make_mistake(job, "out-of-memory")
                    x = torch.randn(2, WORDS, 8).cuda()
                with named("forward"):
                    if number == 5:
                        make_mistake(job, "raises")
                    loss = net(x).square().mean()
                if number == 5:
                    with named("eval"):
                        make_mistake(job, "eval")
                with named("backward"):
                    loss.backward()
                with named("optimizer"):
                    optimizer.step()
                    optimizer.zero_grad()
                with named("log"):
                    if number == 5:
                        make_mistake(job, "logs-alone")
                    loss.item()
    torch.cuda.nvtx.mark("trained")
    handle = torch.cuda.nvtx.range_start("saving")
    torch.cuda.nvtx.range_end(handle)
    with open(os.path.join(os.environ["RIG_OUT"], f"ranges.{job.rank}"), "w", encoding="utf-8") as file:
        json.dump(said, file)
    print(f"rank {job.rank}: done", flush=True)
