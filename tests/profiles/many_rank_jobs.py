"""Profiles of ranks that meet: collectives end together, so that they are made for all ranks at once."""
import random

from made import Rank
from one_rank_jobs import STEPS, layers, training


def together(ranks, late_us, steps=STEPS, per_step=5, entry=lambda rank: 0.0, transfer=30.0, skew=lambda rank, k: 0.0, numbered=False, idle_us=lambda rank, k: 0.0):
    """late_us(rank, k): what that rank's host needs beyond 1000 us before the k-th collective; idle_us: the same with an idle GPU."""
    jobs = [Rank(number, ranks) for number in range(ranks)]
    for rank in jobs:
        rank.now += entry(rank.rank)
    for step in range(steps):
        began = [rank.now for rank in jobs]
        for k in range(step * per_step, (step + 1) * per_step):
            starts = []
            for rank in jobs:
                busy = 1000.0 + late_us(rank.rank, k)
                rank.host(idle_us(rank.rank, k))
                end = rank.launch(busy - 20)
                rank.host(busy - 5)
                starts.append(max(end, rank.now + 3))
            last = max(starts)
            for rank, start in zip(jobs, starts):
                rank.launch(last + transfer + skew(rank.rank, k) - start, "ncclDevKernel_AllReduce_Sum_f32_RING_LL", stream=20, after=(start,), **(
                    {"Collective name": "allreduce", "Seq": k} if numbered else {}))
                rank.block(stream=20)
        for rank, start in zip(jobs, began):
            rank.step(step, start)
    return jobs


def on_gpu(ranks, works, steps=STEPS, per_step=4, hidden=False, transfer=30.0):
    """Hosts that launch a step ahead; works(rank, k): kernels before the k-th collective, as (us, name, grid).
    Computing goes on behind each collective, or, where these are `hidden`, behind the last of a step."""
    jobs = [Rank(number, ranks) for number in range(ranks)]
    for step in range(steps):
        began, after = [rank.now for rank in jobs], {rank.rank: 0.0 for rank in jobs}
        for k in range(step * per_step, (step + 1) * per_step):
            ready = {}
            for rank in jobs:
                for us, name, size in works(rank.rank, k):
                    ready[rank.rank] = rank.launch(us, name, after=(after[rank.rank],), grid=[size, 1, 1], block=[128, 1, 1])
            end = meet(jobs, list(range(ranks)), "0", k, {number: max(ready[number], jobs[number].free.get(20, 0.0)) for number in ready}, 20, transfer)
            if not hidden:
                after = dict.fromkeys(after, end)
        for rank, start in zip(jobs, began):
            rank.launch(100.0, "update", after=(rank.free[20],), grid=[7, 1, 1], block=[128, 1, 1])
            rank.block()
            rank.step(step, start)
    return jobs


def even(us=200.0, kernels=5):
    return [(us, f"kernel{number}", 10 + number) for number in range(kernels)]


