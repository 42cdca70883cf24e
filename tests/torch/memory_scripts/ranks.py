"""Scripts of several ranks: leaks on some of them, and healthy ones."""
import collections
import contextlib
import ctypes
import os

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import FullStateDictConfig, FullyShardedDataParallel, StateDictType, fully_shard
from torch.distributed.fsdp.wrap import ModuleWrapPolicy
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.nn.parallel import DistributedDataParallel

from memory_scripts.common import MIB, Training


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


def pipeline_of_four(job):
    """1F1B of four stages and eight micro-batches."""
    rank, ranks = dist.get_rank(), dist.get_world_size()
    stage = nn.Sequential(nn.Linear(16, 64), nn.ReLU(), nn.Linear(64, 16)).cuda()
    optimizer = torch.optim.Adam(stage.parameters(), lr=0.01)
    flying = collections.deque()

    def forward():
        x = torch.ones(64, 16, device="cuda", requires_grad=True)
        if rank > 0:
            dist.recv(x.detach(), rank - 1)
        out = stage(x)
        if rank + 1 < ranks:
            dist.send(out.detach(), rank + 1)
        flying.append((x, out))

    def backward():
        x, out = flying.popleft()
        gradient = torch.ones_like(out)
        if rank + 1 < ranks:
            dist.recv(gradient, rank + 1)
        out.backward(gradient)
        if rank > 0:
            dist.send(x.grad, rank - 1)

    for _ in job.steps():
        optimizer.zero_grad()
        ahead = ranks - rank - 1
        for _ in range(ahead):
            forward()
        for _ in range(8 - ahead):
            forward()
            backward()
        for _ in range(ahead):
            backward()
        optimizer.step()


def ddp_accumulates(job):
    training = Training(width=128)
    training.net = DistributedDataParallel(training.net, bucket_cap_mb=0.01)
    for step in job.steps():
        training.optimizer.zero_grad()
        for part in range(4):
            x, y = training.batch(step + part)
            with training.net.no_sync() if part < 3 else contextlib.nullcontext():
                (nn.functional.mse_loss(training.net(x), y) / 4).backward()
        training.optimizer.step()


def ddp_scaled(job):
    training, scaler = Training(torch.optim.Adam), torch.amp.GradScaler("cuda", init_scale=256.0)
    training.net = DistributedDataParallel(training.net, gradient_as_bucket_view=True, static_graph=True)
    for step in job.steps():
        x, y = training.batch(step)
        training.optimizer.zero_grad()
        with torch.autocast("cuda", torch.float16):
            loss = nn.functional.mse_loss(training.net(x).float(), y)
        scaler.scale(loss).backward()
        scaler.step(training.optimizer)
        scaler.update()


def ddp_shards_optimizer(job):
    training = Training(width=128)
    training.net = DistributedDataParallel(training.net)
    training.optimizer = ZeroRedundancyOptimizer(training.net.parameters(), torch.optim.Adam, lr=0.01)
    for step in job.steps():
        training.step(step)


def ddp_evaluates_on_first(job):
    """Rank 0 alone evaluates and writes a file, while the other waits."""
    training = Training()
    plain, training.net = training.net, DistributedDataParallel(training.net)
    for step in job.steps():
        training.step(step)
        if step % 4 == 3:
            if dist.get_rank() == 0:
                with torch.no_grad():
                    outputs = [plain(training.batch(i, 1024)[0]) for i in range(8)]
                    torch.cat(outputs).mean().item()
                torch.save(plain.state_dict(), os.path.join(os.environ["CASE_OUT"], "saved"))
            dist.barrier()


def ddp_gathers(job):
    """The outputs of all ranks of each fifth step, for a metric."""
    training = Training()
    training.net = DistributedDataParallel(training.net)
    for step in job.steps():
        training.step(step)
        if step % 5 == 4:
            with torch.no_grad():
                out = training.net(training.batch(step, 2048)[0])
            every = [torch.empty_like(out) for _ in range(dist.get_world_size())]
            dist.all_gather(every, out)
            torch.cat(every).mean().item()


def fsdp_saves(job):
    """A full state dict is gathered on rank 0 after each fourth step."""
    training = Training(width=128)
    training.net = FullyShardedDataParallel(training.net, auto_wrap_policy=ModuleWrapPolicy({nn.Linear}))
    training.optimizer = torch.optim.Adam(training.net.parameters(), lr=0.01)
    for step in job.steps():
        training.step(step)
        if step % 4 == 3:
            with FullyShardedDataParallel.state_dict_type(training.net, StateDictType.FULL_STATE_DICT,
                                                          FullStateDictConfig(offload_to_cpu=True, rank0_only=True)):
                training.net.state_dict()


