"""Running out of memory, each for another reason."""
import ctypes
import os
import random
import subprocess
import sys

import torch
from torch import nn

from memory_scripts.common import MIB, Training


def leak_until_full(job):
    training, features = Training(), []
    for step in range(10**6):
        training.step(step)
        features.append(torch.empty(2 * MIB, dtype=torch.uint8, device="cuda"))  # leak: leak_until_full


def leak_with_lengths_until_full(job):
    """Lengths that vary leave holes, and yet it is the leak."""
    training, features = Training(), []
    for step in range(10**6):
        training.step(step, 2048 + 509 * (step % 7))
        features.append(torch.empty(2 * MIB + (step % 5) * MIB // 2, dtype=torch.uint8, device="cuda"))  # leak: leak_with_lengths_until_full


def too_large(job):
    training = Training()
    state = [torch.empty(24 * MIB, dtype=torch.uint8, device="cuda") for _ in range(3)]
    for step in job.steps():
        training.step(step)
    state.append(torch.empty(200 * MIB, dtype=torch.uint8, device="cuda"))  # leak: too_large


def too_large_batch(job):
    training = Training(width=512)
    for step in job.steps():
        training.step(step)
    training.step(0, 60_000)


def pieces(job):
    """Every second of many blocks is freed: enough, and no piece that is large enough."""
    training = Training()
    for step in job.steps():
        training.step(step)
    blocks = [torch.empty(3 * MIB, dtype=torch.uint8, device="cuda") for _ in range(58)]
    del blocks[::2]
    torch.empty(60 * MIB, dtype=torch.uint8, device="cuda")  # leak: pieces


def random_state(job):
    """Blocks of random sizes come and go, until one is refused; the number of steps is the seed."""
    chance, blocks = random.Random(job.count), []
    for _ in range(chance.randrange(20, 60)):
        blocks.append(torch.empty(int(2 ** chance.uniform(9, 24)), dtype=torch.uint8, device="cuda"))
        if chance.random() < 0.3:
            del blocks[chance.randrange(len(blocks))]
    while True:
        blocks.append(torch.empty(int(2 ** chance.uniform(16, 26)), dtype=torch.uint8, device="cuda"))


def caught(job):
    training, sizes = Training(), [MIB] * 10
    sizes[5] = 1 << 40
    for step in job.steps():
        training.step(step)
        try:
            torch.empty(sizes[step % 10], dtype=torch.uint8, device="cuda")
        except torch.OutOfMemoryError:
            training.optimizer.zero_grad()


def limited(job):
    """More than it has allowed itself, which cuBLAS needs in the first backward pass; autograd's thread has no line of its own."""
    torch.cuda.set_per_process_memory_fraction(0.25)
    training = Training()
    for step in job.steps():
        training.step(step)


def first_step_does_not_fit(job):
    """The model fits, and its gradients do; Adam's state, made in the first step, does not."""
    net = nn.Sequential(*(nn.Linear(2048, 2048) for _ in range(4))).cuda()
    optimizer = torch.optim.Adam(net.parameters())
    for _ in job.steps():
        optimizer.zero_grad()
        net(torch.ones(8, 2048, device="cuda")).sum().backward()
        optimizer.step()  # leak: first_step_does_not_fit


def loaded_beside(job):
    """A checkpoint comes to the device beside the model, weight by weight."""
    training = Training(width=4096)
    for step in job.steps():
        training.step(step, 16)
    weights = {name: value.cpu() for name, value in training.net.state_dict().items()}
    copies = [{name: value.cuda() for name, value in weights.items()} for _ in range(3)]  # leak: loaded_beside
    training.net.load_state_dict(copies[-1])


def pieces_between_kept(job):
    """Of each segment one block stays, and what is free beside it is too small."""
    training, kept = Training(), []
    for step in job.steps():
        training.step(step)
    for _ in range(10):
        blocks = [torch.empty(6 * MIB, dtype=torch.uint8, device="cuda") for _ in range(3)]
        kept.append(blocks[1])
        del blocks
        kept.append(torch.empty(5 * MIB, dtype=torch.uint8, device="cuda"))
    del kept[1::2]
    torch.empty(32 * MIB, dtype=torch.uint8, device="cuda")  # leak: pieces_between_kept


def neighbour(job):
    """A process that has nothing to do with the job, and is not recorded, holds most of the device."""
    program = ("import ctypes, time; runtime = ctypes.CDLL('libcudart.so.12'); runtime.cudaMalloc(ctypes.byref(ctypes.c_void_p()), ctypes.c_size_t(160 << 20)); "
               "print('has it', flush=True); time.sleep(60)")
    training = Training()
    for step in job.steps():
        training.step(step)
    environment = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD" and not name.startswith("TRAINTRACE")}
    with subprocess.Popen([sys.executable, "-c", program], env=environment, stdout=subprocess.PIPE) as other:
        other.stdout.readline()
        try:
            torch.empty(120 * MIB, dtype=torch.uint8, device="cuda")  # leak: neighbour named_neighbour
        finally:
            other.kill()


def named_neighbour(job):
    """The same where NVML is there: PyTorch asks it who is on the device."""
    folder = next(path for path in os.environ["LD_LIBRARY_PATH"].split(":") if os.path.exists(os.path.join(path, "nvml")))
    ctypes.CDLL(os.path.join(folder, "nvml", "libnvidia-ml.so.1"))
    neighbour(job)


def leak_in_expandable(job):
    training, features = Training(), []
    for step in range(10**6):
        training.step(step)
        features.append(torch.empty(3 * MIB, dtype=torch.uint8, device="cuda"))  # leak: leak_in_expandable


def graph_until_full(job):
    """What fails is a step's own activations; what filled the device is the graphs of all steps before."""
    training, losses = Training(width=256), []
    for step in range(10**6):
        x, y = training.batch(step, 2048)  # leak: graph_until_full
        training.optimizer.zero_grad()
        losses.append(nn.functional.mse_loss(training.net(x), y))  # leak: graph_until_full
        losses[-1].backward(retain_graph=True)
        training.optimizer.step()


def grows_until_full(job):
    """One tensor, made anew and longer in each step, until two of it do not fit."""
    training, history = Training(), torch.zeros(0, 64, device="cuda")
    for step in range(10**6):
        training.step(step)
        history = torch.cat([history, torch.ones(8192, 64, device="cuda")])  # leak: grows_until_full


def random_state_expandable(job):
    random_state(job)


def random_state_whole(job):
    """max_split_size_mb: large segments are not split."""
    random_state(job)


def random_state_limited(job):
    torch.cuda.set_per_process_memory_fraction(0.5 + job.count % 5 / 10)
    random_state(job)
