"""Data-parallel training as many scripts do it: what goes wrong on one rank is caught there, and the job goes on until it hangs.

  refetch    the last rank waits for a file that nobody will write, in a loop of its own
  leader     the last rank takes itself for the one that broadcasts the settings
  shortage   rank 1 runs out of memory, catches it, and leaves the step out
"""
import argparse
import os
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import rig

parser = argparse.ArgumentParser()
parser.add_argument("--timeout", type=float, default=60)
parser.add_argument("--mistake", choices=["refetch", "leader", "shortage", "none"], default="none")
args = parser.parse_args()


class Shards:
    def __init__(self, rank, is_broken):
        self.rank, self.is_broken = rank, is_broken

    def read(self, step):
        if self.is_broken and step == 12:
            raise ValueError("bad magic in shard 12")
        return rig.batch(step, self.rank)

    def refetch(self, step):
        path = os.path.join(os.environ["RIG_OUT"], f"shard.{step}")
        while not os.path.exists(path):
            time.sleep(0.5)  # REFETCH
        return rig.batch(step, self.rank)

    def next(self, step):
        try:
            return self.read(step)
        except ValueError:
            return self.refetch(step)


class Trainer:
    def __init__(self, job):
        self.job, self.last = job, job.rank == job.size - 1
        torch.manual_seed(2)
        self.net = DistributedDataParallel(rig.model().cuda())
        self.optimizer = torch.optim.SGD(self.net.parameters(), lr=0.1)
        self.shards = Shards(job.rank, args.mistake == "refetch" and self.last)

    def share_settings(self, epoch):
        leads = args.mistake == "leader" and self.last and epoch > 1
        settings = [{"epoch": epoch, "lr": 0.1 / (epoch + 1)}]
        dist.broadcast_object_list(settings, src=self.job.rank if leads else 0, device=torch.device("cuda"))  # LEADER

    def scratch(self, step):
        too_large = args.mistake == "shortage" and self.job.rank == 1 and step == 12
        return torch.empty(1 << (38 if too_large else 20), dtype=torch.uint8, device="cuda")  # SHORTAGE

    def step(self, step):
        x, y = self.shards.next(step)
        scratch = self.scratch(step)
        self.optimizer.zero_grad()
        nn.functional.mse_loss(self.net(x.cuda()), y.cuda()).backward()
        self.optimizer.step()
        del scratch

    def epoch(self, steps):
        for step in steps:
            try:
                self.step(step)
            except torch.cuda.OutOfMemoryError:
                torch.cuda.empty_cache()

    def norms(self):
        norms = torch.stack([parameter.detach().norm() for parameter in self.net.parameters()])
        dist.all_reduce(norms)  # NORMS
        return norms


with rig.job(args.timeout) as job:
    trainer = Trainer(job)
    for epoch in range(6):
        trainer.share_settings(epoch)
        trainer.epoch(range(8 * epoch, 8 * epoch + 8))
        trainer.norms()
    torch.cuda.synchronize()
    print(f"rank {job.rank}: done", flush=True)
