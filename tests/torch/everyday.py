"""Everyday training scripts, each with one mistake that costs throughput, and some that make none:   everyday.py STORY

Kernels take what SIMGPU_KERNEL_US says."""
import argparse
import os
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset

STEPS = 60
ROWS, WIDTH, CLASSES = 64, 64, 8


class Pictures(Dataset):
    def __init__(self, decode_s, width=WIDTH):
        self.decode_s = decode_s
        self.width = width

    def __len__(self):
        return STEPS * ROWS

    def __getitem__(self, index):
        if self.decode_s:
            time.sleep(self.decode_s)  # DECODE
        return torch.full((self.width,), float(index % 7)), index % CLASSES


class Training:
    def __init__(self, width=WIDTH):
        torch.manual_seed(1)
        layers = [layer for _ in range(6) for layer in (nn.Linear(WIDTH, WIDTH), nn.ReLU())]
        self.net = nn.Sequential(nn.Linear(width, WIDTH), *layers, nn.Linear(WIDTH, CLASSES)).cuda()
        self.optimizer = torch.optim.SGD(self.net.parameters(), lr=0.01)

    def loss(self, x, y):
        return nn.functional.mse_loss(self.net(x), nn.functional.one_hot(y, CLASSES).float())

    def step(self, x, y):
        self.optimizer.zero_grad()
        loss = self.loss(x, y)
        loss.backward()
        self.optimizer.step()
        return loss


def batch(width=WIDTH):
    return torch.ones(ROWS, width, device="cuda"), torch.zeros(ROWS, CLASSES, device="cuda")


class Plain(Training):
    """Targets are on the device, as numbers."""

    def loss(self, x, y):
        return nn.functional.mse_loss(self.net(x), y)


def bookkeeping():
    """What a script does between steps: a line for the log, a bar, a schedule."""
    time.sleep(0.006)


def logs_each_step():
    training, (x, y), total = Plain(), batch(), 0.0
    for _ in range(STEPS):
        loss = training.step(x, y)
        total += loss.item()  # LOGS
        bookkeeping()


def logs_now_and_then():
    training, (x, y), total = Plain(), batch(), torch.zeros((), device="cuda")
    for step in range(STEPS):
        total += training.step(x, y).detach()
        bookkeeping()
        if step % 20 == 19:
            print(f"rank 0: loss {total.item() / 20:.3f}", flush=True)


def copies_pageable():
    training, (_, y) = Plain(4096), batch()
    data = torch.ones(4, ROWS, 4096)
    for step in range(STEPS):
        training.step(data[step % 4].cuda(non_blocking=True), y)  # COPIES


def copies_pinned():
    training, (_, y) = Plain(4096), batch()
    data = torch.ones(4, ROWS, 4096).pin_memory()
    for step in range(STEPS):
        training.step(data[step % 4].cuda(non_blocking=True), y)


def decodes_in_the_loop(workers=0):
    training = Plain()
    y = torch.zeros(ROWS, CLASSES, device="cuda")
    loader = DataLoader(Pictures(0.0006), batch_size=ROWS, num_workers=workers, pin_memory=workers > 0)
    for x, _ in loader:
        training.step(x.cuda(non_blocking=True), y)


def decodes_in_workers():
    decodes_in_the_loop(4)


def ranks():
    torch.cuda.set_device(int(os.environ["RANK"]) % torch.cuda.device_count())
    dist.init_process_group("nccl")


def reduces_each_parameter():
    ranks()
    training, (x, y) = Plain(), batch()
    for _ in range(STEPS):
        training.optimizer.zero_grad()
        training.loss(x, y).backward()
        for parameter in training.net.parameters():
            dist.all_reduce(parameter.grad)  # REDUCES
        training.optimizer.step()
    torch.cuda.synchronize()
    dist.destroy_process_group()


