"""Two groups of the same ranks, whose sums come one behind the other: PyTorch gives each group a stream, and events order them."""
import argparse
import datetime

import torch
import torch.distributed as dist

import rig

parser = argparse.ArgumentParser()
parser.add_argument("--mistake", choices=["other-order"])  # rank 1 once sums in the second group first
parser.add_argument("--timeout", type=float, default=60)
args = parser.parse_args()

STEPS = 6


def sum_in(group, x):
    dist.all_reduce(x, group=group)


with rig.job(args.timeout) as job:
    limit = datetime.timedelta(seconds=args.timeout)
    groups = [dist.new_group(list(range(job.size)), timeout=limit) for _ in range(2)]
    x = torch.ones(4096, device="cuda")
    for step in range(STEPS):
        wrong = args.mistake and job.rank == 1 and step == STEPS - 2
        for group in reversed(groups) if wrong else groups:
            sum_in(group, x)
        x = x / job.size**2
    print(f"rank {job.rank}: {x.sum().item()}", flush=True)
