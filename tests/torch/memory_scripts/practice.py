"""Training and serving as it is written in practice: the healthy twins of practice_leaks.py."""
import collections
import copy
import itertools

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset


def batch_of(step, rows, width=16):
    x = torch.full((rows, width), 0.1 * (step % 5))
    return x.cuda(), x[:, :4].cuda()


class Classifier(nn.Module):
    def __init__(self, width=64):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(16, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU())
        self.head = nn.Linear(width, 4)

    def forward(self, x):
        return self.head(self.body(x))  # leak: activations_with_graph micro_losses_kept predictions_of_all_evaluations


def classifier_and_optimizer(kind=torch.optim.AdamW, width=64):
    net = Classifier(width).cuda()  # leak: cyclic_trainer
    return net, kind(net.parameters(), lr=1e-3)


def train_step(net, optimizer, step, rows=512):
    x, y = batch_of(step, rows)
    optimizer.zero_grad(set_to_none=True)
    loss = F.mse_loss(net(x), y)
    loss.backward()
    nn.utils.clip_grad_norm_(net.parameters(), 1.0)
    optimizer.step()
    return loss.detach()


class Generator(nn.Sequential):
    def __init__(self):
        super().__init__(nn.Linear(16, 128), nn.ReLU(), nn.Linear(128, 64))
        self.cuda()


class Discriminator(nn.Sequential):
    def __init__(self):
        super().__init__(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 1))
        self.cuda()


class Diffusion(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 64)).cuda()

    def forward(self, x, time):
        return self.net(x + 0.01 * time)


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.keys = nn.Linear(64, 2048).cuda()

    def keys_of_token(self):
        return self.keys(torch.ones(16, 64).cuda())


class Pages:
    def __init__(self):
        self.of = collections.defaultdict(list)

    def append(self, request, keys):
        self.of[request].append(keys.clone())  # leak: requests_never_evicted


class Adapters:
    @staticmethod
    def load(number):
        return torch.full((64, 64), 0.01 * number).cuda()  # leak: adapters_never_unloaded


def loader_of_pinned():
    data = TensorDataset(torch.randn(8192, 16), torch.randn(8192, 4))
    return DataLoader(data, batch_size=1024, shuffle=True, num_workers=2, pin_memory=True, persistent_workers=True)


def graph_of_step():
    """A step of training, captured after a warm-up on a stream of its own."""
    net, optimizer = classifier_and_optimizer(lambda parameters, lr: torch.optim.SGD(parameters, lr=lr, momentum=0.9))
    x, y = batch_of(0, 1024)
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            optimizer.zero_grad(set_to_none=True)
            F.mse_loss(net(x), y).backward()
            optimizer.step()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    optimizer.zero_grad(set_to_none=True)
    with torch.cuda.graph(graph):
        logits = net(x)
        F.mse_loss(logits, y).backward()
        optimizer.step()
    graph.net = net  # as long as the graph
    return graph, x, y, logits


def log_probabilities(policy, state):
    return policy(state).log_softmax(-1)  # leak: rollouts_kept


def visits(step):
    return (step * 7919) % 100_003


def activations_of_last(job):
    net, optimizer = classifier_and_optimizer()
    activations = {}
    for name, each in net.named_modules():
        each.register_forward_hook(lambda _, __, out, name=name: activations.update({name: out.detach()}))
    for step in job.steps():
        train_step(net, optimizer, step)


def losses_listed(job):
    """Scalars, with the graph that backward() has emptied: what everybody does for a curve."""
    net, optimizer = classifier_and_optimizer()
    losses, norms, running = [], [], 0.0
    for step in job.steps():
        x, y = batch_of(step, 512)
        optimizer.zero_grad(set_to_none=True)
        loss = (net(x) - y).square().mean()
        loss.backward()
        optimizer.step()
        running = 0.9 * running + 0.1 * loss
        losses.append(loss)
        norms.append(torch.stack([each.grad.norm() for each in net.parameters()]).norm())


def accumulates_and_begins_anew(job):
    net, optimizer = classifier_and_optimizer()
    for step in job.steps():
        total = 0.0
        for micro in range(4):
            x, y = batch_of(step * 4 + micro, 512)
            total = total + F.mse_loss(net(x), y) / 4
        total.backward()
        nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)


