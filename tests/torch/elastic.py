"""Rank 1 fails in the first generation, and torchrun begins all again: the second is through."""
import datetime
import os

import torch
import torch.distributed as dist

import rig

STEPS = 6
rank, generation = int(os.environ["RANK"]), int(os.environ["TORCHELASTIC_RESTART_COUNT"])
rig.Job().take_device()
# Where torchrun is given a port, all generations share its store, and a rank may read what the one before left there.
agents = dist.TCPStore(os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]), is_master=False, use_libuv=False)
dist.init_process_group("nccl", store=dist.PrefixStore(f"generation {generation}", agents), rank=rank, world_size=int(os.environ["WORLD_SIZE"]),
                        timeout=datetime.timedelta(seconds=60))
x = torch.ones(8, device="cuda")
for step in range(STEPS):
    dist.all_reduce(x)
    if step == STEPS // 2 and rank == 1 and generation == 0:
        raise RuntimeError("a broken example")
torch.cuda.synchronize()
print(f"rank {rank}: done in generation {generation}", flush=True)
dist.destroy_process_group()
