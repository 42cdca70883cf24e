"""Who is late to collectives where the main thread and autograd's take turns, as in PyTorch: what is lost is known.   lateness.py TRAINTRACE"""
import json
import random
import subprocess
import sys
import tempfile

from made import Rank

STEPS = 24
GEMM = 200.0


class Trainer(Rank):
    """Calls are made by the thread that is at work: "main" or "autograd"; a third one may write checkpoints."""
    THREADS = {"main": 4711, "autograd": 4712, "writer": 4713}

    def __init__(self, rank, world):
        super().__init__(rank, world)
        self.thread = "main"

    def add(self, category, name, start, duration, where, **arguments):
        super().add(category, name, start, duration, where, **arguments)
        if where == "host":
            self.events[-1]["tid"] = self.THREADS[self.thread]


def meet(jobs, k, transfer=30.0):
    """The k-th collective, after what the ranks compute."""
    starts = [max(rank.free[7], rank.now + 3, rank.free.get(20, 0.0)) for rank in jobs]
    end = max(starts) + transfer
    for rank, start in zip(jobs, starts):
        rank.launch(end - start, "ncclDevKernel_AllReduce_Sum_f32_RING_LL", stream=20, after=(start,), **{
            "Collective name": "allreduce", "Process Group Name": "0", "Process Group Ranks": str([each.rank for each in jobs]),
            "Group size": len(jobs), "Seq": k})


def train(ranks, late_us, steps=STEPS, beside=lambda rank, us: None):
    """Each step: forward by one thread, backward with two collectives by another, and .item() at the end, which makes all hosts level.
    late_us(rank, step): what that host does more before its first launch; beside(rank, us): what else happens meanwhile."""
    jobs = [Trainer(number, ranks) for number in range(ranks)]
    for step in range(steps):
        began = [rank.now for rank in jobs]
        for rank in jobs:
            us = late_us(rank.rank, step)
            beside(rank, us)
            rank.host(100.0 + us)
            for _ in range(10):
                rank.launch(GEMM)
            rank.thread = "autograd"
        for half in range(2):
            for rank in jobs:
                for _ in range(10):
                    rank.launch(GEMM)
            meet(jobs, 2 * step + half)
        for rank, start in zip(jobs, began):
            rank.thread = "main"
            rank.launch(100.0, "update", after=(rank.free[20],))
            rank.block()
            rank.step(step, start)
    return jobs


def restless(ranks, late_us, seed, noise_us=150.0):
    """Six collectives in each step, and before each the hosts take as long as chance has it.  late_us: of a rank before the first of each step."""
    chance = random.Random(seed)
    jobs = [Trainer(number, ranks) for number in range(ranks)]
    for step in range(STEPS):
        began = [rank.now for rank in jobs]
        for part in range(6):
            for rank in jobs:
                rank.host(200.0 + chance.uniform(0.0, noise_us) + (late_us.get(rank.rank, 0.0) if part == 0 else 0.0))
                rank.launch(20.0)
            meet(jobs, 6 * step + part)
            for rank in jobs:
                rank.block(stream=20)
        for rank, start in zip(jobs, began):
            rank.step(step, start)
    return jobs


def writes(rank, us):
    """A thread copies and waits for its copies while the main one is busy: it takes no turns."""
    if us:
        before, rank.thread = rank.now, "writer"
        rank.launch(20.0, "Memcpy DtoH (Device -> Pinned)", stream=40, call="cudaMemcpyAsync", category="gpu_memcpy")
        rank.block(stream=40, wake=us - 100.0)
        rank.now, rank.thread = before, "main"


def collects(ranks, seed, share, us=12_000.0, spread=0.2):
    """Each rank's garbage collector runs at its own times; share(rank): in how many of the steps."""
    source = random.Random(seed)
    pauses = {(rank, step): us * source.lognormvariate(0, spread) if source.random() < share(rank) else 0.0
              for rank in range(ranks) for step in range(STEPS)}
    return lambda rank, step: pauses[rank, step], pauses


def at_steps(late):
    """late: {(rank, step): us}"""
    return lambda rank, step: late.get((rank, step), 0.0)


