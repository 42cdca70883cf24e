"""Nothing is wrong, though it looks like it for a while: what grows has an end, and what is kept is let go."""
import collections
import copy
import queue
import threading

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from memory_scripts.common import MIB, Training


def finds_rate(job):
    """A test of rates of learning in the first third, with losses kept; then all is set back."""
    training, losses = Training(torch.optim.Adam, width=128), []
    before = copy.deepcopy(training.net.state_dict())
    for step in job.steps():
        if step < job.count // 3:
            for group in training.optimizer.param_groups:
                group["lr"] = 1e-5 * 1.3**step
            losses.append(training.step(step).detach())
        else:
            if step == job.count // 3:
                training.net.load_state_dict(before)
                training.optimizer = torch.optim.Adam(training.net.parameters(), lr=0.01)
                torch.stack(losses).argmin().item()
            training.step(step)


def average_made_late(job):
    """A copy for a moving mean, made at half of the run, and its own evaluation every eighth step."""
    training, average = Training(torch.optim.AdamW, width=256), None
    for step in job.steps():
        training.step(step)
        if step == job.count // 2:
            average = copy.deepcopy(training.net).requires_grad_(False)
        if average is not None:
            with torch.no_grad():
                for mean, value in zip(average.parameters(), training.net.parameters()):
                    mean.lerp_(value, 0.1)
                if step % 8 == 7:
                    average(training.batch(step, 4096)[0]).sum().item()


def accumulates_more(job):
    """More and more micro-batches make a step; their outputs are kept until it."""
    training, parts = Training(), 1
    for step in job.steps():
        outputs = []
        parts = 1 + 8 * step // job.count
        for part in range(parts):
            x, y = training.batch(step + part, 512)
            out = training.net(x)
            (nn.functional.mse_loss(out, y) / parts).backward()
            outputs.append(out.detach())
        torch.cat(outputs).mean().item()
        training.optimizer.step()
        training.optimizer.zero_grad()


