"""Leaks that grow with every step, or nearly."""
import ctypes

import torch
from torch import nn

from memory_scripts.common import MIB, Training, megabytes


def kept_graph(job):
    training, losses = Training(width=128), []
    for step in job.steps():
        x, y = training.batch(step)
        training.optimizer.zero_grad()
        hidden = training.net(x)  # leak: kept_graph
        loss = nn.functional.mse_loss(hidden, y)  # leak: kept_graph
        loss.backward(retain_graph=True)  # leak: kept_graph
        training.optimizer.step()
        losses.append(loss)


def kept_outputs(job):
    training, outputs = Training(), []
    for step in job.steps():
        training.step(step)
        x, _ = training.batch(step, 4096)  # leak: kept_outputs
        outputs.append(training.net(x))  # leak: kept_outputs


def cache(job):
    training, features = Training(), {}
    for step in job.steps():
        training.step(step)
        features[step] = megabytes(2)


def hook(job):
    training, seen = Training(), []
    training.net[0].register_forward_hook(lambda module, inputs, output: seen.append(output.detach() * 2))  # leak: hook
    for step in job.steps():
        training.step(step)


def hidden_state(job):
    training, cell = Training(), nn.Linear(64, 64).cuda()
    hidden = torch.zeros(512, 64, device="cuda")
    for step in job.steps():
        training.step(step)
        hidden = torch.relu(cell(hidden))  # leak: hidden_state


def tracebacks(job):
    training, errors = Training(), []

    def fail():
        scratch = torch.ones(MIB // 4, device="cuda")  # leak: tracebacks
        raise ValueError(scratch.shape)

    for step in job.steps():
        training.step(step)
        try:
            fail()
        except ValueError as error:
            errors.append(error)


def optimizers(job):
    training, kept = Training(width=256), []
    for step in job.steps():
        training.step(step)
        other = torch.optim.SGD(training.net.parameters(), lr=0.0, momentum=0.9)
        other.step()  # leak: optimizers
        kept.append(other)


def seldom(job):
    training, kept = Training(), []
    for step in job.steps():
        training.step(step)
        if step % 2 == 0:
            kept.append(torch.ones(MIB // 4, device="cuda"))  # leak: seldom


def layers(job):
    """Several of one line in each step, of which one is kept."""
    training, kept = Training(), []
    for step in job.steps():
        training.step(step)
        made = [torch.ones(MIB // 16, device="cuda") for _ in range(6)]  # leak: layers
        kept.append(made[step % 6])


def extension(job):
    training, runtime = Training(), ctypes.CDLL("libcudart.so.12")
    for step in job.steps():
        training.step(step)
        address = ctypes.c_void_p()
        runtime.cudaMalloc(ctypes.byref(address), ctypes.c_size_t(MIB))  # leak: extension


def evaluates_and_keeps(job):
    """An evaluation after each third step, whose outputs nobody needs any more; training keeps nothing."""
    training, kept = Training(), []
    for step in job.steps():
        training.step(step)
        if step % 3 == 2:
            with torch.no_grad():
                kept.append(torch.cat([training.net(training.batch(i, 1024)[0]) for i in range(12)]))  # leak: evaluates_and_keeps
