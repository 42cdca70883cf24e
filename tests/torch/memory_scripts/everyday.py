"""Nothing is wrong: the healthy twins of everyday_leaks.py."""
import itertools
import logging
import logging.handlers

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from memory_scripts.common import Training
from memory_scripts.everyday_leaks import Encoder, Lit


def closures_called(job):
    """Closures hold what they would draw, until all are called after each eighth step."""
    training, to_draw = Training(width=128), []
    for step in job.steps():
        training.step(step)
        x, _ = training.batch(step, 4096)
        with torch.no_grad():
            out = training.net(x).softmax(-1)
        to_draw.append(lambda out=out: out.argmax(-1).tolist())
        if step % 8 == 7:
            while to_draw:
                to_draw.pop()()


def returned_outputs_detached(job):
    Lit(detached=True).fit(job, 10**6)


def returned_outputs_of_epoch(job):
    """With their graphs, and yet only until an epoch of six steps is over."""
    Lit(detached=False).fit(job, 6)


def hooks_removed(job):
    training, gradients = Training(width=128), []
    for step in job.steps():
        x, y = training.batch(step, 1024)
        training.optimizer.zero_grad()
        hidden = training.net[:2](x)
        handle = hidden.register_hook(lambda gradient: gradients.append((gradient * 1.0).norm().item()))
        nn.functional.mse_loss(training.net[2:](hidden), y).backward()
        handle.remove()
        training.optimizer.step()


def state_with_graph_for_a_while(job):
    """Backpropagation through time is cut after each fifth step; until then the graph becomes longer."""
    cell, out = nn.Linear(64, 64).cuda(), nn.Linear(64, 4).cuda()
    optimizer = torch.optim.SGD([*cell.parameters(), *out.parameters()], lr=0.01)
    state, total = torch.zeros(1024, 64, device="cuda"), 0
    for step in job.steps():
        state = torch.tanh(cell(state) + 1)
        total = total + out(state).sum()
        if step % 5 == 4:
            optimizer.zero_grad()
            total.backward()
            optimizer.step()
            state, total = state.detach(), 0


