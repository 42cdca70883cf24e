"""Data-parallel training of a small model with DDP: every rank prints the losses, which must fall as on the CPU."""
import argparse

import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import rig

parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, default=12)
args = parser.parse_args()


def model():
    torch.manual_seed(1)
    return nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 4))


def batch(step, rank):
    torch.manual_seed(1000 * (step % 2) + rank)
    x = torch.randn(24, 16)
    return x, x[:, :4].sin()


def train(net, device, ranks):
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
    losses = []
    for step in range(args.steps):
        optimizer.zero_grad()
        total = 0.0
        for rank in ranks:
            x, y = batch(step, rank)
            loss = nn.functional.mse_loss(net(x.to(device)), y.to(device)) / len(ranks)
            loss.backward()
            total += loss.item()
        optimizer.step()
        losses.append(total)
    return losses


with rig.job() as job:
    net = DistributedDataParallel(model().cuda(), bucket_cap_mb=0.002)
    rig.report(train(net, "cuda", [job.rank]), train(model(), "cpu", range(job.size)))
