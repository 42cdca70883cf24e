"""Leaks by habits of real jobs: in epochs and evaluations, late in the run, in one block that grows, in threads, graphs and handles."""
import functools
import gc
import queue
import threading

import torch
from torch import nn

from memory_scripts.common import MIB, Training


def evaluates_with_graph(job):
    """No torch.no_grad() around the evaluation of each fourth step, and its losses are kept for a plot."""
    training, losses = Training(width=256), []
    for step in job.steps():
        training.step(step)
        if step % 4 == 3:
            x, y = training.batch(step, 1024)  # leak: evaluates_with_graph
            losses.append(nn.functional.mse_loss(training.net(x), y))  # leak: evaluates_with_graph


def keeps_every_epoch(job):
    """An epoch has six steps; a copy of the weights is kept of each."""
    training, best = Training(width=256), []
    for step in job.steps():
        training.step(step)
        if step % 6 == 5:
            best.append({name: value.clone() for name, value in training.net.state_dict().items()})  # leak: keeps_every_epoch


def buffer_grows(job):
    """The history of features is one tensor, made anew and longer in each step."""
    training, history = Training(), torch.zeros(0, 64, device="cuda")
    for step in job.steps():
        training.step(step)
        x, _ = training.batch(step, 1024)
        with torch.no_grad():
            hidden = training.net[:2](x)
        history = torch.cat([history, hidden])  # leak: buffer_grows


def buffer_grows_in_evaluations(job):
    """As buffer_grows, at each third step, where the outputs of the evaluation are added."""
    training, outputs = Training(), torch.zeros(0, 4, device="cuda")
    for step in job.steps():
        training.step(step)
        if step % 3 == 2:
            with torch.no_grad():
                new = [training.net(training.batch(i, 16384)[0]) for i in range(4)]
            outputs = torch.cat([outputs, *new])  # leak: buffer_grows_in_evaluations


def begins_late(job):
    """Nothing is kept in the first third of the run."""
    training, kept = Training(), []
    for step in job.steps():
        training.step(step)
        if step >= job.count // 3:
            kept.append(torch.ones(MIB // 4, device="cuda"))  # leak: begins_late


def lengths_kept(job):
    """Hidden states of batches of many lengths."""
    training, kept = Training(), []
    for step in job.steps():
        rows = 512 + 389 * (step * 5 % 13)
        training.step(step, rows)
        x, _ = training.batch(step, rows)
        with torch.no_grad():
            kept.append(training.net[:3](x))  # leak: lengths_kept


def hooks_pile_up(job):
    """A hook is registered in each step and never removed; it holds the batch."""
    training = Training()
    for step in job.steps():
        x, y = training.batch(step, 2048)
        training.net[0].register_forward_hook(functools.partial(lambda batch, module, inputs, output: None, x))
        training.optimizer.zero_grad()
        nn.functional.mse_loss(training.net(x), y).backward()
        training.optimizer.step()


def gradients_kept(job):
    """Copies of all gradients, to be looked at later."""
    training, seen = Training(width=256), []
    for step in job.steps():
        training.step(step)
        seen.append([each.grad.clone() for each in training.net.parameters()])  # leak: gradients_kept


class Remembers(torch.autograd.Function):
    inputs = []

    @staticmethod
    def forward(ctx, x):
        ctx.stretched = x * 2  # leak: function_remembers
        Remembers.inputs.append(ctx)
        return ctx.stretched.clone()

    @staticmethod
    def backward(ctx, gradient):
        return gradient * 2


def function_remembers(job):
    training = Training(width=128)
    net = nn.Sequential(training.net[0], training.net[1])
    for step in job.steps():
        training.step(step)
        x, _ = training.batch(step, 1024)
        Remembers.apply(net(x)).sum().backward()


def uncollected_cycles(job):
    """The collector is off, and each step leaves a cycle."""
    gc.disable()
    training = Training()
    for step in job.steps():
        training.step(step)
        owner = {"features": torch.ones(MIB // 4, device="cuda")}  # leak: uncollected_cycles
        owner["self"] = owner


def thread_keeps(job):
    """A thread of the job's own computes metrics of each step and keeps them."""
    training, todo, kept = Training(), queue.Queue(), []

    def metrics():
        while (features := todo.get()) is not None:
            kept.append(features * 2)  # leak: thread_keeps
            todo.task_done()

    threading.Thread(target=metrics, daemon=True).start()
    for step in job.steps():
        training.step(step)
        x, _ = training.batch(step, 8192)
        todo.put(x)
        todo.join()


@functools.lru_cache(maxsize=None)
def mask(scale):
    return torch.full((MIB // 4,), scale, device="cuda")  # leak: unbounded_cache


def unbounded_cache(job):
    training = Training()
    for step in job.steps():
        training.step(step)
        mask(float(step))


def two_at_a_time(job):
    """Input and output of each step are kept by one list, made at two lines."""
    training, pairs = Training(), []
    for step in job.steps():
        training.step(step)
        first = torch.ones(MIB // 4, device="cuda")  # leak: two_at_a_time
        second = torch.ones(MIB // 8, device="cuda")  # leak: two_at_a_time
        pairs.append((first, second))


def accumulates_and_keeps(job):
    """Four micro-batches make a step of the optimizer; the outputs of each micro-batch are kept."""
    training, outputs = Training(), []
    for step in job.steps():
        for part in range(4):
            x, y = training.batch(step + part, 1024)  # leak: accumulates_and_keeps
            out = training.net(x)  # leak: accumulates_and_keeps
            nn.functional.mse_loss(out, y).backward()
            outputs.append(out)
        training.optimizer.step()
        training.optimizer.zero_grad()


def penalty_kept(job):
    """A gradient penalty, whose graph of second order hangs on the value that is kept."""
    training, penalties = Training(width=128), []
    for step in job.steps():
        training.step(step)
        x, _ = training.batch(step, 512)  # leak: penalty_kept
        x.requires_grad_()
        out = training.net(x).sum()  # leak: penalty_kept
        (gradient,) = torch.autograd.grad(out, x, create_graph=True)  # leak: penalty_kept
        penalties.append((gradient * gradient).sum())  # leak: penalty_kept


def graphs_captured(job):
    """A CUDA graph for each length, and each step has another length."""
    training, graphs = Training(), {}
    for step in job.steps():
        training.step(step)
        graph, x = torch.cuda.CUDAGraph(), torch.ones(4096 + 64 * step, 16, device="cuda")  # leak: graphs_captured
        torch.cuda.synchronize()
        with torch.cuda.graph(graph):
            y = x * 2  # leak: graphs_captured
        graphs[step] = graph, x, y
        graph.replay()


def streams_kept(job):
    """A stream of the runtime for each step."""
    import ctypes
    training, runtime = Training(), ctypes.CDLL("libcudart.so.12")
    for step in job.steps():
        training.step(step)
        runtime.cudaStreamCreate(ctypes.byref(ctypes.c_void_p()))  # leak: streams_kept


def events_kept(job):
    """Events that time each step, and are never dropped."""
    training, events = Training(), []
    for step in job.steps():
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()  # leak: events_kept
        training.step(step)
        end.record()  # leak: events_kept
        events.append((begin, end))


def pinned_kept(job):
    """The batches' pinned copies are kept."""
    training, kept = Training(), []
    for step in job.steps():
        training.step(step)
        kept.append(torch.empty(MIB, dtype=torch.uint8, pin_memory=True))  # leak: pinned_kept
