"""From a seed to a simulated job: draws the job, its fault, and when its state is written down."""
import random as randomness

import faults
import parallel3d
import sharded
from extras import Extras
from flight import Settings
from simulate import Simulation

# Native traces tell how long a rank has been silent, and from 5 s on (--hang-after) that is a hang by definition.
SILENCE = 4.0
STOPS = ["middle", "middle", "checkpoint", "evaluation", "slow", "end"]


class Scenario:
    """`dumps`: {rank: the time its state is written}, no entry where no dump is. `fault` is None for a healthy job."""

    def __init__(self):
        self.job = self.simulation = self.fault = self.settings = None
        self.dumps, self.victims, self.stop, self.copied = {}, [], None, False


def draw(seed, form="flight", kind="any", ranks=None):
    """Tries again with the next internal seed until the fault has an effect. The same arguments give the same job."""
    for attempt in range(400):
        random = randomness.Random("%s/%s/%s/%s/%d" % (seed, form, kind, ranks, attempt))
        scenario = attempt_once(random, form, kind, ranks)
        if scenario is not None:
            scenario.seed, scenario.form = seed, form
            return scenario
    raise SystemExit("no job of %s ranks shows the fault %s" % (ranks, kind))


def attempt_once(random, form, kind, ranks):
    size = ranks or random.choice([8, 8, 16, 16, 32, 32, 64])
    budget = random.choice([300, 800, 1500, 2500]) if size <= 128 else 2200
    if form == "text":
        budget = random.choice([150, 300, 600])
    extras = Extras(random, size)
    job = (parallel3d if random.random() < 0.65 else sharded).build(random, size, budget, extras)
    scenario = Scenario()
    scenario.job = job
    scenario.settings = draw_settings(random, extras)
    speeds = [1 + random.random() * random.choice([0.02, 0.3]) for _ in range(size)]
    delays = hiccups(random, job)
    fault = None
    if kind != "none":
        chosen = random.choice(faults.TEXT if form == "text" else faults.FLIGHT) if kind == "any" else kind
        fault = faults.Planner(random, job, scenario.settings.timing).plan(chosen)
        if fault is None:
            return None
        delays.pop(fault.rank, None)  # its program has other positions now
    scenario.fault = fault
    scenario.depth = random.choice([16, 40, 40, 100, 400])
    simulation = scenario.simulation = simulate(job, speeds, delays, fault, scenario.depth)
    unfinished = {rank.number for rank in simulation.ranks if rank.state != "done" or any(o.end is None for o in rank.operations)}
    if fault is None:
        if unfinished:
            raise AssertionError("a healthy job hangs: %s" % job.notes)
        stop_healthy(random, scenario, extras)
    else:
        stop_hung(random, scenario, unfinished)
    if not scenario.dumps:
        return None
    scenario.copied = random.random() < 0.3
    scenario.settings.long_running = random.random() < 0.7  # needs a ring that has wrapped on all ranks
    scenario.notes = dict(job.notes)
    if form == "text":
        one_look(random, scenario)
        if scenario.fault is None and longest_silence(scenario) > SILENCE:
            return None
    return scenario


def simulate(job, speeds, delays, fault, depth):
    if fault is None:
        return Simulation(job, speeds, delays, depth=depth).run()
    result = Simulation(job, speeds, delays, None, fault.stalls, fault.broken, depth=depth).run()
    if fault.dies:
        if result.ranks[fault.rank].state != "dead":
            return result
        # A moment later, so that what lets it come there still completes.
        result = Simulation(job, speeds, delays, {fault.rank: result.ranks[fault.rank].time + 1e-6}, depth=depth).run()
        if result.ranks[fault.rank].state != "dead":
            raise AssertionError("a rank that was killed goes on")
    return result


def draw_settings(random, extras):
    minor = random.choice([1, 2, 3, 4, 4, 5, 6, 7, 8, 9, 9, 9, 10, 10])
    pause = max(extras.checkpoint_seconds, extras.evaluate_seconds)
    timeout = random.choice([600, 600, 1800] + ([180] if pause < 100 else []))
    return Settings(random, "2.%d" % minor, random.random() < 0.4, random.random() < 0.6, random.choice([50, 200, 1000, 2000, 2000]),
                    random.random() < 0.2, timeout * 1000)


