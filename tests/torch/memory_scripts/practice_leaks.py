"""Training and serving as it is written in practice, each with a leak; practice.py has the healthy twins."""
import copy
import gc
import itertools
import sys

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset

from memory_scripts.practice import (Adapters, Block, Classifier, Diffusion, Discriminator, Generator, Pages, batch_of, classifier_and_optimizer, graph_of_step,
                                     loader_of_pinned, log_probabilities, train_step, visits)


def activations_listed(job):
    """Forward hooks for a dead-neuron plot, which were only meant for the first step."""
    net, optimizer = classifier_and_optimizer()
    activations = {name: [] for name, each in net.named_modules() if isinstance(each, nn.ReLU)}
    for name, each in net.named_modules():
        if name in activations:
            each.register_forward_hook(lambda _, __, out, name=name: activations[name].append(out.detach() * 1))  # leak: activations_listed
    for step in job.steps():
        train_step(net, optimizer, step)


def activations_with_graph(job):
    """The same without detach: the outputs themselves."""
    net, optimizer = classifier_and_optimizer()
    activations = []
    net.body[1].register_forward_hook(lambda _, __, out: activations.append(out))
    for step in job.steps():
        train_step(net, optimizer, step)


def micro_losses_kept(job):
    """Gradient accumulation; the losses of all micro batches are kept, and retain_graph, once needed for a second backward pass, is still there."""
    net, optimizer = classifier_and_optimizer()
    losses = []
    for step in job.steps():
        for micro in range(4):
            x, y = batch_of(step * 4 + micro, 256)
            loss = F.mse_loss(net(x), y) / 4
            loss.backward(retain_graph=True)
            losses.append(loss)
        nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)


def predictions_of_all_evaluations(job):
    """Evaluations collect their predictions in an attribute; the line that empties it was lost in a merge."""
    net, optimizer = classifier_and_optimizer()
    predictions = []
    for step in job.steps():
        train_step(net, optimizer, step)
        if step % 4 == 3:
            net.eval()
            for number in range(6):
                x, _ = batch_of(number, 1024)
                predictions.append(net(x))
            net.train()


