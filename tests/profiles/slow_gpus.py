"""Which GPU is called slow where hardly a kernel runs alone, or grids vary; healthy twins and near misses.   slow_gpus.py TRAINTRACE"""
import json
import random
import subprocess
import sys
import tempfile

from made import Rank

STEPS, LAYERS = 12, 6
ALL_GATHER = "ncclDevKernel_AllGather_RING_LL(ncclDevKernelArgsStorage<4096ul>)"


def gathering(works, ranks=8, prefetch=True, transfer=150.0, beside=lambda rank: 1.0):
    """Layers that each need a collective; with `prefetch` it runs beside the layer before it, as in FSDP, and waits there for the last rank.
    works(rank, step, layer): kernels as (us, name, grid); beside(rank): how many times as long they take beside a collective."""
    jobs = [Rank(number, ranks) for number in range(ranks)]
    computed = dict.fromkeys(range(ranks), 0.0)  # when the layer before is done, after which the next but one may be gathered
    sequence = 0

    def gather(after):
        nonlocal sequence
        sequence += 1
        starts = {rank.rank: max(after[rank.rank], rank.now + 3, rank.free.get(20, 0.0)) for rank in jobs}
        end = max(starts.values()) + transfer
        for rank in jobs:
            rank.launch(end - starts[rank.rank], ALL_GATHER, stream=20, after=(starts[rank.rank],), grid=[16, 1, 1], block=[512, 1, 1],
                        **{"Collective name": "_allgather_base", "Process Group Name": "0", "Process Group Ranks": str(list(range(ranks))),
                           "Group size": ranks, "Seq": sequence})
        return end

    for step in range(STEPS):
        began = [rank.now for rank in jobs]
        ready = gather(computed)
        for layer in range(LAYERS):
            following = gather(computed) if prefetch and layer + 1 < LAYERS else ready
            for rank in jobs:
                for us, name, grid in works(rank.rank, step, layer):
                    start = max(ready, rank.free.get(7, 0.0))
                    us *= beside(rank.rank) if start < following else 1.0
                    computed[rank.rank] = rank.launch(us, name, after=(ready,), grid=[grid, 1, 1], block=[128, 1, 1])
            ready = following if prefetch or layer + 1 == LAYERS else gather(computed)
        for rank, start in zip(jobs, began):
            rank.launch(100.0, "update", grid=[7, 1, 1], block=[128, 1, 1])
            rank.block()
            rank.step(step, start)
    return jobs


def kernels(times=1.0):
    return [((60.0 + 20 * number) * times, f"kernel{number}", 10 + number) for number in range(7)]


def slow(times, of=(5,), when=lambda step: True):
    return lambda rank, step, layer: kernels(times if rank in of and when(step) else 1.0)


def by_data(spread, of=range(8), seed=5):
    """The same grids, and times that vary with each rank's batch."""
    source, factors = random.Random(seed), {}
    return lambda rank, step, layer: kernels(factors.setdefault((rank, step), source.lognormvariate(0, spread)) if rank in of else 1.0)


def longer_sequences(rank, step, layer):
    """Rank 5 has more data: the grids of two kernels say so; the others' are the same, as they loop over what there is."""
    larger = rank == 5
    return [(us * (1.3 if larger else 1.0), name, grid + (100 if larger and grid > 13 else 0)) for us, name, grid in kernels()]


def more_kernels(rank, step, layer):
    return kernels() + (kernels()[:2] if rank == 5 else [])


def experts(times=1.0, spread=0.03, hot=1.0, says_grid=True, seed=7):
    """Experts whose grids follow their loads; GPU 5 is slower, or its expert has more to do."""
    def works(rank, step, layer):
        load = random.Random(f"{seed} {rank} {step} {layer}").lognormvariate(0, spread) * (hot if rank == 5 else 1.0)
        speed = times if rank == 5 else 1.0
        grid = int(64 * load) if says_grid else 64
        return kernels(speed) + [(500.0 * load * speed, "expert", grid)]
    return works


def cases():
    """name, profile, culprits of latency.slow-device, rank that is a straggler for the same kernels or for more work (or None)."""
    yield "slow, waited for beside computing", gathering(slow(1.4)), [5], None
    yield "a little slow", gathering(slow(1.15)), [5], None
    yield "two slow", gathering(slow(1.4, of=(2, 5))), [2, 5], None
    yield "none slow", gathering(slow(1.0)), [], None
    yield "half slow", gathering(slow(1.4, of=(0, 2, 4, 6))), [], None
    yield "collectives slow its kernels", gathering(slow(1.0), beside=lambda rank: 1.4 if rank == 5 else 1.0), [], None
    yield "collectives slow all kernels", gathering(slow(1.0), beside=lambda rank: 1.3), [], None
    yield "slow, and collectives slow all kernels", gathering(slow(1.4), beside=lambda rank: 1.1), [5], None
    yield "slow while it warms up", gathering(slow(1.5, when=lambda step: step < 4)), [], None
    for seed in range(4):
        yield f"times by data {seed}", gathering(by_data(0.3, seed=seed)), [], None
        yield f"times by data on three ranks {seed}", gathering(by_data(0.3, of=(1, 2, 5), seed=seed)), [], None
    yield "more data", gathering(longer_sequences), [], None
    yield "more kernels", gathering(more_kernels), [], None
    yield "experts, slow", gathering(experts(1.3), prefetch=False), [5], None
    yield "experts, none slow", gathering(experts(), prefetch=False), [], None
    yield "experts, one hot", gathering(experts(hot=1.5), prefetch=False), [], "its GPU has more work"
    yield "experts, one hot with the same grid", gathering(experts(hot=1.5, says_grid=False), prefetch=False), [], "its GPU takes longer for the same kernels"
    yield "experts of very uneven loads, slow", gathering(experts(1.3, spread=0.5), prefetch=False), None, "its GPU takes longer for the same kernels"


def analyze(traintrace, jobs):
    with tempfile.TemporaryDirectory() as folder:
        for rank in jobs:
            rank.write(folder)
        done = subprocess.run([traintrace, "analyze", folder, "--format=json"], stdout=subprocess.PIPE, check=False)
    assert done.returncode == 0, done.returncode
    return {finding["code"]: finding for finding in json.loads(done.stdout)["findings"]}


def check(found, culprits, cause):
    wrong = []
    named = found.get("latency.slow-device", {"culprits": []})
    if culprits is not None and named["culprits"] != culprits:
        wrong.append(f"slow are {named['culprits']}, not {culprits}")
    if culprits and next(iter(found)) != "latency.slow-device":
        wrong.append(f"the root is {next(iter(found))}")
    straggler = found.get("latency.straggler", {"title": "", "culprits": []})
    if cause and (not straggler["title"].endswith(cause) or straggler["culprits"] != [5]):
        wrong.append(f"straggler: {straggler['culprits']} {straggler['title']}")
    return wrong


def main(traintrace):
    failed = 0
    for name, jobs, culprits, cause in cases():
        wrong = check(analyze(traintrace, jobs), culprits, cause)
        for each in wrong:
            print(f"{name}: {each}")
        failed += bool(wrong)
    print("as expected" if not failed else f"{failed} cases failed")
    return 1 if failed else 0


sys.exit(main(*sys.argv[1:]))
