"""Nothing is wrong: state that stays, caches that fill and stay full, and phases of a run."""
import collections
import copy

import torch
from torch import nn

from memory_scripts.common import MIB, Training


def filled_cache(job):
    """Keys and values of up to 24 tokens, in blocks that are made as they are needed; then the oldest are written anew."""
    training, keys = Training(), []
    for step in job.steps():
        training.step(step)
        most = max(4, job.count // 4)
        if len(keys) < most:
            keys.append(torch.zeros(MIB // 4, device="cuda"))
        keys[step % most].fill_(step)


def generates(job):
    """Each step answers a prompt: keys and values grow with each of its tokens, and are dropped at its end."""
    net = nn.Linear(64, 64).cuda()
    for step in job.steps():
        x, keys = torch.ones(32, 64, device="cuda"), torch.zeros(0, 64, device="cuda")
        with torch.no_grad():
            for _ in range(12 + step % 5):
                x = torch.relu(net(x))
                keys = torch.cat([keys, x])


def generates_long(job):
    """One cache of keys that is made anew, and longer, until half of the run; then it is full and slides."""
    training, keys = Training(), torch.zeros(0, 64, device="cuda")
    for step in job.steps():
        training.step(step)
        keys = torch.cat([keys, torch.ones(512, 64, device="cuda")])[-512 * (job.count // 2):].clone()


def average_by_copy(job):
    """The average's weights are new tensors in each step."""
    training = Training(width=256)
    average = [each.detach().clone() for each in training.net.parameters()]
    for step in job.steps():
        training.step(step)
        with torch.no_grad():
            average = [mean * 0.9 + value * 0.1 for mean, value in zip(average, training.net.parameters())]


def teacher(job):
    training = Training(width=256)
    other = copy.deepcopy(training.net).requires_grad_(False)
    for step in job.steps():
        x, _ = training.batch(step)
        with torch.no_grad():
            wanted = other(x)
        training.optimizer.zero_grad()
        nn.functional.mse_loss(training.net(x), wanted).backward()
        training.optimizer.step()


def unfreezes(job):
    """A layer more is trained after each quarter of the run, with state of the optimizer."""
    training = Training(torch.optim.Adam, width=256)
    layers = [layer for layer in training.net if isinstance(layer, nn.Linear)]
    for layer in layers[:-1]:
        layer.requires_grad_(False)
    for step in job.steps():
        for i, layer in enumerate(reversed(layers)):
            if step >= i * job.count // 4:
                layer.requires_grad_(True)
        training.step(step)


def curriculum(job):
    """The batch doubles after each quarter."""
    training = Training()
    for step in job.steps():
        training.step(step, 256 << (4 * step // job.count))


def two_phases(job):
    """The second half of the run has another model, a larger one, and keeps the first."""
    first, second = Training(), None
    for step in job.steps():
        if step < job.count // 2:
            first.step(step)
        else:
            second = second or Training(torch.optim.Adam, width=256)
            second.step(step)


def replays(job):
    """A buffer of transitions that is full after half of the run, in chunks of one step."""
    training, chunks = Training(), collections.deque(maxlen=max(3, job.count // 2))
    for step in job.steps():
        chunks.append(torch.ones(1024, 32, device="cuda"))
        training.step(step)


def adversaries(job):
    """Two networks take turns."""
    maker, judge = Training(torch.optim.Adam), Training(torch.optim.Adam)
    for step in job.steps():
        (maker if step % 2 else judge).step(step)


def second_order(job):
    training = Training()
    training.optimizer = torch.optim.LBFGS(training.net.parameters(), lr=0.01, max_iter=4, history_size=8)
    for step in job.steps():
        x, y = training.batch(step)

        def closure():
            training.optimizer.zero_grad()
            loss = nn.functional.mse_loss(training.net(x), y)
            loss.backward()
            return loss

        training.optimizer.step(closure)


def window_of_metrics(job):
    """The outputs of the last steps, for a moving mean."""
    training, last = Training(), collections.deque(maxlen=5)
    for step in job.steps():
        training.step(step)
        x, _ = training.batch(step, 2048)
        with torch.no_grad():
            last.append(training.net(x))
        torch.cat(list(last)).mean().item()


def metrics_per_epoch(job):
    """Loss, accuracy and a histogram of each epoch of five steps stay on the device."""
    training, metrics, losses = Training(), [], []
    for step in job.steps():
        losses.append(training.step(step).detach())
        if step % 5 == 4:
            metrics.append((torch.stack(losses).mean(), torch.stack(losses).max(), torch.zeros(256, device="cuda")))
            losses.clear()


def loads_pretrained(job):
    """The weights of a checkpoint come to the device beside the model, once, a third into the run."""
    training = Training(width=512)
    for step in job.steps():
        training.step(step)
        if step == job.count // 3:
            weights = {name: value.cpu() for name, value in training.net.state_dict().items()}
            training.net.load_state_dict({name: value.cuda() for name, value in weights.items()})


def best_weights(job):
    """A copy of the best weights so far, made anew at each improvement."""
    training, best = Training(width=256), None
    for step in job.steps():
        training.step(step)
        if step < 8 or step % 4 == 0:
            best = {name: value.clone() for name, value in training.net.state_dict().items()}
    return best


def last_checkpoints(job):
    """The copies of the last three epochs, of four steps each."""
    training, kept = Training(width=256), collections.deque(maxlen=3)
    for step in job.steps():
        training.step(step)
        if step % 4 == 3:
            kept.append({name: value.clone() for name, value in training.net.state_dict().items()})


def filled_at_the_end(job):
    """What a last pass over nine batches gathers for a file is still held as the run ends."""
    training, features = Training(), []
    for step in job.steps():
        training.step(step)
    with torch.no_grad():
        for i in range(9):
            features.append(training.net(training.batch(i, 4096)[0]))
    torch.cuda.synchronize()


def warmed_caches(job):
    """Positions of each length that has come, of which there are eight in all, in the order in which they come."""
    training, positions = Training(), {}
    lengths = [3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8, 9, 7, 9, 3]
    for step in job.steps():
        training.step(step)
        length = lengths[step % len(lengths)]
        if length not in positions:
            positions[length] = torch.ones(length * MIB // 8, device="cuda")
