"""What the scripts of this folder share: the process group, and the report of the losses."""
import contextlib
import datetime
import json
import os

import torch
import torch.distributed as dist
from torch import nn

import compare_memory


class Job:
    def __init__(self):
        self.rank = int(os.environ.get("RANK", 0))
        self.size = int(os.environ.get("WORLD_SIZE", 1))

    def take_device(self):
        """A GPU of its own, or one that ranks share: NCCL refuses two ranks on one GPU unless they seem to be on different hosts."""
        count = torch.cuda.device_count()
        if count < self.size:
            os.environ.update(NCCL_HOSTID=f"rank-{self.rank}", NCCL_SOCKET_IFNAME="lo", NCCL_IB_DISABLE="1")
        torch.cuda.set_device(self.rank % count)


@contextlib.contextmanager
def job(timeout_s=60):
    """The process group `nccl` with every rank on its own device where there are enough; what Flight Recorder has goes into RIG_OUT at the end."""
    this = Job()
    this.take_device()
    dist.init_process_group("nccl", timeout=datetime.timedelta(seconds=timeout_s))
    yield this
    torch.cuda.synchronize()
    dump(this.rank)
    dist.destroy_process_group()


def dump(rank):
    """Flight Recorder's records, as torch itself would write them when its watchdog fires; what was allocated by cudaMalloc."""
    with open(os.path.join(os.environ["RIG_OUT"], f"flight.{rank}"), "wb") as file:
        file.write(torch._C._distributed_c10d._dump_nccl_trace())
    stats = torch.cuda.memory_stats()
    with open(os.path.join(os.environ["RIG_OUT"], f"memory.{rank}"), "w", encoding="utf-8") as file:
        json.dump({"segments": stats["segment.all.allocated"], "bytes": stats["reserved_bytes.all.allocated"]}, file)
    with open(os.path.join(os.environ["RIG_OUT"], f"allocator.{rank}"), "w", encoding="utf-8") as file:
        json.dump(compare_memory.said_by_torch(), file)


def model():
    torch.manual_seed(1)
    return nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 4))


def batch(step, rank):
    """Inputs and targets; two batches of each rank take turns."""
    torch.manual_seed(1000 * (step % 2) + rank)
    x = torch.randn(24, 16)
    return x, x[:, :4].sin()


def train(net, device, ranks, steps=12):
    """The losses of training with the batches of `ranks`."""
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
    losses = []
    for step in range(steps):
        optimizer.zero_grad()
        total = 0.0
        for rank in ranks:
            x, y = batch(step, rank)
            loss = nn.functional.mse_loss(net(x.to(device)), y.to(device)) / len(ranks)
            loss.backward()
            total += loss.item()
        optimizer.step()
        losses.append(total)
    return losses


def report(losses, expected, tolerance=1e-4):
    """Prints this rank's losses; the mean over all ranks must be what the CPU has computed."""
    rank, size = dist.get_rank(), dist.get_world_size()
    every = [None] * size
    dist.all_gather_object(every, losses)
    print(f"rank {rank}: " + " ".join(f"{loss:.6f}" for loss in losses), flush=True)
    for step, value in enumerate(expected):
        mean = sum(each[step] for each in every) / size
        if abs(mean - value) > tolerance * max(1, abs(value)):
            raise SystemExit(f"rank {rank}: step {step} has loss {mean:.6f}, the CPU {value:.6f}")
    if expected and not sum(expected[-2:]) < 0.9 * sum(expected[:2]):
        raise SystemExit(f"the loss does not fall: {expected}")
