"""Ranks, streams, launches and collectives: what a training job does, to the nanosecond.

A program (jobs.py) is a generator per rank: it moves the host's clock, launches work, and yields the work that its host waits for. Work starts
when its stream is free, what it depends on is done and its launch has been; a collective ends on all ranks when the last has come and its
transfer is over. A host runs ahead of its GPU until LAUNCH_QUEUE works are unfinished.
"""
import hashlib
import random
from collections import deque

import kernels

MICROSECOND, MILLISECOND = 1000, 1_000_000
LAUNCH_QUEUE = 1000  # works a host may be ahead of its GPU
MAIN_STREAM = 7
NAMED_RANKS = 30  # PyTorch names no more members of a group than these


class Work:
    """A kernel or a copy; `end` is None until it is known."""

    __slots__ = ("rank", "stream", "category", "name", "grid", "block", "duration", "ready", "previous", "dependencies", "collective",
                 "start", "end", "arguments", "correlation")

    def __init__(self, rank, stream, category, name, duration, ready, correlation, **others):
        self.rank, self.stream, self.category, self.name = rank.number, stream, category, name
        self.duration, self.ready, self.correlation = int(duration), ready, correlation
        self.grid, self.block, self.arguments = others.get("grid"), others.get("block"), others.get("arguments", {})
        self.dependencies = [work for work in others.get("after", ()) if work is not None]
        self.collective, self.previous = others.get("collective"), rank.last.get(stream)
        self.start = self.end = None


class Collective:
    def __init__(self, members, transfer):
        self.members, self.transfer, self.starts, self.works = members, transfer, {}, []


