"""Mixed precision with a gradient scaler, gradients of two batches added without synchronising the first (no_sync), a checkpoint."""
import contextlib
import os

import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import rig


def train(net, device, ranks):
    optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
    scaler = torch.amp.GradScaler(device, enabled=device == "cuda", init_scale=256.0)
    losses = []
    for step in range(10):
        optimizer.zero_grad()
        total = 0.0
        for half in range(2):
            quiet = net.no_sync() if half == 0 and device == "cuda" else contextlib.nullcontext()
            for rank in ranks:
                x, y = (part.chunk(2)[half].to(device) for part in rig.batch(step, rank))
                with quiet, torch.autocast(device, torch.float16, enabled=device == "cuda"):
                    loss = nn.functional.mse_loss(net(x).float(), y) / 2 / len(ranks)
                    scaler.scale(loss).backward()
                total += loss.item()
        scaler.step(optimizer)
        scaler.update()
        losses.append(total)
    return losses


with rig.job() as job:
    net = DistributedDataParallel(rig.model().cuda())
    losses = train(net, "cuda", [job.rank])
    path = os.path.join(os.environ["RIG_OUT"], f"checkpoint.{job.rank}")
    torch.save(net.state_dict(), path)
    saved = torch.load(path, map_location="cuda", weights_only=True)
    assert all(torch.equal(value.cpu(), saved[name].cpu()) for name, value in net.state_dict().items())
    rig.report(losses, train(rig.model(), "cpu", range(job.size)), tolerance=0.02)