def predictions_of_one_evaluation(job):
    """Without no_grad, so that an evaluation holds much more than a step; but it lets go of it."""
    net, optimizer = classifier_and_optimizer()
    for step in job.steps():
        train_step(net, optimizer, step)
        if step % 4 == 3:
            net.eval()
            predictions = []
            for number in range(6):
                x, _ = batch_of(number, 1024)
                predictions.append(net(x))
            torch.cat(predictions).mean().item()
            net.train()


def pool_with_bound(job):
    generator, discriminator = Generator(), Discriminator()
    steps_g = torch.optim.Adam(generator.parameters(), lr=2e-4, betas=(0.5, 0.999))
    steps_d = torch.optim.Adam(discriminator.parameters(), lr=2e-4, betas=(0.5, 0.999))
    pool = collections.deque(maxlen=6)
    for step in job.steps():
        real, _ = batch_of(step, 256, 64)
        fake = generator(torch.randn(256, 16).cuda())
        pool.append(fake.detach())
        steps_d.zero_grad()
        (F.mse_loss(discriminator(real), torch.ones(256, 1).cuda()) + F.mse_loss(discriminator(pool[0]), torch.zeros(256, 1).cuda())).backward()
        steps_d.step()
        steps_g.zero_grad()
        F.mse_loss(discriminator(fake), torch.ones(256, 1).cuda()).backward()
        steps_g.step()


def average_and_best(job):
    """An average of the weights in place, made after a few steps, and the best weights so far."""
    net, optimizer = classifier_and_optimizer(width=128)
    average = best = None
    for step in job.steps():
        loss = train_step(net, optimizer, step)
        if average is None and step >= 4:
            average = copy.deepcopy(net).requires_grad_(False)
        if average:
            with torch.no_grad():
                for mean, now in zip(average.parameters(), net.parameters()):
                    mean.lerp_(now, 0.1)
        if best is None or loss.item() < best[0]:
            best = (loss.item(), copy.deepcopy(net.state_dict()))


def newest_checkpoints(job):
    net, optimizer = classifier_and_optimizer(width=128)
    checkpoints = collections.OrderedDict()
    for step in job.steps():
        train_step(net, optimizer, step)
        if step % 2 == 0:
            checkpoints[step] = {name: value.detach().clone() for name, value in net.state_dict().items()}
            if len(checkpoints) > 2:
                checkpoints.popitem(last=False)


def pinned_loader(job):
    net, optimizer = classifier_and_optimizer()
    batches = itertools.chain.from_iterable(itertools.repeat(loader_of_pinned()))
    for _ in job.steps():
        x, y = (each.cuda(non_blocking=True) for each in next(batches))
        optimizer.zero_grad(set_to_none=True)
        F.mse_loss(net(x), y).backward()
        optimizer.step()


class Prefetcher:
    """The next batch is copied on a stream of its own; record_stream tells the allocator."""

    def __init__(self):
        self.stream, self.step, self.next = torch.cuda.Stream(), 0, None
        self.load()

    def load(self):
        with torch.cuda.stream(self.stream):
            x = torch.full((2048, 16), 0.1 * (self.step % 5)).pin_memory()
            self.next = x.cuda(non_blocking=True), x[:, :4].contiguous().pin_memory().cuda(non_blocking=True)
        self.step += 1

    def __next__(self):
        torch.cuda.current_stream().wait_stream(self.stream)
        batch = self.next
        for each in batch:
            each.record_stream(torch.cuda.current_stream())
        self.load()
        return batch


def prefetcher(job):
    net, optimizer = classifier_and_optimizer()
    batches = Prefetcher()
    for _ in job.steps():
        x, y = next(batches)
        optimizer.zero_grad(set_to_none=True)
        F.mse_loss(net(x), y).backward()
        optimizer.step()


def replayed_step(job):
    graph, x, y, logits = graph_of_step()
    for step in job.steps():
        new_x, new_y = batch_of(step, 1024)
        x.copy_(new_x)
        y.copy_(new_y)
        graph.replay()
        if step % 10 == 0:
            logits.cpu()