def analyze(traintrace, jobs):
    with tempfile.TemporaryDirectory() as folder:
        for rank in jobs:
            rank.write(folder)
        done = subprocess.run([traintrace, "analyze", "--format=json", folder], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, (done.returncode, done.stderr)
    return json.loads(done.stdout)


def longest(pauses):
    """How long all wait in each step but the first, which lies before the first known collective."""
    ranks = range(1 + max(rank for rank, _ in pauses))
    return sum(max(pauses.get((rank, step), 0.0) for rank in ranks) for step in range(1, STEPS))


# name: jobs, code of the verdict, culprits, us lost or None
def cases():
    yield "in time", train(4, lambda rank, step: 0.0), "run.healthy", [], None
    yield "all late alike", train(4, lambda rank, step: 800.0), "latency.sync-in-loop", [0, 1, 2, 3], None
    yield "late in each step", train(4, lambda rank, step: 800.0 if rank == 1 else 0.0), "latency.straggler", [1], 800.0 * (STEPS - 1)
    yield "late in each step, beside a thread that waits", train(4, lambda rank, step: 800.0 if rank == 1 else 0.0, beside=writes), (
        "latency.straggler"), [1], 800.0 * (STEPS - 1)
    pauses = {(2, 3): 9000.0, (2, 8): 7000.0, (2, 9): 8000.0, (2, 10): 12000.0, (2, 16): 6000.0}
    yield "late in steps that follow each other", train(8, at_steps(pauses)), "latency.straggler", [2], sum(pauses.values())
    order = [2, 7, 7, 2, 6, 5, 6, 1, 1, 1, 7, 4, 0, 3, 5, 3, 4, 3, 2, 2, 3, 5, 5, 6]
    pauses = {(rank, step): 5000.0 for step, rank in enumerate(order)}
    yield "one rank in each step, some twice in a row", train(8, at_steps(pauses)), "latency.rotating-stall", [], longest(pauses)
    for seed in range(4):
        late, pauses = collects(8, seed, lambda rank: 0.2)
        yield f"all collect, {seed}", train(8, late), "latency.rotating-stall", [], None
    # A long stall in each step is not made usual by the short ones that all have.
    for seed in range(3):
        yield f"late in each step among restless hosts, {seed}", restless(8, {5: 900.0}, seed), "latency.straggler", [5], None
        yield f"restless hosts, {seed}", restless(8, {}, seed), None, [], None
    late, pauses = collects(8, 5, lambda rank: 0.9 if rank == 3 else 0.1)
    yield "one collects far more often", train(8, late), "latency.straggler", [3], None


def check(document, code, culprits, us):
    found = {each["code"]: each for each in document["findings"]}
    if code is None:  # nobody is to be told from the others
        singled = [each["title"] for each in document["findings"] if each["culprits"] and len(each["culprits"]) < document["run"]["world_size"]]
        return f"singled out: {singled}" if singled else None
    finding = found.get(code, {"code": None, "culprits": []})
    root = document["findings"][0]
    # What only that rank loses may come first: it is the same loss.
    if (finding["code"], finding["culprits"]) != (code, culprits) or (code != "run.healthy" and root["code"] != code and (not culprits or root["culprits"] != culprits)):
        return f"found {finding['code']} of {finding['culprits']}, not {code} of {culprits}: {document['verdict']}"
    # What all do alike, as to wait for each collective, accuses no rank.
    accused = {rank for each in document["findings"] if len(each["culprits"]) < document["run"]["world_size"] for rank in each["culprits"]} - set(culprits)
    if accused:
        return f"also accused: {sorted(accused)}"
    value = finding["values"].get("late_ns", 0) / 1000
    return f"late_ns is {value:.0f} us, not {us:.0f}" if us and abs(value - us) > 0.05 * us else None


def main(traintrace):
    failed = 0
    for name, jobs, code, culprits, us in cases():
        wrong = check(analyze(traintrace, jobs), code, culprits, us)
        if wrong:
            print(f"{name}: {wrong}")
            failed += 1
    print("as made" if not failed else f"{failed} cases failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
