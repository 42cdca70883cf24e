"""Leaks as people write them: in validation, in hooks, in queues and sessions, in searches and on some of the ranks."""
import collections
import copy
import ctypes
import queue
import threading

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import FullyShardedDataParallel
from torch.nn.parallel import DistributedDataParallel

from memory_scripts.common import MIB, Training


def validation_summed_with_graph(job):
    """The losses of a validation are added up without no_grad, and the sum of each is kept for the early stop."""
    training, history = Training(width=128), []
    for step in job.steps():
        training.step(step)
        if step % 5 == 4:
            total = 0
            for i in range(3):
                x, y = training.batch(i, 1024)  # leak: validation_summed_with_graph
                out = training.net(x)  # leak: validation_summed_with_graph
                total = total + nn.functional.mse_loss(out, y)  # leak: validation_summed_with_graph
            history.append(total)


def sessions_kept(job):
    """A server: keys and values of each request stay in a dictionary of sessions, which nobody ends."""
    net, sessions = nn.Linear(64, 64).cuda(), {}
    for step in job.steps():
        x, keys = torch.ones(64, 64, device="cuda"), []
        with torch.inference_mode():
            for _ in range(6 + step % 4):
                x = torch.relu(net(x))
                keys.append(x)
            sessions[f"session {step}"] = torch.cat(keys)  # leak: sessions_kept


def optimizer_states_kept(job):
    """A copy of the whole state of the optimizer every fourth step, to go back to; none is ever dropped."""
    training, copies = Training(torch.optim.Adam, width=256), []
    for step in job.steps():
        training.step(step)
        if step % 4 == 3:
            copies.append(copy.deepcopy(training.optimizer.state_dict()))  # leak: optimizer_states_kept


def backward_hook_keeps(job):
    """Gradients of a layer's output, for a histogram that is never drawn."""
    training, seen = Training(width=128), []

    def look(module, into, out_of):
        seen.append(out_of[0].clone())  # leak: backward_hook_keeps

    training.net[2].register_full_backward_hook(look)
    for step in job.steps():
        training.step(step, 1024)


def producer_runs_ahead(job):
    """A thread brings two batches to the device for each one that is trained on, and its queue has no bound."""
    training, batches, wanted = Training(), queue.Queue(), queue.Queue()

    def produce():
        while wanted.get() is not None:
            for _ in range(2):
                batches.put(torch.ones(4096, 16).cuda())  # leak: producer_runs_ahead
            wanted.task_done()

    threading.Thread(target=produce, daemon=True).start()
    for step in job.steps():
        wanted.put(step)
        wanted.join()
        x = batches.get()
        training.optimizer.zero_grad()
        nn.functional.mse_loss(training.net(x), x[:, :4]).backward()
        training.optimizer.step()


def trials_kept(job):
    """A search for the rate of learning: a model for each trial of six steps, all of which stay for a comparison."""
    trials, first = [], Training(width=256)
    training = first
    for step in job.steps():
        if step % 6 == 0:
            training = copy.copy(first)
            training.net = copy.deepcopy(first.net)  # leak: trials_kept
            training.optimizer = torch.optim.SGD(training.net.parameters(), lr=0.001 * (1 + step))
            trials.append(training)
        training.step(step)  # leak: trials_kept


def epoch_outputs_not_cleared(job):
    """What training puts out is gathered for a metric of each epoch of seven steps, and the list is not cleared."""
    training, outputs = Training(), []
    for step in job.steps():
        x, y = training.batch(step, 2048)
        training.optimizer.zero_grad()
        out = training.net(x)
        nn.functional.mse_loss(out, y).backward()
        training.optimizer.step()
        outputs.append(out.detach().softmax(-1))  # leak: epoch_outputs_not_cleared
        if step % 7 == 6:
            torch.cat(outputs).mean().item()


def activations_by_name(job):
    """Hooks on all layers, which keep every output in a list for each name."""
    training, kept = Training(width=128), collections.defaultdict(list)

    def keeps(name):
        return lambda module, inputs, output: kept[name].append(output.detach().clone())  # leak: activations_by_name

    for name, module in training.net.named_children():
        module.register_forward_hook(keeps(name))
    for step in job.steps():
        training.step(step, 512)