def masks_by_bucket(job):
    """Lengths are rounded to one of six buckets, the rarest of which comes late."""
    training, masks = Training(), {}
    for step in job.steps():
        length = 256 + 64 * ((step * step // 3) % 6)
        if length not in masks:
            masks[length] = torch.ones(length, length, device="cuda").tril()
        training.step(step, length)


def conversation_of_a_window(job):
    """Keys and values of each layer, of which the last 512 tokens stay."""
    layers = nn.ModuleList(nn.Linear(64, 64) for _ in range(3)).cuda()
    past = [(torch.zeros(2, 0, 64, device="cuda"), torch.zeros(2, 0, 64, device="cuda")) for _ in layers]
    for _ in job.steps():
        x = torch.ones(2, 64, 64, device="cuda")
        with torch.inference_mode():
            for i, layer in enumerate(layers):
                x = torch.relu(layer(x))
                past[i] = torch.cat([past[i][0], x], 1)[:, -512:].clone(), torch.cat([past[i][1], x * 2], 1)[:, -512:].clone()


def conversations(job):
    """Each conversation has ten answers, whose keys and values become longer; then comes the next."""
    layers = nn.ModuleList(nn.Linear(64, 64) for _ in range(3)).cuda()
    for step in job.steps():
        if step % 10 == 0:
            past = [(torch.zeros(2, 0, 64, device="cuda"), torch.zeros(2, 0, 64, device="cuda")) for _ in layers]
        x = torch.ones(2, 64, 64, device="cuda")
        with torch.inference_mode():
            for i, layer in enumerate(layers):
                x = torch.relu(layer(x))
                past[i] = torch.cat([past[i][0], x], 1), torch.cat([past[i][1], x * 2], 1)


def one_conversation(job):
    """Keys and values of one text become longer, up to its end."""
    layers = nn.ModuleList(nn.Linear(64, 64) for _ in range(3)).cuda()
    past = [(torch.zeros(2, 0, 64, device="cuda"), torch.zeros(2, 0, 64, device="cuda")) for _ in layers]
    for _ in job.steps():
        x = torch.ones(2, 64, 64, device="cuda")
        with torch.inference_mode():
            for i, layer in enumerate(layers):
                x = torch.relu(layer(x))
                past[i] = torch.cat([past[i][0], x], 1), torch.cat([past[i][1], x * 2], 1)


def optimizer_made_anew(job):
    """Epochs of five steps have an optimizer each; the newest alone is held."""
    training = Training(width=256)
    for step in job.steps():
        if step % 5 == 0:
            training.optimizer = torch.optim.Adam(training.net.parameters(), lr=0.01)
            scheduler = torch.optim.lr_scheduler.StepLR(training.optimizer, 3)
        training.step(step)
        scheduler.step()


def pinned_batches(job):
    training = Training()
    data = TensorDataset(torch.ones(4096 * job.count, 16), torch.ones(4096 * job.count, 4))
    for _, (x, y) in zip(job.steps(), DataLoader(data, batch_size=4096, pin_memory=True)):
        training.optimizer.zero_grad()
        nn.functional.mse_loss(training.net(x.cuda(non_blocking=True)), y.cuda(non_blocking=True)).backward()
        training.optimizer.step()


def failures_as_text(job):
    training, failures = Training(), []

    def attempt(step):
        x, _ = training.batch(step, 8192)
        hidden = training.net[:2](x)
        if step % 2 == 1:
            raise ValueError(f"step {step}: a label is out of range")
        hidden.sum().backward()

    for step in job.steps():
        training.step(step)
        try:
            attempt(step)
        except ValueError as error:
            failures.append(str(error))


def newest_failure(job):
    """The newest exception alone is kept, with what its frames hold."""
    training, newest = Training(), None

    def attempt(step):
        hidden = training.net[:2](training.batch(step, 8192 + 512 * (step % 5))[0])
        if step % 3 == 2:
            raise ValueError(f"step {step}: a label is out of range")
        hidden.sum().backward()

    for step in job.steps():
        training.step(step)
        try:
            attempt(step)
        except ValueError as error:
            newest = error
    return newest


def graphs_of_few_shapes(job):
    """CUDA graphs for each of five lengths, with one pool, captured as the lengths come."""
    net, graphs, pool = nn.Linear(64, 64).cuda(), {}, torch.cuda.graph_pool_handle()
    for step in job.steps():
        length = 2048 + 512 * (step * step % 9)
        with torch.no_grad():
            if length not in graphs:
                net(torch.ones(32, 64, device="cuda"))
                torch.cuda.synchronize()
                graph, prompt = torch.cuda.CUDAGraph(), torch.ones(length, 64, device="cuda")
                with torch.cuda.graph(graph, pool=pool):
                    out = prompt * 2 + 1
                graphs[length] = graph, prompt, out
            graphs[length][0].replay()


def loss_of_micro_batches(job):
    """Losses of four micro-batches are summed, with their graphs, for one backward pass."""
    training, total = Training(width=128), 0
    for step in job.steps():
        x, y = training.batch(step, 1024)
        total = total + nn.functional.mse_loss(training.net(x), y)
        if step % 4 == 3:
            training.optimizer.zero_grad()
            total.backward()
            training.optimizer.step()
            total = 0


def gradients_never_zeroed(job):
    """A mistake, but not one of memory: gradients are added up in place."""
    training = Training(width=128)
    for step in job.steps():
        x, y = training.batch(step, 512)
        (training.net(x) - y).square().mean().backward()
        training.optimizer.step()


def gradients_with_graph_dropped(job):
    """create_graph, and gradients that are dropped in each step."""
    training = Training(width=128)
    for step in job.steps():
        x, y = training.batch(step, 512)
        training.optimizer.zero_grad()
        (training.net(x) - y).square().mean().backward(create_graph=True)
        sum(each.grad.square().sum() for each in training.net.parameters()).backward()
        training.optimizer.step()


def method_cached_with_bound(job):
    training, encoder = Training(), Encoder().cuda()
    for step in job.steps():
        training.step(step)
        encoder.encode_with_bound(torch.ones(4096, 16, device="cuda"))


def records_of_log_written(job):
    """The log keeps the arguments of ten records, and is written then."""
    training, log = Training(), logging.getLogger("records_of_log_written")
    log.setLevel(logging.INFO)
    log.propagate = False
    log.addHandler(logging.handlers.MemoryHandler(10, target=logging.NullHandler()))
    for step in job.steps():
        training.step(step)
        x, _ = training.batch(step, 4096)
        with torch.no_grad():
            log.info("step %d: %s", step, training.net(x).abs())


def cycles_over_epochs(job):
    """itertools.cycle keeps the batches of the first epoch, which is over before half of the run is."""
    training, length = Training(), max(4, job.count // 3)
    batches = itertools.cycle(torch.ones(4096, 16).cuda() for _ in range(length))
    for step, x in zip(job.steps(), batches):
        training.optimizer.zero_grad()
        nn.functional.mse_loss(training.net(x), x[:, :4] * step).backward()
        training.optimizer.step()


def buffer_by_name(job):
    """A module that registers what it has seen, under one name."""
    training = Training()
    for step in job.steps():
        training.step(step)
        x, _ = training.batch(step, 4096)
        training.net.register_buffer("seen", x.abs() + 1)
