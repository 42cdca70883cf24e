"""Scripts that treat their memory well or badly, each in a process (or several) of its own: memory_cases.py JOBS

JOBS is a file: [{"name": a function below, "steps": N, "ending": exit|exception|kill|live, "out": folder, "ranks": 1, "environment": {}}, ..].
PyTorch is imported once, and each process is forked from that.  What a case wants to be said of it stands in memory_verdicts.py; lines that
may be named end with `# leak: NAME`.
"""
import collections
import copy
import ctypes
import datetime
import gc
import json
import os
import random
import signal
import sys
import time

import torch
import torch.distributed as dist
import torch.utils.checkpoint
from torch import nn
from torch.distributed.fsdp import FullyShardedDataParallel, fully_shard
from torch.distributed.fsdp.wrap import ModuleWrapPolicy
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset

import rig

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
        return x.cuda(), x[:, :4].cuda()

    def step(self, step, rows=256):
        x, y = self.batch(step, rows)
        self.optimizer.zero_grad()
        loss = nn.functional.mse_loss(self.net(x), y)  # leak: too_large_batch
        loss.backward()  # leak: limited
        self.optimizer.step()
        return loss


class Job:
    """How long, and how it ends."""

    def __init__(self, steps, ending):
        self.count, self.ending = steps, ending

    def steps(self):
        yield from range(self.count)
        if self.ending == "exception":
            raise Broken("as it was asked to")
        if self.ending == "kill":
            torch.cuda.synchronize()
            os.kill(os.getpid(), signal.SIGKILL)
        if self.ending == "live":
            torch.cuda.synchronize()
            print("waiting", flush=True)
            time.sleep(600)


# Leaks.

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


