"""Pipelines whose stages send to each other: who waits for whom is known by the messages, so a gain is what the same job takes without
the cause.   pipelines.py TRAINTRACE"""
import json
import os
import random
import subprocess
import sys
import tempfile

from made import Rank

STAGES = 4
MICRO_BATCHES = 6
STEPS = 8
TRANSFER_US = 40.0
OVER = object()
KERNELS = [(f"gemm_{i}", [16 * (i + 1), 8, 1]) for i in range(5)]


class Messages:
    """Sends and receives in the order of their links: they end when both sides have begun and the data have gone over."""

    def __init__(self):
        self.begun = {}

    def post(self, link, side, start):
        self.begun.setdefault(link, {})[side] = start

    def end(self, link, side, buffered):
        starts = self.begun.get(link, {})
        if side == "send" and buffered:
            return starts["send"] + TRANSFER_US
        return max(starts.values()) + TRANSFER_US if len(starts) == 2 else None


class Stage:
    """1F1B: a generator, which stops where the other side of a message has not begun yet."""

    def __init__(self, number, messages, stages=STAGES, slower=1.0, pause_us=0.0, reads=True, buffered=False, layers=1, head=0.0, seed=1):
        self.rank, self.stages = Rank(number, stages), stages
        self.rank.on_host = "node0"
        self.messages, self.slower, self.pause_us, self.reads, self.buffered, self.layers, self.head = messages, slower, pause_us, reads, buffered, layers, head
        self.chance = random.Random(seed * 100 + number)
        self.sequence = 0
        self.open = {}  # by stream: a message that is not over
        self.begun_steps = []

    def launched(self, us, name, stream, after, **arguments):
        """Work that is told later when it ends: (row, when it begins)."""
        rank = self.rank
        rank.correlation += 1
        rank.add("cuda_runtime", "cudaLaunchKernel", rank.now, 5.0, "host", correlation=rank.correlation)
        start = max([rank.now + 3.0, rank.free.get(stream, 0.0), *after])
        rank.now += 5.0
        rank.add("kernel", name, start, us, stream, device=0, stream=stream, correlation=rank.correlation, **arguments)
        return rank.events[-1], start

    def compute(self, us):
        for name, grid in KERNELS * self.layers:
            self.rank.host(5.0)
            self.rank.launch(us / len(KERNELS) * self.slower * self.chance.uniform(0.99, 1.01), name, grid=grid, block=[128, 1, 1])
        if self.head:  # a kernel that the other stages do not have
            self.rank.host(5.0)
            self.rank.launch(us * self.head, "cross_entropy", grid=[777, 1, 1], block=[128, 1, 1])

    def message(self, side, peer, tag):
        """On a stream of its own; a send waits for what is computed, and what is computed next for a receive."""
        number, stream = self.rank.rank, {"send": 30, "recv": 40}[side] + peer
        yield from self.sent(stream)
        link = (number, peer, tag) if side == "send" else (peer, number, tag)
        row, start = self.launched(0.0, "ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)", stream, [self.rank.free[7]] if side == "send" else [],
                                   **{"Collective name": side, "In msg nelems": 1 << 20, "Out msg nelems": 1 << 20, "dtype": "BFloat16", "Group size": self.stages,
                                      "Process Group Name": "7", "Process Group Ranks": str(list(range(self.stages))), "Process Group Description": "pipeline",
                                      "Seq": self.sequence, "Dst Rank" if side == "send" else "Src Rank": peer})
        self.sequence += 1
        self.messages.post(link, side, start)
        self.open[stream] = (row, start, link, side)
        if side == "recv":
            yield from self.sent(stream)
            self.rank.free[7] = max(self.rank.free[7], self.rank.free[stream])

    def sent(self, stream):
        """The last message of the stream is over."""
        if stream in self.open:
            row, start, link, side = self.open[stream]
            while (end := self.messages.end(link, side, self.buffered)) is None:
                yield
            row["dur"] = round(end - start, 3)
            self.rank.free[stream] = end
            del self.open[stream]

    def forward(self, step, batch):
        number = self.rank.rank
        if number > 0:
            yield from self.message("recv", number - 1, ("f", step, batch))
        self.compute(400.0)
        if self.pause_us and self.reads:
            began = self.rank.now
            self.rank.block()
            self.rank.add("cpu_op", "aten::item", began, self.rank.now - began, "host")
        self.rank.host(self.pause_us)
        if number + 1 < self.stages:
            yield from self.message("send", number + 1, ("f", step, batch))

    def backward(self, step, batch):
        number = self.rank.rank
        if number + 1 < self.stages:
            yield from self.message("recv", number + 1, ("b", step, batch))
        self.compute(800.0)
        if number > 0:
            yield from self.message("send", number - 1, ("b", step, batch))

    def run(self):
        self.rank.free[7] = 0.0
        ahead = self.stages - 1 - self.rank.rank
        for step in range(STEPS):
            began = self.rank.now
            self.begun_steps.append(began)
            for batch in range(ahead):
                yield from self.forward(step, batch)
            for batch in range(MICRO_BATCHES - ahead):
                yield from self.forward(step, ahead + batch)
                yield from self.backward(step, batch)
            for batch in range(MICRO_BATCHES - ahead, MICRO_BATCHES):
                yield from self.backward(step, batch)
            self.rank.launch(100.0, "adam", grid=[320, 1, 1], block=[512, 1, 1])
            self.rank.step(step, began)
        for stream in list(self.open):
            yield from self.sent(stream)
        self.rank.block()


