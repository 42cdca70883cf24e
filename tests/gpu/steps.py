"""Times what the tracer may make slower, and prints it as JSON: ms of a step, ns of a launch.   steps.py [--seconds=2]

One process, with a communicator of one rank, so that DDP and its collectives are called.
"""
import argparse
import json
import os
import socket
import statistics
import time

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel

parser = argparse.ArgumentParser()
parser.add_argument("--seconds", type=float, default=2, help="of each measure")
args = parser.parse_args()


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.before, self.between = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x):
        q, k, v = (part.unflatten(-1, (-1, 64)).transpose(1, 2) for part in self.qkv(self.before(x)).chunk(3, dim=-1))
        x = x + self.out(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2))
        return x + self.mlp(self.between(x))


def median_ms(step):
    times, end = [], time.monotonic() + args.seconds
    for _ in range(5):
        step()
    while time.monotonic() < end:
        torch.cuda.synchronize()
        began = time.perf_counter()
        step()
        torch.cuda.synchronize()
        times.append(time.perf_counter() - began)
    return statistics.median(times) * 1e3


def gpt(width, layers, batch, words):
    torch.manual_seed(1)
    net = DistributedDataParallel(nn.Sequential(*[Block(width) for _ in range(layers)]).cuda(), bucket_cap_mb=8)
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-4)
    x = torch.randn(batch, words, width, device="cuda")

    def step():
        optimizer.zero_grad()
        with torch.autocast("cuda", torch.bfloat16):
            loss = net(x).square().mean()
        loss.backward()
        optimizer.step()
        loss.item()

    return median_ms(step)


def launches():
    x, count = torch.zeros(1, device="cuda"), 20000

    def many():
        for _ in range(count):
            x.add_(1)

    return median_ms(many) * 1e6 / count


def small_copies():
    source, target, count = torch.zeros(64).pin_memory(), torch.zeros(64, device="cuda"), 5000

    def many():
        for _ in range(count):
            target.copy_(source, non_blocking=True)

    return median_ms(many) * 1e6 / count


def fetches():
    x, count = torch.zeros(1, device="cuda"), 2000

    def many():
        for _ in range(count):
            x.item()

    return median_ms(many) * 1e6 / count


def all_reduces(elements, count):
    x = torch.zeros(elements, device="cuda")

    def many():
        for _ in range(count):
            dist.all_reduce(x)

    return median_ms(many) * 1e6 / count


torch.cuda.set_device(0)
with socket.create_server(("127.0.0.1", 0)) as server:
    port = server.getsockname()[1]
os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), RANK="0", WORLD_SIZE="1")
dist.init_process_group("nccl", device_id=torch.device("cuda", 0))
print(json.dumps({
    "a step of a GPT of 12 layers, 1024 wide (ms)": gpt(1024, 12, 8, 512),
    "a step of a GPT of 4 layers, 64 wide (ms)": gpt(64, 4, 2, 16),
    "a launch (ns)": launches(),
    "a small copy to the GPU (ns)": small_copies(),
    ".item() (ns)": fetches(),
    "an all-reduce of 4 bytes (ns)": all_reduces(1, 2000),
    "an all-reduce of 64 MiB (ns)": all_reduces(1 << 24, 100),
}), flush=True)
dist.destroy_process_group()
