# pylint: disable=unused-argument
"""Causes that are in how ranks communicate."""
from dataclasses import replace

from causes import ANY, EXPOSED, Cause


class SlowLink(Cause):
    """One of the groups that reduce gradients has a slow link."""
    name, codes, guilty, models = "slow-link", (EXPOSED,), ANY, ("tensor",)
    resized = True

    def choose(self, job, draw):
        group, job.all_reduce_us = draw.randrange(job.tensor), 200
        self.ranks = [rank for rank in range(job.ranks) if rank % job.tensor == group]

    def size(self, job, usual):
        share = usual.more / (1 + usual.more)
        self.strength = usual.lost_ms * 1000 / job.all_reduce_us + 20 * share

    def without(self, job):
        return replace(job, all_reduce_us=1, tensor_us=1) if self.strength else job, SlowLink(self.ranks)

    def transfer_factor(self, rank):
        return 1 + (self.strength if self.has(rank) else 0)


class SlowNetwork(SlowLink):
    name, models = "slow-network", ("data",)

    def choose(self, job, draw):
        job.all_reduce_us, self.ranks = 300, list(range(job.ranks))

    def size(self, job, usual):
        super().size(job, usual)
        self.strength *= 2 / job.layers


class LateReduction(Cause):
    """Gradients are reduced after the backward pass, not beside it."""
    name, codes, guilty, models = "late-reduction", (EXPOSED,), ANY, ("data",)
    resized = True

    def size(self, job, usual):
        job.all_reduce_us, job.overlapped = max(30, usual.lost_ms * 1000 / (job.layers // 2)), usual.more == 0

    def without(self, job):
        return replace(job, all_reduce_us=1), self


class FewMicroBatches(Cause):
    name, codes, guilty, models = "few-micro-batches", (EXPOSED,), ANY, ("pipeline",)

    def choose(self, job, draw):
        self.strength = draw.choice((1, 2, 4))

    def size(self, job, usual):
        job.batches = self.strength if usual.more > 0.02 else 24

    def lost_ns(self, job, with_it, without_it):
        return with_it * (job.stages - 1) / (job.batches + job.stages - 1)


class SmallCollectives(Cause):
    name, codes, guilty = "small-collectives", ("latency.small-collectives", EXPOSED), ANY

    def size(self, job, usual):
        self.strength = int(usual.lost_ms * 1000 / 50)

    def small_collectives(self):
        return int(self.strength)
