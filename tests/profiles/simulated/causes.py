# pylint: disable=unused-argument
"""What costs a job time: where it strikes, how strong it is drawn, and what is the right answer.

Each Cause has ranks and a strength; with strength 0 the job is as it would be without. `size` makes it cost about a share of the time that the job
then takes: `more` is that in times without it. Codes are those of findings that are right, `line` is in a frame that a right one shows. Causes in
what hosts do are in hosts.py, those in communication in network.py.
"""
from dataclasses import dataclass

from engine import MILLISECOND
from jobs import MODELS

ONE, ALL, NOBODY, ANY = "its ranks", "all ranks", "no rank", "not judged"  # who is to be named
PINNED, PAGEABLE = "Memcpy HtoD (Pinned -> Device)", "Memcpy HtoD (Pageable -> Device)"
STRAGGLER, SLOW_DEVICE, HOST_BOUND, PAUSE = "latency.straggler", "latency.slow-device", "latency.host-bound", "latency.pause"
STARVATION, SYNC, WAITING = "latency.data-starvation", "latency.sync-in-loop", "latency.wait-not-transfer"
EXPOSED, ROTATING, CONTENTION = "latency.exposed-communication", "latency.rotating-stall", "latency.cpu-contention"
IMPLICIT, EXPOSED_COPY, LAZY_LOAD = "latency.implicit-sync", "latency.exposed-copy", "latency.lazy-load"
USUAL_COPY = {"kind": PINNED, "size": 1_000_000, "gigabytes_per_second": 20.0}


@dataclass
class Usual:
    """The job without the cause, and how much is to be lost."""
    more: float  # of the time without it
    step_ms: float
    slack_ms: float  # by which a host is ahead of its GPU

    @property
    def lost_ms(self):
        return self.more * self.step_ms


class Cause:
    name, codes, line, guilty, models = "none", (), None, NOBODY, MODELS
    resized = False  # without it the job is not what it was before `size`

    def __init__(self, ranks=(), strength=0.0, **settings):
        self.ranks, self.strength = list(ranks), strength
        vars(self).update(settings)

    def has(self, rank):
        return rank.number in self.ranks

    # ---- how it is drawn

    def choose(self, job, draw):
        """Its ranks; may change the job, with or without which is then the same."""
        if self.guilty == ONE:
            self.ranks = [draw.randrange(job.ranks)]

    def size(self, job, usual):
        self.strength = usual.more

    def without(self, job):
        """(job, cause) that lack it."""
        return job, type(self)(**{**vars(self), "strength": 0.0})

    def lost_ns(self, job, with_it, without_it):
        return with_it - without_it

    def culprits(self, job):
        """Who is to be named; None where that is not judged."""
        return {ONE: sorted(self.ranks), ALL: list(range(job.ranks)), NOBODY: [], ANY: None}[self.guilty]

    # ---- where it may strike (nanoseconds, factors, counts)

    def kernel_factor(self, rank):
        return 1.0

    def host_factor(self, rank):
        return 1.0

    def transfer_factor(self, rank):
        return 1.0

    def length(self, rank):
        """Of the sequences, in the usual."""
        return 1.0

    def expert_load(self, rank):
        return 1.0

    def loader_delay(self, rank):
        return 0

    def first_launch(self, rank):
        return 0

    def launch_delay(self, rank):
        return 0

    def delay_before_forward(self, rank):
        return 0

    def pause(self, rank):
        """(how long, before which layer)"""
        return 0, -1

    def input_copy(self, rank):
        return USUAL_COPY

    def before_forward(self, rank):
        return ()

    def in_layer(self, rank, layer):
        return ()

    def after_layer(self, rank):
        return ()

    def extra_work(self, rank, layer):
        return 0

    def tiny_kernels(self):
        return 0

    def small_collectives(self):
        return 0

    def reads_at_end(self, rank):
        return False

    def delay_at_end(self, rank):
        return 0


# ---- GPUs

class SlowGpu(Cause):
    name, codes, guilty = "slow-gpu", (SLOW_DEVICE, STRAGGLER), ONE

    def kernel_factor(self, rank):
        return 1 + self.strength if self.has(rank) else 1.0