def before_first(times):
    """What takes times(rank, step) as long stands before the first collective of each step; before the others all do the same little."""
    return lambda rank, k: even(us=200.0 * times(rank, k // 4)) if k % 4 == 0 else [(5.0, "small", 9)]


def more_on(ranks, kernels=2):
    return lambda rank, k: even(kernels=5 + kernels if rank in ranks else 5)


def slower_on(ranks, times, each_grid_once=False):
    """The same kernels take longer there; where each grid is seen seldom, no kernel has runs enough to call a device slow."""
    def works(rank, k):
        return [(us * (times if rank in ranks else 1.0), name, grid + (100 * (k % 8) if each_grid_once else 0)) for us, name, grid in even()]
    return works


def more_in_steps(ranks, steps, per_step=4):
    """Other kernels, and more of them by time, in those steps."""
    return lambda rank, k: [(320.0, "gemm", 160)] * 5 if rank in ranks and k // per_step in steps else even()


def uneven_by_chance(share):
    source = random.Random(3)
    return lambda rank, k: even(us=200.0 * (1 + share * source.uniform(-1, 1)))


def more_once(ranks, steps, per_step=4):
    """An evaluation: in these steps a rank has four times the kernels, before each collective of the step."""
    return lambda rank, k: even(kernels=20 if rank in ranks and k // per_step in steps else 5)


def uneven_steps(share, seed, per_step=4):
    """Sequences of other lengths for each rank and step: nobody is slower by design."""
    source = random.Random(seed)
    lengths = {}
    return lambda rank, k: even(us=200.0 * lengths.setdefault((rank, k // per_step), max(0.3, source.gauss(1, share))))


def after_a_call(ranks, late, us, more=0.0):
    """All wait for the whole device once in each step; then the hosts `late` do something else for so long, and their kernels take `more`."""
    jobs = [Rank(number, ranks) for number in range(ranks)]
    for step in range(STEPS):
        began = [rank.now for rank in jobs]
        for rank in jobs:
            rank.host(us if rank.rank in late else 0.0)
            layers(rank, us=500.0 + (more if rank.rank in late else 0.0))
        last = max(rank.free[7] for rank in jobs)
        for rank in jobs:
            start = rank.free[7]
            rank.launch(last + 30.0 - start, "ncclDevKernel_AllReduce_Sum_f32_RING_LL", stream=20, after=(start,))
            rank.block("cudaDeviceSynchronize", stream=20)
        for rank, start in zip(jobs, began):
            rank.step(step, start)
    return jobs


def meet(jobs, members, name, k, ready, stream, transfer=30.0, numbered=True):
    """The k-th collective of a group; `ready`: when each member's stream comes to it."""
    starts = {number: max(ready[number], jobs[number].now + 3) for number in members}
    last = max(starts.values())
    for number in members:
        jobs[number].launch(last + transfer - starts[number], "ncclDevKernel_AllReduce_Sum_f32_RING_LL", stream=stream, after=(starts[number],), **{
            "Collective name": "allreduce", "Process Group Name": name, "Process Group Ranks": str(members), "Group size": len(members),
            **({"Seq": k} if numbered else {})})
    return last + transfer


def grid(tensor, data, late_us, steps=STEPS, per_step=4, same_names=False, with_data=True, slower=lambda rank: 0.0):
    """tensor x data ranks: per_step collectives of each tensor-parallel group in a step, then one of each data-parallel group.
    late_us(rank, k): what that host needs more before its k-th collective; slower(rank): before each, and nobody it meets is quicker."""
    jobs = [Rank(number, tensor * data) for number in range(tensor * data)]
    rows = [list(range(first * tensor, (first + 1) * tensor)) for first in range(data)]
    columns = [list(range(first, tensor * data, tensor)) for first in range(tensor)]
    for step in range(steps):
        began = [rank.now for rank in jobs]
        for k in range(step * per_step, (step + 1) * per_step):
            ready = {}
            for rank in jobs:
                busy = 1000.0 + late_us(rank.rank, k) + slower(rank.rank)
                ready[rank.rank] = rank.launch(busy - 20)
                rank.host(busy - 5)
            for number, row in enumerate(rows):
                meet(jobs, row, "tp" if same_names else f"tp{number}", k, ready, 20)
            for rank in jobs:
                rank.block(stream=20)
        for number, column in enumerate(columns if with_data else []):
            meet(jobs, column, "dp" if same_names else f"dp{number}", step, {each: jobs[each].now for each in column}, 21)
        for rank in jobs if with_data else []:
            rank.block(stream=21)
        for rank, start in zip(jobs, began):
            rank.step(step, start)
    return jobs


def hybrid(slower=lambda rank: 1.0, host_us=lambda rank: 0.0, pairs=4, layers_=6, steps=8, us=100.0):
    """Pairs of tensor-parallel ranks that meet after each layer, each rank in a data-parallel group with those at its place, after each second one.
    Hosts launch a step ahead.  slower(rank): how much longer its kernels take; host_us(rank): what its host does more before each layer."""
    jobs = [Rank(number, 2 * pairs) for number in range(2 * pairs)]
    for step in range(steps):
        began, after = [rank.now for rank in jobs], {rank.rank: 0.0 for rank in jobs}
        for k in range(step * layers_, (step + 1) * layers_):
            for rank in jobs:
                rank.host(host_us(rank.rank) if k % layers_ else 0.0)
                for kernel in range(3):
                    rank.launch(us * slower(rank.rank), f"kernel{kernel}", after=(after[rank.rank],), grid=[10 + kernel, 1, 1], block=[128, 1, 1])
            for pair in range(pairs):
                members = [2 * pair, 2 * pair + 1]
                end = meet(jobs, members, f"tp{pair}", k, {each: max(jobs[each].free[7], jobs[each].free.get(20, 0.0)) for each in members}, 20)
                after.update(dict.fromkeys(members, end))
            for place in range(2 if k % 2 else 0):
                members = list(range(place, 2 * pairs, 2))
                meet(jobs, members, f"dp{place}", k // 2, {each: max(jobs[each].free[20], jobs[each].free.get(21, 0.0)) for each in members}, 21)
        for rank, start in zip(jobs, began):
            rank.launch(50.0, "update", after=(rank.free[20], rank.free[21]), grid=[7, 1, 1], block=[128, 1, 1])
            rank.block()
            rank.step(step, start)
    return jobs


def without(jobs, numbers, first=0.0, last=0.0):
    """As a ring that was overwritten, or a profiler that lost the end: these shares of some ranks' records are gone."""
    for number in numbers:
        rank = jobs[number]
        times = sorted(event["ts"] for event in rank.events)
        begin, end = times[int(first * (len(times) - 1))], times[int((1 - last) * (len(times) - 1))]
        gone = {event["args"].get("correlation") for event in rank.events if not begin <= event["ts"] <= end} - {None, 0}
        rank.events = [event for event in rank.events if begin <= event["ts"] <= end and event["args"].get("correlation") not in gone]
    return jobs


def hidden_waits():
    """A collective that waits for a late rank, while all have enough to compute."""
    jobs = [Rank(number, 4) for number in range(4)]
    for step in range(STEPS):
        began = [rank.now for rank in jobs]
        starts = [rank.now + (900.0 if rank.rank == step % 4 else 20.0) for rank in jobs]
        for rank, start in zip(jobs, starts):
            rank.launch(max(starts) + 30 - start, "ncclDevKernel_AllReduce_Sum_f32_RING_LL", stream=20, after=(start,))
            rank.launch(1200.0)
            rank.block(wake=3.0)
            rank.now = max(rank.free.values()) + 3
        latest = max(rank.now for rank in jobs)
        for rank, start in zip(jobs, began):
            rank.now = latest
            rank.step(step, start)
    return jobs


def slower_from(us, steps):
    """Kernels that take `us` longer each in those steps, 40 of them in one."""
    def step(rank, number):
        layers(rank, us=200.0 + (us if number in steps else 0.0))
    return step


def longer_batches(steps):
    """The same kernels, but with more blocks in those steps."""
    def step(rank, number):
        more = number in steps
        layers(rank, us=260.0 if more else 200.0, grid=[130 if more else 100, 1, 1], block=[128, 1, 1])
    return step


def kernels_by_rank(us, ranks=4, beside=0, steps=STEPS):
    """us(rank, kernel): of each of four kernels; `beside`: a copy that long runs with them."""
    def step(rank, _):
        for kernel in range(40):
            if beside:
                rank.launch(beside, "Memcpy HtoD", stream=9, category="gpu_memcpy", after=(rank.free[7],))
            rank.launch(us(rank.rank, kernel % 4), f"kernel{kernel % 4}", grid=[kernel % 4 + 1, 1, 1], block=[128, 1, 1])
    return training(step, ranks, steps=steps)


def other_grids(rank, _):
    for kernel in range(40):
        rank.launch(240.0 if rank.rank == 2 else 200.0, f"kernel{kernel % 4}", grid=[8 if rank.rank == 2 else 6, 1, 1], block=[128, 1, 1])


def small(count, size, us=60.0, beside=0.0):
    """Collectives of `size` elements, one after the other behind the backward pass, or beside it."""
    def step(rank, _):
        layers(rank, 40)
        begins = rank.free[7] - beside
        for _ in range(count):
            begins = rank.launch(us, "ncclDevKernel_AllReduce_Sum_f32_RING_LL", stream=20, after=(begins,), dtype="Float",
                                 **{"Collective name": "allreduce", "In msg nelems": size, "Process Group Name": "0", "Group size": 8})
        rank.launch(200.0, after=(begins,))
    return step


def stalls(every, us, ranks=6, of=6):
    """Each rank stops for `us` at a collective of its own, in turn."""
    return lambda rank, k: us if k % every == 0 and (k // every) % of == rank and rank < ranks else 0.0


def on_hosts(jobs, offset, ppm=0.0, jitter_us=0.0, per_host=2, named=True):
    """Ranks on hosts whose clocks differ."""
    source = random.Random(5)
    for rank in jobs:
        host = rank.rank // per_host
        rank.on_host = f"host_{host}" if named else None
        if host:
            rank.move_clock(offset * host, ppm, lambda: jitter_us * source.random())
    return jobs


def one_late(late, us, of=1.0):
    random_source = random.Random(7)
    return lambda rank, _: us if rank in late and random_source.random() < of else 0.0


def stalls_together(ranks, us=20000.0, every=10, others=2):
    """Garbage is collected before every tenth collective, or as often as said on rank 1, there at another time than on the others."""
    return lambda rank, k: us if rank in ranks and (k % every == every - 3 if rank == 1 else k % 10 == others) else 0.0


def jitter(us):
    random_source = random.Random(11)
    return lambda _rank, _k: us * random_source.random()
