"""Writes what PyTorch's Flight Recorder would have dumped: torch/csrc/distributed/c10d/FlightRecorder{.hpp,Detail.hpp}, ProcessGroupNCCL.cpp.

A dump is a function of the times of the simulation and of the moment it is written:
- An entry is `completed` if its end event had come by then. The watchdog looks each 100 ms; what it has seen is `retired`, with the time of that
  look; what only the dump itself saw has the time of the dump and is not.
- `started` needs a start event, which exists only with TORCH_NCCL_ENABLE_TIMING. A start event comes when the stream has got there, not
  when the peers have.
- Messages in a batch have no events of their own: they stay `scheduled` for ever, and only the `coalesced` entry after them tells.
"""
import json
import math
import os

LOOK = 0.1
NAMES = {"all_reduce": "all_reduce", "all_gather": "_all_gather_base", "reduce_scatter": "_reduce_scatter_base", "broadcast": "broadcast",
         "all_to_all": "all_to_all", "barrier": "all_reduce_barrier"}
COALESCED = {"all_gather": "all_gather_into_tensor_coalesced", "reduce_scatter": "reduce_scatter_tensor_coalesced"}  # several tensors in one call
CALLS = {"all_reduce": ("all_reduce", 2955), "all_gather": ("all_gather_into_tensor", 3925), "reduce_scatter": ("reduce_scatter_tensor", 4218),
         "broadcast": ("broadcast", 2824), "all_to_all": ("all_to_all_single", 4429), "barrier": ("barrier", 4818),
         "all_gather_list": ("all_gather", 3805)}
PYTHON = "/usr/local/lib/python3.12/dist-packages/torch/distributed/"
DESCRIPTIONS = {"default_pg": "default_pg", "dp": "DATA_PARALLEL_GROUP_WITH_CP", "tp": "TENSOR_MODEL_PARALLEL_GROUP", "model": "MODEL_PARALLEL_GROUP",
                "pp": "PIPELINE_MODEL_PARALLEL_GROUP", "cp": "CONTEXT_PARALLEL_GROUP", "ep": "EXPERT_MODEL_PARALLEL_GROUP", "embedding": "EMBEDDING_GROUP",
                "shard": "mesh_shard", "replicate": "mesh_replicate"}


class Settings:
    """How the job's Flight Recorder was set, and what each group had done before the simulation begins."""

    def __init__(self, random, version, timing, stacks, ring, as_json, timeout_ms):
        self.version, self.timing, self.stacks, self.ring = version, timing, stacks, ring
        self.json, self.timeout_ms = as_json, timeout_ms
        self.minor = int(version.split(".")[1])
        self.epoch = 1758580000 + random.randrange(0, 20000000)
        self.only_active = random.random() < 0.12  # completed entries are left out, as onlyActive of _dump_nccl_trace does
        self.long_running, self.seed = False, random.randrange(1 << 30)
        self.prefix = random.choice(["nccl_trace_rank_", "_dump_", "comm_lib_trace_rank_", "rank_"])
        # Torch before 2.6: a batch of messages bumps the collective sequence (issue 134833, mended by PR 135132), and a barrier is just an
        # all-reduce (PR 140785). Its dumps are 2.4 at most; 2.4 was written by newer ones too.
        self.before_26 = self.minor < 4 or (self.minor == 4 and self.seed % 2 == 0)
        self.mixed = (self.seed >> 3) % 2 == 0  # descriptions of Megatron, or none


class Entry:
    __slots__ = ("operation", "comm", "part", "name", "coll", "p2p", "op", "record", "created", "is_p2p", "events")