class Rank:
    def __init__(self, simulation, number):
        job = simulation.job
        self.simulation, self.number = simulation, number
        self.now = random.Random(job.seed * 7 + number).randrange(0, 2 * MILLISECOND)  # of the host
        self.last, self.pending, self.works, self.rows, self.steps = {}, {}, [], [], []
        self.correlation, self.external, self.python_id = 1000, 1, 1
        self.process = 40000 + number * 17
        self.main_thread, self.backward_thread = self.process, self.process + 900
        self.thread = self.main_thread
        self.jitter = random.Random(job.seed * 1000003 + number)
        self.chance = random.Random(job.seed * 777 + number * 13 + 5)  # of the cause alone: without it the job stays the same
        self.speed = 1 + (self.jitter.uniform(-.02, .02) if job.unequal_gpus else self.jitter.gauss(0, 0.004))
        self.sequence_numbers, self.in_flight, self.frames, self.loaded = {}, {}, [], set()
        self.host_factor = self.length = 1.0  # how slow its CPU is; the sequence length of the step, in that of the others
        self.step = 0

    # ---- what the profiler sees of the host

    def row(self, category, name, begin, end, **arguments):
        if self.simulation.is_recorded:
            self.rows.append((category, name, self.thread, begin, end, arguments))

    def annotate(self, name, begin):
        self.row("user_annotation", name, begin, self.now, **{"External id": self.external, "Ev Idx": self.external})

    def enter(self, frame):
        self.frames.append((frame, self.now, self.python_id, self.thread))
        self.python_id += 1

    def leave(self):
        name, begin, number, thread = self.frames.pop()
        if self.simulation.job.with_stacks:
            parent = self.frames[-1][2] if self.frames else None
            self.rows.append(("python_function", name, thread, begin, self.now,
                              {"Python parent id": parent, "Python id": number, "Ev Idx": number}))

    # ---- what the host does

    def spend(self, nanoseconds):
        self.now += int(nanoseconds)

    def operator_cost(self):
        cost = self.simulation.job.operator_us * MICROSECOND * self.host_factor * (0.85 + 0.3 * self.jitter.random())
        return cost + (60 * MICROSECOND if self.jitter.random() < 0.003 else 0)

    def call(self, name, duration, number=1):
        """A call of the runtime that queues no work."""
        begin = self.now
        self.spend(duration)
        self.correlation += 1
        self.row("cuda_runtime", name, begin, self.now, **{"External id": self.external, "cbid": number, "correlation": self.correlation})

    def queue(self, stream, category, name, duration, ready, **others):
        work = Work(self, stream, category, name, duration, ready, self.correlation, **others)
        self.last[stream] = work
        self.pending.setdefault(stream, deque()).append(work)
        self.works.append(work)
        return work

    def launch(self, key, scale=1.0, after=(), grid=None):
        """An operator with one kernel."""
        kernel, job, cause = kernels.KERNELS[key], self.simulation.job, self.simulation.cause
        grid = grid or kernel.grid
        if self.length != 1.0:
            grid = (max(1, int(grid[0] * self.length)), *grid[1:])
        cost, began = self.operator_cost(), self.now
        self.external += 1
        external = self.external
        self.spend(cost * 0.55)
        full = self.works[-LAUNCH_QUEUE] if len(self.works) > LAUNCH_QUEUE else None
        called = self.now
        if full is not None and (full.end is None or full.end > self.now):
            while full.end is None:
                yield full
            self.now = max(self.now, full.end)
        if kernel.name not in self.loaded:
            self.loaded.add(kernel.name)
            self.spend(cause.first_launch(self) or (0.3 * MILLISECOND if job.loads_modules else 0))
        self.now += int(cost * 0.3) + int(cause.launch_delay(self))
        self.correlation += 1
        self.row("cuda_runtime", "cudaLaunchKernel", called, self.now,
                 **{"External id": external, "cbid": 211, "correlation": self.correlation})
        duration = kernel.microseconds * MICROSECOND * scale * job.work_scale * self.speed * (1 + self.jitter.gauss(0, 0.01))
        ready = max(called + 3 * MICROSECOND, self.now - MICROSECOND) + int(self.jitter.random() * 2 * MICROSECOND)
        duration *= cause.kernel_factor(self) * self.length
        work = self.queue(MAIN_STREAM, "kernel", kernel.name, max(duration, 1200), ready, grid=grid, block=kernel.block, after=after)
        self.spend(cost * 0.15)
        self.row("cpu_op", kernel.operator, began, self.now, **{"External id": external, "Record function id": 0, "Ev Idx": external})
        return work

    def collect(self, kind, group, members, stream, key, transfer, elements, after=(), extra=None, dtype="BFloat16"):
        """`group`: (name, description); `key`: which operation of the job it is, the same on all that take part."""
        kernel, annotation, operator = kernels.COLLECTIVES[kind]
        is_message = kind in ("send", "recv")
        cost, began = self.operator_cost() * 2, self.now
        self.external += 1
        external = self.external
        self.spend(cost * 0.3)
        annotated = self.now
        self.call("cudaEventRecord", 700, 134)
        self.call("cudaStreamWaitEvent", 600, 147)
        self.spend(cost * 0.2)
        called = self.now
        self.spend(cost * 0.25)
        self.correlation += 1
        self.row("cuda_runtime", "cudaLaunchKernelExC", called, self.now,
                 **{"External id": external, "cbid": 430, "correlation": self.correlation})
        collective = self.simulation.collective((group[0], tuple(members), "p2p" if is_message else kind, key), transfer,
                                                key[1] if is_message else members)
        metadata = self.metadata(kind, group, members, elements, dtype, extra or {})
        work = self.queue(stream, "kernel", kernel, 0, self.now + 2 * MICROSECOND, grid=(24, 1, 1), block=(544, 1, 1), after=after,
                          collective=collective, arguments=metadata)
        collective.works.append(work)
        self.spend(cost * 0.1)
        numbers = {"External id": external, "Record function id": 0, "Ev Idx": external}
        self.row("user_annotation", "nccl:" + annotation, annotated - 500, self.now, **numbers)
        self.row("cpu_op", "record_param_comms", annotated - 700, self.now + 300, **numbers, **metadata)
        self.spend(cost * 0.15)
        self.row("cpu_op", operator, began, self.now, **numbers)
        self.call("cudaEventRecord", 700, 134)
        return work

    def metadata(self, kind, group, members, elements, dtype, extra):
        job = self.simulation.job
        named = ", ".join(map(str, members if len(members) <= NAMED_RANKS else members[:NAMED_RANKS - 1]))
        if len(members) > NAMED_RANKS:
            named += f", ..., {members[-1]}"
        result = {"Collective name": kind, "In msg nelems": elements, "Out msg nelems": elements, "Group size": len(members), "dtype": dtype,
                  "In split size": "[]", "Out split size": "[]", "Process Group Name": group[0], "Process Group Description": group[1],
                  "Process Group Ranks": f"[{named}]", **extra}
        if job.sequence_numbers:
            number = self.sequence_numbers[group[0]] = self.sequence_numbers.get(group[0], 1000) + 1
            result["Seq"] = number
        return result if job.group_metadata else {}

    def copy(self, kind, size, gigabytes_per_second, after=(), operator="aten::copy_", waits=None):
        """`waits`: None, "copy" where the call itself returns late, "sync" where the host then waits for the stream."""
        cost, began = self.operator_cost(), self.now
        self.external += 1
        self.spend(cost * 0.6)
        called = self.now
        self.spend(cost * 0.3)
        self.correlation += 1
        correlation = self.correlation
        work = self.queue(MAIN_STREAM, "gpu_memcpy", kind, size / gigabytes_per_second + 1500, self.now + MICROSECOND, after=after,
                          arguments={"bytes": size, "memory bandwidth (GB/s)": round(gigabytes_per_second, 4)})
        if waits == "copy":
            while work.end is None:
                yield work
            self.now = max(self.now, work.end + 2 * MICROSECOND)
        self.row("cuda_runtime", "cudaMemcpyAsync", called, self.now,
                 **{"External id": self.external, "cbid": 41, "correlation": correlation})
        if waits == "sync":
            yield from self.wait("cudaStreamSynchronize", [work])
        self.spend(cost * 0.1)
        self.row("cpu_op", operator, began, self.now, **{"External id": self.external, "Record function id": 0, "Ev Idx": self.external})
        return work

    def wait(self, name, works=None):
        """The host waits for these, or for all that is queued."""
        begin = self.now
        self.spend(2 * MICROSECOND)
        self.correlation += 1
        correlation = self.correlation
        for work in works or list(self.last.values()):
            while work.end is None:
                yield work
            self.now = max(self.now, work.end + 4 * MICROSECOND)
        self.row("cuda_runtime", name, begin, self.now, **{"External id": self.external, "cbid": 131, "correlation": correlation})

    def item(self):
        """A value of the GPU read by the host."""
        began = self.now
        self.spend(2 * MICROSECOND)
        self.external += 1
        external = self.external
        yield from self.copy("Memcpy DtoH (Device -> Pageable)", 4, 0.002, operator="aten::_local_scalar_dense", waits="sync")
        self.spend(2 * MICROSECOND)
        self.row("cpu_op", "aten::item", began, self.now, **{"External id": external, "Record function id": 0, "Ev Idx": external})