def evaluates_large(job):
    """An evaluation every seventh step, of a batch that is sixteen times as large, each one larger than the last until half of the run."""
    training = Training()
    for step in job.steps():
        training.step(step)
        if step % 7 == 6:
            with torch.no_grad():
                training.net(training.batch(step, 4096 + 512 * min(step, job.count // 2))[0]).sum().item()


def graphed_layers(job):
    """A layer as CUDA graph with a pool of its own, captured after warming up on another stream; each epoch of ten steps captures it anew."""
    training, graph = Training(), None
    x = torch.ones(2048, 64, device="cuda")
    for step in job.steps():
        training.step(step)
        if step % 10 == 0:
            side = torch.cuda.Stream()
            side.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(side):
                y = x * 2 + 1
            torch.cuda.current_stream().wait_stream(side)
            torch.cuda.synchronize()
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                y = x * 2 + 1
        graph.replay()


def prefetches_to_a_bound(job):
    """A queue of batches on the device that becomes longer until it is full, a third into the run."""
    training, batches, wanted = Training(), queue.Queue(maxsize=max(2, job.count // 3)), queue.Queue()

    def produce():
        while wanted.get() is not None:
            for _ in range(2):
                if not batches.full():
                    batches.put(torch.ones(4096, 16).cuda())
            wanted.task_done()

    threading.Thread(target=produce, daemon=True).start()
    for step in job.steps():
        wanted.put(step)
        wanted.join()
        x = batches.get()
        training.optimizer.zero_grad()
        nn.functional.mse_loss(training.net(x), x[:, :4]).backward()
        training.optimizer.step()


def metrics_on_device(job):
    """Scalars and a small table of each step stay on the device for a plot at the end, as metrics libraries have them."""
    training, log = Training(), []
    table = torch.zeros(10, 10, device="cuda")
    for step in job.steps():
        loss = training.step(step)
        with torch.no_grad():
            norm = torch.stack([each.grad.norm() for each in training.net.parameters()]).norm()
            table += 1
            log.append({"loss": loss.detach(), "norm": norm, "correct": table.diag().sum() / table.sum()})
    torch.stack([each["loss"] for each in log]).mean().item()


def pages_of_keys(job):
    """A server whose keys lie in pages of a pool: it grows as requests overlap, up to its bound, and pages are used again."""
    net, pool, sessions, made = nn.Linear(64, 64).cuda(), [], collections.deque(), 0
    most = max(12, job.count // 2)
    for step in job.steps():
        pages = []
        with torch.inference_mode():
            x = torch.relu(net(torch.ones(64, 64, device="cuda")))
            for _ in range(1 + step % 3):
                if not pool and made < most:
                    made += 1
                    pool.append(torch.empty(256, 64, device="cuda"))
                if not pool:
                    pool.extend(sessions.popleft())
                pages.append(pool.pop())
                pages[-1][:64] = x
        sessions.append(pages)
        if len(sessions) > 16:
            pool.extend(sessions.popleft())


def dataset_cached(job):
    """The first of three epochs brings each batch to the device, where it stays for the others."""
    training, batches = Training(), {}
    length = max(4, job.count // 3)
    for step in job.steps():
        i = step % length
        if i not in batches:
            batches[i] = torch.ones(4096, 16).cuda()
        training.optimizer.zero_grad()
        nn.functional.mse_loss(training.net(batches[i]), batches[i][:, :4]).backward()
        training.optimizer.step()


def snapshots_in_turn(job):
    """The last five snapshots of the weights, one every third step, for a mean of models."""
    training, kept = Training(width=256), collections.deque(maxlen=5)
    for step in job.steps():
        training.step(step)
        if step % 3 == 2:
            kept.append(copy.deepcopy(training.net))


def newest_activations(job):
    """Hooks on all layers, which keep the newest output of each."""
    training, newest = Training(width=128), {}

    def keeps(name):
        return lambda module, inputs, output: newest.update({name: output.detach().clone()})

    for name, module in training.net.named_children():
        module.register_forward_hook(keeps(name))
    for step in job.steps():
        training.step(step, 512)


def lengths_to_the_end(job):
    """Sequences become longer with each step, to the last one."""
    training = Training()
    for step in job.steps():
        training.step(step, 256 + 96 * step)


def buffer_doubles(job):
    """A buffer of samples that doubles when it is full, up to its bound at half of the run."""
    training, buffer, filled = Training(), torch.empty(64, 1024, device="cuda"), 0
    for step in job.steps():
        training.step(step)
        if filled + 32 > len(buffer) and step < job.count // 2:
            buffer = torch.cat([buffer, torch.empty_like(buffer)])
        filled = (filled + 32) % len(buffer)
        buffer[filled:filled + 1].fill_(step)


def ranks_of_two_kinds(job):
    """Rank 0 also evaluates with a mean of the weights, keeps the last three scores, and logs."""
    training, scores, average = Training(width=128), collections.deque(maxlen=3), None
    training.net = DistributedDataParallel(training.net, find_unused_parameters=True)
    for step in job.steps():
        training.step(step)
        if dist.get_rank() == 0:
            if step == job.count // 3:
                average = copy.deepcopy(training.net.module)
            if average is not None and step % 4 == 3:
                with torch.no_grad():
                    scores.append(torch.cat([average(training.batch(i, 2048)[0]) for i in range(4)]))
        if step % 4 == 3:
            dist.barrier()


def distills_in_two(job):
    """Every other step trains the student with outputs that the teacher has made for the two steps ahead."""
    training, teacher, ahead = Training(width=128), Training(width=256), []
    for step in job.steps():
        if not ahead:
            with torch.no_grad():
                ahead = [(training.batch(step + i, 2048)[0], teacher.net(training.batch(step + i, 2048)[0])) for i in range(4)]
        x, wanted = ahead.pop(0)
        training.optimizer.zero_grad()
        nn.functional.mse_loss(training.net(x), wanted).backward()
        training.optimizer.step()


def gathers_uneven(job):
    """Outputs of other lengths from each rank, gathered every third step into a list that an epoch of nine empties."""
    training, gathered = Training(), []
    training.net = DistributedDataParallel(training.net)
    for step in job.steps():
        training.step(step)
        if step % 3 == 2:
            with torch.no_grad():
                out = training.net.module(training.batch(step, 1024)[0])
            every = [torch.empty_like(out) for _ in range(dist.get_world_size())]
            dist.all_gather(every, out)
            gathered.extend(every)
        if step % 9 == 8:
            torch.cat(gathered).mean().item()
            gathered.clear()


def long_run(job):
    """As habits.long_run_keeps, but what it keeps is what the first steps made, and the newest."""
    training, first, newest = Training(torch.optim.Adam), [], collections.deque(maxlen=32)
    for step in job.steps():
        training.step(step)
        features = torch.ones(MIB // 32, device="cuda")
        newest.append(features)
        if step < 64:
            first.append(features)
