"""Nothing is wrong with these, in one process."""
import collections
import copy
import gc
import os

import torch
import torch.utils.checkpoint
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from memory_scripts.common import MIB, Training


def trains(job):
    training = Training()
    for step in job.steps():
        training.step(step)


def first_step_of_optimizer(job):
    training = Training(torch.optim.Adam, width=512)
    for step in job.steps():
        training.step(step)


def items(job):
    training, losses = Training(), []
    for step in job.steps():
        losses.append(training.step(step).item())


def detached(job):
    training, losses = Training(), []
    for step in job.steps():
        losses.append(training.step(step).detach())


def plateau(job):
    """A cache by length that has all lengths before half of the run is over."""
    training, buffers = Training(), {}
    for step in job.steps():
        training.step(step)
        length = step % max(2, job.count // 3)
        if length not in buffers:
            buffers[length] = torch.ones(MIB // 4, device="cuda")


def full_queue(job):
    training, queue = Training(), collections.deque(maxlen=max(2, job.count // 3))
    for step in job.steps():
        training.step(step)
        queue.append(torch.ones(MIB // 4, device="cuda"))


def growing_lengths(job):
    training = Training()
    for step in job.steps():
        training.step(step, min(256 + 64 * step, 256 + 64 * (job.count // 2)))


def varying_lengths(job):
    training = Training()
    for step in job.steps():
        training.step(step, 256 + 211 * (step * 7 % 11))


def evaluates(job):
    """An evaluation after each fifth step, which gathers its outputs."""
    training = Training()
    for step in job.steps():
        training.step(step)
        if step % 5 == 4:
            with torch.no_grad():
                outputs = [training.net(training.batch(i, 1024)[0]) for i in range(12)]
                torch.cat(outputs).sum().item()


def evaluates_and_keeps_best(job):
    """As evaluates_and_keeps, but the outputs of the best evaluation alone, which is a later one now and then."""
    training, best = Training(), None
    for step in job.steps():
        training.step(step)
        if step % 3 == 2:
            with torch.no_grad():
                outputs = torch.cat([training.net(training.batch(i, 1024)[0]) for i in range(12)])
                best = outputs if best is None or step % 2 == 0 else best


def evaluates_and_keeps_for_a_while(job):
    """As evaluates_and_keeps, until the outputs of five evaluations are compared, in the second step after."""
    training, kept = Training(), []
    for step in job.steps():
        training.step(step)
        if step % 3 == 2:
            with torch.no_grad():
                kept.append(torch.cat([training.net(training.batch(i, 1024)[0]) for i in range(12)]))
        elif step % 15 == 1:
            kept.clear()


def evaluates_and_plots(job):
    """An evaluation after each third step, whose loss and error are kept."""
    training, losses, errors = Training(), [], []
    for step in job.steps():
        training.step(step)
        if step % 3 == 2:
            with torch.no_grad():
                x, y = training.batch(step)
                out = training.net(x)
                losses.append(nn.functional.mse_loss(out, y))
                errors.append((out - y).sum())


def evaluates_at_the_end(job):
    training = Training()
    for step in job.steps():
        training.step(step)
    outputs = []
    with torch.no_grad():
        for i in range(job.count):
            outputs.append(training.net(training.batch(i, 1024)[0]))
        torch.cat(outputs).sum().item()


def empties_cache_per_epoch(job):
    training = Training()
    for step in job.steps():
        training.step(step)
        if step % max(5, job.count // 4) == 0:
            torch.cuda.empty_cache()


def loads_with_workers(job):
    training = Training()
    data = TensorDataset(torch.ones(32 * job.count, 16), torch.ones(32 * job.count, 4))
    loader = iter(DataLoader(data, batch_size=32, num_workers=2, pin_memory=True))
    for _ in job.steps():
        x, y = next(loader)
        training.optimizer.zero_grad()
        nn.functional.mse_loss(training.net(x.cuda(non_blocking=True)), y.cuda(non_blocking=True)).backward()
        training.optimizer.step()


def checkpointed(job):
    training = Training()
    for step in job.steps():
        x, y = training.batch(step)
        training.optimizer.zero_grad()
        out = torch.utils.checkpoint.checkpoint(training.net, x, use_reentrant=False)
        nn.functional.mse_loss(out, y).backward()
        training.optimizer.step()


def saves(job):
    training = Training(torch.optim.Adam)
    for step in job.steps():
        training.step(step)
        if step % 4 == 3:
            torch.save({"net": training.net.state_dict(), "optimizer": training.optimizer.state_dict()}, os.path.join(os.environ["CASE_OUT"], "saved"))


def average_of_weights(job):
    training = Training()
    average = copy.deepcopy(training.net)
    for step in job.steps():
        training.step(step)
        with torch.no_grad():
            for mean, value in zip(average.parameters(), training.net.parameters()):
                mean.mul_(0.9).add_(value * 0.1)


def accumulates(job):
    training = Training()
    for step in job.steps():
        x, y = training.batch(step)
        (nn.functional.mse_loss(training.net(x), y) / 4).backward()
        if step % 4 == 3:
            training.optimizer.step()
            training.optimizer.zero_grad()


def truncated(job):
    training, cell = Training(), nn.Linear(64, 64).cuda()
    hidden = torch.zeros(512, 64, device="cuda")
    for step in job.steps():
        training.step(step)
        hidden = torch.relu(cell(hidden.detach()))
        hidden.sum().backward()


def scaled(job):
    training, scaler = Training(torch.optim.Adam), torch.amp.GradScaler("cuda", init_scale=256.0)
    for step in job.steps():
        x, y = training.batch(step)
        training.optimizer.zero_grad()
        with torch.autocast("cuda", torch.float16):
            loss = nn.functional.mse_loss(training.net(x).float(), y)
        scaler.scale(loss).backward()
        scaler.step(training.optimizer)
        scaler.update()


def prefetches(job):
    training, side = Training(), torch.cuda.Stream()
    for step in job.steps():
        with torch.cuda.stream(side):
            ahead = torch.ones(256, 16).pin_memory().cuda(non_blocking=True)
        torch.cuda.current_stream().wait_stream(side)
        ahead.record_stream(torch.cuda.current_stream())
        training.optimizer.zero_grad()
        training.net(ahead).sum().backward()
        training.optimizer.step()


def collected(job):
    """Cycles hold tensors until they are collected, every fourth step."""
    training = Training()
    gc.disable()
    for step in job.steps():
        training.step(step)
        cycle = [torch.ones(MIB // 4, device="cuda")]
        cycle.append(cycle)
        if step % 4 == 3:
            gc.collect()