def entries_of(rank, settings, until):
    """All entries that the rank recorded by then, and per group the (operation, sequence) pairs of its works."""
    old = settings.before_26
    counters, works, entries = {}, {}, []
    record = 0

    def add(operation, part, name, counter, is_p2p, events, created):
        nonlocal record
        entry = Entry()
        entry.operation, entry.comm, entry.part, entry.name = operation, operation.comm, part, name
        entry.coll, entry.p2p, entry.op = counter
        entry.record, entry.created, entry.is_p2p, entry.events = record, created, is_p2p, events
        record += 1
        entries.append(entry)

    for operation in rank.operations:
        if operation.created > until:
            break
        comm = operation.comm
        counter = counters.get(comm)
        if counter is None:
            counter = counters[comm] = [0, 0, 0]
            works[comm] = []
        if operation.spec is not None and operation.spec.kind == "all_gather_list":
            # startCoalescing, a broadcast per member, endCoalescing. Each of them bumped the sequence once; their own entries
            # came with 2.7 (PR 151238). They have no events, as messages in a batch.
            size = len(comm.ranks)
            counter[0] += 1 + size if old else 1
            for root in range(size):
                counter[2] += 1
                if settings.minor >= 7:
                    add(operation, ("root", root, operation.spec.outputs[root], operation.spec.dtype), "nccl:_broadcast_oop", counter, False, False,
                        operation.created - 4e-6 * (size - root))
            add(operation, None, "nccl:coalesced" if old else "nccl:ALLGATHER_coalesced", counter, False, True, operation.created)
            works[comm].append((operation, counter[0]))
            continue
        if operation.spec is not None:
            counter[0] += 1
            counter[2] += 1
            kind = operation.spec.kind
            if len(operation.spec.inputs) > 1:
                add(operation, None, "nccl:" + COALESCED[kind], counter, False, True, operation.created)
                works[comm].append((operation, counter[0]))
                continue
            name = "nccl:all_reduce" if kind == "barrier" and old else "nccl:" + NAMES[kind]
            add(operation, None, name, counter, False, True, operation.created)
            works[comm].append((operation, counter[0]))
            continue
        if operation.batched and old:
            counter[0] += 1
        else:
            counter[1] += 1
        own = comm.position[rank.number]
        for number, part in enumerate(operation.parts):
            counter[2] += 1
            arrow = "nccl:send %d->%d" if part[0] == "send" else "nccl:recv %d<-%d"
            add(operation, part, arrow % (own, part[1]), counter, True, not operation.batched, operation.created - 4e-6 * (len(operation.parts) - number))
        if operation.batched:
            add(operation, None, "nccl:coalesced", counter, True, True, operation.created)
        works[comm].append((operation, counter[1]))
    return entries, works


class RankDump:
    def __init__(self, rank, settings, time, pg_ids):
        self.rank, self.settings, self.bases, self.time, self.pg_ids = rank, settings, None, time, pg_ids
        self.entries, self.works = entries_of(rank, settings, time)
        self.kept = []
        self.phase = {comm: ((settings.seed ^ rank.number * 7919 ^ comm.uid * 31) % 1000) / 1e4 for comm in self.works}

    def keep(self, bases):
        """What is still in the ring, once its size and what came before are known."""
        self.bases = bases
        self.kept = self.entries[-self.settings.ring:]
        if self.settings.only_active:
            self.kept = [entry for entry in self.kept if self.state(entry)[0] != "completed"]

    def nanoseconds(self, seconds):
        return self.settings.epoch * 1000000000 + int(seconds * 1e9)

    def look(self, operation):
        """When the watchdog of the group saw it complete; None if not before the dump."""
        if operation.end is None:
            return None
        phase = self.phase[operation.comm]
        tick = phase + math.ceil((operation.end - phase) / LOOK) * LOOK
        return tick if tick <= self.time else None

    def state(self, entry):
        """(state, started, completed, retired, duration)"""
        operation, timing = entry.operation, self.settings.timing
        if not entry.events:
            return "scheduled", None, None, False, None
        seen = self.look(operation)
        if seen is not None:
            time = self.nanoseconds(seen)
            duration = max(0.005, (operation.end - operation.start) * 1e3) if timing else None
            return "completed", time if timing else None, time, True, duration
        now = self.nanoseconds(self.time)
        if operation.end is not None and operation.end <= self.time:
            return "completed", now if timing else None, now, False, None
        if timing and operation.start is not None and operation.start <= self.time:
            return "started", now, None, False, None
        return "scheduled", None, None, False, None

    def status(self):
        result = {}
        for comm, works in self.works.items():
            coll, p2p = self.bases.of(self.rank.number, comm)
            shifted = [(operation, number + (p2p if operation.spec is None else coll)) for operation, number in works]
            seen = [(self.look(operation), index, number) for index, (operation, number) in enumerate(shifted)]
            done = [each for each in seen if each[0] is not None]
            started = [number for operation, number in shifted if operation.start is not None and operation.start < self.time - LOOK]
            before = coll - 1 if coll else -1
            result[str(self.pg_ids[comm])] = {
                "last_enqueued_collective": shifted[-1][1],
                "last_started_collective": max(started, default=before) if self.settings.timing else -1,
                "last_completed_collective": max(done)[2] if done else before}
        return result

    def config(self):
        plain = not self.settings.mixed
        return {str(comm.uid): {"name": str(comm.uid), "desc": self.describe(comm, plain), "ranks": "[" + ", ".join(map(str, comm.ranks)) + "]"}
                for comm in sorted(self.works, key=lambda comm: str(comm.uid))}

    @staticmethod
    def describe(comm, plain):
        return "default_pg" if comm.name == "default_pg" else "undefined" if plain else DESCRIPTIONS.get(comm.name, comm.name)

    def frames(self, entry):
        operation = entry.operation
        if operation.spec is None:
            call = ("batch_isend_irecv", 2700) if operation.batched else ("isend" if entry.part[0] == "send" else "irecv", 2470)
        else:
            call = CALLS[operation.spec.kind]
        frames = [{"name": call[0], "filename": PYTHON + "distributed_c10d.py", "line": call[1]},
                  {"name": "wrapper", "filename": PYTHON + "c10d_logger.py", "line": 81}]
        file, line, function = operation.site
        frames.append({"name": function, "filename": file, "line": line})
        if function != "main":
            frames.append({"name": "main", "filename": "/workspace/train.py", "line": 240})
        return frames + [{"name": "<module>", "filename": "/workspace/train.py", "line": 251}]

    def sizes(self, entry):
        """input sizes, input types, output sizes, output types"""
        operation = entry.operation
        if entry.part is not None:
            shape, dtype = [list(entry.part[2])], [entry.part[3]]
            return shape, dtype, shape, dtype
        spec = operation.spec
        if spec is None or spec.kind == "all_gather_list":
            return [], [], [], []
        inputs, outputs = spec.inputs, spec.outputs
        if spec.kind == "all_to_all":  # tokens per expert differ from rank to rank; what all send is what all expect
            inputs = [[inputs[0][0] + self.drift(entry, 0)] + inputs[0][1:]]
            outputs = [[outputs[0][0] + self.drift(entry, 1)] + outputs[0][1:]]
        return inputs, [spec.dtype] * len(inputs), outputs, [spec.dtype] * len(outputs)

    @staticmethod
    def uneven(entry):
        """By which an all-to-all differs from that before: its number, the same for all members, modulo the period of drift()."""
        return entry.coll % 64

    def drift(self, entry, shift):
        ranks = entry.comm.ranks
        return (ranks[(entry.comm.position[self.rank.number] + shift) % len(ranks)] * 7919 + self.uneven(entry) * 104729) % 64

    def thread(self, entry):
        backward = entry.operation.site[2] in ("backward", "post_backward")
        return ("pt_autograd_0", "1403%d77" % (4000000 + self.rank.number)) if backward else ("pt_main_thread", "1403%d12" % (5000000 + self.rank.number))

    def groups(self, entry):
        return (str(entry.comm.uid), self.describe(entry.comm, not self.settings.mixed))


