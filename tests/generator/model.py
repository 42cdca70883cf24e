"""What a simulated job is made of: communicators, operations, the instructions of a rank's program.

A program is a list of tuples, `(opcode, ...)`. Ranks with the same role share one list; a communicator is named in it by what it is
for ("tp", "dp"), and each rank has its own communicator of that name. Only the rank with a fault gets a list of its own.
"""

# (HOST, seconds): the host works. (COMPUTE, seconds): a kernel on the compute stream.
# (COLLECTIVE, comm, Spec, wait, tag). (MESSAGES, comm, parts, batched, wait, tag, site): parts = (("send"|"recv", peer, shape, dtype), ..).
# (WAIT, tag): the compute stream waits for an earlier operation. (SYNC,): the host waits for the compute stream.
# (ONLY, rank, seconds): the host of this rank works. (MARK, name, step). (HANG, what), (DIE,), (LEAVE,): faults.
# (BLOCK,): a kernel on the compute stream that never ends. (CREATE, comm): joins the communicator.
HOST, COMPUTE, COLLECTIVE, MESSAGES, WAIT, SYNC, ONLY, MARK, HANG, DIE, LEAVE, BLOCK, CREATE = range(13)

UNEVEN = ("all_to_all", "all_gather_list")

NOTHING, STREAM, HOST_TOO = 0, 1, 2  # who waits for an operation: nobody yet, the compute stream, the host as well

ITEM_BYTES = {"BFloat16": 2, "Half": 2, "Float": 4, "Double": 8, "Int": 4, "Long": 8, "Byte": 1}


def elements(shapes):
    total = 0
    for shape in shapes:
        count = 1
        for extent in shape:
            count *= extent
        total += count
    return total


class Spec:
    """One collective as a program calls it: what the Flight Recorder would note of it, and how long it takes."""

    __slots__ = ("kind", "inputs", "outputs", "dtype", "root", "site", "seconds", "signature")

    def __init__(self, kind, inputs, outputs, dtype, site, seconds, root=-1):
        self.kind, self.inputs, self.outputs, self.dtype = kind, inputs, outputs, dtype
        self.site, self.seconds, self.root = site, seconds, root
        self.signature = self.describe()

    def describe(self):
        """What NCCL needs to be the same on all ranks. An all-to-all is messages in a group: its sizes may differ between ranks
        (tokens of experts do). So may those of an all-gather of tensors of several sizes, which is a group of broadcasts. A barrier is an all-reduce of one float (ProcessGroupNCCL::barrier)."""
        kind = "all_reduce" if self.kind == "barrier" else self.kind
        count = 0 if kind in UNEVEN else elements(self.inputs)
        return (kind, count, ITEM_BYTES[self.dtype] if count else 0, self.root)

    def changed(self, **fields):
        kept = {name: fields.get(name, getattr(self, name)) for name in self.__slots__ if name != "signature"}
        return Spec(**kept)


class Communicator:
    """Members by their position, global ranks. `uid` as in pg_config: a number that counts all groups of the job."""

    __slots__ = ("name", "uid", "ranks", "position", "matches", "queues", "joined")

    def __init__(self, name, uid, ranks):
        self.name, self.uid, self.ranks = name, uid, ranks
        self.position = {rank: index for index, rank in enumerate(ranks)}
        self.forget()

    def forget(self):
        self.matches = []  # the n-th collective of each member meets in matches[n]
        self.queues = {}  # (stream, sender, receiver): messages not yet met, oldest first
        self.joined = set()


class Job:
    """`programs[rank]`, `comms[rank][name]`, and what was drawn to build it (`notes`, for truth.json)."""

    def __init__(self, size):
        self.size = size
        self.programs = [None] * size
        self.comms = [{} for _ in range(size)]
        self.groups = []
        self.notes = {}

    def add_groups(self, name, lists):
        for ranks in lists:
            group = Communicator(name, len(self.groups), list(ranks))
            self.groups.append(group)
            for rank in ranks:
                self.comms[rank][name] = group
