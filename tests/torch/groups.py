"""Two kinds of process groups by hand: a layer's columns over the ranks of one, stages of a pipeline in the other."""
import argparse

import torch
import torch.distributed as dist

import rig

parser = argparse.ArgumentParser()
parser.add_argument("--mistake", choices=["group-order"])  # rank 0 makes its groups in another order
parser.add_argument("--timeout", type=float, default=60)
args = parser.parse_args()


def columns_in_parallel(job, group, ranks):
    """y = x w, the columns of w over the ranks of the group; the gradient of x is the sum over them."""
    torch.manual_seed(sum(ranks))
    x, w = torch.randn(6, 8), torch.randn(8, 4 * len(ranks))
    mine = w.chunk(len(ranks), 1)[ranks.index(job.rank)].contiguous().cuda()
    pieces = [torch.empty(6, 4, device="cuda") for _ in ranks]
    dist.all_gather(pieces, x.cuda() @ mine, group=group)
    gradient = pieces[ranks.index(job.rank)] @ mine.t()
    dist.all_reduce(gradient, group=group)
    difference = (gradient.cpu() - x @ w @ w.t()).abs().max().item()
    assert difference < 1e-3, difference


def pipeline(job, ranks, group):
    """A number goes through the stages, each adds its rank; back come all of them at once."""
    stage = ranks.index(job.rank)
    value = torch.full((3,), 100.0, device="cuda")
    if stage > 0:
        dist.recv(value, ranks[stage - 1], group=group)
    value = value + float(job.rank)
    if stage + 1 < len(ranks):
        dist.send(value, ranks[stage + 1], group=group)
    if len(ranks) > 1:
        other = torch.empty_like(value)
        to, fro = ranks[(stage + 1) % len(ranks)], ranks[stage - 1]
        for work in dist.batch_isend_irecv([dist.P2POp(dist.isend, value, to, group), dist.P2POp(dist.irecv, other, fro, group)]):
            work.wait()
        print(f"rank {job.rank}: {value[0].item()} {other[0].item()}", flush=True)


with rig.job(args.timeout) as job:
    world = list(range(job.size))
    halves = [world[: (job.size + 1) // 2], world[(job.size + 1) // 2:]] if job.size > 1 else [world]
    strided = [world[0::2], world[1::2]] if job.size > 1 else [world]
    layouts = [halves, strided]
    wrong = args.mistake == "group-order" and job.rank == 0
    groups = [[dist.new_group(ranks) for ranks in layout] for layout in (reversed(layouts) if wrong else layouts)]
    if wrong:
        groups.reverse()
    for layout, made in zip(layouts, groups):
        for ranks, group in zip(layout, made):
            if job.rank in ranks:
                columns_in_parallel(job, group, ranks)
                dist.barrier(group=group)
    pipeline(job, world, dist.group.WORLD)
