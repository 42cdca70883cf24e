"""Writes a job in the text form of native traces (docs/dump.md), as stories: one line per call, in the order of time.

What PyTorch does around an operation is written for the newest ones: the event by which the stream of the group waits for the compute stream
(stream 0x0), and the one by which the compute stream waits for the operation. An all-to-all is a group of sends and receives
(torch::cuda::nccl::all2all_single_equal_split). A host that waits is inside cudaStreamSynchronize; one whose launch queue is full, inside
a launch.
"""
from collections import namedtuple

from model import MESSAGES, elements

CALLS = {"all_reduce": "ncclAllReduce", "barrier": "ncclAllReduce", "all_gather": "ncclAllGather", "reduce_scatter": "ncclReduceScatter",
         "broadcast": "ncclBroadcast"}
TYPES = {"BFloat16": "bfloat16", "Half": "float16", "Float": "float32", "Double": "float64", "Long": "int64", "Int": "int32", "Byte": "uint8"}
TAIL = 60  # so many operations of each rank get their events
Pair = namedtuple("Pair", "since group low high members")


def stack(site):
    frames = "@%s:%d:%s" % site
    return frames if site[2] == "main" else frames + ",/workspace/train.py:240:main"


class Writer:
    def __init__(self, drawn):
        self.drawn, self.time = drawn, drawn.dumps
        self.lines, self.pairs, self.events, self.number = [], {}, 0, 0
        self.progress = drawn.settings.timing  # marks of the GPU tell when an operation was reached

    def add(self, time, rank, what, thread=None):
        self.number += 1
        who = "%d" % rank.number if thread is None else "%d/%d" % (rank.number, thread)
        self.lines.append((time, self.number, "%+.9f %s %s" % (time, who, what)))

    def name(self, comm):
        return "%s_%d" % (comm.name, comm.uid)

    def pair_name(self, comm, first, second):
        return "%s_pair_%d_%d" % (self.name(comm), min(first, second), max(first, second))

    def pair(self, comm, first, second, time):
        """Single messages go over a communicator of the two (getKeySendRecv), made when they first exchange one."""
        low, high = sorted((first, second))
        name = self.pair_name(comm, low, high)
        since = min(time, self.pairs[name].since) if name in self.pairs else time
        self.pairs[name] = Pair(since, comm.uid, low, high, "%d,%d" % (comm.ranks[low], comm.ranks[high]))
        return name, 0 if second == low else 1, 0x100000 + comm.uid * 4096 + low * 64 + high

    def first_uses(self, rank):
        """The pairs of a rank, in the order in which its program comes to them."""
        names = {}
        for step in rank.program:
            if step[0] == MESSAGES and not step[3]:
                comm = rank.comms[step[1]]
                names[self.pair_name(comm, comm.position[rank.number], step[2][0][1])] = None
        return [name for name in names if name in self.pairs]

    # ---- operations

    def how(self, operation, until):
        if operation.end is not None and operation.end + 0.1 <= until:
            return "calls", ""
        if not self.progress:
            return "enqueues", ""
        if operation.end is not None and operation.end <= until:
            return "enqueues", " gpu=finished"
        return "enqueues", " gpu=reached" if operation.start is not None and operation.start <= until else " gpu=enqueued"

    def calls_of(self, operation):
        """(stream, the calls it consists of)"""
        comm, spec = operation.comm, operation.spec
        stream = 0x1000 + comm.uid
        own = comm.position[operation.rank.number]
        if spec is None and not operation.batched:
            direction, peer, shape, dtype = operation.parts[0]
            name, peer, stream = self.pair(comm, own, peer, operation.created)
            return stream, [self.message(direction, name, peer, elements([shape]), dtype, None)]
        if spec is None:
            self.number += 1
            return stream, [self.message(d, self.name(comm), peer, elements([shape]), dtype, self.number) for d, peer, shape, dtype in operation.parts]
        if spec.kind == "all_to_all":
            self.number += 1
            count = elements(spec.inputs) // len(comm.ranks)
            return stream, [self.message(d, self.name(comm), peer, count, spec.dtype, self.number) for peer in range(len(comm.ranks)) for d in ("send", "recv")]
        if spec.kind == "all_gather_list":
            self.number += 1
            return stream, ["ncclBroadcast on %s count=%d type=%s root=%d group=%d" % (self.name(comm), elements([shape]), TYPES[spec.dtype], root, self.number)
                            for root, shape in enumerate(spec.outputs)]
        shapes = spec.outputs if spec.kind == "reduce_scatter" else spec.inputs
        if len(shapes) > 1:
            self.number += 1
            return stream, ["%s on %s count=%d type=%s group=%d" % (CALLS[spec.kind], self.name(comm), elements([shape]), TYPES[spec.dtype], self.number)
                            for shape in shapes]
        count = elements(shapes)
        call = "%s on %s count=%d type=%s" % (CALLS[spec.kind], self.name(comm), count, TYPES[spec.dtype])
        if spec.kind == "broadcast":
            call += " root=%d" % max(spec.root, 0)
        return stream, [call]

    @staticmethod
    def message(direction, name, peer, count, dtype, group):
        call = "%s on %s peer=%d count=%d type=%s" % ("ncclSend" if direction == "send" else "ncclRecv", name, peer, count, TYPES[dtype])
        return call if group is None else call + " group=%d" % group

    def operation(self, operation, until, with_events):
        rank, time = operation.rank, operation.created
        how, progress = self.how(operation, until)
        stream, calls = self.calls_of(operation)
        frames = stack(operation.site)
        if with_events:
            self.events += 1
            event = 0x500000 + self.events
            self.add(time - 9e-6, rank, "calls cudaLaunchKernel function=0x7f00000a stream=0x0 takes=2us " + frames)
            self.add(time - 6e-6, rank, "calls cudaEventRecord event=%#x stream=0x0 takes=1us %s" % (event, frames))
            self.add(time - 4e-6, rank, "calls cudaStreamWaitEvent stream=%#x event=%#x takes=1us %s" % (stream, event, frames))
        for number, call in enumerate(calls):
            self.add(time + number * 1e-7, rank, "%s %s stream=%#x takes=100ns%s %s" % (how, call, stream, progress, frames))
        if with_events:
            self.add(time + 5e-6, rank, "calls cudaEventRecord event=%#x stream=%#x takes=1us %s" % (event + 0x1000000, stream, frames))
            return event + 0x1000000
        return None

    # ---- a rank

    def rank(self, rank):
        until = self.time[rank.number] if rank.state != "dead" else rank.ended
        issued = [operation for operation in rank.operations if operation.created <= until]
        done = {}
        for number, operation in enumerate(issued):
            newest = number >= len(issued) - TAIL or self.how(operation, until)[0] == "enqueues"
            done[operation] = self.operation(operation, until, newest)
        for time, operation in rank.waited:
            if time <= until and done.get(operation) is not None:
                self.add(time + 7e-6, rank, "calls cudaStreamWaitEvent stream=0x0 event=%#x takes=1us %s" % (done[operation], stack(operation.site)))
        last = issued[-1].site if issued else ("/workspace/train.py", 95, "main")
        self.watchdogs(rank, issued, done, until)
        self.blocks(rank, until, last)
        self.ending(rank, until)

    def watchdogs(self, rank, issued, done, until):
        """Each group has a thread that asks every 100 ms whether its works have ended; here, the oldest that has not."""
        threads = {comm: number + 2 for number, comm in enumerate(rank.comms.values())}
        for operation in issued:
            if operation.comm in threads and (operation.end is None or operation.end > until):
                thread, begin = threads.pop(operation.comm), operation.created + 0.02
                if until - begin > 0.1 and rank.state != "dead":
                    self.add(begin, rank, "polls cudaEventQuery event=%#x =cudaErrorNotReady x%d until=%+.9f" % (done[operation], (until - begin) / 0.1, until), thread)

    def blocks(self, rank, until, site):
        """Where its host stood, and where it stands now."""
        for begin, end, kind in rank.blocks[-TAIL:]:
            if begin > until:
                break
            call = "cudaStreamSynchronize stream=0x0" if kind == "sync" else "cudaLaunchKernel function=0x7f00000a stream=0x0"
            if end is None or end > until:
                self.add(begin + 8e-6, rank, "enters %s %s" % (call, stack(site)))
            elif end - begin > 1e-5:
                self.add(begin + 8e-6, rank, "calls %s takes=%dns %s" % (call, int((end - begin) * 1e9) - 8000, stack(site)))

    def ending(self, rank, until):
        self.alone(rank, until)
        if rank.state == "dead":
            self.add(rank.ended + 2e-5, rank, "dies signal=9")
        elif rank.state == "done" and self.drawn.stop == "end":
            self.add(rank.ended + 2e-5, rank, "exits")
        elif rank.state == "left" and self.drawn.fault.dump == "missing":
            self.add(rank.ended + 2e-5, rank, "exits")

    def alone(self, rank, until):
        """What a rank does on its own, and the kernel that never ends."""
        doing = None
        for kind, seconds, time in rank.marks:
            if kind == "alone" and doing == "evaluation":  # an evaluation keeps the GPU busy; a checkpoint may be one long write
                seconds = min(seconds, until - time)
                if seconds > 0.1:
                    self.add(time + 1e-6, rank, "calls cudaLaunchKernel function=0x7f00000c stream=0x0 x%d every=50ms %s" % (
                        seconds / 0.05, stack(("/workspace/evaluate.py", 31, "evaluate"))))
            elif kind not in ("alone", "delay", "block"):
                doing = kind
            if kind == "block":
                self.add(time + 1e-6, rank, "calls cudaLaunchKernel function=0x7f00000b stream=0x0")


