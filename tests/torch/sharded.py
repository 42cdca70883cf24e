"""Sharded data-parallel training: FSDP, or FSDP2 (--second); then a checkpoint, saved and loaded."""
import argparse
import os

import torch
from torch.distributed.checkpoint import state_dict
from torch.distributed.fsdp import FullyShardedDataParallel, fully_shard
from torch.distributed.fsdp.wrap import ModuleWrapPolicy

import rig

parser = argparse.ArgumentParser()
parser.add_argument("--second", action="store_true")
args = parser.parse_args()


def shard(net):
    if not args.second:
        return FullyShardedDataParallel(net, auto_wrap_policy=ModuleWrapPolicy({torch.nn.Linear}))
    for layer in net:
        if isinstance(layer, torch.nn.Linear):
            fully_shard(layer)
    return fully_shard(net)


def save_and_load(net, rank):
    """Gathered on rank 0, written, read, and spread over the shards of a model whose parameters are something else."""
    whole = state_dict.StateDictOptions(full_state_dict=True, cpu_offload=True)
    path = os.path.join(os.environ["RIG_OUT"], "checkpoint")
    saved = state_dict.get_model_state_dict(net, options=whole)
    if rank == 0:
        torch.save(saved, path)
    with torch.no_grad():
        for parameter in net.parameters():
            parameter.zero_()
    loaded = torch.load(path, weights_only=True) if rank == 0 else {}
    state_dict.set_model_state_dict(net, loaded, options=state_dict.StateDictOptions(full_state_dict=True, broadcast_from_rank0=True))
    again = state_dict.get_model_state_dict(net, options=whole)
    assert saved.keys() == again.keys() and (saved or rank > 0)
    assert all(torch.equal(value, again[name]) and value.any() for name, value in saved.items())


with rig.job() as job:
    net = shard(rig.model().cuda())
    losses = rig.train(net, "cuda", [job.rank])
    save_and_load(net, job.rank)
    rig.report(losses, rig.train(rig.model(), "cpu", range(job.size)))
