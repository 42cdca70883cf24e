"""A job with a cause, drawn from a seed or given; what is true of it."""
import copy
import random
from dataclasses import dataclass, field

import causes
import engine
import hosts
import jobs
import network

SHARES = (0.2, 0.0, 0.4, 0.1, 0.3, 0.01)  # of the time, that the cause takes; the last is a near miss
NOTICEABLE = 0.042  # a share that is to be named
HOST_OFFSET_NS = 3 * engine.MILLISECOND


def is_cause(value):
    return isinstance(value, type) and issubclass(value, causes.Cause) and value is not causes.Cause


CAUSES = {value.name: value for module in (causes, hosts, network) for value in vars(module).values() if is_cause(value)}
CAUSES = dict(sorted(CAUSES.items()))


@dataclass
class Scenario:
    name: str
    job: jobs.Job
    cause: causes.Cause
    share: float = 0.0  # as drawn
    lost_ns: float = 0.0  # as simulated, of what is recorded
    recorded_ns: float = 0.0
    simulation: engine.Simulation = field(default=None, repr=False)

    @property
    def is_noticeable(self):
        return self.share > 0 and bool(self.cause.codes) and self.lost_ns >= NOTICEABLE * self.recorded_ns

    @property
    def innocent(self):
        """Ranks that are not to be accused."""
        culprits = self.cause.culprits(self.job) if self.share else []
        return set() if culprits is None else set(range(self.job.ranks)) - set(culprits)

    def exposed_share(self):
        """The part of the time that communication takes, with nothing else beside it, on the rank where it is most."""
        return max(exposed(self.simulation.recorded(rank)) for rank in self.simulation.ranks)


def union(intervals):
    result, reached = 0, None
    for begin, end in sorted(intervals):
        if reached is None or begin > reached:
            result, reached = result + end - begin, end
        elif end > reached:
            result, reached = result + end - reached, end
    return result


def exposed(works):
    kernels = [work for work in works if work.category == "kernel"]
    computing = union((work.start, work.end) for work in kernels if work.collective is None)
    both = union((work.start, work.end) for work in kernels)
    return (both - computing) / (max(work.end for work in works) - min(work.start for work in works))


def simulate(job, cause, recorded=True):
    return engine.Simulation(job, cause, recorded).run(jobs.program)


def draw_job(draw, models, most_ranks):
    job = jobs.Job(seed=draw.randrange(10**6), model=draw.choice(models), ranks=min(most_ranks, draw.choice((4, 4, 8, 8, 8, 16))),
                   layers=draw.choice((4, 6)), steps=draw.choice((8, 10, 12)), operator_us=draw.choice((6, 8, 10)), work_scale=draw.choice((1, 2, 4)),
                   contention=draw.choice((0, 0, 0.1, 0.25)), all_reduce_us=draw.choice((300, 400, 800)), all_gather_us=draw.choice((150, 300)),
                   reads_each_step=draw.random() < 0.6, with_stacks=draw.random() < 0.5, loads_modules=draw.random() < 0.2,
                   with_arrows=draw.random() < 0.2, with_marks=draw.random() < 0.9, lost_share=0.005 if draw.random() < 0.03 else 0)
    if job.model == "tensor":
        job.tensor = draw.choice((2, 4)) if job.ranks > 4 else 2
    if job.model == "pipeline":
        job.stages, job.layers, job.work_scale = draw.choice((2, 4)), 2, 1
    job.ranks_per_host = draw.choice((8, 8, 4)) if job.ranks <= 8 else 8
    if draw.random() < 0.4:
        offsets = [draw.randrange(-HOST_OFFSET_NS, HOST_OFFSET_NS) for _ in range(job.ranks // job.ranks_per_host + 1)]
        job.clock_offsets_ns = tuple(offsets[rank // job.ranks_per_host] for rank in range(job.ranks))
        job.sequence_numbers = draw.random() < 0.8
    if job.stages == 1 and draw.random() < 0.05:
        job.group_metadata = False
    return job


def measured(scenario, without_ns):
    """With what is true of it, where the job takes so long without the cause."""
    simulation = scenario.simulation = simulate(scenario.job, scenario.cause)
    with_ns = simulation.mean_ns()
    kept = [simulation.recorded(rank) for rank in simulation.ranks]
    scenario.recorded_ns = sum(max(work.end for work in works) - min(work.start for work in works) for works in kept) / len(kept)
    scenario.lost_ns = scenario.cause.lost_ns(scenario.job, with_ns, without_ns) * scenario.recorded_ns / with_ns
    return scenario


def drawn(seed, name=None, share=None, most_ranks=16):
    names = list(CAUSES)
    name = name or names[seed % len(names)]
    share = SHARES[seed // len(names) % len(SHARES)] if share is None else share
    draw = random.Random(seed * 7919 + 13)
    job = draw_job(draw, CAUSES[name].models, most_ranks)
    cause = CAUSES[name]()
    cause.choose(job, draw)
    usual_ns = simulate(job, cause, recorded=False).mean_ns()
    step_ms = usual_ns / job.steps / engine.MILLISECOND
    job = copy.copy(job)
    if share:
        cause.size(job, causes.Usual(share / (1 - share), step_ms, 0 if job.reads_each_step else 0.8 * step_ms))
    if not job.reads_each_step and draw.random() < 0.4:
        job.recording_begins_ns = int(step_ms * engine.MILLISECOND * draw.uniform(.2, .8))
    if share and cause.resized:
        usual_ns = simulate(*cause.without(job), recorded=False).mean_ns()
    return measured(Scenario(name, job, cause, share), usual_ns)


def given(name, job, cause):
    """By its configuration."""
    job, cause = jobs.Job(**job), CAUSES[name](**cause)
    return measured(Scenario(name, job, cause, share=1.0), simulate(*cause.without(job), recorded=False).mean_ns())
