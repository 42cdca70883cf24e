"""Leaks as they come about day by day; everyday.py has their healthy twins."""
import functools
import itertools
import logging
import logging.handlers

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from memory_scripts.common import Training


def closures_kept(job):
    """What is to be drawn is put off, and closures hold what they would draw."""
    training, to_draw = Training(width=128), []
    for step in job.steps():
        training.step(step)
        x, _ = training.batch(step, 4096)
        with torch.no_grad():
            out = training.net(x).softmax(-1)  # leak: closures_kept
        to_draw.append(lambda out=out: out.argmax(-1).tolist())


class Lit:
    """A loop as frameworks have it: what a step returns is for the end of the epoch."""

    def __init__(self, detached):
        self.training, self.outputs, self.detached = Training(width=128), [], detached

    def training_step(self, step):
        x, y = self.training.batch(step, 2048)
        logits = self.training.net(x)  # leak: returned_outputs_kept
        return {"loss": nn.functional.mse_loss(logits, y), "logits": logits}

    def fit(self, job, length):
        for step in job.steps():
            self.training.optimizer.zero_grad()
            outputs = self.training_step(step)
            outputs["loss"].backward()
            self.training.optimizer.step()
            self.outputs.append({name: value.detach().cpu() if self.detached else value for name, value in outputs.items()})
            if step % length == length - 1:
                self.outputs.clear()


def returned_outputs_kept(job):
    Lit(detached=False).fit(job, 10**6)


def gradients_by_hook(job):
    """Hooks on a tensor of each step, which hand its gradient to a list."""
    training, gradients = Training(width=128), []
    for step in job.steps():
        x, y = training.batch(step, 1024)
        training.optimizer.zero_grad()
        hidden = training.net[:2](x)
        hidden.register_hook(lambda gradient: gradients.append(gradient * 1.0))  # leak: gradients_by_hook
        nn.functional.mse_loss(training.net[2:](hidden), y).backward()
        training.optimizer.step()


def state_with_graph(job):
    """Truncated backpropagation in which the cut was forgotten; retain_graph has silenced the error, and the cell is not trained."""
    cell, out = nn.Linear(64, 64).cuda(), nn.Linear(64, 4).cuda()
    optimizer = torch.optim.SGD(out.parameters(), lr=0.01)
    state = torch.zeros(256, 64, device="cuda")
    for _ in job.steps():
        optimizer.zero_grad()
        state = torch.tanh(cell(state) + 1)  # leak: state_with_graph
        out(state).sum().backward(retain_graph=True)
        optimizer.step()


def masks_by_shape(job):
    """Causal masks by length, and no length comes twice."""
    training, masks = Training(), {}
    for step in job.steps():
        length = 384 + step
        if length not in masks:
            masks[length] = torch.ones(length, length, device="cuda").tril()  # leak: masks_by_shape
        training.step(step, length)


def history_before_training(job):
    """As buffer_grows, but each step begins with it, and asks for more memory afterwards."""
    training, history = Training(), torch.zeros(0, 64, device="cuda")
    for step in job.steps():
        x, _ = training.batch(step, 1024)
        with torch.no_grad():
            history = torch.cat([history, training.net[:2](x)])  # leak: history_before_training
        training.step(step, 1024)


def optimizer_of_each_epoch(job):
    """Epochs of five steps have an optimizer each, and a list of schedulers holds them all."""
    training, schedulers = Training(width=256), []
    for step in job.steps():
        if step % 5 == 0:
            training.optimizer = torch.optim.Adam(training.net.parameters(), lr=0.01)
            schedulers.append(torch.optim.lr_scheduler.StepLR(training.optimizer, 3))
        training.step(step)
        schedulers[-1].step()


def pinned_batches_kept(job):
    """Batches of a loader that pins them are kept for a look at the ones that went wrong."""
    training, seen = Training(), []
    data = TensorDataset(torch.ones(4096 * job.count, 16), torch.ones(4096 * job.count, 4))
    for _, (x, y) in zip(job.steps(), DataLoader(data, batch_size=4096, pin_memory=True)):  # leak: pinned_batches_kept
        training.optimizer.zero_grad()
        nn.functional.mse_loss(training.net(x.cuda(non_blocking=True)), y.cuda(non_blocking=True)).backward()
        training.optimizer.step()
        seen.append((x, y))


