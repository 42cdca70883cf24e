"""Data-parallel training with DDP, several buckets; --unused leaves a layer out of every other step.

The mistakes are those that people make, and what they lead to in real PyTorch.
"""
import argparse
import contextlib
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import rig

parser = argparse.ArgumentParser()
parser.add_argument("--unused", action="store_true")
parser.add_argument("--timeout", type=float, default=60)
parser.add_argument("--mistake", choices=[
    "rank0-only",  # a collective inside `if rank == 0`: the others are one behind from then on, and all hang at the end
    "uneven",  # rank 0 has one batch more than the others, and no join
    "rebuild",  # the last rank alone looks for unused parameters, and so never rebuilds its buckets, as the others do after the first step
    "no-sync",  # the last rank adds up its first two batches, and so exchanges gradients one time less
    "abort",  # the last rank swallows an exception, aborts its communicators and goes on by itself
    "exception",  # the last rank raises in step 3, while the others wait for its gradients
    "item",  # harmless and slow: a synchronisation every step, thrice
    "kept-loss",  # losses are kept with their graphs: memory grows
    "out-of-memory",  # the last rank allocates more than there is
])
args = parser.parse_args()


class Sometimes(nn.Module):
    """The model, with a layer that only every other call uses."""

    def __init__(self):
        super().__init__()
        self.net, self.extra, self.calls = rig.model(), nn.Linear(16, 16), 0

    def forward(self, x):
        self.calls += 1
        return self.net(self.extra(x) if self.calls % 2 else x)


def make_mistake(job, kept):
    last = job.rank == job.size - 1
    if args.mistake == "rank0-only" and job.rank == 0:
        dist.all_reduce(torch.ones(1, device="cuda"))
    elif args.mistake == "abort" and last:
        dist.distributed_c10d._abort_process_group()
        time.sleep(2 * args.timeout)
    elif args.mistake == "exception" and last:
        raise RuntimeError("a broken example")
    elif args.mistake == "item":
        for _ in range(3):
            torch.ones(1, device="cuda").item()
    elif args.mistake == "kept-loss":
        kept.append(torch.zeros(1 << 20, device="cuda", requires_grad=True) * 2)
    elif args.mistake == "out-of-memory" and last:
        kept.append(torch.empty(1 << 38, device="cuda"))


def train_wrongly(net, job):
    kept = []
    later = args.mistake == "no-sync" and job.rank == job.size - 1
    with net.no_sync() if later else contextlib.nullcontext():
        rig.train(net, "cuda", [job.rank], steps=1)
    rig.train(net, "cuda", [job.rank], steps=2)
    make_mistake(job, kept)
    rig.train(net, "cuda", [job.rank], steps=4 if args.mistake == "uneven" and job.rank == 0 else 3)
    torch.cuda.synchronize()
    print(f"rank {job.rank}: done", flush=True)


with rig.job(args.timeout) as job:
    made = Sometimes if args.unused else rig.model
    torch.manual_seed(2)
    alone = args.mistake == "rebuild" and job.rank == job.size - 1
    net = DistributedDataParallel(made().cuda(), bucket_cap_mb=0.002, find_unused_parameters=args.unused or alone)
    if args.mistake:
        train_wrongly(net, job)
    else:
        losses = rig.train(net, "cuda", [job.rank])
        # The layer's turns depend on how often the model is called: only one rank's can be followed on the CPU.
        torch.manual_seed(2)
        rig.report(losses, rig.train(made(), "cpu", range(job.size)) if not args.unused or job.size == 1 else [])