def ddp_outputs(job):
    training, outputs = Training(), []
    net = DistributedDataParallel(training.net)
    for step in job.steps():
        x, y = training.batch(step)
        training.optimizer.zero_grad()
        out = net(x)
        nn.functional.mse_loss(out, y).backward()
        training.optimizer.step()
        outputs.append(torch.ones(MIB // 4, device="cuda"))  # leak: ddp_outputs


def evaluates_and_keeps(job):
    """An evaluation after each third step, whose outputs nobody needs any more; training keeps nothing."""
    training, kept = Training(), []
    for step in job.steps():
        training.step(step)
        if step % 3 == 2:
            with torch.no_grad():
                kept.append(torch.cat([training.net(training.batch(i, 1024)[0]) for i in range(12)]))  # leak: evaluates_and_keeps


LEAKS = [kept_graph, kept_outputs, cache, hook, hidden_state, tracebacks, optimizers, seldom, layers, extension, ddp_outputs, evaluates_and_keeps]


# Running out of memory.

def leak_until_full(job):
    training, features = Training(), []
    for step in range(10**6):
        training.step(step)
        features.append(torch.empty(2 * MIB, dtype=torch.uint8, device="cuda"))  # leak: leak_until_full


def leak_with_lengths_until_full(job):
    """Lengths that vary leave holes, and yet it is the leak."""
    training, features = Training(), []
    for step in range(10**6):
        training.step(step, 2048 + 509 * (step % 7))
        features.append(torch.empty(2 * MIB + (step % 5) * MIB // 2, dtype=torch.uint8, device="cuda"))  # leak: leak_with_lengths_until_full


def too_large(job):
    training = Training()
    state = [torch.empty(24 * MIB, dtype=torch.uint8, device="cuda") for _ in range(3)]
    for step in job.steps():
        training.step(step)
    state.append(torch.empty(200 * MIB, dtype=torch.uint8, device="cuda"))  # leak: too_large


def too_large_batch(job):
    training = Training(width=512)
    for step in job.steps():
        training.step(step)
    training.step(0, 60_000)


def pieces(job):
    """Every second of many blocks is freed: enough, and no piece that is large enough."""
    training = Training()
    for step in job.steps():
        training.step(step)
    blocks = [torch.empty(3 * MIB, dtype=torch.uint8, device="cuda") for _ in range(58)]
    del blocks[::2]
    torch.empty(60 * MIB, dtype=torch.uint8, device="cuda")  # leak: pieces


def random_state(job):
    """Blocks of random sizes come and go, until one is refused; the number of steps is the seed."""
    chance, blocks = random.Random(job.count), []
    for _ in range(chance.randrange(20, 60)):
        blocks.append(torch.empty(int(2 ** chance.uniform(9, 24)), dtype=torch.uint8, device="cuda"))
        if chance.random() < 0.3:
            del blocks[chance.randrange(len(blocks))]
    while True:
        blocks.append(torch.empty(int(2 ** chance.uniform(16, 26)), dtype=torch.uint8, device="cuda"))


def caught(job):
    training, sizes = Training(), [MIB] * 10
    sizes[5] = 1 << 40
    for step in job.steps():
        training.step(step)
        try:
            torch.empty(sizes[step % 10], dtype=torch.uint8, device="cuda")
        except torch.OutOfMemoryError:
            training.optimizer.zero_grad()


def limited(job):
    """More than it has allowed itself, which cuBLAS needs in the first backward pass; autograd's thread has no line of its own."""
    torch.cuda.set_per_process_memory_fraction(0.25)
    training = Training()
    for step in job.steps():
        training.step(step)


# Nothing wrong.

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


def ddp(job):
    training = Training(torch.optim.Adam, width=128)
    training.net = DistributedDataParallel(training.net, bucket_cap_mb=0.01)
    for step in job.steps():
        training.step(step)


def ddp_evaluates(job):
    training = Training()
    plain, training.net = training.net, DistributedDataParallel(training.net)
    for step in job.steps():
        training.step(step)
        if step % 5 == 4:
            with torch.no_grad():
                mean = torch.cat([plain(training.batch(i, 512)[0]) for i in range(10)]).sum()
                dist.all_reduce(mean)
                mean.item()


def fsdp(job):
    training = Training(width=128)
    training.net = FullyShardedDataParallel(training.net, auto_wrap_policy=ModuleWrapPolicy({nn.Linear}))
    training.optimizer = torch.optim.SGD(training.net.parameters(), lr=0.01, momentum=0.9)
    for step in job.steps():
        training.step(step)


def fsdp2(job):
    training = Training(width=128)
    for layer in training.net:
        if isinstance(layer, nn.Linear):
            fully_shard(layer)
    fully_shard(training.net)
    training.optimizer = torch.optim.SGD(training.net.parameters(), lr=0.01, momentum=0.9)
    for step in job.steps():
        training.step(step)


def pipeline(job):
    """Two stages, 1F1B over four micro-batches: the first stage has two in flight."""
    rank = dist.get_rank()
    stage = nn.Sequential(nn.Linear(16, 64), nn.ReLU(), nn.Linear(64, 16)).cuda()
    optimizer = torch.optim.SGD(stage.parameters(), lr=0.01)
    for step in job.steps():
        optimizer.zero_grad()
        flying = collections.deque()

        def forward():
            if rank == 0:
                x = torch.ones(128, 16).cuda()
                out = stage(x)
                dist.send(out.detach(), 1)
                flying.append((x, out))
            else:
                x = torch.empty(128, 16, device="cuda", requires_grad=True)
                dist.recv(x.detach(), 0)
                flying.append((x, stage(x).sum()))

        def backward():
            x, out = flying.popleft()
            if rank == 0:
                gradient = torch.empty_like(out)
                dist.recv(gradient, 1)
                out.backward(gradient)
            else:
                out.backward()
                dist.send(x.grad, 0)

        for _ in range(2 - rank):
            forward()
        for i in range(2 - rank, 4):
            backward()
            forward()
        while flying:
            backward()
        optimizer.step()


HEALTHY = [trains, first_step_of_optimizer, items, detached, plateau, full_queue, growing_lengths, varying_lengths, evaluates, evaluates_and_keeps_best,
           evaluates_and_keeps_for_a_while, evaluates_and_plots, evaluates_at_the_end,
           empties_cache_per_epoch, loads_with_workers, checkpointed, saves, average_of_weights, accumulates, truncated, scaled, prefetches, collected,
           ddp, ddp_evaluates, fsdp, fsdp2, pipeline, caught]


def wait_for_the_tracer():
    """On a machine with much else to do it may take some time to begin, and threads would go on without it."""
    folder = os.environ["TRAINTRACE_DIR"]
    for _ in range(600):
        if "LD_PRELOAD" not in os.environ:
            return
        if os.path.isdir(folder) and f".{os.getpid()}." in " ".join(os.listdir(folder)):
            time.sleep(1)
            return
        time.sleep(0.1)


def run(job, rank):
    """In a process of its own, to the end of its interpreter."""
    os.makedirs(job["out"], exist_ok=True)
    output = os.open(os.path.join(job["out"], f"output.{rank}"), os.O_WRONLY | os.O_CREAT, 0o644)
    os.dup2(output, 1)
    os.dup2(output, 2)
    ranks = job.get("ranks", 1)
    os.environ.update({"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(ranks), "LOCAL_WORLD_SIZE": str(ranks),
                       "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(job.get("port", 1)), "CASE_OUT": job["out"],
                       "TORCHELASTIC_USE_AGENT_STORE": "False",  # rank 0 makes the store: torchrun's is for the process that forks
                       "TRAINTRACE_DIR": os.path.join(job["out"], "traces"), "SIMGPU_NODE": "case-" + job["out"].replace("/", "-")[-40:],
                       **job.get("environment", {})})
    with open(os.path.join(job["out"], "pid"), "w", encoding="utf-8") as file:
        file.write(str(os.getpid()))
    torch.cuda.set_device(rank)
    torch.cuda.synchronize()  # the current device may be set without a call of CUDA
    wait_for_the_tracer()
    if ranks > 1:
        dist.init_process_group("nccl", timeout=datetime.timedelta(seconds=300))
    globals()[job["name"]](Job(job.get("steps", 20), job.get("ending", "exit")))
    torch.cuda.synchronize()
    if ranks > 1:
        dist.destroy_process_group()


def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        jobs = json.load(file)
    for job in jobs:
        processes = []
        for rank in range(job.get("ranks", 1)):
            process = os.fork()
            if process == 0:
                run(job, rank)
                return
            processes.append(process)
        statuses = [os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]) for process in processes]
        print(json.dumps({**job, "statuses": statuses}), flush=True)


if __name__ == "__main__":
    main()
