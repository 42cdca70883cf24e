"""Training whose numbers go wrong, or do not: --story.  Rank 1 is the one that does it, from step 20 on unless --step says another one."""
import argparse

import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import rig

parser = argparse.ArgumentParser()
parser.add_argument("--story", default="healthy", choices=[
    "healthy",
    "nan",  # one layer's gradients are NaN, and stay so
    "zero",  # this rank's gradients are zero
    "sampler",  # a sampler that was not told the rank: it reads what rank 0 reads
    "resumed",  # of a run that goes on with step --first
    "other-data",  # one batch is another one
    "other-weights",  # what is computed from the same batch is something else
    "amp",  # mixed precision; the scale begins far too high, and its first steps are skipped
    "collapse",  # mixed precision; this rank's gradients are infinite at any scale
])
parser.add_argument("--step", type=int, default=20, help="of the mistake")
parser.add_argument("--first", type=int, default=0)
parser.add_argument("--steps", type=int, default=40)
parser.add_argument("--timeout", type=float, default=60)
args = parser.parse_args()
HALF = args.story in ("amp", "collapse")


def batch(step, rank):
    torch.manual_seed(1000 * step + rank)
    x = torch.randn(24, 16)
    return x, x[:, :4].sin()


def batch_of(job, step, wrong):
    if args.story == "sampler" and wrong:
        return batch(step, 0)
    return batch(step if args.story != "other-data" or not wrong else step + 1000, job.rank)


class Mistake:
    """What the gradients of some layers are multiplied with."""

    def __init__(self, net):
        self.factor = None
        layers = {"nan": [net[2]], "zero": [net[0], net[2], net[4]], "collapse": [net[2]]}
        for layer in layers.get(args.story, []):
            for parameter in layer.parameters():
                parameter.register_hook(self.changed)

    def changed(self, gradient):
        return gradient if self.factor is None else gradient * self.factor

    def begins(self):
        self.factor = {"nan": float("nan"), "zero": 0.0, "collapse": float("inf")}.get(args.story)


def train(job, net):
    mistake = Mistake(net)
    model = DistributedDataParallel(net, bucket_cap_mb=0.002)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.05)
    scaler = torch.amp.GradScaler("cuda", enabled=HALF, init_scale=2.0 ** 24 if args.story == "amp" else 256.0)
    for step in range(args.first, args.first + args.steps):
        wrong = job.rank == 1 and step >= args.step
        if wrong:
            mistake.begins()
        optimizer.zero_grad()
        x, y = (part.to("cuda") for part in batch_of(job, step, wrong))  # BATCH
        if args.story == "other-weights" and wrong and step == args.step:
            x = x * 1.5
        with torch.autocast("cuda", torch.float16, enabled=HALF):
            loss = nn.functional.mse_loss(model(x).float(), y)
        scaler.scale(loss).backward()  # BACKWARD
        scaler.step(optimizer)
        scaler.update()
        loss.item()  # LOSS


with rig.job(args.timeout) as job:
    train(job, rig.model().cuda())
    print(f"rank {job.rank}: done", flush=True)