def pool_of_images(job):
    """A GAN with two optimizers, whose pool of older images was to have a bound."""
    generator, discriminator = Generator(), Discriminator()
    steps_g = torch.optim.Adam(generator.parameters(), lr=2e-4, betas=(0.5, 0.999))
    steps_d = torch.optim.Adam(discriminator.parameters(), lr=2e-4, betas=(0.5, 0.999))
    pool = []
    for step in job.steps():
        real, _ = batch_of(step, 256, 64)
        fake = generator(torch.randn(256, 16).cuda())  # leak: pool_of_images
        pool.append(fake.detach())
        steps_d.zero_grad()
        (F.mse_loss(discriminator(real), torch.ones(256, 1).cuda()) + F.mse_loss(discriminator(pool[step // 2]), torch.zeros(256, 1).cuda())).backward()
        steps_d.step()
        steps_g.zero_grad()
        F.mse_loss(discriminator(fake), torch.ones(256, 1).cuda()).backward()
        steps_g.step()


def averages_listed(job):
    """An average of the weights, of which each state is kept for a plot."""
    net, optimizer = classifier_and_optimizer(width=128)
    average = copy.deepcopy(net).requires_grad_(False)
    history = []
    for step in job.steps():
        train_step(net, optimizer, step)
        with torch.no_grad():
            for mean, now in zip(average.parameters(), net.parameters()):
                mean.lerp_(now, 0.1)
        history.append(copy.deepcopy(average.state_dict()))  # leak: averages_listed


def checkpoints_by_step(job):
    """Every fifth step's weights stay on the GPU, "for the time being"."""
    net, optimizer = classifier_and_optimizer(width=128)
    checkpoints = {}
    for step in job.steps():
        train_step(net, optimizer, step)
        if step % 5 == 0:
            checkpoints[step] = {name: value.detach().clone() for name, value in net.state_dict().items()}  # leak: checkpoints_by_step


def features_of_loader(job):
    """A loader with workers and pinned memory; the features of each batch stay on the GPU for a later clustering."""
    net, optimizer = classifier_and_optimizer()
    batches = itertools.chain.from_iterable(itertools.repeat(loader_of_pinned()))
    features = []
    for _ in job.steps():
        x, y = (each.cuda(non_blocking=True) for each in next(batches))
        optimizer.zero_grad(set_to_none=True)
        hidden = net.body(x)  # leak: features_of_loader
        F.mse_loss(net.head(hidden), y).backward()
        optimizer.step()
        features.append(hidden.detach())


def replayed_outputs_kept(job):
    """A step captured into a CUDA graph; what it gives is cloned after each replay."""
    graph, x, y, logits = graph_of_step()
    history = []
    for step in job.steps():
        new_x, new_y = batch_of(step, 1024)
        x.copy_(new_x)
        y.copy_(new_y)
        graph.replay()
        history.append(logits.clone())  # leak: replayed_outputs_kept


def rollouts_kept(job):
    """Policy gradients: what an episode has seen is appended to what all have seen."""
    policy, optimizer = classifier_and_optimizer()
    seen = []
    for step in job.steps():
        rewards, chosen = [], []
        for move in range(6):
            state, _ = batch_of(step + move, 512)
            chosen.append(log_probabilities(policy, state))  # leak: rollouts_kept
            rewards.append(float(move))
        loss = -torch.stack([probability.mean() * reward for probability, reward in zip(chosen, rewards)]).sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        seen.extend(chosen)


class Accuracy:
    """As libraries of metrics have it."""

    def __init__(self):
        self.predicted, self.wanted = [], []

    def update(self, predicted, wanted):
        self.predicted.append(predicted.detach())
        self.wanted.append(wanted)

    def compute(self):
        return (torch.cat(self.predicted) - torch.cat(self.wanted)).norm()

    def reset(self):
        self.predicted.clear()
        self.wanted.clear()


def metric_not_reset(job):
    """A metric that is computed after each epoch, and never reset."""
    net, optimizer = classifier_and_optimizer()
    accuracy = Accuracy()
    for step in job.steps():
        x, y = batch_of(step, 1024)
        wanted = y * 2  # leak: metric_not_reset
        predicted = net(x)  # leak: metric_not_reset
        optimizer.zero_grad()
        F.mse_loss(predicted, y).backward()
        optimizer.step()
        accuracy.update(predicted, wanted)
        if step % 10 == 9:
            accuracy.compute()


def frames_of_all_samples(job):
    """Sampling for a film of it: the frames of all samples stay."""
    net, frames = Diffusion(), []
    for step in job.steps():
        x = torch.randn(256, 64).cuda()
        with torch.no_grad():
            for time in range(8):
                x = x - 0.1 * net(x, time)  # leak: frames_of_all_samples
                frames.append(x)


def saved_by_hand(job):
    """Saved tensors are put aside by a hook, by number, and taken out again without being removed."""
    net, optimizer = classifier_and_optimizer()
    aside, number = {}, itertools.count()

    def pack(tensor):
        key = next(number)
        aside[key] = tensor.clone()  # leak: saved_by_hand
        return key

    for step in job.steps():
        with torch.autograd.graph.saved_tensors_hooks(pack, aside.__getitem__):
            train_step(net, optimizer, step)


def requests_never_evicted(job):
    """Serving: pages of keys and values by request, and finished requests are not removed."""
    pages, block = Pages(), Block()
    with torch.inference_mode():
        for step in job.steps():
            for _ in range(6):
                pages.append(step, block.keys_of_token())  # leak: requests_never_evicted


def adapters_never_unloaded(job):
    """Serving with adapters: each customer's is loaded at the first request."""
    net, adapters = Classifier().cuda().eval(), {}
    with torch.inference_mode():
        for step in job.steps():
            x, _ = batch_of(step, 256)
            if step not in adapters:
                adapters[step] = Adapters.load(step)  # leak: adapters_never_unloaded
            net.head(net.body(x) + net.body(x) @ adapters[step])


def heads_of_tasks(job):
    """Continual learning: a new head for each task, and the optimizer keeps those before."""
    net, optimizer = classifier_and_optimizer(torch.optim.Adam)
    for step in job.steps():
        if step % 3 == 0:
            net.head = nn.Linear(64, 1024).cuda()  # leak: heads_of_tasks
            optimizer.add_param_group({"params": net.head.parameters()})
        x, _ = batch_of(step, 512)
        optimizer.zero_grad()
        net(x).square().mean().backward()  # leak: heads_of_tasks
        optimizer.step()  # leak: heads_of_tasks


def information_of_exceptions(job):
    """Batches that do not fit are skipped, and what was raised is put on a list with its frames."""
    net, optimizer = classifier_and_optimizer()
    raised = []

    def attempt(step):
        x, y = batch_of(step, 1024)
        hidden = net.body(x)  # leak: information_of_exceptions
        if step % 3 == 2:
            hidden = hidden + torch.empty(1 << 40, dtype=torch.uint8, device="cuda")
        optimizer.zero_grad()
        F.mse_loss(net.head(hidden), y).backward()
        optimizer.step()

    for step in job.steps():
        try:
            attempt(step)
        except torch.cuda.OutOfMemoryError:
            raised.append(sys.exc_info())
            optimizer.zero_grad(set_to_none=True)
            torch.cuda.empty_cache()


def lengths_kept_in_expandable(job):
    """Batches of many lengths in expandable segments, and hidden states that are kept."""
    net, optimizer = classifier_and_optimizer()
    kept = []
    for step in job.steps():
        x, y = batch_of(step, 256 + 64 * (step * 7 % 13))
        hidden = net.body(x)  # leak: lengths_kept_in_expandable
        optimizer.zero_grad()
        F.mse_loss(net.head(hidden), y).backward()
        optimizer.step()
        kept.append(hidden.detach())


def adapts_then_serves_and_keeps(job):
    """Three steps of fine-tuning, and then requests are served; their answers are kept."""
    net, optimizer = classifier_and_optimizer()
    answers = []
    for step in job.steps():
        if step < 3:
            train_step(net, optimizer, step)
            continue
        with torch.no_grad():
            x, _ = batch_of(step, 2048)
            answers.append(net.body(x))  # leak: adapts_then_serves_and_keeps


def every_second_kept(job):
    """Every second step keeps its batch's hidden state."""
    net, optimizer = classifier_and_optimizer()
    kept = []
    for step in job.steps():
        x, y = batch_of(step, 1024)
        hidden = net.body(x)  # leak: every_second_kept
        optimizer.zero_grad()
        F.mse_loss(net.head(hidden), y).backward()
        optimizer.step()
        if step % 2 == 0:
            kept.append(hidden.detach())


def cyclic_trainer(job):
    """A trainer made anew for each trial, in a cycle with its callbacks; the collector is off, as for less jitter."""
    gc.disable()

    class Trainer:
        def __init__(self):
            self.net, self.optimizer = classifier_and_optimizer(width=128)
            self.callbacks = [lambda: self.net.eval()]

    for step in job.steps():
        trainer = Trainer()
        for number in range(3):
            train_step(trainer.net, trainer.optimizer, step + number)


def scaled_losses_kept(job):
    """Mixed precision with a scaler, and per-sample losses for a sampler that is to come."""
    net, optimizer = classifier_and_optimizer()
    scaler = torch.amp.GradScaler("cuda")
    per_sample = []
    for step in job.steps():
        x, y = batch_of(step, 2048)
        with torch.autocast("cuda", dtype=torch.float16):
            out = net(x)
        losses = F.mse_loss(out.float(), y, reduction="none")  # leak: scaled_losses_kept
        optimizer.zero_grad(set_to_none=True)
        scaler.scale(losses.mean()).backward()
        scaler.step(optimizer)
        scaler.update()
        per_sample.append(losses.detach())


def graph_network_keeps(job):
    """Sampled neighbourhoods of varying size, cached by their seed node, which never comes again."""
    net, optimizer = classifier_and_optimizer()
    cache = {}
    for step in job.steps():
        node = visits(step)
        if node not in cache:
            cache[node] = torch.randn(600 + 37 * (step % 11), 16).cuda()  # leak: graph_network_keeps
        x = cache[node]
        optimizer.zero_grad()
        net(x).square().mean().backward()
        optimizer.step()


def samples_of_first_rank(job):
    """Only rank 0 logs, and keeps what it is to log on its GPU."""
    net = DistributedDataParallel(Classifier().cuda(), device_ids=[torch.cuda.current_device()])
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-3)
    samples = []
    for step in job.steps():
        x, y = batch_of(step, 1024)
        optimizer.zero_grad(set_to_none=True)
        out = net(x)
        F.mse_loss(out, y).backward()
        optimizer.step()
        if dist.get_rank() == 0:
            samples.append(x * 1.0)  # leak: samples_of_first_rank


def gathered_losses_kept(job):
    """What all ranks gather for a table of all examples stays on each."""
    net = DistributedDataParallel(Classifier().cuda(), device_ids=[torch.cuda.current_device()])
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-3)
    table = []
    for step in job.steps():
        x, y = batch_of(step, 2048)
        optimizer.zero_grad(set_to_none=True)
        out = net(x)
        F.mse_loss(out, y).backward()
        optimizer.step()
        every = [torch.empty_like(out) for _ in range(dist.get_world_size())]  # leak: gathered_losses_kept
        dist.all_gather(every, out.detach())
        table.extend(every)


def loader_of_two_kept(job):
    """A data set on the GPU that is made anew for each epoch of 5 steps, and held by the loaders before."""
    net, optimizer = classifier_and_optimizer()
    loaders = []
    for step in job.steps():
        if step % 5 == 0:
            data = TensorDataset(torch.randn(4096, 16).cuda(), torch.randn(4096, 4).cuda())  # leak: loader_of_two_kept
            loaders.append(DataLoader(data, batch_size=512))
        x, y = next(iter(loaders[-1]))
        optimizer.zero_grad()
        F.mse_loss(net(x), y).backward()
        optimizer.step()
