"""Sharded data-parallel training: FSDP, or FSDP2 (--second)."""
import argparse

import torch
from torch.distributed.fsdp import FullyShardedDataParallel, fully_shard
from torch.distributed.fsdp.wrap import ModuleWrapPolicy

import rig

parser = argparse.ArgumentParser()
parser.add_argument("--second", action="store_true")
args = parser.parse_args()

with rig.job() as job:
    net = rig.model().cuda()
    if args.second:
        for layer in net:
            if isinstance(layer, torch.nn.Linear):
                fully_shard(layer)
        net = fully_shard(net)
    else:
        net = FullyShardedDataParallel(net, auto_wrap_policy=ModuleWrapPolicy({torch.nn.Linear}))
    rig.report(rig.train(net, "cuda", [job.rank]), rig.train(rig.model(), "cpu", range(job.size)))
