"""Profiles made as PyTorch's profiler writes them, from a small model of a host thread and a GPU: what is lost in them is known.

A Rank has a host clock and streams; `launch` takes the host's time and queues work, `block` waits for it.  Times in us.
"""
import json


class Rank:
    def __init__(self, rank=0, world=1, with_stacks=False):
        self.rank, self.world = rank, world
        self.now = 1000.0  # of the host
        self.free = {}  # stream -> when its queue is empty
        self.events = []
        self.correlation = 0
        self.with_stacks = with_stacks
        self.idle = 0.0
        self.on_host = None  # by which the file is named
        self.models = []  # of GPUs: (name, major, minor)

    def host(self, us, name=None, category="cpu_op"):
        if name:
            self.add(category, name, self.now, us, "host")
        self.now += us

    def add(self, category, name, start, duration, where, **arguments):
        pid, tid = (0, where) if isinstance(where, int) else (4711, 4711)
        self.events.append({"ph": "X", "cat": category, "name": name, "pid": pid, "tid": tid, "ts": round(start, 3),
                            "dur": round(duration, 3), "args": arguments})

    def launch(self, us, name="gemm", stream=7, call="cudaLaunchKernel", cost=5.0, after=(), category="kernel", latency=3.0, **arguments):
        """Work of `us` on a stream, not before what `after` names is done; returns when it will be."""
        self.correlation += 1
        self.add("cuda_runtime", call, self.now, cost, "host", correlation=self.correlation)
        start = max([self.now + latency, self.free.get(stream, 0.0), *after])
        self.now += cost
        self.add(category, name, start, us, stream, device=0, stream=stream, correlation=self.correlation, **arguments)
        self.free[stream] = start + us
        return start + us

    def block(self, call="cudaStreamSynchronize", stream=7, wake=5.0):
        """Waits until the stream's queue is empty."""
        end = max(self.now, self.free.get(stream, 0.0)) + wake
        self.add("cuda_runtime", call, self.now, end - self.now, "host", correlation=0)
        self.now = end

    def move_clock(self, offset, ppm=0.0, jitter=lambda: 0.0):
        """As a clock shows it all that is `offset` us ahead, and drifts; each event is off by what jitter says."""
        for event in self.events:
            event["ts"] = round(event["ts"] * (1 + ppm / 1e6) + offset + jitter(), 3)

    def operate(self, name, dims, types, us, kernel, **options):
        """Work launched by an operator of PyTorch, as it stands with record_shapes; without where `dims` is None."""
        began = self.now
        self.now += 2
        end = self.launch(us, kernel, **options)
        self.now += 2
        shapes = {} if dims is None else {"Input Dims": dims, "Input type": types}
        self.add("cpu_op", name, began, self.now - began, "host", **{"External id": self.correlation, "Sequence number": 1, **shapes})
        return end

    def step(self, number, began):
        self.add("user_annotation", f"ProfilerStep#{number}", began, self.now - began, "host")

    def frame(self, name, began):
        self.add("python_function", name, began, self.now - began, "host")

    def document(self):
        return {"schemaVersion": 1, "distributedInfo": {"backend": "nccl", "rank": self.rank, "world_size": self.world},
                "deviceProperties": [{"id": i, "name": name, "totalGlobalMem": 1 << 36, "computeMajor": major, "computeMinor": minor, "numSms": 100}
                                     for i, (name, major, minor) in enumerate(self.models)],
                "baseTimeNanoseconds": 1_700_000_000_000_000_000, "traceEvents": self.events}

    def write(self, folder):
        with open(self.path(folder), "w", encoding="utf-8") as file:
            json.dump(self.document(), file)

    def path(self, folder):
        return f"{folder}/{self.on_host}_{100 + self.rank}.1700000000.pt.trace.json" if self.on_host else f"{folder}/rank{self.rank}.pt.trace.json"
