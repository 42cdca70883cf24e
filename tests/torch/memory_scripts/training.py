"""Nothing is wrong: ways to train in one process."""
import contextlib
import queue
import threading

import torch
import torch.utils.checkpoint
from torch import nn
from torch.profiler import ProfilerActivity, profile

from memory_scripts.common import MIB, Training


def profiles(job):
    """torch.profiler looks at every step, memory too."""
    training = Training()
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiler:
        for step in job.steps():
            training.step(step)
            profiler.step()


def offloads(job):
    """What backward needs waits in the host's memory."""
    training = Training()
    for step in job.steps():
        x, y = training.batch(step)
        training.optimizer.zero_grad()
        with torch.autograd.graph.save_on_cpu(pin_memory=True):
            loss = nn.functional.mse_loss(training.net(x), y)
        loss.backward()
        training.optimizer.step()


def checkpointed_again(job):
    """Checkpointing the old way, by layers."""
    training = Training()
    for step in job.steps():
        x, y = training.batch(step)
        training.optimizer.zero_grad()
        out = x.requires_grad_()
        for layer in training.net:
            out = torch.utils.checkpoint.checkpoint(layer, out, use_reentrant=True)
        nn.functional.mse_loss(out, y).backward()
        training.optimizer.step()


def accumulates_lengths(job):
    """Micro-batches of other lengths in each step; the last batch of an epoch is short."""
    training = Training()
    for step in job.steps():
        for part in range(3):
            x, y = training.batch(step, 128 + 97 * ((step + part) % 5) if step % 7 != 6 else 31)
            (nn.functional.mse_loss(training.net(x), y) / 3).backward()
        training.optimizer.step()
        training.optimizer.zero_grad(set_to_none=False)


def clipped(job):
    training = Training(torch.optim.AdamW)
    for step in job.steps():
        x, y = training.batch(step)
        training.optimizer.zero_grad()
        nn.functional.mse_loss(training.net(x), y).backward()
        nn.utils.clip_grad_norm_(training.net.parameters(), 1.0)
        training.optimizer.step()


def scaled_with_overflows(job):
    """The scaler's first steps are skipped, so that the state of the optimizer comes later."""
    training, scaler = Training(torch.optim.Adam), torch.amp.GradScaler("cuda", init_scale=2.0**40, growth_interval=5)
    for step in job.steps():
        x, y = training.batch(step + 1)
        training.optimizer.zero_grad()
        with torch.autocast("cuda", torch.float16):
            loss = nn.functional.mse_loss(training.net(x).float(), y)
        scaler.scale(loss).backward()
        scaler.step(training.optimizer)
        scaler.update()


def empties_after_evaluation(job):
    """An evaluation with large batches after each sixth step; then the cache is emptied."""
    training = Training()
    for step in job.steps():
        training.step(step)
        if step % 6 == 5:
            with torch.no_grad():
                training.net(training.batch(step, 65536)[0]).sum().item()
            torch.cuda.empty_cache()


def replays_graph(job):
    """One CUDA graph, captured once, replayed in each step."""
    training, x = Training(), torch.ones(1024, 64, device="cuda")
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        x.mul_(2).add_(1)
    for step in job.steps():
        training.step(step)
        graph.replay()


def times_steps(job):
    """Two events, used again in each step."""
    training, begin, end = Training(), torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    for step in job.steps():
        begin.record()
        training.step(step)
        end.record()
        end.synchronize()


def events_of_steps(job):
    """New events in each step, of which the old ones are dropped."""
    training = Training()
    for step in job.steps():
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        training.step(step)
        end.record()
        end.synchronize()
        begin.elapsed_time(end)


def logs_in_thread(job):
    """A thread that computes metrics of each step, and drops them."""
    training, todo = Training(), queue.Queue()

    def log():
        while (features := todo.get()) is not None:
            (features * 2).sum().item()
            del features
            todo.task_done()

    threading.Thread(target=log, daemon=True).start()
    for step in job.steps():
        training.step(step)
        todo.put(torch.ones(MIB // 4, device="cuda"))
        todo.join()


def moving_batches(job):
    """Two batches ahead on another stream, handed over by events."""
    training, side, ahead = Training(), torch.cuda.Stream(), []

    def fetch(step):
        with torch.cuda.stream(side):
            x, y = training.batch(step, 2048)
        return x, y, side.record_event()

    for step in job.steps():
        while len(ahead) < 2:
            ahead.append(fetch(step))
        x, y, ready = ahead.pop(0)
        torch.cuda.current_stream().wait_event(ready)
        training.optimizer.zero_grad()
        nn.functional.mse_loss(training.net(x), y).backward()
        training.optimizer.step()
        x.record_stream(torch.cuda.current_stream())
        y.record_stream(torch.cuda.current_stream())


def halves_batch_after_failure(job):
    """The batch is too large; it is halved until it fits, and so the run goes on."""
    training, rows = Training(), 1 << 18
    for step in job.steps():
        while True:
            try:
                training.step(step, rows)
                break
            except torch.OutOfMemoryError:
                rows //= 2
            training.optimizer.zero_grad()
            torch.cuda.empty_cache()


def anomalies(job):
    """Anomaly detection, which keeps where each node of the graph was made, and gradients that are looked at."""
    training = Training()
    with torch.autograd.set_detect_anomaly(True, check_nan=False):
        for step in job.steps():
            x, y = training.batch(step + 1)
            training.optimizer.zero_grad()
            hidden = training.net[:2](x)
            hidden.retain_grad()
            nn.functional.mse_loss(training.net[2:](hidden), y).backward()
            hidden.grad.sum().item()
            training.optimizer.step()


def recurrent(job):
    """A cell unrolled over 12 tokens; its state goes on from step to step without its graph."""
    cell, out = nn.Linear(96, 64).cuda(), nn.Linear(64, 4).cuda()
    optimizer = torch.optim.SGD([*cell.parameters(), *out.parameters()], lr=0.01)
    state = torch.zeros(128, 64, device="cuda")
    for _ in job.steps():
        optimizer.zero_grad()
        total = 0
        for _ in range(12):
            state = torch.relu(cell(torch.cat([state, torch.ones(128, 32, device="cuda")], 1)))
            total = total + out(state).sum()
        total.backward()
        optimizer.step()
        state = state.detach()


def tries_settings(job):
    """A search: each eighth of the run trains a model of its own, and drops it."""
    for part in range(8):
        training = Training(torch.optim.Adam, width=64 + 32 * part)
        for step in range(job.count // 8):
            training.step(step)
    for _ in job.steps():
        pass


def inferences(job):
    """No training at all: requests of many sizes."""
    training = Training()
    for step in job.steps():
        with torch.inference_mode():
            training.net(training.batch(step, 64 + 173 * (step * 11 % 17))[0]).sum().item()


def guarded(job):
    """An exception is caught in each fifth step, and its batch is dropped with it."""
    training = Training()
    for step in job.steps():
        with contextlib.suppress(ValueError):
            x, _ = training.batch(step, 2048)
            training.step(step)
            if step % 5 == 4:
                raise ValueError(x.shape)