def reduces_buckets():
    ranks()
    training, (x, y) = Plain(), batch()
    training.net = DistributedDataParallel(training.net)
    for _ in range(STEPS):
        training.step(x, y)
    torch.cuda.synchronize()
    dist.destroy_process_group()


def empties_cache():
    training, (x, y) = Plain(), batch()
    for _ in range(STEPS):
        training.step(x, y)
        torch.cuda.empty_cache()  # EMPTIES


def times_steps():
    training, (x, y), times = Plain(), batch(), []
    for _ in range(STEPS):
        began = time.perf_counter()
        training.step(x, y)
        torch.cuda.synchronize()  # TIMES
        times.append(time.perf_counter() - began)
        bookkeeping()


def metric(output, y):
    torch.cuda.synchronize()
    return (output.cpu() - y.cpu()).abs().mean()  # METRIC


def measures_each_step():
    training, (x, y), sums = Plain(), batch(), []
    for _ in range(STEPS):
        training.step(x, y)
        with torch.no_grad():
            sums.append(metric(training.net(x), y))
        bookkeeping()


def prints_tensor():
    training, (x, y) = Plain(), batch()
    for step in range(STEPS):
        print(f"step {step}: {training.step(x, y)}", file=open(os.devnull, "w"))  # PRINTS
        bookkeeping()


def masks():
    training, (x, y) = Plain(), batch()
    mask = torch.ones(ROWS, dtype=torch.bool, device="cuda")
    for _ in range(STEPS):
        rows = mask.nonzero()  # MASKS
        training.step(x, y)
        del rows
        bookkeeping()


def clips():
    training, (x, y), norms = Plain(), batch(), []
    for _ in range(STEPS):
        training.optimizer.zero_grad()
        training.loss(x, y).backward()
        norms.append(nn.utils.clip_grad_norm_(training.net.parameters(), 1.0).item())  # CLIPS
        training.optimizer.step()
        bookkeeping()


def validate(training, held_out):
    with torch.no_grad():
        return sum(training.loss(x, y).item() for x, y in held_out)  # VALIDATES


def validates_each_step(every=1):
    training, (x, y) = Plain(), batch()
    held_out = [batch() for _ in range(8)]
    for step in range(STEPS):
        training.step(x, y)
        if step % every == every - 1:
            validate(training, held_out)


def validates_seldom():
    validates_each_step(30)


def evaluates_slowly(decode_s=0.0006, every=30):
    """An evaluation whose loader is slow: the GPU waits for it in each of its batches."""
    training, (x, y) = Plain(), batch()
    held_out = DataLoader(Pictures(decode_s), batch_size=ROWS)
    for step in range(STEPS):
        training.step(x, y)
        if step % every == every - 1:
            with torch.no_grad():
                for number, (pictures, _) in enumerate(held_out):
                    training.loss(pictures.cuda(), y).item()
                    if number == 15:
                        break


def evaluates_quickly():
    evaluates_slowly(0)


def save(training):
    time.sleep(0.15)
    torch.save(training.net.state_dict(), os.path.join(os.environ["RIG_OUT"], "saved"))  # SAVES


def checkpoints_often(every=10):
    training, (x, y) = Plain(), batch()
    for step in range(STEPS):
        training.step(x, y)
        if step % every == every - 1:
            save(training)  # CHECKPOINTS


def checkpoints_once():
    checkpoints_often(STEPS)


STORIES = {function.__name__.replace("_", "-"): function for function in (
    logs_each_step, logs_now_and_then, copies_pageable, copies_pinned, decodes_in_the_loop, decodes_in_workers, reduces_each_parameter, reduces_buckets, empties_cache,
    times_steps, measures_each_step, prints_tensor, masks, clips, validates_each_step, validates_seldom, evaluates_slowly, evaluates_quickly, checkpoints_often, checkpoints_once)}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("story", choices=STORIES)
    STORIES[parser.parse_args().story]()
    torch.cuda.synchronize()
    print("rank 0: done", flush=True)


main()