def graphs_share_a_pool(job):
    """One graph for each of a few batch sizes, made when they first come, in one pool."""
    net, graphs, pool = Classifier().cuda().eval(), {}, torch.cuda.graph_pool_handle()
    with torch.no_grad():
        for step in job.steps():
            rows = 256 << (step % 4)
            x, _ = batch_of(step, rows)
            if rows not in graphs:
                static = torch.zeros_like(x)
                net(static)
                graph = torch.cuda.CUDAGraph()
                with torch.cuda.graph(graph, pool=pool):
                    out = net(static)
                graphs[rows] = graph, static, out
            graph, static, out = graphs[rows]
            static.copy_(x)
            graph.replay()
            out.cpu()


def rollouts_of_episode(job):
    policy, optimizer = classifier_and_optimizer()
    for step in job.steps():
        rewards, chosen = [], []
        for move in range(3 + step % 6):
            state, _ = batch_of(step + move, 512)
            chosen.append(log_probabilities(policy, state))
            rewards.append(float(move))
        loss = -torch.stack([probability.mean() * reward for probability, reward in zip(chosen, rewards)]).sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def metric_reset_each_epoch(job):
    net, optimizer = classifier_and_optimizer()
    predicted, wanted = [], []
    for step in job.steps():
        x, y = batch_of(step, 1024)
        out = net(x)
        optimizer.zero_grad()
        F.mse_loss(out, y).backward()
        optimizer.step()
        predicted.append(out.detach())
        wanted.append(y * 2)
        if step % 10 == 9:
            (torch.cat(predicted) - torch.cat(wanted)).norm().item()
            predicted, wanted = [], []


def bank_of_fixed_length(job):
    net, optimizer = classifier_and_optimizer()
    bank = torch.zeros(512, 64).cuda()
    for step in job.steps():
        x, y = batch_of(step, 512)
        hidden = net.body(x)
        similar = hidden @ bank.t()
        loss = F.mse_loss(net.head(hidden), y) + 0.01 * similar.mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        bank = torch.cat([bank, hidden.detach()])[-512:].clone()


def frames_of_one_sample(job):
    net = Diffusion()
    for _ in job.steps():
        frames, x = [], torch.randn(256, 64).cuda()
        with torch.no_grad():
            for time in range(8):
                x = x - 0.1 * net(x, time)
                frames.append(x)
        torch.stack(frames).cpu()


def saved_on_host(job):
    net, optimizer = classifier_and_optimizer()
    for step in job.steps():
        with torch.autograd.graph.save_on_cpu(pin_memory=True):
            train_step(net, optimizer, step)


def requests_evicted(job):
    """Requests of many lengths come and go; each one's pages grow until it is finished."""
    pages, block, running = Pages(), Block(), collections.deque()
    with torch.inference_mode():
        for step in job.steps():
            running.append((step, 4 + step * 5 % 9))
            for request, _ in running:
                pages.append(request, block.keys_of_token())
            for request, length in list(running):
                if len(pages.of[request]) >= length:
                    del pages.of[request]
                    running.remove((request, length))


def adapters_in_lru(job):
    net, adapters = Classifier().cuda().eval(), collections.OrderedDict()
    with torch.inference_mode():
        for step in job.steps():
            x, _ = batch_of(step, 256)
            customer = step * 5 % 7
            if customer not in adapters:
                adapters[customer] = Adapters.load(customer)
                if len(adapters) > 3:
                    adapters.popitem(last=False)
            net.head(net.body(x) + net.body(x) @ adapters[customer])


def head_of_task(job):
    """A new head for each task, with an optimizer of its own."""
    net, optimizer = classifier_and_optimizer(torch.optim.Adam)
    for step in job.steps():
        if step % 3 == 0:
            net.head = nn.Linear(64, 1024).cuda()
            optimizer = torch.optim.Adam(net.parameters(), lr=1e-3)
        x, _ = batch_of(step, 512)
        optimizer.zero_grad()
        net(x).square().mean().backward()
        optimizer.step()