def trained(count=STAGES, **different):
    """`count`: of stages.  `different`: by a stage's setting, {stage: value}."""
    messages = Messages()
    stages = [Stage(number, messages, count, **{name: values[number] for name, values in different.items() if number in values})
              for number in range(count)]
    running = [stage.run() for stage in stages]
    for _ in range(100_000):
        running = [each for each in running if next(each, OVER) is not OVER]
        if not running:
            return stages
    raise AssertionError("the stages wait for each other")


def window(stages):
    def of(stage):
        work = [each for each in stage.rank.events if each["cat"] == "kernel"]
        return max(each["ts"] + each["dur"] for each in work) - min(each["ts"] for each in work)
    return max(of(stage) for stage in stages) * 1000


def findings_of(traintrace, stages):
    with tempfile.TemporaryDirectory() as folder:
        for stage in stages:
            stage.rank.write(folder)
        done = subprocess.run([traintrace, "analyze", folder, "--format=json"], capture_output=True, text=True, timeout=60, check=False)
        causes = subprocess.run([traintrace, "report", folder, "--by=cause", "--format=json"], capture_output=True, text=True, timeout=60, check=True)
    for row in json.loads(causes.stdout)["rows"]:
        if row["cause"] == "none":
            assert abs(row["replayed_ns"] - row["window_ns"]) < 0.001 * row["window_ns"], row
    return {each["code"]: each for each in json.loads(done.stdout)["findings"]}


def check_gain(finding, gained, what):
    gain = finding["values"]["gain_ns"]
    print(f"{what}: {gain / 1e6:.2f} of {gained / 1e6:.2f} ms")
    assert 0.9 * gained < gain < 1.1 * gained, (what, gain, gained)