def failures_kept(job):
    """A bad batch raises, and the exception is kept for a summary, with all frames and what they hold."""
    training, failures = Training(), []

    def attempt(step):
        x, _ = training.batch(step, 8192)  # leak: failures_kept
        hidden = training.net[:2](x)  # leak: failures_kept
        if step % 2 == 1:
            raise ValueError(f"step {step}: a label is out of range")
        hidden.sum().backward()

    for step in job.steps():
        training.step(step)
        try:
            attempt(step)
        except ValueError as error:
            failures.append(error)


def graphs_of_each_shape(job):
    """A CUDA graph with a pool of its own for each length of prompt, and every length is a new one."""
    net, graphs = nn.Linear(64, 64).cuda(), {}
    for step in job.steps():
        with torch.no_grad():
            net(torch.ones(32, 64, device="cuda"))
            torch.cuda.synchronize()
            graph = torch.cuda.CUDAGraph()
            prompt = torch.ones(4096 + 32 * step, 64, device="cuda")  # leak: graphs_of_each_shape
            with torch.cuda.graph(graph):
                out = prompt * 2 + 1  # leak: graphs_of_each_shape
            graphs[len(prompt)] = graph, prompt, out
            graph.replay()


def loss_without_backward(job):
    """Losses are summed for a backward pass after so many micro-batches that it never comes."""
    training, total = Training(width=128), 0
    for step in job.steps():
        x, y = training.batch(step, 1024)  # leak: loss_without_backward
        out = training.net(x)  # leak: loss_without_backward
        total = total + nn.functional.mse_loss(out, y)  # leak: loss_without_backward
        if step % 10**6 == 10**6 - 1:
            total.backward()
            training.optimizer.step()


def gradients_with_graph(job):
    """create_graph without a zero_grad: each gradient is the sum of all before it, with its graph."""
    training = Training(width=128)
    for step in job.steps():
        x, y = training.batch(step, 512)  # leak: gradients_with_graph
        loss = (training.net(x) - y).square().mean()  # leak: gradients_with_graph
        loss.backward(create_graph=True)  # leak: gradients_with_graph
        training.optimizer.step()


class Encoder(nn.Module):
    """Its method is cached by its arguments, and a tensor is equal to itself alone."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(16, 64)

    @functools.lru_cache(maxsize=None)
    def encode(self, x):
        return self.layer(x).detach() * 2  # leak: method_cached

    @functools.lru_cache(maxsize=4)
    def encode_with_bound(self, x):
        return self.layer(x).detach() * 2


def method_cached(job):
    training, encoder = Training(), Encoder().cuda()
    for step in job.steps():
        training.step(step)
        x = torch.ones(4096, 16, device="cuda")  # leak: method_cached
        encoder.encode(x)


def records_of_log(job):
    """The log is written when it is full, and its records hold their arguments until then."""
    training, log = Training(), logging.getLogger("records_of_log")
    log.setLevel(logging.INFO)
    log.propagate = False
    log.addHandler(logging.handlers.MemoryHandler(10**6))
    for step in job.steps():
        training.step(step)
        x, _ = training.batch(step, 4096)
        with torch.no_grad():
            log.info("step %d: %s", step, training.net(x).abs())  # leak: records_of_log


def cycles_over_stream(job):
    """itertools.cycle keeps all that it has handed out, and the stream has no end."""
    training = Training()
    batches = itertools.cycle(torch.ones(4096, 16).cuda() for _ in itertools.count())  # leak: cycles_over_stream
    for step, x in zip(job.steps(), batches):
        training.optimizer.zero_grad()
        nn.functional.mse_loss(training.net(x), x[:, :4] * step).backward()
        training.optimizer.step()


def buffers_by_step(job):
    """A module that registers what it has seen under a new name in each step."""
    training = Training()
    for step in job.steps():
        training.step(step)
        x, _ = training.batch(step, 4096)
        training.net.register_buffer(f"seen_{step}", x.abs() + 1)  # leak: buffers_by_step
