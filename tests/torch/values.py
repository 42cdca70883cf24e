"""What the kernels leave behind, against the CPU: the bodies are told by mangled names, and a name that fits none changes nothing."""
import torch

import rig

CASES = {
    "a == b": lambda a, b: a == b,
    "a != b": lambda a, b: a != b,
    "a >= b": lambda a, b: a >= b,
    "a < b": lambda a, b: a < b,
    "a == 3": lambda a, b: a == 3,
    "a < 2": lambda a, b: a < 2,
    "a > b, integers": lambda a, b: a.long() > b.long(),
    "and": lambda a, b: (a == b) & (a < 4),
    "product of bools": lambda a, b: (a == b) * (a < 4),
    "sum": lambda a, b: a.sum(),
    "sum of integers": lambda a, b: (a.long() + (1 << 60)).sum(),
    "mean": lambda a, b: b.mean(),
    "norm": lambda a, b: b.norm(),
    "a + b": lambda a, b: a + b,
    "a * b": lambda a, b: a * b,
    "2 * a + 1": lambda a, b: 2 * a + 1,
    "half": lambda a, b: (a.half() * b.half()).float(),
    "bfloat16": lambda a, b: (a.bfloat16() + b.bfloat16()).float(),
    "a transposed": lambda a, b: a.view(2, 3).t().contiguous() + b.view(3, 2),
    "joined": lambda a, b: torch.cat([a, b]),
    "product of matrices": lambda a, b: a.view(2, 3) @ b.view(3, 2),
    "relu": lambda a, b: (a - b).relu(),
    "|a - b|": lambda a, b: (a - b).abs(),
    "clamped": lambda a, b: a.clamp(1, 3),
    "1 / b": lambda a, b: b.reciprocal(),
    "sigmoid": lambda a, b: a.sigmoid(),
}

with rig.job() as job:
    a = torch.arange(6.0) + job.rank
    b = torch.tensor([0.5, 1, 7, 3, -2, 5])
    for name, function in CASES.items():
        expected, got = function(a, b), function(a.cuda(), b.cuda()).cpu()
        assert got.dtype == expected.dtype and torch.allclose(got.double(), expected.double(), rtol=1e-6), f"{name}: {got}, not {expected}"
    print(f"rank {job.rank}: {len(CASES)} functions are right", flush=True)
