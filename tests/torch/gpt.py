"""A small GPT under DDP, for the time of a step: kernels do nothing here, so all that counts is what the host does.

Its losses mean nothing: attention, layer norm and the like have no bodies (docs/torch-rig.md).
"""
import argparse
import statistics
import time

import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import rig

parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, default=30)
args = parser.parse_args()

WIDTH, WORDS = 64, 16


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.attention = nn.MultiheadAttention(WIDTH, 4, batch_first=True)
        self.before, self.between = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.mlp = nn.Sequential(nn.Linear(WIDTH, 2 * WIDTH), nn.GELU(), nn.Linear(2 * WIDTH, WIDTH))

    def forward(self, x):
        y = self.before(x)
        x = x + self.attention(y, y, y, need_weights=False)[0]
        return x + self.mlp(self.between(x))


with rig.job() as job:
    torch.manual_seed(1)
    net = nn.Sequential(nn.Linear(8, WIDTH), *[Block() for _ in range(4)], nn.Linear(WIDTH, 8)).cuda()
    net = DistributedDataParallel(net, bucket_cap_mb=0.05)
    optimizer = torch.optim.AdamW(net.parameters())
    x = torch.randn(2, WORDS, 8).cuda()
    times, processor_times = [], []
    for _ in range(args.steps):
        began, processor_began = time.perf_counter(), time.process_time()
        optimizer.zero_grad()
        net(x).square().mean().backward()
        optimizer.step()
        torch.cuda.synchronize()
        times.append(time.perf_counter() - began)
        processor_times.append(time.process_time() - processor_began)
    wall, processor = (statistics.median(each[3:]) * 1e3 for each in (times, processor_times))
    print(f"step {job.rank}: {wall:.3f} ms, processor {processor:.3f} ms", flush=True)
