"""One process that treats its memory badly, without any group."""
import argparse
import os

import torch
from torch import nn

import rig

parser = argparse.ArgumentParser()
parser.add_argument("--timeout", type=float, help="of others' groups")
parser.add_argument("--mistake", required=True, choices=[
    "none",
    "capacity",  # more than the device has, one tensor after the other
    "kept-graph",  # losses are kept for a plot, each with its graph and all that it needs
])
args = parser.parse_args()


def take_all(kept):
    while True:
        kept.append(torch.empty(3 << 30, dtype=torch.uint8, device="cuda"))


def train(kept):
    net = rig.model().cuda()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for step in range(200):
        x, y = rig.batch(step, 0)
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(net(x.cuda()), y.cuda())
        loss.backward(retain_graph=args.mistake == "kept-graph")
        optimizer.step()
        kept.append(loss if args.mistake == "kept-graph" else loss.item())


if args.mistake == "capacity":
    take_all([])
losses = []
train(losses)
torch.cuda.synchronize()
print("rank 0: done", flush=True)
os._exit(0)  # as if it were still running: Python would clear all up
