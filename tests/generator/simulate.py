"""Runs a job with the semantics of NCCL and ProcessGroupNCCL.

- A host issues in program order and runs ahead; it stops in SYNC, in a barrier, when the launch queue is full, or in a fault.
- Each process group has one stream of its own; it first waits for what the compute stream holds at that moment (syncStream in
  ProcessGroupNCCL.cpp). `wait()` makes the compute stream wait for the operation, not the host. A single send or receive uses a
  communicator and a stream per pair (getKeySendRecv), a batched one those of the group (pointToPoint, batchP2P).
- The n-th collective of a communicator meets the n-th of each other member, whatever these are: NCCL compares nothing. If kind,
  size and root agree all of them complete, even if they are not the same call of the program: data is corrupt and nothing hangs. If
  not, it is undefined (NCCL documentation, "Data Pointers/Errors": undefined behaviour such as hangs); here nobody completes it.
- A message meets the oldest unmet one of its (sender, receiver) pair (NCCL documentation, "Point-to-point communication"). All messages are
  larger than NCCL's buffers (NCCL_BUFFSIZE, 4 MiB): a send completes with its receive, never before. A group completes when all in it have met.
- A process that ends takes its kernels with it: what it had not completed never completes anywhere.

Times need no queue of events: what waits for several things goes on at the latest of them, so results can be propagated in any order.
"""
from collections import deque
from model import (BLOCK, COLLECTIVE, COMPUTE, CREATE, DIE, HANG, HOST, HOST_TOO, LEAVE, MARK, MESSAGES, ONLY, STREAM, SYNC, WAIT,
                   elements)


class Node:
    """Something that has a time once all it depends on has one. `start` is when its turn came on its stream, `end` when it was done."""

    __slots__ = ("pending", "ready", "end", "waiting", "start")

    def __init__(self, ready):
        self.pending, self.ready, self.end, self.start, self.waiting = 0, ready, None, None, None


class Operation(Node):
    __slots__ = ("rank", "comm", "spec", "parts", "batched", "created", "index", "missing", "instruction", "stalled", "site", "match")


class Match:
    __slots__ = ("arrived", "latest", "signature", "agrees", "operations", "stalled")

    def __init__(self):
        self.arrived, self.latest, self.signature, self.agrees, self.stalled = 0, 0.0, None, True, False
        self.operations = []


class Rank:
    __slots__ = ("number", "program", "at", "time", "base", "point", "extra", "streams", "tags", "operations", "counts", "comms", "marks",
                 "state", "waits_for", "speed", "delays", "ended", "blocks", "waited")

    def __init__(self, number, program, comms, speed, delays):
        self.number, self.program, self.comms, self.speed, self.delays = number, program, comms, speed, delays
        self.at, self.time = 0, 0.0
        self.base, self.point, self.extra = 0.0, None, 0.0  # the compute stream: at `base`, or `extra` after Node `point`
        self.streams, self.tags, self.operations, self.counts, self.marks = {}, {}, [], {}, []
        self.state, self.waits_for, self.ended = "runs", None, None
        self.blocks, self.waited = [], []  # [from, to, "sync"|"full"] of the host; (time, operation) that the compute stream waits for


