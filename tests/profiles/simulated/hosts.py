# pylint: disable=unused-argument
"""Causes that are in what the hosts do."""
from dataclasses import replace

from causes import (ALL, ANY, CONTENTION, HOST_BOUND, IMPLICIT, LAZY_LOAD, ONE, PAUSE, ROTATING, SLOW_DEVICE, STRAGGLER, SYNC, WAITING,
                    Cause)
from engine import MICROSECOND, MILLISECOND
from jobs import CHECKPOINT, ROUTE

READ = "Memcpy DtoH (Device -> Pageable)"


class SlowHost(Cause):
    """Of which little is seen while the GPU has enough to do."""
    name, codes, guilty = "slow-host", (STRAGGLER, SLOW_DEVICE, HOST_BOUND, CONTENTION), ONE

    def choose(self, job, draw):
        super().choose(job, draw)
        job.work_scale = 1

    def size(self, job, usual):
        self.strength = 8 * usual.more

    def host_factor(self, rank):
        return 1 + self.strength if self.has(rank) else 1.0


class ValuePerLayer(Cause):
    """A value of the GPU is read."""
    name, codes, guilty, line = "value-per-layer", (SYNC,), ALL, "route"

    def size(self, job, usual):
        self.strength = max(0, usual.lost_ms * 1000 / job.layers - 25)

    def after_layer(self, rank):
        if self.strength:
            rank.enter(ROUTE)
            yield from rank.item()
            rank.spend(self.strength * MICROSECOND)
            rank.leave()


class ValuePerStep(Cause):
    name, codes, guilty, line = "value-per-step", (SYNC, HOST_BOUND), ALL, "log_metrics"
    after_us, resized = 0.0, True

    def choose(self, job, draw):
        super().choose(job, draw)
        job.reads_each_step = False

    def size(self, job, usual):
        self.strength, self.after_us = 1, usual.lost_ms * 1000

    def reads_at_end(self, rank):
        return self.strength > 0

    def delay_at_end(self, rank):
        return self.after_us * MICROSECOND


class ValueOnRank0(ValuePerStep):
    name, codes, guilty = "value-on-rank-0", (SYNC, STRAGGLER, HOST_BOUND), ONE

    def choose(self, job, draw):
        job.reads_each_step, self.ranks = False, [0]

    def reads_at_end(self, rank):
        return self.strength > 0 and self.has(rank)

    def delay_at_end(self, rank):
        return self.after_us * MICROSECOND if self.reads_at_end(rank) else 0


class Checkpoint(Cause):
    name, codes, guilty, line = "checkpoint", (PAUSE, STRAGGLER), ANY, "save_checkpoint"
    every = 3

    def choose(self, job, draw):
        job.steps, self.every = 12, draw.choice((3, 4))
        self.ranks = draw.choice(([0], list(range(job.ranks))))

    def size(self, job, usual):
        self.strength = usual.lost_ms * self.every

    def before_forward(self, rank):
        if self.strength and rank.step % self.every == self.every - 1 and self.has(rank):
            rank.enter(CHECKPOINT)
            yield from rank.copy(READ, 2_000_000, 4.0, waits="sync")
            rank.spend(self.strength * MILLISECOND)
            rank.leave()


class Pauses(Cause):
    """Garbage collection of one rank, in some steps, anywhere in the forward pass."""
    name, codes, guilty = "pauses", (STRAGGLER, PAUSE, HOST_BOUND), ONE
    rate = 0.5

    def choose(self, job, draw):
        super().choose(job, draw)
        self.rate = draw.choice((.3, .5, .7))

    def size(self, job, usual):
        self.strength = usual.lost_ms / self.rate + max(usual.slack_ms, 0.6 * usual.step_ms)

    def pause(self, rank):
        if self.has(rank) and self.strength and rank.chance.random() < self.rate:
            return int(self.strength * MILLISECOND * (0.8 + 0.4 * rank.chance.random())), rank.chance.randrange(rank.simulation.job.layers)
        return 0, -1


class PausesOfAll(Pauses):
    """Not at the same time."""
    name, codes, guilty = "pauses-of-all", (ROTATING, WAITING, HOST_BOUND, PAUSE), ANY

    def choose(self, job, draw):
        job.steps, self.rate, self.ranks = 14, draw.choice((.2, .4)), list(range(job.ranks))

    def size(self, job, usual):
        self.strength = usual.lost_ms / self.rate / job.ranks * 2 + max(usual.slack_ms, 0.6 * usual.step_ms)


class PausesTogether(Cause):
    name, codes, guilty = "pauses-together", (PAUSE, HOST_BOUND), ANY

    def size(self, job, usual):
        self.strength = 3 * usual.lost_ms + usual.slack_ms

    def pause(self, rank):
        return (int(self.strength * MILLISECOND), 1) if self.strength and rank.step % 3 == 1 else (0, -1)


class Preemption(Cause):
    name, codes, guilty = "preemption", (STRAGGLER, SLOW_DEVICE, HOST_BOUND, CONTENTION, PAUSE), ONE
    rate = 0.03

    def size(self, job, usual):
        self.strength = (usual.lost_ms + max(usual.slack_ms, 0.7 * usual.step_ms)) / 5

    def launch_delay(self, rank):
        if self.has(rank) and rank.chance.random() < self.rate:
            return int(self.strength * MILLISECOND * (0.5 + rank.chance.random()))
        return 0


class UnsteadyHosts(Cause):
    """Each is late in half of the steps."""
    name, codes, guilty = "unsteady-hosts", (ROTATING, WAITING, PAUSE, HOST_BOUND), ANY

    def size(self, job, usual):
        self.strength = usual.lost_ms

    def delay_before_forward(self, rank):
        if self.strength and rank.chance.random() < 0.5:
            return self.strength * MILLISECOND * 2 * rank.chance.random()
        return 0


class LazyLoading(Cause):
    name, codes, guilty = "lazy-loading", (LAZY_LOAD, PAUSE), ANY

    def size(self, job, usual):
        self.strength = usual.lost_ms * job.steps / 22

    def first_launch(self, rank):
        return int(self.strength * MILLISECOND * (0.7 + 0.6 * rank.chance.random())) if self.strength else 0


class Allocation(Cause):
    name, codes, guilty, line = "allocation", (IMPLICIT, STRAGGLER), ONE, "forward"
    layers = 2

    def choose(self, job, draw):
        super().choose(job, draw)
        self.layers = draw.choice((1, 2, 3))

    def size(self, job, usual):
        self.strength = usual.lost_ms / min(job.layers, self.layers)

    def in_layer(self, rank, layer):
        if self.strength and self.has(rank) and layer < self.layers:
            yield from rank.wait("cudaFree")
            rank.call("cudaFree", self.strength * MILLISECOND * 0.4)
            rank.call("cudaMalloc", self.strength * MILLISECOND * 0.6)


class AllocationOfAll(Allocation):
    name, codes, guilty = "allocation-of-all", (IMPLICIT,), ALL

    def choose(self, job, draw):
        super().choose(job, draw)
        self.ranks = list(range(job.ranks))


class TinyKernels(Cause):
    name, codes, guilty, models = "tiny-kernels", (HOST_BOUND,), ALL, ("data",)
    resized = True

    def choose(self, job, draw):
        job.work_scale, job.operator_us = 0.3, draw.choice((10, 15, 20))

    def size(self, job, usual):
        self.strength = int(usual.more / (1 + usual.more) * 40)

    def without(self, job):
        return replace(job, operator_us=1.0), self

    def tiny_kernels(self):
        return int(self.strength)