def too_large_ones_skipped(job):
    net, optimizer = classifier_and_optimizer()

    def attempt(step):
        x, y = batch_of(step, 2048)
        hidden = net.body(x)
        if step % 30 == 2:
            hidden = hidden + torch.empty(1 << 40, dtype=torch.uint8, device="cuda")
        optimizer.zero_grad()
        F.mse_loss(net.head(hidden), y).backward()
        optimizer.step()

    skipped = []
    for step in job.steps():
        try:
            attempt(step)
        except torch.cuda.OutOfMemoryError as error:
            skipped.append(str(error))
            optimizer.zero_grad(set_to_none=True)
            torch.cuda.empty_cache()


def lengths_in_expandable(job):
    net, optimizer = classifier_and_optimizer()
    for step in job.steps():
        train_step(net, optimizer, step, 256 + 64 * (step * 7 % 13))


def adapts_then_serves(job):
    """Three steps of fine-tuning, and then requests are served, of growing number at once, up to a bound."""
    net, optimizer = classifier_and_optimizer()
    recent = collections.deque(maxlen=4)
    for step in job.steps():
        if step < 3:
            train_step(net, optimizer, step)
            continue
        with torch.no_grad():
            x, _ = batch_of(step, 2048)
            recent.append(net.body(x))


def trainers_in_turn(job):
    class Trainer:
        def __init__(self):
            self.net, self.optimizer = classifier_and_optimizer(width=128)

    for step in job.steps():
        trainer = Trainer()
        for number in range(3):
            train_step(trainer.net, trainer.optimizer, step + number)


def scaled_with_clipping(job):
    net, optimizer = classifier_and_optimizer()
    scaler = torch.amp.GradScaler("cuda")
    for step in job.steps():
        x, y = batch_of(step, 2048)
        with torch.autocast("cuda", dtype=torch.float16):
            out = net(x)
        optimizer.zero_grad(set_to_none=True)
        scaler.scale(F.mse_loss(out.float(), y)).backward()
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()


def graph_network(job):
    """Neighbourhoods of varying size, of which few seed nodes are cached."""
    net, optimizer = classifier_and_optimizer()
    cache = {}
    for step in job.steps():
        node = visits(step) % 5
        if node not in cache:
            cache[node] = torch.randn(600 + 37 * node, 16).cuda()
        x = torch.cat([cache[node], torch.randn(100 + 41 * (step % 9), 16).cuda()])
        optimizer.zero_grad()
        net(x).square().mean().backward()
        optimizer.step()


def samples_to_host(job):
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
            samples.append((x * 1.0).cpu())


def gathers_and_sums(job):
    net = DistributedDataParallel(Classifier().cuda(), device_ids=[torch.cuda.current_device()])
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-3)
    table = 0.0
    for step in job.steps():
        x, y = batch_of(step, 2048)
        optimizer.zero_grad(set_to_none=True)
        out = net(x)
        F.mse_loss(out, y).backward()
        optimizer.step()
        every = [torch.empty_like(out) for _ in range(dist.get_world_size())]
        dist.all_gather(every, out.detach())
        table = table + torch.cat(every).mean()


def loader_anew(job):
    net, optimizer = classifier_and_optimizer()
    loader = None
    for step in job.steps():
        if step % 5 == 0:
            data = TensorDataset(torch.randn(4096, 16).cuda(), torch.randn(4096, 4).cuda())
            loader = DataLoader(data, batch_size=512)
        x, y = next(iter(loader))
        optimizer.zero_grad()
        F.mse_loss(net(x), y).backward()
        optimizer.step()


def warms_up_then_serves_sessions(job):
    """Three backward passes to warm up, and then sessions of 6 tokens each, whose keys grow and are dropped."""
    net, optimizer = classifier_and_optimizer()
    block, keys = Block(), []
    for step in job.steps():
        if step < 3:
            train_step(net, optimizer, step)
            continue
        with torch.inference_mode():
            keys.append(block.keys_of_token())
            if len(keys) == 6:
                torch.cat(keys).mean().item()
                keys.clear()


def trains_a_little_evaluates_long(job):
    """Ten steps, as to see whether it runs at all, and then all examples are evaluated; the results are put together at the end."""
    net, optimizer = classifier_and_optimizer()
    for step in range(10):
        train_step(net, optimizer, step)
    outputs = []
    with torch.no_grad():
        for step in job.steps():
            outputs.append(net(batch_of(step, 2048)[0]))
            outputs.append(net(batch_of(step, 1024)[0]))
    torch.cat(outputs).mean().item()
