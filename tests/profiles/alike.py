"""Hosts of several ranks that lose time on the same thing: who comes last is chance, all are named, and the gain is that of mending
all.   alike.py TRAINTRACE"""
import json
import os
import random
import subprocess
import sys
import tempfile

from made import Rank

STEPS = 20
RANKS = 4
GPU_US = 12 * 400.0


def trained(loader_us, launch_us=5.0, seed=1, blocks=True, begun_us=(), reads_us=0.0):
    """Each step: a batch, twelve kernels, an all-reduce that all wait for, the batch of the next step.  `loader_us`, `launch_us`: by rank.
    blocks=False: the hosts wait for nothing, and who is fast, or began earlier (`begun_us`), runs ahead."""
    chance = random.Random(seed)
    ranks = [Rank(number, RANKS) for number in range(RANKS)]
    for rank, begun in zip(ranks, begun_us):
        rank.now += begun
    for step in range(STEPS):
        entered = []
        for rank in ranks:
            began = rank.now
            rank.host(loader_us[rank.rank] * chance.uniform(0.8, 1.2), "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", "user_annotation")
            for _ in range(12):
                rank.host((launch_us if isinstance(launch_us, float) else launch_us[rank.rank]) * chance.uniform(0.8, 1.2))
                rank.launch(GPU_US / 12, "gemm")
            rank.correlation += 1
            rank.add("cuda_runtime", "cudaLaunchKernel", rank.now, 5.0, "host", correlation=rank.correlation)
            rank.now += 5.0
            entered.append((max(rank.now, rank.free[7]), began))
        end = max(start for start, _ in entered) + 200.0
        for rank, (start, began) in zip(ranks, entered):
            rank.add("kernel", "ncclDevKernel_AllReduce_Sum_f32_RING_LL", start, end - start, 20, device=0, stream=20, correlation=rank.correlation,
                     **{"Collective name": "allreduce", "In msg nelems": 1 << 20, "dtype": "Float", "Group size": RANKS, "Process Group Name": "0",
                        "Process Group Ranks": str(list(range(RANKS))), "Seq": step})
            rank.free[20] = rank.free[7] = end
            if blocks:
                rank.block(stream=20)
                rank.host(reads_us)
            rank.step(step, began)
    return ranks


def window(ranks):
    return max(max(each["ts"] + each["dur"] for each in rank.events if each["cat"] == "kernel")
               - min(each["ts"] for each in rank.events if each["cat"] == "kernel") for rank in ranks) * 1000


def gains_by_cause(traintrace, ranks, cause):
    """What each rank gains, ns."""
    with tempfile.TemporaryDirectory() as folder:
        for rank in ranks:
            rank.write(folder)
        rows = json.loads(subprocess.run([traintrace, "report", folder, "--by=cause", "--format=json"], capture_output=True, text=True, timeout=60,
                                         check=True).stdout)["rows"]
    return [row["gain_ns"] for row in rows if row["cause"] == cause]


def found_in(traintrace, ranks):
    with tempfile.TemporaryDirectory() as folder:
        for rank in ranks:
            rank.write(folder)
        files = [rank.path(folder) for rank in ranks]
        said = [subprocess.run([traintrace, "analyze", *order, "--format=json"], capture_output=True, text=True, timeout=60, check=False).stdout
                for order in (files, files[::-1])]
    assert said[0] == said[1], "the order of the files leaves a mark"
    return {each["code"]: each for each in json.loads(said[0])["findings"]}


def check_all(traintrace, code, with_it, without):
    finding = found_in(traintrace, with_it)[code]
    assert finding["culprits"] == list(range(RANKS)), (code, finding["culprits"], finding["title"])
    gained, gain = window(with_it) - window(without), finding["values"]["gain_ns"]
    assert 0.85 * gained < gain < 1.15 * gained, (code, gain, gained)
    print(f"{code}: {gain / 1e6:.1f} ms of {gained / 1e6:.1f}")


def main(traintrace):
    check_all(traintrace, "latency.data-starvation", trained([6000.0] * RANKS), trained([1.0] * RANKS))
    check_all(traintrace, "latency.host-bound", trained([1.0] * RANKS, 900.0), trained([1.0] * RANKS, 5.0))
    # All read a number after each step: of one rank alone it is no gain to leave that out, since the others make it wait.
    reading = trained([1.0] * RANKS, reads_us=2000.0)
    gained = window(reading) - window(trained([1.0] * RANKS, blocks=False))
    gains = gains_by_cause(traintrace, reading, "sync-induced")
    gain = found_in(traintrace, reading)["latency.sync-in-loop"]["values"]["gain_ns"]
    print(f"reading: {gain / 1e6:.1f} ms of {gained / 1e6:.1f}, by rank " + ", ".join(f"{each / 1e6:.1f}" for each in gains))
    assert 0.9 * gained < gain < 1.1 * gained and len(gains) == RANKS and all(abs(each - gain) < 0.1 * gain for each in gains), (gained, gain, gains)
    # One loader that is slow beside three that are not: its rank alone.
    one = found_in(traintrace, trained([200.0, 200.0, 6000.0, 200.0]))["latency.data-starvation"]
    assert one["culprits"] == [2], one
    # A host that is ahead has as slow a loader as those that its GPU waits for; near miss: one that is less than half as slow.
    late = [0.0 if rank == 1 else 7000.0 for rank in range(RANKS)]
    for loader, culprits in ((6000.0, list(range(RANKS))), (2000.0, [rank for rank in range(RANKS) if rank != 1])):
        found = found_in(traintrace, trained([loader if rank == 1 else 6000.0 for rank in range(RANKS)], blocks=False, begun_us=late))
        assert found["latency.data-starvation"]["culprits"] == culprits, found["latency.data-starvation"]
    slow = found_in(traintrace, trained([1.0] * RANKS, [5.0, 5.0, 900.0, 5.0])).get("latency.host-bound")
    assert slow is None or slow["culprits"] == [2], slow
    # Hosts that take most of a step to launch it, but are ahead: what they launched waits for a collective, to which another one is late.
    ahead = found_in(traintrace, trained([1.0] * RANKS, [300.0, 300.0, 550.0, 300.0], blocks=False))["latency.host-bound"]
    assert ahead["culprits"] == [2], ahead
    healthy = found_in(traintrace, trained([50.0] * RANKS))
    assert not [code for code, each in healthy.items() if each["severity"] != "info"], healthy


os.environ.pop("TRAINTRACE_DIR", None)
main(sys.argv[1])
