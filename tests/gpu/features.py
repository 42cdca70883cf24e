"""One process that uses what training jobs use of a GPU; its output says what was computed, and must be the same with the tracer.

What this PyTorch or this machine lacks prints `lacks` and why.
"""
import argparse
import os
import tempfile

import torch
import torch.nn.functional as F
from torch import nn

parser = argparse.ArgumentParser()
parser.add_argument("--compile", action="store_true", help="torch.compile, too: takes a while")
parser.add_argument("names", nargs="*", help="of these alone")
args = parser.parse_args()
torch.use_deterministic_algorithms(True, warn_only=True)


def told(name, *tensors):
    print(f"features: {name}: " + " ".join(f"{tensor.double().sum().item():.9e}" for tensor in tensors), flush=True)


def net():
    torch.manual_seed(1)
    return nn.Sequential(nn.Linear(64, 256), nn.GELU(), nn.Linear(256, 8)).cuda()


def products():
    torch.manual_seed(2)
    for kind in (torch.float32, torch.bfloat16, torch.float16):
        a, b = (torch.randn(512, 512, device="cuda").to(kind) for _ in range(2))
        told(f"matmul {kind}", a @ b, torch.bmm(a.view(8, 64, 512), b.view(8, 512, 64)))


def convolution():
    torch.manual_seed(3)
    layer = nn.Conv2d(8, 16, 3, padding=1).cuda()
    x = torch.randn(4, 8, 32, 32, device="cuda", requires_grad=True)
    layer(x).square().mean().backward()
    told("convolution", x.grad, layer.weight.grad)


def attention():
    torch.manual_seed(4)
    q, k, v = (torch.randn(2, 8, 128, 64, device="cuda", dtype=torch.bfloat16) for _ in range(3))
    told("attention", F.scaled_dot_product_attention(q, k, v, is_causal=True))


def training():
    model, losses = net(), []
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
    scaler = torch.amp.GradScaler("cuda")
    for step in range(20):
        torch.manual_seed(100 + step)
        x = torch.randn(32, 64).pin_memory().to("cuda", non_blocking=True)
        with torch.autocast("cuda", torch.float16):
            loss = F.mse_loss(model(x).float(), x[:, :8])
        optimizer.zero_grad()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        losses.append(loss.detach())
    told("training", torch.stack(losses), *model.parameters())


def graph():
    model, x = net(), torch.zeros(32, 64, device="cuda")
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        for _ in range(3):
            model(x)
    torch.cuda.current_stream().wait_stream(side)
    captured = torch.cuda.CUDAGraph()
    with torch.cuda.graph(captured):
        y = model(x)
    for step in range(5):
        torch.manual_seed(step)
        x.copy_(torch.randn(32, 64))
        captured.replay()
        told(f"graph {step}", y)


def streams():
    first, second, done = torch.cuda.Stream(), torch.cuda.Stream(priority=-1), torch.cuda.Event()
    with torch.cuda.stream(first):
        a = torch.arange(1 << 20, device="cuda").double().sqrt()
        done.record()
    with torch.cuda.stream(second):
        second.wait_event(done)
        b = a * 2
    second.synchronize()
    told("streams", b)


class Samples(torch.utils.data.Dataset):
    def __len__(self):
        return 64

    def __getitem__(self, number):
        return torch.full((16,), float(number))


def loader():
    batches = torch.utils.data.DataLoader(Samples(), batch_size=8, num_workers=2, pin_memory=True)
    told("loader", torch.stack([batch.to("cuda", non_blocking=True).sum() for batch in batches]))


def checkpoint():
    model = net()
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "weights")
        torch.save(model.state_dict(), path)
        told("checkpoint", *torch.load(path, map_location="cuda").values())


def out_of_memory():
    torch.cuda.set_per_process_memory_fraction(0.05)
    try:
        torch.empty(1 << 36, dtype=torch.uint8, device="cuda")
    except torch.OutOfMemoryError:
        print("features: out of memory: raised", flush=True)
    torch.cuda.set_per_process_memory_fraction(1.0)


def compiled():
    model = torch.compile(net())
    x = torch.ones(32, 64, device="cuda")
    model(x).sum().backward()
    told("compiled", model(x))


FEATURES = [products, convolution, attention, training, graph, streams, loader, checkpoint, out_of_memory] + [compiled] * args.compile
for each in FEATURES:
    if args.names and each.__name__ not in args.names:
        continue
    try:
        each()
    except (RuntimeError, NotImplementedError) as error:
        print(f"features: {each.__name__}: lacks {str(error).splitlines()[0]}", flush=True)
torch.cuda.synchronize()
print("features: done", flush=True)