def async_sums(job):
    """Own sums beside the backward pass, of which a step's are waited for in the next."""
    training, works = Training(width=128), []
    for step in job.steps():
        for work, gradient in works:
            work.wait()
            gradient.div_(2)
        training.step(step)
        works = []
        for each in training.net.parameters():
            gradient = each.grad.clone()
            works.append((dist.all_reduce(gradient, async_op=True), gradient))
    for work, _ in works:
        work.wait()


def columns(job):
    """Tensor parallel by hand: each rank has half of the hidden features."""
    first, second = nn.Linear(16, 64).cuda(), nn.Linear(64, 4).cuda()
    optimizer = torch.optim.Adam([*first.parameters(), *second.parameters()], lr=0.01)
    for _ in job.steps():
        optimizer.zero_grad()
        part = second(torch.relu(first(torch.ones(512, 16, device="cuda"))))
        whole = part.detach().clone()
        dist.all_reduce(whole)
        part.backward(whole)
        optimizer.step()


def one_keeps(job):
    """The last rank alone logs, and keeps what it logs."""
    training, outputs = Training(), []
    training.net = DistributedDataParallel(training.net)
    for step in job.steps():
        training.step(step)
        x, _ = training.batch(step, 4096)
        with torch.no_grad():
            out = training.net.module(x)
            if dist.get_rank() == dist.get_world_size() - 1:
                outputs.append(out * 2)  # leak: one_keeps


def one_of_three_keeps(job):
    """The middle one keeps its inputs."""
    training, inputs = Training(), []
    training.net = DistributedDataParallel(training.net)
    for step in job.steps():
        training.step(step)
        x = torch.ones(4096, 16, device="cuda")  # leak: one_of_three_keeps
        if dist.get_rank() == 1:
            inputs.append(x)


def fsdp_keeps(job):
    """Losses with their graphs, of units whose parameters are gathered anew."""
    training, outputs = Training(width=128), []
    training.net = FullyShardedDataParallel(training.net, auto_wrap_policy=ModuleWrapPolicy({nn.Linear}))
    training.optimizer = torch.optim.SGD(training.net.parameters(), lr=0.01)
    for step in job.steps():
        training.step(step)
        x, _ = training.batch(step, 2048)
        with torch.no_grad():
            outputs.append(training.net(x).float() * 2)  # leak: fsdp_keeps


def stage_keeps(job):
    """The first stage sends, and keeps the graphs whose backward never comes."""
    stage, sent = nn.Linear(16, 64).cuda(), []
    for _ in job.steps():
        if dist.get_rank() == 0:
            out = torch.relu(stage(torch.ones(2048, 16).cuda()))  # leak: stage_keeps
            dist.send(out.detach(), 1)
            sent.append(out)
        else:
            x = torch.empty(2048, 64, device="cuda")
            dist.recv(x, 0)
            (x * 2).sum().item()


def last_of_nine_events(job):
    """More processes than a node has: the last one alone makes an event in each step, and destroys none."""
    runtime = ctypes.CDLL("libcudart.so.12")
    total = torch.ones(1024, device="cuda")
    for _ in job.steps():
        dist.all_reduce(total)
        if dist.get_rank() == dist.get_world_size() - 1:
            runtime.cudaEventCreate(ctypes.byref(ctypes.c_void_p()))  # leak: last_of_nine_events


def one_until_full(job):
    """Rank 1 keeps features until its device is full, and ends; the other waits for it."""
    training, features = Training(), []
    training.net = DistributedDataParallel(training.net)
    if dist.get_rank() == 0:
        print("waiting", flush=True)
    for step in range(10**6):
        training.step(step)
        if dist.get_rank() == 1:
            try:
                features.append(torch.empty(2 * MIB, dtype=torch.uint8, device="cuda"))  # leak: one_until_full
            except torch.OutOfMemoryError:
                print("waiting", flush=True)
                raise


def many_groups(job):
    """Buffers of NCCL for each of many groups leave no room."""
    training, one = Training(), torch.ones(16, device="cuda")
    for step in job.steps():
        training.step(step)
        dist.all_reduce(one)
    for _ in range(6):
        group = dist.new_group([0, 1])
        dist.all_reduce(one, group=group)
    torch.cuda.synchronize()
    torch.empty(240 * MIB, dtype=torch.uint8, device="cuda")  # leak: many_groups