def images_every_tenth(job):
    """A grid of images every tenth step, for a board to which it is never written."""
    training, images = Training(), []
    for step in job.steps():
        training.step(step)
        if step % 10 == 0:
            images.append(torch.ones(3, 256, 256, device="cuda"))  # leak: images_every_tenth


def two_of_four_keep(job):
    """Ranks 1 and 3 keep what they compute for a metric."""
    training, outputs = Training(), []
    training.net = DistributedDataParallel(training.net)
    for step in job.steps():
        training.step(step)
        with torch.no_grad():
            out = training.net.module(training.batch(step, 2048)[0])
            score = out.abs() + 1  # leak: two_of_four_keep
            if dist.get_rank() % 2 == 1:
                outputs.append(score)


def whole_weights_kept(job):
    """FSDP's whole weights are looked at every third step, and copies of them stay."""
    training, kept = Training(width=128), []
    training.net = FullyShardedDataParallel(training.net)
    training.optimizer = torch.optim.SGD(training.net.parameters(), lr=0.01)
    for step in job.steps():
        training.step(step)
        if step % 3 == 2:
            with FullyShardedDataParallel.summon_full_params(training.net):
                kept.append([each.detach().clone() for each in training.net.parameters()])  # leak: whole_weights_kept


def pinned_on_one(job):
    """Rank 1 keeps the pinned copies of its batches."""
    training, kept = Training(), []
    training.net = DistributedDataParallel(training.net)
    for step in job.steps():
        training.step(step)
        x = torch.ones(4096, 64).pin_memory()  # leak: pinned_on_one
        x.cuda(non_blocking=True).sum().item()
        if dist.get_rank() == 1:
            kept.append(x)


def side_stream_lags(job):
    """Another stream falls further and further behind, and what it still reads is freed: each step takes new memory meanwhile."""
    runtime, libc = ctypes.CDLL("libcudart.so.12"), ctypes.CDLL(None)
    training, side, passes = Training(), torch.cuda.Stream(), ctypes.create_string_buffer(64)
    libc.sem_init(passes, 0, 0)
    wait = ctypes.cast(libc.sem_wait, ctypes.c_void_p)
    for step in job.steps():
        training.step(step)
        x = torch.ones(8 * MIB // 4, device="cuda")  # leak: side_stream_lags
        side.wait_stream(torch.cuda.current_stream())
        runtime.cudaLaunchHostFunc(ctypes.c_void_p(side.cuda_stream), wait, passes)
        with torch.cuda.stream(side):
            (x[:1] * 2).sum()
        x.record_stream(side)
        del x
        for _ in range(step % 3 // 2 if step + 1 < job.count else job.count):
            libc.sem_post(passes)
        if step + 1 == job.count:
            side.synchronize()


def side_stream_two_behind(job):
    """Another stream is two steps behind, and stays so: what waits for it is always as much, and is used again."""
    runtime, libc = ctypes.CDLL("libcudart.so.12"), ctypes.CDLL(None)
    training, side, passes = Training(), torch.cuda.Stream(), ctypes.create_string_buffer(64)
    libc.sem_init(passes, 0, 0)
    wait = ctypes.cast(libc.sem_wait, ctypes.c_void_p)
    for step in job.steps():
        training.step(step)
        x = torch.ones(8 * MIB // 4, device="cuda")
        side.wait_stream(torch.cuda.current_stream())
        runtime.cudaLaunchHostFunc(ctypes.c_void_p(side.cuda_stream), wait, passes)
        with torch.cuda.stream(side):
            (x[:1] * 2).sum()
        x.record_stream(side)
        del x
        if step >= 2:
            libc.sem_post(passes)
    libc.sem_post(passes)
    libc.sem_post(passes)
    side.synchronize()


def long_run_keeps(job):
    """So many steps that their first records are overwritten."""
    training, kept = Training(), []
    for step in job.steps():
        training.step(step)
        kept.append(torch.ones(MIB // 32, device="cuda"))  # leak: long_run_keeps
