"""Tensors come and go; PyTorch's own snapshots are kept beside the trace of that moment (compare_memory.keep_moment)."""
import argparse
import os
import random

parser = argparse.ArgumentParser()
parser.add_argument("--expandable", action="store_true")
args = parser.parse_args()
if args.expandable:
    os.environ["PYTORCH_CUDA_ALLOC_CONF"] = "expandable_segments:True"

import torch
from torch import nn

import compare_memory

random.seed(5)


def any_size():
    return 1 + (random.randrange(1024) << random.randrange(13))


def come_and_go(live, rounds, most):
    other = torch.cuda.Stream()
    for _ in range(rounds):
        if len(live) < most and random.random() < 0.7:
            live.append(torch.empty(any_size(), dtype=torch.uint8, device="cuda"))
        elif live:
            tensor = live.pop(random.randrange(len(live)))
            if random.random() < 0.1:
                tensor.record_stream(other)


kept = []
compare_memory.keep_moment("nothing")
come_and_go(kept, 3000, 500)
compare_memory.keep_moment("some")
come_and_go(kept, 60000, 20000)
compare_memory.keep_moment("many")
del kept[100:]
torch.cuda.empty_cache()
compare_memory.keep_moment("emptied")
net = nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 8)).cuda()
optimizer = torch.optim.Adam(net.parameters())
for _ in range(5):
    optimizer.zero_grad()
    nn.functional.mse_loss(net(torch.ones(32, 64, device="cuda")), torch.zeros(32, 8, device="cuda")).backward()
    optimizer.step()
compare_memory.keep_moment("trained")
print("rank 0: done", flush=True)
os._exit(0)