class Simulation:
    """`death`: (rank, time) once it is known when a rank ends (the first pass finds out). `stalls`: {(rank, instruction)}: this
    operation never ends on this rank only. `broken`: {(rank, instruction)}: never ends on any rank. `depth`: so many operations of a
    rank may be unfinished; then its next launch blocks, as with the GPU's launch queue."""

    def __init__(self, job, speeds, delays, death=None, stalls=(), broken=(), launch=3e-5, depth=100):
        for group in job.groups:
            group.forget()
        self.depth = depth
        self.launch, self.death, self.stalls, self.broken = launch, death or {}, set(stalls), set(broken)
        self.ranks = [Rank(n, job.programs[n], job.comms[n], speeds[n], dict(delays.get(n, {}))) for n in range(job.size)]
        self.runnable = deque(self.ranks)
        self.work = []  # nodes that got a time, whose waiting ones have to hear of it

    def run(self):
        while self.runnable:
            self.run_host(self.runnable.popleft())
            self.propagate()
        return self

    # ---- the host

    def run_host(self, rank):
        program, delays = rank.program, rank.delays
        length = len(program)
        while rank.at < length:
            step = program[rank.at]
            code = step[0]
            if delays and rank.at in delays:
                delay = delays.pop(rank.at)
                rank.marks.append(("delay", delay, rank.time))
                rank.time += delay
            if code == COMPUTE:
                rank.time += self.launch
                self.compute(rank, step[1] * rank.speed)
            elif code == COLLECTIVE or code == MESSAGES:
                if not self.has_room(rank):
                    return
                operation = self.issue(rank, step, code)
                wait = step[3] if code == COLLECTIVE else step[4]
                if wait:
                    self.stream_waits(rank, operation)
                    if wait == HOST_TOO and not self.host_waits(rank):
                        return
            elif code == WAIT:
                if step[1] in rank.tags:  # the fault may be that it was never issued
                    self.stream_waits(rank, rank.tags[step[1]])
            elif code == HOST:
                rank.time += step[1] * rank.speed
            elif code == SYNC:
                if not self.host_waits(rank):
                    return
            elif code == ONLY:
                if step[1] == rank.number:
                    rank.marks.append(("alone", step[2], rank.time))
                    rank.time += step[2]
            elif code == MARK:
                rank.marks.append((step[1], step[2], rank.time))
            elif code == CREATE:
                if not self.create(rank, step[1]):
                    return
            elif code == BLOCK:
                rank.marks.append(("block", 0, rank.time))
                rank.point, rank.extra = Node(rank.time), 0.0
                rank.point.pending = 1
            elif code in (HANG, DIE, LEAVE):
                rank.state = {HANG: "stuck", DIE: "dead", LEAVE: "left"}[code]
                rank.ended = rank.time
                return
            rank.at += 1
        rank.state, rank.ended = "done", rank.time

    def host_waits(self, rank):
        """True if what is on the compute stream has a time already. Else the rank runs again, after this instruction, once it has."""
        self.settle(rank)
        if rank.point is None:
            rank.blocks.append([rank.time, max(rank.time, rank.base), "sync"])
            rank.time = max(rank.time, rank.base)
            return True
        node = Node(rank.time)
        self.depend(node, rank.point, rank.extra)
        node.waiting = [(rank, 0.0)]
        rank.state, rank.waits_for = "waits", node
        rank.blocks.append([rank.time, None, "sync"])
        return False

    def has_room(self, rank):
        """False if the launch queue is full: the rank runs this instruction again once there is room."""
        if len(rank.operations) < self.depth:
            return True
        oldest = rank.operations[-self.depth]
        if oldest.end is not None:
            rank.time = max(rank.time, oldest.end)
            return True
        if oldest.waiting is None:
            oldest.waiting = []
        oldest.waiting.append((rank, 0.0))
        rank.state, rank.waits_for = "full", oldest
        rank.blocks.append([rank.time, None, "full"])
        return False

    def wake(self, rank, time):
        rank.blocks[-1][1] = max(rank.time, time)
        if rank.state == "full":
            rank.time, rank.state, rank.waits_for = max(rank.time, time), "runs", None
            self.runnable.append(rank)
            return
        rank.time, rank.base, rank.point, rank.extra = max(rank.time, time), time, None, 0.0
        rank.state, rank.waits_for = "runs", None
        rank.at += 1
        self.runnable.append(rank)

    def create(self, rank, name):
        """ncclCommInitRank returns when all members have called it."""
        comm = rank.comms[name]
        comm.joined.add(rank)
        if len(comm.joined) < len(comm.ranks):
            rank.state, rank.waits_for = "creates", comm
            return False
        time = max(member.time for member in comm.joined) + 0.05
        for member in comm.joined:
            if member is not rank:
                member.time, member.state, member.waits_for = time, "runs", None
                member.at += 1
                self.runnable.append(member)
        rank.time = time
        return True

    # ---- streams

    @staticmethod
    def settle(rank):
        if rank.point is not None and rank.point.end is not None:
            rank.base, rank.point, rank.extra = rank.point.end + rank.extra, None, 0.0

    def compute(self, rank, seconds):
        if rank.point is None:
            rank.base = max(rank.base, rank.time) + seconds
        else:
            rank.extra += seconds

    def stream_waits(self, rank, operation):
        rank.waited.append((rank.time, operation))
        self.settle(rank)
        if operation.end is not None and rank.point is None:
            rank.base = max(rank.base, operation.end)
            return
        node = Node(rank.time)
        if rank.point is None:
            node.ready = max(node.ready, rank.base)
        else:
            self.depend(node, rank.point, rank.extra)
        self.depend(node, operation, 0.0)
        rank.point, rank.extra = node, 0.0

    def depend(self, node, on, extra):
        if on.end is not None:
            node.ready = max(node.ready, on.end + extra)
            return
        node.pending += 1
        if on.waiting is None:
            on.waiting = []
        on.waiting.append((node, extra))

    # ---- operations

    def issue(self, rank, step, code):
        rank.time += self.launch * rank.speed
        operation = Operation(rank.time)
        comm = operation.comm = rank.comms[step[1]]
        operation.rank, operation.instruction, operation.created = rank, rank.at, rank.time
        operation.stalled = bool(self.stalls) and (rank.number, rank.at) in self.stalls
        operation.match = None
        if code == COLLECTIVE:
            operation.spec, operation.parts, operation.batched, tag, operation.site = step[2], None, False, step[4], step[2].site
            operation.index = rank.counts.get(comm, 0)
            rank.counts[comm] = operation.index + 1
            stream = comm
        else:
            operation.spec, operation.parts, operation.batched, tag, operation.site = None, step[2], step[3], step[5], step[6]
            operation.index, operation.missing = 0, len(step[2])
            pair = tuple(sorted((comm.position[rank.number], step[2][0][1])))
            stream = comm if step[3] else (comm, pair)
        rank.operations.append(operation)
        if tag is not None:
            rank.tags[tag] = operation
        last = rank.streams.get(stream)
        if last is not None:
            self.depend(operation, last, 0.0)
        if rank.point is not None:
            self.depend(operation, rank.point, rank.extra)
        elif rank.base > operation.ready:
            operation.ready = rank.base
        rank.streams[stream] = operation
        if operation.pending == 0:
            self.arrive(operation)
        return operation

    def arrive(self, operation):
        death = self.death.get(operation.rank.number)
        if death is not None and operation.ready >= death:
            return  # its process was gone before its turn came
        operation.start = operation.ready
        if operation.spec is None:
            for part in operation.parts:
                self.meet(operation, part)
            return
        matches = operation.comm.matches
        while len(matches) <= operation.index:
            matches.append(Match())
        match = operation.match = matches[operation.index]
        match.operations.append(operation)
        match.arrived += 1
        match.latest = max(match.latest, operation.ready)
        signature = operation.spec.signature
        if match.signature is None:
            match.signature = signature
        elif match.signature != signature:
            match.agrees = False
        if self.broken and (operation.rank.number, operation.instruction) in self.broken:
            match.stalled = True
        if match.arrived == len(operation.comm.ranks) and match.agrees and not match.stalled:
            self.complete(match.operations, match.latest + operation.spec.seconds)

    def meet(self, operation, part):
        direction, peer, shape, dtype = part
        own = operation.comm.position[operation.rank.number]
        pair = (own, peer) if direction == "send" else (peer, own)
        key = ((0, 0) if operation.batched else tuple(sorted(pair)), pair)
        other = "recv" if direction == "send" else "send"
        queues = operation.comm.queues
        waiting = queues.get((key, other))
        if not waiting:
            queues.setdefault((key, direction), deque()).append((operation, shape, dtype))
            return
        fellow, their_shape, their_dtype = waiting.popleft()
        if elements([shape]) != elements([their_shape]) or dtype != their_dtype:
            return  # undefined; as with collectives, neither completes
        met = max(operation.start, fellow.start) + 2e-4
        broken = self.broken and ((operation.rank.number, operation.instruction) in self.broken or
                                  (fellow.rank.number, fellow.instruction) in self.broken)
        if broken or any(self.death.get(each.rank.number, met) < met for each in (operation, fellow)):
            return
        for each in (operation, fellow):
            each.missing -= 1
            each.ready = max(each.ready, met)
            if each.missing == 0:
                self.complete([each], each.ready)

    def complete(self, operations, time):
        if self.death:
            for operation in operations:
                death = self.death.get(operation.rank.number)
                if death is not None and death <= time:
                    return
        for operation in operations:
            if not operation.stalled:
                operation.end = time
                if operation.waiting:
                    self.work.append(operation)

    def propagate(self):
        work = self.work
        while work:
            done = work.pop()
            waiting, done.waiting = done.waiting, None
            for node, extra in waiting:
                if node.__class__ is Rank:
                    self.wake(node, done.end)
                    continue
                time = done.end + extra
                if time > node.ready:
                    node.ready = time
                node.pending -= 1
                if node.pending:
                    continue
                if node.__class__ is Operation:
                    self.arrive(node)
                else:
                    node.end = node.ready
                    if node.waiting:
                        work.append(node)