class Bases:
    """What was counted before the simulation: the same for all members of a group, but for messages, and for records of a rank."""

    def __init__(self, settings, long_running):
        self.seed, self.on = settings.seed, long_running

    def of(self, rank, comm):
        if not self.on:
            return 0, 0
        coll = 37 + (self.seed * 31 + comm.uid * 6151) % 90000
        p2p = 11 + (self.seed * 17 + comm.uid * 131 + comm.position[rank] * 977) % 20000 if comm.name in ("pp", "cp") else 0
        return coll, p2p

    def records(self, rank):
        return 100000 + (self.seed + rank * 41) % 100000 if self.on else 0


def file_time(path, settings, time):
    moment = int((settings.epoch + time) * 1e9)
    os.utime(path, ns=(moment, moment))


def write_json(path, dump):
    settings = dump.settings
    entries = []
    for entry in dump.kept:
        state, started, completed, retired, duration = dump.state(entry)
        coll, p2p = dump.bases.of(dump.rank.number, entry.comm)
        inputs, input_types, outputs, output_types = dump.sizes(entry)
        fields = {"record_id": entry.record + dump.bases.records(dump.rank.number), "pg_id": dump.pg_ids[entry.comm], "process_group": list(dump.groups(entry)),
                  "collective_seq_id": entry.coll + coll, "p2p_seq_id": entry.p2p + p2p, "op_id": entry.op + coll + p2p, "profiling_name": entry.name,
                  "time_created_ns": dump.nanoseconds(entry.created), "input_sizes": inputs, "input_dtypes": input_types, "output_sizes": outputs,
                  "output_dtypes": output_types, "state": state, "time_discovered_started_ns": started or 0,
                  "time_discovered_completed_ns": completed or 0, "retired": retired}
        if duration is not None:
            fields["duration_ms"] = duration
        fields.update(optional_fields(dump, entry))
        entries.append(fields)
    status = {group: {name: str(number) for name, number in each.items()} for group, each in dump.status().items()}
    document = {"version": settings.version, "pg_config": dump.config(), "pg_status": status}
    document.update(library_version(settings))
    if entries:
        document["entries"] = entries
    with open(path, "w") as file:
        json.dump(document, file, sort_keys=True)


def optional_fields(dump, entry):
    """Fields that came with a version. That the two of 2.2 and 2.3 came there is from memory of torch 2.4; 2.3 itself has them."""
    settings, fields = dump.settings, {}
    if settings.minor >= 2:
        fields["timeout_ms"] = settings.timeout_ms
    if settings.minor >= 3:
        fields["is_p2p"] = entry.is_p2p
    if settings.minor >= 9:
        fields["thread_name"], fields["thread_id"] = dump.thread(entry)
    return fields


def library_version(settings):
    if settings.minor >= 10:
        return {"comm_lib_version": "2.27.5"}
    return {"nccl_version": "2.26.2"} if settings.minor >= 6 else {}