class TwoSlowGpus(SlowGpu):
    name = "two-slow-gpus"

    def choose(self, job, draw):
        self.ranks = sorted(draw.sample(range(job.ranks), 2))


class UnrecordedSlowGpu(SlowGpu):
    """There is no profile of the rank."""
    name, codes = "unrecorded-slow-gpu", (WAITING, EXPOSED)

    def size(self, job, usual):
        super().size(job, usual)
        job.not_recorded = tuple(self.ranks) if usual.more else ()

    def culprits(self, job):
        return None


class SlowStage(SlowGpu):
    name, codes, models = "slow-stage", (STRAGGLER, SLOW_DEVICE, EXPOSED, WAITING), ("pipeline",)

    def choose(self, job, draw):
        stage, job.batches = draw.randrange(job.stages), 8
        self.ranks = [rank for rank in range(job.ranks) if rank % job.stages == stage]


class UnequalGpus(SlowGpu):
    """As they come: nobody is to be accused."""
    name, codes, guilty = "unequal-gpus", (), NOBODY

    def choose(self, job, draw):
        job.unequal_gpus, self.ranks = True, [draw.randrange(job.ranks)]

    def size(self, job, usual):
        self.strength = 0.015 * (usual.more > 0)


class Regression(Cause):
    """From a step on."""
    name, codes, guilty = "regression", ("latency.step-regression", SLOW_DEVICE, STRAGGLER), ANY
    first_step = 8

    def choose(self, job, draw):
        job.steps, self.first_step = 16, draw.choice((6, 8, 10))
        self.ranks = draw.choice(([draw.randrange(job.ranks)], list(range(job.ranks))))

    def size(self, job, usual):
        self.strength = usual.more * job.steps / (job.steps - self.first_step)

    def kernel_factor(self, rank):
        return 1 + self.strength if self.has(rank) and rank.step >= self.first_step else 1.0


# ---- data loaders

class SlowLoader(Cause):
    name, codes, guilty, line = "slow-loader", (STARVATION, STRAGGLER), ONE, "main"

    def size(self, job, usual):
        self.strength = usual.lost_ms + usual.slack_ms

    def loader_delay(self, rank):
        return self.strength * MILLISECOND * (0.9 + 0.2 * rank.chance.random()) if self.has(rank) else 0


class SlowLoaders(SlowLoader):
    name, codes, guilty = "slow-loaders", (STARVATION,), ALL

    def choose(self, job, draw):
        self.ranks = list(range(job.ranks))


class LoaderStalls(Cause):
    """In each fourth step."""
    name, codes, guilty, line = "loader-stalls", (STARVATION, STRAGGLER, PAUSE), ONE, "main"

    def choose(self, job, draw):
        super().choose(job, draw)
        job.steps = 12

    def size(self, job, usual):
        self.strength = 4 * usual.lost_ms + 2 * usual.slack_ms

    def loader_delay(self, rank):
        return self.strength * MILLISECOND if self.has(rank) and rank.step % 4 == 2 else 0


class LoaderStallsOfAll(LoaderStalls):
    name, codes, guilty = "loader-stalls-of-all", (STARVATION, PAUSE), ANY

    def choose(self, job, draw):
        job.steps, self.ranks = 12, list(range(job.ranks))


class HiddenLoader(Cause):
    """Slow, but the GPU is slower: nothing is lost."""
    name = "hidden-loader"

    def choose(self, job, draw):
        job.reads_each_step, job.operator_us, job.work_scale = False, 5, max(2, job.work_scale)

    def size(self, job, usual):
        self.strength = 0.5 * usual.step_ms * min(1, usual.more)

    def loader_delay(self, rank):
        return self.strength * MILLISECOND


class SlowGpuAndLoader(SlowGpu):
    name, codes, loader_ms = "slow-gpu-and-loaders", (SLOW_DEVICE, STRAGGLER, STARVATION), 0.0

    def size(self, job, usual):
        self.strength, self.loader_ms = usual.more, usual.lost_ms

    def culprits(self, job):
        return None

    def without(self, job):
        return job, SlowGpuAndLoader(self.ranks)

    def loader_delay(self, rank):
        return self.loader_ms * MILLISECOND * (0.9 + 0.2 * rank.chance.random())


