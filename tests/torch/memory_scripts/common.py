"""What the scripts of this folder share: something that trains, and how a run ends."""
import os
import signal
import time

import torch
from torch import nn

MIB = 1 << 20


class Broken(RuntimeError):
    """What ends a case with an exception."""


def megabytes(count):
    return torch.zeros(count * MIB // 4, device="cuda")  # leak: cache


class Training:
    """A model and its optimizer; `step` trains on one batch."""

    def __init__(self, optimizer=torch.optim.SGD, width=64, **settings):
        self.net = nn.Sequential(nn.Linear(16, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 4)).cuda()
        self.optimizer = optimizer(self.net.parameters(), lr=0.01, **settings)

    def batch(self, step, rows=256):
        x = torch.ones(rows, 16) * (step % 3)
        return x.cuda(), x[:, :4].cuda()  # leak: hooks_pile_up

    def step(self, step, rows=256):
        x, y = self.batch(step, rows)
        self.optimizer.zero_grad()
        loss = nn.functional.mse_loss(self.net(x), y)  # leak: too_large_batch
        loss.backward()  # leak: limited
        self.optimizer.step()  # leak: optimizer_of_each_epoch
        return loss


class Job:
    """How long, and how it ends."""

    def __init__(self, steps, end):
        self.count, self.end = steps, end

    def steps(self):
        """Between them it says what is live (memory_verdicts.py compares the rate of a leak)."""
        for step in range(self.count):
            yield step
            print(f"live after {step + 1}: {torch.cuda.memory_allocated()}", flush=True)
        if self.end == "exception":
            raise Broken("as it was asked to")
        if self.end == "kill":
            torch.cuda.synchronize()
            os.kill(os.getpid(), signal.SIGKILL)
        if self.end == "live":
            torch.cuda.synchronize()
            print("waiting", flush=True)
            time.sleep(600)
