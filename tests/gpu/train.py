"""Training that loses time in one way: train.py --story STORY [--profile].   RIG_OUT is the folder for its files; --profile writes profile.RANK.json there."""
import argparse
import contextlib
import os
import time

import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import rig

parser = argparse.ArgumentParser()
parser.add_argument("--story", choices=["healthy", "item", "loader", "launches", "slow-rank"], default="healthy")
parser.add_argument("--steps", type=int, default=40)
parser.add_argument("--profile", action="store_true", help="by PyTorch's own profiler")
args = parser.parse_args()
WIDTH = 64 if args.story == "launches" else 4096


def layers():
    return nn.Sequential(*[nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.GELU()) for _ in range(24 if args.story == "launches" else 8)])


def next_batch(kept):
    if args.story == "loader":
        time.sleep(0.04)  # LOADER
    return kept


def step(job, net, optimizer, kept):
    x = next_batch(kept)
    if args.story == "slow-rank" and job.rank == job.size - 1:
        time.sleep(0.08)  # SLOW
    optimizer.zero_grad()
    with torch.autocast("cuda", torch.bfloat16):
        loss = net(x).square().mean()
    loss.backward()
    if args.story == "item":
        for parameter in net.parameters():
            for part in parameter.grad.view(4, -1):
                part.abs().max().item()  # ITEM
                time.sleep(0.0003)
    optimizer.step()


def profiler():
    if not args.profile:
        return contextlib.nullcontext()
    return torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.CUDA], with_stack=True)


with rig.job(120) as job:
    torch.manual_seed(1)
    net = DistributedDataParallel(layers().cuda())
    optimizer = torch.optim.SGD(net.parameters(), lr=1e-3)
    kept = torch.randn(8192 if WIDTH > 64 else 64, WIDTH, device="cuda")
    for _ in range(5):
        step(job, net, optimizer, kept)
    torch.cuda.synchronize()
    with profiler() as profiled:
        for number in range(args.steps):
            with torch.profiler.record_function(f"ProfilerStep#{number}"):
                step(job, net, optimizer, kept)
        torch.cuda.synchronize()
    if profiled:
        profiled.export_chrome_trace(os.path.join(os.environ["RIG_OUT"], f"profile.{job.rank}.json"))
    print(f"rank {job.rank}: done", flush=True)
