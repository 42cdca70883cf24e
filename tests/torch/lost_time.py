"""Loops of training that lose time in a known way, and those that do not:   lost_time.py STORY

Kernels take what SIMGPU_KERNEL_US says; some 16 ms a step with 400 us each."""
import argparse
import os
import time

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

STEPS = 50


class Rows(Dataset):
    def __init__(self, seconds):
        self.seconds = seconds

    def __len__(self):
        return STEPS

    def __getitem__(self, index):
        time.sleep(self.seconds)  # LOADER
        return torch.ones(16), torch.ones(4)


class Training:
    def __init__(self):
        torch.manual_seed(1)
        layers = [layer for _ in range(4) for layer in (nn.Linear(16, 16), nn.ReLU())]
        self.net = nn.Sequential(*layers, nn.Linear(16, 4)).cuda()
        self.optimizer = torch.optim.SGD(self.net.parameters(), lr=0.01)
        self.x, self.y = torch.ones(16, 16, device="cuda"), torch.ones(16, 4, device="cuda")

    def step(self):
        self.optimizer.zero_grad()
        loss = nn.functional.mse_loss(self.net(self.x), self.y)
        loss.backward()
        self.optimizer.step()
        return loss


def trains(story, training):
    loader = {"loader": 0.060, "loader-waits": 0.030, "loader-in-time": 0.002}.get(story, 0.0)
    for number, _ in enumerate(DataLoader(Rows(loader)) if loader else range(STEPS), 1):
        loss = training.step()
        # As most loops do it: a line in the log now and then.
        if number % 25 == 0 or story in ("item", "item-alone", "loader-waits", "saves", "saves-quickly"):
            loss.item()  # ITEM
        if story == "item":
            time.sleep(0.008)
        if story in ("saves", "saves-quickly") and number % 10 == 0:
            torch.save(training.net.state_dict(), os.path.join(os.environ["RIG_OUT"], "saved"))
            time.sleep(0.4 if story == "saves" else 0)  # SAVES


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("story")
    args = parser.parse_args()
    trains(args.story, Training())
    torch.cuda.synchronize()
    print("rank 0: done", flush=True)


main()
