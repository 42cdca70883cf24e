"""What the scripts of this folder share: the process group, and the report of the losses."""
import contextlib
import datetime
import json
import os

import torch
import torch.distributed as dist


class Job:
    def __init__(self):
        self.rank = int(os.environ.get("RANK", 0))
        self.size = int(os.environ.get("WORLD_SIZE", 1))


@contextlib.contextmanager
def job(timeout_s=60):
    """The process group `nccl` with every rank on its own device; what Flight Recorder has goes into RIG_OUT at the end."""
    this = Job()
    torch.cuda.set_device(this.rank)
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
    if not sum(expected[-2:]) < 0.9 * sum(expected[:2]):  # two batches take turns
        raise SystemExit(f"the loss does not fall: {expected}")
