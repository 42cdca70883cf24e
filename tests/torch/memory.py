"""What PyTorch does with memory: CUDA graphs, its other allocators (PYTORCH_CUDA_ALLOC_CONF), running out, loader processes."""
import os
import subprocess
import sys

import torch
import torch.distributed as dist
from torch.utils.data import DataLoader, TensorDataset

import rig


def graph():
    x = torch.zeros(8, device="cuda")
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        x.add_(1).sub_(1)
    torch.cuda.current_stream().wait_stream(stream)
    captured = torch.cuda.CUDAGraph()
    with torch.cuda.graph(captured):
        x.add_(1)
        dist.all_reduce(x)
    for _ in range(3):
        captured.replay()
    return x[0].item()


def out_of_memory():
    try:
        torch.empty(1 << 40, dtype=torch.uint8, device="cuda")
    except torch.OutOfMemoryError:
        return "out of memory, as it must"
    raise SystemExit("there is no tebibyte")


def loader():
    data = TensorDataset(torch.arange(32.0))
    return sum(part.cuda().sum().item() for (part,) in DataLoader(data, batch_size=8, num_workers=2, pin_memory=True))


def allocator():
    blocks = [torch.full((size << 18,), 2.0, device="cuda") for size in (1, 5, 30)]
    del blocks[1]
    return sum(block[-1].item() for block in blocks + [torch.full((3 << 20,), 2.0, device="cuda")])


if "PYTORCH_CUDA_ALLOC_CONF" in os.environ:
    print(allocator(), flush=True)
    sys.exit()

with rig.job() as job:
    said = [graph(), out_of_memory(), loader(), allocator()]
    rig.dump(job.rank)
    if job.rank == 0:
        for setting in ("expandable_segments:True", "backend:cudaMallocAsync"):
            environment = dict(os.environ, PYTORCH_CUDA_ALLOC_CONF=setting)
            said.append(subprocess.run([sys.executable, __file__], env=environment, check=True, capture_output=True, text=True).stdout.strip())
    print(f"rank {job.rank}:", *said, flush=True)