def main(traintrace):
    last = STAGES - 1
    # The last stage reads a number in each micro-batch: without that, it still waits for the stage before.
    paused = {"pause_us": {last: 700.0}}
    gained = window(trained(**paused)) - window(trained(**paused, reads={last: False}))
    found = findings_of(traintrace, trained(**paused))
    assert found["latency.sync-in-loop"]["culprits"] == [last], found
    check_gain(found["latency.sync-in-loop"], gained, "a read in each micro-batch")
    # A slow GPU, beside whose kernels there is always a receive that waits.
    slow = trained(slower={2: 1.5})
    found = findings_of(traintrace, slow)
    assert found["latency.slow-device"]["culprits"] == [2] and found["latency.slow-device"]["victims"] == [0, 1, 3], found
    check_gain(found["latency.slow-device"], window(slow) - window(trained()), "a slow GPU")
    # Messages that take no time leave the bubble as it is.
    healthy = trained()
    found = findings_of(traintrace, healthy)
    assert found["latency.exposed-communication"]["values"]["gain_ns"] < 0.05 * window(healthy), found
    assert "latency.slow-device" not in found, found
    # A stage that has more to do is no slow GPU.
    found = findings_of(traintrace, trained(layers={1: 2}))
    assert "latency.slow-device" not in found, found
    # But a stage that the others wait for, with what levelling it would gain.
    more = trained(layers={1: 2})
    found = findings_of(traintrace, more)
    assert found["latency.straggler"]["culprits"] == [1] and found["latency.straggler"]["victims"] == [0, 2, 3], found
    assert found["latency.straggler"]["values"]["stage"] == 2, found
    check_gain(found["latency.straggler"], window(more) - window(healthy), "a stage with twice the layers")
    # Near misses: a head that takes a little; most stages have twice the layers.
    found = findings_of(traintrace, trained(head={STAGES - 1: 0.15}))
    assert "latency.straggler" not in found, found
    found = findings_of(traintrace, trained(layers={0: 2, 1: 2, 2: 2}))
    assert "latency.straggler" not in found, found
    # A stage a little slower at the same kernels is no matter of layers, also where it is one of two and no GPU is the usual one.
    for count in (2, STAGES):
        slow = trained(count, slower={0: 1.15})
        found = findings_of(traintrace, slow)
        assert found["latency.straggler"]["culprits"] == [0] and found["latency.straggler"]["values"]["stage_count"] == count, found
        check_gain(found["latency.straggler"], window(slow) - window(trained(count)), f"a slow stage of {count}")
        # Near misses: as much longer by a kernel that the others do not have; less slow; none.
        for near in (trained(count, head={count - 1: 0.15}), trained(count, slower={0: 1.03}), trained(count)):
            found = findings_of(traintrace, near)
            assert "latency.straggler" not in found and "latency.slow-device" not in found, found
    # A recording that begins in the middle of a step, with a gradient.
    late = trained(layers={1: 2})
    for stage in late:
        begin = stage.begun_steps[0] + 0.6 * (stage.begun_steps[1] - stage.begun_steps[0])
        kept = {each["args"]["correlation"] for each in stage.rank.events if each["cat"] == "cuda_runtime" and each["ts"] >= begin}
        stage.rank.events = [each for each in stage.rank.events if each["args"].get("correlation", 0) in kept or (each["cat"] != "kernel" and each["ts"] >= begin)]
    found = findings_of(traintrace, late)
    assert found["latency.straggler"]["culprits"] == [1] and found["latency.straggler"]["values"]["stage"] == 2, found
    # Two hosts, whose clocks differ: ends of messages bring them together.
    stages = trained(**paused)
    for stage in stages:
        stage.rank.on_host = f"node{stage.rank.rank // 2}"
        stage.rank.move_clock(2500.0 * (stage.rank.rank // 2), ppm=20 * (stage.rank.rank // 2))
    check_gain(findings_of(traintrace, stages)["latency.sync-in-loop"], gained, "the same on two hosts")
    # The record of one stage begins a step later than those of the others: in that step others wait for it as long as they did.
    stages = trained(**paused)
    short, begin = stages[1].rank, stages[1].begun_steps[1]
    kept = {each["args"]["correlation"] for each in short.events if each["cat"] == "cuda_runtime" and each["ts"] >= begin}
    short.events = [each for each in short.events if each["args"].get("correlation", 0) in kept or (each["cat"] != "kernel" and each["ts"] >= begin)]
    check_gain(findings_of(traintrace, stages)["latency.sync-in-loop"], gained * (STEPS - 1) / STEPS, "a record that begins later")
    # Small messages do not keep a sender waiting.
    paused = {"pause_us": {0: 700.0}, "buffered": {number: True for number in range(STAGES)}}
    gained = window(trained(**paused)) - window(trained(**paused, reads={0: False}))
    check_gain(findings_of(traintrace, trained(**paused))["latency.sync-in-loop"], gained, "buffered messages")


os.environ.pop("TRAINTRACE_DIR", None)
main(sys.argv[1])