class Simulation:
    """A job (jobs.Job) with a cause (causes.Cause); of one that is not `recorded` only the GPU work is kept."""

    def __init__(self, job, cause, recorded=True):
        self.job, self.cause, self.is_recorded, self.collectives = job, cause, recorded, {}
        self.ranks = [Rank(self, number) for number in range(job.ranks)]

    def collective(self, key, transfer, members):
        found = self.collectives.get(key)
        if found is None:
            spread = random.Random(hashlib.md5((str(self.job.seed) + repr(key)).encode()).hexdigest()).gauss(0, 0.03)
            found = self.collectives[key] = Collective(set(members), int(transfer * (1 + abs(spread))))
        return found

    def run(self, program):
        hosts = {rank.number: program(self, rank) for rank in self.ranks}
        waits = dict.fromkeys(hosts)
        while hosts:
            moved = False
            for number in list(hosts):
                if waits[number] is not None and waits[number].end is None:
                    continue
                moved = True
                try:
                    waits[number] = next(hosts[number])
                except StopIteration:
                    del hosts[number]
                self.resolve(self.ranks[number])
            if not self.resolve_all() and not moved:
                raise RuntimeError("the hosts wait for each other")
        self.resolve_all()
        assert all(work.end is not None for rank in self.ranks for work in rank.works)
        return self

    def resolve_all(self):
        moved, again = False, True
        while again:
            again = any([self.resolve(rank) for rank in self.ranks])
            moved = moved or again
        return moved

    def resolve(self, rank):
        """Starts and ends what can be; whether anything could."""
        moved, again = False, True
        while again:
            again = False
            for queue in rank.pending.values():
                while queue:
                    work = queue[0]
                    if work.start is not None:
                        if work.end is None:
                            break
                        queue.popleft()
                    elif not self.begin(rank, work):
                        break
                    again = moved = True
        return moved

    def begin(self, rank, work):
        if (work.previous is not None and work.previous.end is None) or any(other.end is None for other in work.dependencies):
            return False
        start = work.ready if work.previous is None else max(work.ready, work.previous.end + 900)
        work.start = start = max([start] + [other.end + 1500 for other in work.dependencies])
        collective = work.collective
        if collective is None:
            if self.job.contention and work.category == "kernel" and any(
                    other.end is None or other.end > start for other in rank.in_flight.values()):
                work.duration = int(work.duration * (1 + self.job.contention))
            work.end = start + work.duration
        else:
            rank.in_flight[work.stream] = work
            collective.starts[rank.number] = start
            if len(collective.starts) == len(collective.members):
                end = max(collective.starts.values()) + collective.transfer
                for member in collective.works:
                    member.end = end + (member.rank * 37) % 700
        return True

    def recorded(self, rank):
        """What a profile that begins later has of the rank's work."""
        return [work for work in rank.works if work.start >= self.job.recording_begins_ns]

    def mean_ns(self):
        """How long the job takes, of its ranks on average."""
        return sum(max(work.end for work in rank.works) - min(work.start for work in rank.works) for rank in self.ranks) / len(self.ranks)