class TwoCauses(SlowGpuAndLoader):
    """The first rank has the loader, the second the GPU."""
    name = "two-causes"

    def choose(self, job, draw):
        self.ranks = draw.sample(range(job.ranks), 2)

    def size(self, job, usual):
        self.strength, self.loader_ms = usual.more, (usual.lost_ms / 2 + usual.slack_ms) * (usual.more > 0)

    def without(self, job):
        return job, TwoCauses(self.ranks)

    def kernel_factor(self, rank):
        return 1 + self.strength if rank.number == self.ranks[1] else 1.0

    def loader_delay(self, rank):
        return self.loader_ms * MILLISECOND if rank.number == self.ranks[0] else 0


# ---- copies

class PageableCopy(Cause):
    name, codes = "pageable-copy", ("latency.pageable-copy",)

    def culprits(self, job):
        """Only the first stage gets batches."""
        return [rank for rank in range(job.ranks) if rank // job.tensor % job.stages == 0]

    def size(self, job, usual):
        self.strength = usual.lost_ms

    def input_copy(self, rank):
        if not self.strength:
            return USUAL_COPY
        return {"kind": PAGEABLE, "size": int(self.strength * MILLISECOND * 4), "gigabytes_per_second": 4.0, "waits": "copy"}


class ExposedCopy(PageableCopy):
    name, codes = "exposed-copy", (EXPOSED_COPY,)

    def input_copy(self, rank):
        if not self.strength:
            return USUAL_COPY
        return {"kind": PINNED, "size": int(self.strength * MILLISECOND * 20), "gigabytes_per_second": 20.0}


class SlowCopies(Cause):
    """One rank's, as from the memory of another socket."""
    name, codes, guilty = "slow-copies", (EXPOSED_COPY, STRAGGLER), ONE
    usual_ms, resized = 0.0, True

    def size(self, job, usual):
        self.usual_ms, self.strength = 0.02 * usual.step_ms, usual.more / 0.02

    def input_copy(self, rank):
        slower = 1 + (self.strength if self.has(rank) else 0)
        return {"kind": PINNED, "size": int(self.usual_ms * MILLISECOND * 20), "gigabytes_per_second": 20.0 / slower}


# ---- work

class MoreWork(Cause):
    """In one place of the step, on one rank."""
    name, codes, guilty = "more-work", (STRAGGLER,), ONE

    def size(self, job, usual):
        self.strength = int(usual.lost_ms * 1000 / 140 / job.work_scale + (0.999 if usual.more else 0))

    def extra_work(self, rank, layer):
        return int(self.strength) if layer == 0 and self.has(rank) else 0


class LongerSequences(Cause):
    name, codes, guilty = "longer-sequences", (STRAGGLER,), ONE

    def length(self, rank):
        return 1 + self.strength * (1 + 0.1 * rank.chance.gauss(0, 1)) if self.has(rank) else 1.0


class UnevenSequences(Cause):
    """Now one rank's are long, now another's."""
    name, codes, guilty = "uneven-sequences", (WAITING,), NOBODY

    def size(self, job, usual):
        self.strength = usual.more / (1 + usual.more)

    def length(self, rank):
        return 1 + self.strength * (2 * rank.chance.random() - 1)


class HotExpert(Cause):
    name, codes, guilty, models = "hot-expert", (STRAGGLER, WAITING), ONE, ("experts",)

    def size(self, job, usual):
        self.strength = 2 * usual.more

    def expert_load(self, rank):
        return 1 + self.strength if self.has(rank) else 1.0


class RotatingExpert(HotExpert):
    """Another rank's in each step."""
    name, codes, guilty = "rotating-expert", (WAITING, ROTATING), NOBODY

    def expert_load(self, rank):
        return 1 + self.strength if rank.step % rank.simulation.job.ranks == rank.number else 1.0