def creation_order(pairs, orders):
    """Names of `pairs`, by time, but so that each of `orders`, one of each rank, holds.

    ncclCommInitRank returns once both have called it. So a rank creates its pairs one after the other as its own
    program comes to them, however early their other members were. Orders that contradict each other would hang in
    there. A job that gets as far as its messages has then created its pairs before: in a warm-up, say, in which each
    rank goes through its peers.
    """
    before = {name: set() for name in pairs}
    for order in orders:
        for first, second in zip(order, order[1:]):
            before[second].add(first)
    result, left = {}, sorted(pairs, key=lambda name: (pairs[name].since, name))
    while left:
        name = next((name for name in left if before[name] <= result.keys()), None)
        if name is None:
            return list(result) + sorted(left, key=lambda name: (pairs[name].group, pairs[name].low, pairs[name].high))
        result[name] = None
        left.remove(name)
    return list(result)


def communicators(drawn, writer):
    """Every group with more than one member, as ncclCommInitRank leaves it, then the pairs. Last, the one that is
    missing a rank and has not returned anywhere. Each process takes its own as created in the order of these lines."""
    unnamed = "" if drawn.settings.mixed else " unnamed"
    after = []
    for comm in drawn.job.groups:
        if len(comm.ranks) < 2:
            continue
        line = "communicator %s members=%s%s" % (writer.name(comm), ",".join(map(str, comm.ranks)), unnamed)
        if comm.name == "late":
            first = min(rank.time for rank in comm.joined)
            after.append(line + " absent=%d created=%+.9f" % (drawn.fault.rank, first))
        else:
            yield line
    for name in creation_order(writer.pairs, [writer.first_uses(rank) for rank in drawn.simulation.ranks]):
        yield "communicator %s members=%s%s" % (name, writer.pairs[name].members, unnamed)
    yield from after


def write(drawn, path):
    writer = Writer(drawn)
    for rank in drawn.simulation.ranks:
        writer.rank(rank)
    size = drawn.job.size
    with open(path, "w") as file:
        file.write("start %d.000000000\n" % drawn.settings.epoch)
        for rank in range(size):
            file.write("ranks %d host=node%d local=%d world=%d pid=%d\n" % (rank, rank // 8, rank % 8, size, 4000 + rank))
        for line in communicators(drawn, writer):
            file.write(line + "\n")
        for _, _, line in sorted(writer.lines):
            file.write(line + "\n")
        file.write("end %+.9f\n" % max(writer.time.values()))