def hiccups(random, job):
    """Slow loaders and the like: a few ranks stand still for a while, once. More than a minute is for those who look then."""
    result = {}
    for _ in range(random.choice([0, 1, 1, 3])):
        rank = random.randrange(job.size)
        position = random.randrange(len(job.programs[rank]))
        result.setdefault(rank, {})[position] = random.choice([0.1, 1.0, 8.0, 40.0])
    return result


def stop_healthy(random, scenario, extras):
    simulation, job = scenario.simulation, scenario.job
    end = max(rank.time for rank in simulation.ranks)
    last = max((rank.operations[-1].end for rank in simulation.ranks if rank.operations), default=end)
    end = max(end, last)
    scenario.stop = random.choice(STOPS)
    marks = simulation.ranks[0].marks
    slow = [mark for rank in simulation.ranks for mark in rank.marks if mark[0] == "delay" and mark[1] >= 1.0]
    spread = random.choice([0.0, 0.5, 3.0, 10.0])
    time = random.uniform(0.2, 0.95) * end
    if scenario.stop == "slow" and slow:
        mark = random.choice(slow)
        time = mark[2] + mark[1] * random.uniform(0.2, 0.9)
    elif scenario.stop in ("checkpoint", "evaluation"):
        begins = [mark for mark in marks if mark[0] == scenario.stop]
        if not begins:
            return
        mark = random.choice(begins)
        ended = next(other[2] for other in marks if other[2] >= mark[2] and other[0] in ("checkpointed", "evaluated"))
        time = mark[2] + (ended - mark[2]) * random.uniform(0.1, 0.9)
    elif scenario.stop == "end":
        time = end + random.uniform(0.0, 60.0)
    scenario.dumps = {rank: time + random.random() * spread for rank in range(job.size)}


def stop_hung(random, scenario, unfinished):
    fault, simulation, job = scenario.fault, scenario.simulation, scenario.job
    gone = {rank.number for rank in simulation.ranks if rank.state == "dead"} | ({fault.rank} if fault.dump == "missing" else set())
    waiting = {}
    for rank in simulation.ranks:
        if rank.number not in gone:
            first = next((o.created for o in rank.operations if o.end is None), None)
            if first is not None:
                waiting[rank.number] = first
    if not set(waiting) - set(fault.culprits):
        return  # nobody noticed
    scenario.victims = sorted(unfinished - set(fault.culprits) - gone)
    fired = min(waiting.values()) + scenario.settings.timeout_ms / 1000 + random.random() * 0.1
    spread = random.choice([1.0, 1.0, 4.0])  # the others poll the store once a second
    scenario.dumps = {rank: fired + (0 if waiting.get(rank) == min(waiting.values()) else random.random() * spread)
                      for rank in range(job.size) if rank not in gone}
    if fault.dump == "at death":
        scenario.dumps[fault.rank] = simulation.ranks[fault.rank].time
    if random.random() < 0.08 and job.size > 8:
        # Not of one in the operation that nothing moves: a rank without a dump in there looks like one that died in it, if no time says
        # which rank's GPU has not begun it.
        inside = fault.comm.ranks if fault.broken or (fault.kind == "stream-blocked" and fault.tie) else ()
        innocent = random.choice([rank for rank in scenario.dumps if rank not in fault.culprits])
        if innocent not in inside:
            del scenario.dumps[innocent]
            job.notes["lost_dump"] = innocent
    scenario.stop = "hung"



def one_look(random, scenario):
    """Native traces are read all at once, while the job still stands there."""
    if scenario.fault is None:
        time = max(scenario.dumps.values())
    else:
        time = max(rank.time for rank in scenario.simulation.ranks) + random.choice([20.0, 90.0, 900.0])
    scenario.copied = False
    scenario.dumps = {rank: time for rank in range(scenario.job.size)}


def longest_silence(scenario):
    """How long a host has been at something that no call shows: not blocked in a call, and not in an evaluation, which launches kernels."""
    longest = 0.0
    for rank in scenario.simulation.ranks:
        now = scenario.dumps[rank.number]
        if rank.ended is not None and rank.ended <= now:
            continue
        if any(begin <= now < end for begin, end, _ in rank.blocks):
            continue
        alone = [mark for mark in rank.marks if mark[0] in ("alone", "evaluation", "checkpoint")]
        if any(kind == "alone" and before[0] == "evaluation" and time <= now < time + seconds
               for before, (kind, seconds, time) in zip(alone, alone[1:])):
            continue
        seen = [operation.created for operation in rank.operations if operation.created <= now] + [end for _, end, _ in rank.blocks if end <= now]
        longest = max(longest, now - max(seen, default=0.0))
    return longest
