"""What is said of profiles in which a known time is lost, of their healthy twins and of near misses.   verdicts.py TRAINTRACE"""
import json
import random
import subprocess
import sys
import tempfile

from made import Rank

STEPS = 12
QUIET = {"run.healthy", "latency.harmless-sync", "latency.entry-skew", "trace.missing-rank"}


def layers(rank, count=40, us=200.0, **options):
    """Work that the host queues faster than the GPU does it."""
    for _ in range(count):
        rank.launch(us, **options)


def training(each_step, ranks=1, lead=2000.0, steps=STEPS):
    jobs = []
    for number in range(ranks):
        rank = Rank(number, ranks)
        rank.launch(lead, name="warm")
        for step in range(steps):
            began = rank.now
            each_step(rank, step)
            rank.step(step, began)
        jobs.append(rank)
    return jobs


# One rank.  Each function does one step; what it loses per step in us is returned by `lost` below.

def pausing(us, each=50, when=lambda step: step == 6):
    """As `item`, and a checkpoint of `us` in one step or some, which is a line of its own."""
    def step(rank, number):
        layers(rank, 20)
        began = rank.now
        rank.block()
        rank.frame("train.py(31): log_loss", began - 1)
        rank.host(each)
        layers(rank, 20)
        if when(number):
            began = rank.now
            rank.block("cudaDeviceSynchronize")
            rank.frame("train.py(77): save_checkpoint", began - 1)
            rank.host(us)
    return step


def warm_up(us, when=lambda step: step == 0, gaps=40):
    """In one step, or some, the host needs `us` before each launch; the GPU has done all of a step before the next begins."""
    def step(rank, number):
        for _ in range(gaps):
            rank.host(us if when(number) else 0.0)
            rank.launch(200.0)
        rank.block("cudaDeviceSynchronize")
    return step


def marked_nowhere(jobs):
    """The same, where the job marked no steps, and what it does does not repeat."""
    source = random.Random(3)
    for rank in jobs:
        rank.events = [event for event in rank.events if not event["name"].startswith("ProfilerStep#")]
        for event in rank.events:
            if event["cat"] == "kernel":
                event["name"] += str(source.randrange(5))
    return jobs


def start_up(us):
    """Before the first step the GPU is used once, and then nothing happens for long."""
    rank = Rank(0, 1)
    for _ in range(10):
        rank.launch(20.0)
        rank.block()
        rank.host(us / 10)
    for step in range(STEPS):
        began = rank.now
        healthy(rank, step)
        rank.step(step, began)
    return [rank]


def first_use(us, step=5):
    """A kernel that is launched for the first time in one of the steps, when the queue is empty."""
    def each(rank, number):
        layers(rank)
        if number == step:
            rank.now = max(rank.now, rank.free[7] - 10)
            rank.launch(200.0, "evaluate", cost=us, latency=us + 3)
    return each


def begins_late(us):
    """The launch returns at once, nothing is queued, and the work begins long after."""
    def step(rank, _):
        layers(rank, 10)
        rank.now = max(rank.now, rank.free[7] + 10)
        rank.launch(200.0, latency=us)
        layers(rank, 30)
    return step


def short_kernels(gap):
    """All is launched in time; between two kernels is a gap."""
    def step(rank, _):
        for _ in range(100):
            rank.launch(20.0, after=(rank.free[7] + gap,))
    return step


def exposed_little_unknown(rank, _):
    """6 of 10 ms are a collective that nothing is computed beside, and 0.2 ms of 0.2 idle have no known reason."""
    layers(rank, 20)
    end = rank.launch(6000.0, "ncclDevKernel_AllReduce_Sum_f32_RING_LL", stream=20, after=(rank.free[7],))
    rank.launch(200.0, after=(end + 200,))


def healthy(rank, _):
    layers(rank)


def loader(us):
    def step(rank, _):
        rank.block()  # as loss.item() at the end of a step: the loader then runs with an empty queue
        rank.host(us, "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", "user_annotation")
        layers(rank)
    return step


def loader_once(rank, step):
    loader(8000 if step == 0 else 0)(rank, step)


def item(us):
    """The queue runs dry at a synchronisation, and the host needs `us` to go on."""
    def step(rank, _):
        layers(rank, 20)
        began = rank.now
        rank.block()
        rank.frame("train.py(31): log_loss", began - 1)
        rank.host(us)
        layers(rank, 20)
    return step


def blocked_while_busy(rank, _):
    """The host waits for one stream while another has work for long."""
    rank.launch(12000.0, stream=8)
    rank.launch(6000.0, stream=9)
    rank.block(stream=9)
    rank.host(100)


def blocked_beyond():
    """The same, and a call that returns long after the last work; for a moment there is work on another device."""
    jobs = training(blocked_while_busy)
    rank = jobs[0]
    for event in [event for event in rank.events if event["name"] == "cudaStreamSynchronize"]:
        event["args"]["device"] = 0
        rank.blocked_us = getattr(rank, "blocked_us", 0.0) + event["dur"]
    rank.add("kernel", "gemm", rank.now / 2, 300, 7, device=1, stream=7, correlation=1 << 20)
    rank.add("cuda_runtime", "cudaEventSynchronize", max(rank.free.values()), 500_000, "host", correlation=0, device=0)
    return jobs


def held_up(us):
    """Nothing is waited for, and the queue runs dry where the host needs more than the GPU has work for."""
    def step(rank, number):
        layers(rank)
        rank.host(us(number))
    return step


def once(rank, step):
    """One synchronisation in the whole profile, with a long pause after it."""
    if step == 6:
        rank.block()
        rank.host(8000)
    layers(rank)


def pageable(us, copy=100):
    """The host is held until the copy is done, and needs `us` to go on."""
    def step(rank, _):
        end = rank.launch(copy, "Memcpy HtoD (Pageable -> Device)", call="cudaMemcpyAsync", category="gpu_memcpy", cost=1.0)
        rank.events[-2]["dur"] = round(end - rank.events[-2]["ts"], 3)
        rank.now = end
        rank.host(us)
        layers(rank)
    return step


def copied(us, stream=7, name="Memcpy HtoD (Pinned -> Device)", when=lambda step: True):
    """A copy of `us`, on the stream that computes or beside it."""
    def step(rank, number):
        if when(number):
            rank.launch(us, name, call="cudaMemcpyAsync", category="gpu_memcpy", stream=stream)
        layers(rank)
    return step


def prefetching(us, exposed_us=0.0, name="Memcpy DtoH (Device -> Pinned)", when=lambda step: True):
    """The host runs steps ahead, and fetches each batch by a copy of `us` on a stream of its own; in a step there is a copy of `exposed_us` on the main one."""
    def step(rank, number):
        end = rank.launch(us, "Memcpy HtoD (Pinned -> Device)", call="cudaMemcpyAsync", category="gpu_memcpy", stream=31)
        rank.launch(200.0, "first", after=(end,))
        layers(rank, 30)
        if exposed_us and when(number):
            rank.launch(exposed_us, name, call="cudaMemcpyAsync", category="gpu_memcpy")
        layers(rank, 9)
    return step


def pausing_at(steps):
    """In those steps the host waits for the GPU and then needs 5 ms."""
    def step(rank, number):
        if number in steps:
            rank.block("cudaDeviceSynchronize")
            rank.host(5000)
        layers(rank)
    return step


def messages(stages=4, micro_batches=4, noted=True, last_stage=0.0):
    """A pipeline by one forward and one backward pass after the other of all micro-batches; both ends of a message end together."""
    jobs = [Rank(number, stages) for number in range(stages)]
    for step in range(STEPS):
        began = [rank.now for rank in jobs]
        for back in (False, True):
            order = jobs[::-1] if back else jobs
            for _ in range(micro_batches):
                for place, rank in enumerate(order):
                    for _ in range(10):
                        rank.launch(100.0 * (2 if back else 1) + (last_stage if rank is jobs[-1] else 0.0))
                    if place + 1 == stages:
                        continue
                    peer = order[place + 1]
                    sends, receives = rank.free[7], max(peer.now + 3, peer.free.get(21 + back, 0.0))
                    end = max(sends, receives) + 20
                    for own, other, start, operation, stream in ((rank, peer, max(sends, rank.now + 3, rank.free.get(23 + back, 0.0)), "send", 23 + back),
                                                                 (peer, rank, receives, "recv", 21 + back)):
                        own.launch(end - min(start, end), "ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)", stream=stream, after=(start,), latency=0.0, **(
                            {"Collective name": operation, "Process Group Name": "pp", "Process Group Ranks": str(list(range(stages))),
                             "Group size": stages, "Seq": step, "Dst Rank" if operation == "send" else "Src Rank": other.rank} if noted else {}))
                    peer.free[7] = max(peer.free.get(7, 0.0), end)
        for rank in jobs:
            rank.block()
        for rank, start in zip(jobs, began):
            rank.step(step, start)
    return jobs


def without_groups(jobs):
    """As older versions of PyTorch write them: nothing is said of a kernel of NCCL."""
    for rank in jobs:
        for event in rank.events:
            for key in [key for key in event["args"] if key in ("Collective name", "Seq", "Group size") or key.startswith("Process Group")]:
                del event["args"][key]
    return jobs


def slow_host(us):
    """Kernels of 5 us that the host launches every `us`."""
    def step(rank, _):
        for _ in range(200):
            rank.launch(5.0)
            rank.host(us)
    return step


def tiny(rank, _):
    """Kernels of 4 us that the host launches every 10 us: each is launched while the one before still runs, and the call returns after that."""
    for _ in range(200):
        rank.launch(4.0, cost=4.5, latency=7.0)
        rank.host(5.5)


def allocating(us):
    def step(rank, _):
        while rank.now < rank.free[7]:
            rank.host(10)
        rank.add("cuda_runtime", "cudaMalloc", rank.now, us, "host", correlation=0)
        rank.now += us
        layers(rank)
    return step


def graph(gap):
    def step(rank, _):
        rank.correlation += 1
        rank.add("cuda_runtime", "cudaGraphLaunch", rank.now, 10, "host", correlation=rank.correlation)
        start = max(rank.now + 5, rank.free[7])
        rank.now += 20
        for _ in range(20):
            rank.add("kernel", "node", start, 300, 7, device=0, stream=7, correlation=rank.correlation)
            start += 300 + gap
        rank.free[7] = start - gap
    return step


def exposed(us, beside):
    """A collective of `us`, of which `beside` has something computed beside it."""
    def step(rank, _):
        layers(rank, 20)
        end = rank.launch(us, "ncclDevKernel_AllReduce_Sum_f32_RING_LL", stream=20, after=(rank.free[7],))
        rank.launch(beside, "gemm", after=(end - us,))
        rank.launch(4000, "gemm", after=(end,))
    return step


def unknown(rank, _):
    """Work that was launched long before, and waits for nothing that was recorded."""
    layers(rank, 10)
    rank.launch(200, after=(rank.free[7] + 3000,))
    layers(rank, 10)


def drops_rows(jobs, share, at_end=False):
    """A profiler that drops GPU rows of launches that it has."""
    for rank in jobs:
        rows = [event for event in rank.events if event["cat"] == "kernel"]
        count = int(share * len(rows))
        gone = {id(event) for event in (rows[len(rows) - count:] if at_end else rows[::max(1, round(1 / share))])}
        rank.events = [event for event in rank.events if id(event) not in gone]
    return jobs


def captures(rank, _):
    """Launches that are captured into a graph have no rows of their own."""
    rank.add("cuda_runtime", "cudaStreamBeginCapture", rank.now, 5, "host", correlation=0)
    rank.now += 10
    for _ in range(30):
        rank.correlation += 1
        rank.add("cuda_runtime", "cudaLaunchKernel", rank.now, 3, "host", correlation=rank.correlation)
        rank.now += 5
    rank.add("cuda_runtime", "cudaStreamEndCapture", rank.now, 5, "host", correlation=0)
    rank.now += 10
    layers(rank)


def other_kernel(name, us=3000.0):
    """As `exposed`, by a kernel that NCCL does not have."""
    def step(rank, _):
        layers(rank, 20)
        end = rank.launch(us, name, stream=20, after=(rank.free[7],))
        rank.launch(4000, "gemm", after=(end,))
    return step


def on_amd(step):
    """The same with HIP's names, as Kineto writes them on AMD."""
    jobs = training(step)
    for event in jobs[0].events:
        if event["cat"] == "cuda_runtime":
            event["name"] = event["name"].replace("cuda", "hip", 1)
    return jobs


def half_recorded(us):
    """Every second launch is missing from the trace."""
    def step(rank, step_number):
        slow_host(us)(rank, step_number)
        launches = [event for event in rank.events if event["name"] == "cudaLaunchKernel"]
        for event in launches[-200::2]:
            rank.events.remove(event)
    return step


def exposed_unknown(rank, step):
    exposed(3000, 0)(rank, step)
    rank.launch(200, after=(rank.free[7] + 3000,))


def polling(count, pause, other=0):
    """`count` questions of 1 us, `pause` us between them; something else after every `other` of them."""
    def step(rank, _):
        layers(rank)
        for number in range(count):
            rank.host(1, "cudaEventQuery", "cuda_runtime")
            rank.host(pause)
            if other and number % other == 0:
                rank.host(1, "cudaEventRecord", "cuda_runtime")
    return step


def launching(slow, cost, kernel=20.0, pause=5.0, slow_pause=None):
    """Launches take `cost` on the ranks `slow`, 5 us on others; between two of them the host needs a pause."""
    def step(rank, _):
        for _ in range(100):
            rank.launch(kernel, cost=cost if rank.rank in slow else 5.0)
            rank.host(slow_pause if slow_pause and rank.rank in slow else pause)
    return step


def queueing(room, cost=5.0, count=150):
    """Launches wait while `room` of them have not begun."""
    def step(rank, _):
        if not hasattr(rank, "begins"):
            rank.begins, rank.waited = [], 0.0
        for _ in range(count):
            oldest = rank.begins[-room] if room <= len(rank.begins) else 0.0
            wait = max(0.0, oldest - rank.now)
            rank.waited += wait + cost if wait > 100 else 0.0
            rank.begins.append(rank.launch(200.0, cost=wait + cost) - 200.0)
    return step


# Several ranks: collectives end together, so that they are made for all ranks at once.

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


# name: jobs, code expected, culprits, (value, us in the whole profile, or None)
def cases():
    yield "healthy", training(healthy), None, [], None
    yield "loader", training(loader(2000)), "latency.data-starvation", [0], ("idle_ns", 2000 * STEPS)
    yield "loader short", training(loader(60)), None, [], None
    yield "loader once", training(loader_once), "latency.pause", [], ("idle_ns", 8000)
    yield "item", training(item(1500)), "latency.sync-in-loop", [0], ("idle_ns", 1508 * STEPS)
    yield "item quick", training(item(50)), None, [], None
    yield "blocked while busy", training(blocked_while_busy), "latency.harmless-sync", [], None
    beyond = blocked_beyond()
    yield "blocked beyond the work", beyond, "latency.harmless-sync", [], ("blocked_ns", beyond[0].blocked_us)
    yield "once", training(once), "latency.pause", [], ("idle_ns", 8000)
    yield "held up once", training(held_up(lambda step: 150_000 if step == 6 else 0)), "latency.pause", [], None
    yield "checkpoint", training(pausing(2_000_000)), "latency.pause", [], ("idle_ns", 2_000_000)
    again = pausing(2_000_000, when=lambda step: step % 3 == 2)
    yield "checkpoint every third step", training(again), "latency.pause", [], ("returning_ns", 3 * 2_000_000)
    # However long the recording is: each is a quarter of 1 % of this one.
    for name, when, code, value in (("every third step", lambda step: step % 3 == 2, "latency.pause", ("returning_ns", 80 * 6000)),
                                    ("unevenly", lambda step: step % 7 in (1, 3, 4), "latency.unattributed", None)):
        yield f"checkpoint {name}, long recording", training(pausing(6000, when=when), steps=240), code, [], value
    for name, steps in (("twice", (3, 9)), ("unevenly", (2, 3, 10)), ("in one phase", (4, 5, 6))):
        yield f"checkpoint {name}", training(pausing(2_000_000, when=lambda step, steps=steps: step in steps)), "run.healthy", [], None
    yield "checkpoint every third step, quick", training(pausing(3000, when=lambda step: step % 3 == 2)), "run.healthy", [], None
    yield "checkpoint, what it costs", training(pausing(2_000_000)), "latency.pause", [], ("gain_ns", 2_000_000)
    yield "checkpoint, short", training(pausing(3000)), None, [], None
    yield "checkpoint beside a habit", training(pausing(2_000_000, each=70_000)), "latency.sync-in-loop", [0], ("idle_ns", 70_000 * STEPS)
    yield "start-up", start_up(300_000), "latency.pause", [], ("idle_ns", 300_000)
    yield "warm-up step", training(warm_up(1200)), "latency.pause", [], ("idle_ns", 40_000)
    yield "warm-up step, many gaps", training(warm_up(350, gaps=200)), "latency.pause", [], ("idle_ns", 29_200)
    yield "evaluation", training(warm_up(1200, when=lambda step: step == 6)), "latency.pause", [], ("idle_ns", 40_000)
    yield "warm-up in each step", training(warm_up(500, when=lambda _: True)), "latency.host-bound", [0], ("idle_ns", 305 * 40 * STEPS)
    yield "warm-up, no steps known", marked_nowhere(training(warm_up(1200))), "latency.pause", [], ("idle_ns", 40_000)
    yield "warm-up in each step, no steps known", marked_nowhere(training(warm_up(500, when=lambda _: True))), "latency.host-bound", [0], None
    yield "copied once", training(copied(40_000, when=lambda step: step == 6)), "latency.pause", [], ("idle_ns", 40_000)
    yield "checkpoint on rank 0", together(4, lambda rank, k: 300_000.0 if (rank, k) == (0, 28) else 0.0), "latency.pause", [], ("waited_ns", 300_000)
    yield "late in each step", together(4, lambda rank, k: 400.0 if rank == 0 and k % 5 == 3 else 0.0), "latency.straggler", [0], None
    for name, steps in (("first", range(1, 5)), ("middle", range(25, 29))):
        burst = together(4, lambda rank, k: 0.0, steps=50, idle_us=lambda rank, k, steps=steps: 18_000.0 if rank == 1 and k % 5 == 0 and k // 5 in steps else 0.0)
        yield f"late in the {name} steps alone", burst, "latency.wait-not-transfer", [], None
    yield "one step, uneven", on_gpu(4, more_on({1}), steps=1), "run.healthy", [], None
    yield "late in each step, and a checkpoint", together(4, lambda rank, k: (300_000.0 if k == 28 else 6000.0 if k % 5 == 3 else 0.0) if rank == 0 else 0.0), (
        "latency.straggler"), [0], ("late_ns", 6000 * (STEPS - 1))
    yield "first use", training(first_use(60_000)), "latency.lazy-load", [], ("idle_ns", 60_000)
    yield "first use, quick", training(first_use(90)), None, [], None
    yield "begins late", training(begins_late(5000)), "latency.unattributed", [], ("idle_ns", 4900 * STEPS)
    yield "begins soon", training(begins_late(90)), None, [], None
    yield "short kernels", training(short_kernels(6.0), lead=10_000), "latency.unattributed", [], ("idle_ns", 6 * 100 * STEPS)
    yield "short kernels, close", training(short_kernels(1.5), lead=10_000), None, [], None
    yield "exposed, little unknown", training(exposed_little_unknown), "latency.exposed-communication", [], ("exposed_ns", 6000 * STEPS)
    yield "held up each time", training(held_up(lambda _: 12_000)), "latency.host-bound", [0], None
    yield "item, one takes long", training(lambda rank, step: item(60_000 if step == 6 else 50)(rank, step)), "latency.pause", [], ("idle_ns", 60_000)
    yield "loader, one takes long", training(lambda rank, step: loader(60_000 if step == 6 else 60)(rank, step)), "latency.pause", [], ("idle_ns", 60_000)
    yield "pageable", training(pageable(1500)), "latency.pageable-copy", [0], ("idle_ns", 1503 * STEPS)
    yield "pageable quick", training(pageable(20)), None, [], None
    yield "pageable, long", training(pageable(0, copy=3000)), "latency.pageable-copy", [0], ("exposed_ns", 3000 * STEPS)
    yield "pageable, short", training(pageable(0, copy=240)), None, [], None
    yield "copied first", training(copied(1000)), "latency.exposed-copy", [0], ("exposed_ns", 1000 * STEPS)
    yield "copied beside", training(copied(1000, stream=8)), None, [], None
    yield "copied quick", training(copied(250)), None, [], None
    yield "copied on the GPU", training(copied(1000, name="Memcpy DtoD (Device -> Device)")), "latency.exposed-copy", [0], ("exposed_ns", 1000 * STEPS)
    yield "slow host", training(slow_host(15), lead=10), "latency.host-bound", [0], None
    yield "half recorded", training(half_recorded(15), lead=10), "latency.unattributed", [], None
    yield "exposed and unknown", training(exposed_unknown), "latency.unattributed", [], None
    yield "allocating", training(allocating(1500)), "latency.implicit-sync", [0], ("idle_ns", 1500 * STEPS)
    yield "allocating quick", training(allocating(30)), None, [], None
    yield "graph", training(graph(100)), "latency.graph-gap", [0], ("idle_ns", 1900 * STEPS)
    yield "graph tight", training(graph(2)), None, [], None
    yield "exposed", training(exposed(3000, 0)), "latency.exposed-communication", [], ("exposed_ns", 3000 * STEPS)
    yield "exposed in part", training(exposed(3000, 1000)), "latency.exposed-communication", [], ("exposed_ns", 2000 * STEPS)
    yield "hidden", training(exposed(3000, 2990)), None, [], None
    yield "rows dropped", drops_rows(training(healthy), 0.05), "trace.incomplete-timeline", [], ("missing_count", 24)
    yield "tail lost", drops_rows(training(healthy), 0.1, at_end=True), "trace.incomplete-timeline", [], ("missing_count", 48)
    yield "captured", training(captures), None, [], None
    for kernel in ("void c10d::symmetric_memory::multimem_all_reduce_kernel<float>(..)", "void deep_ep::internode_ll::dispatch<true>(..)",
                   "void vllm::cross_device_reduce_1stage<__half, 8>(..)", "nvshmemi_transfer_rma", "mscclpp_allreduce"):
        yield kernel, training(other_kernel(kernel)), "latency.exposed-communication", [], ("exposed_ns", 3000 * STEPS)
    yield "a kernel that only sounds so", training(other_kernel("void at::native::reduce_kernel<512>(..)")), None, [], None
    yield "item on AMD", on_amd(item(1500)), "latency.sync-in-loop", [0], ("idle_ns", 1508 * STEPS)
    yield "allocating on AMD", on_amd(allocating(1500)), "latency.implicit-sync", [0], ("idle_ns", 1500 * STEPS)
    yield "graph on AMD", on_amd(graph(100)), "latency.graph-gap", [0], ("idle_ns", 1900 * STEPS)
    yield "unknown", training(unknown), "latency.unattributed", [], None
    yield "polling", training(polling(1000, 1)), "latency.event-spin", [], ("polled_ns", 2000 * STEPS)
    yield "polling and sleeping", training(polling(60, 50)), None, [], None
    yield "polling seldom", training(polling(110, 1)), None, [], None
    yield "asking for many", training(polling(1000, 1, other=80)), None, [], None
    yield "slow launches", training(launching({2}, 30.0), 4), "latency.cpu-contention", [2], ("extra_ns", 25 * 100 * STEPS)
    yield "usual launches", training(launching({2}, 5.0), 4), None, [], None
    yield "slow launches, busy GPU", training(launching({2}, 30.0, kernel=40.0), 4), None, [], None
    yield "slow launches everywhere", training(launching({0, 1, 2, 3}, 30.0), 4, lead=10), "latency.host-bound", [0, 1, 2, 3], None
    yield "slow launches of one of two", training(launching({1}, 30.0), 2, lead=10), "latency.host-bound", [1], None
    yield "slow between launches", training(launching({2}, 5.0, slow_pause=30.0), 4, lead=10), "latency.host-bound", [2], None
    yield "launches somewhat slower", training(launching({2}, 9.0, slow_pause=21.0), 4, lead=10), "latency.host-bound", [2], None
    queued = training(queueing(1024))
    yield "full queue", queued, "latency.queue-full", [], ("blocked_ns", queued[0].waited)
    yield "room left", training(queueing(4000)), None, [], None
    yield "held up before", training(queueing(900)), None, [], None
    yield "long launches", training(queueing(4000, cost=150.0)), None, [], None
    yield "straggler after a call of all", after_a_call(4, {2}, 6000.0), "latency.straggler", [2], ("late_ns", 6000 * (STEPS - 1))
    yield "all late after a call", after_a_call(4, {0, 1, 2, 3}, 6000.0), "latency.sync-in-loop", [0, 1, 2, 3], None
    yield "a call of all, healthy", after_a_call(4, set(), 0.0), None, [], None
    yield "straggler", together(4, one_late({2}, 400)), "latency.straggler", [2], ("late_ns", 400 * (STEPS * 5 - 1))
    yield "two stragglers", together(8, one_late({4, 5}, 400)), "latency.straggler", [4, 5], ("late_ns", 400 * (STEPS * 5 - 1))
    # The host launches in time, and the GPU comes late.
    later = ("late_ns", 400 * (STEPS * 4 - 1))
    yield "more work on one GPU", on_gpu(4, more_on({2})), "latency.straggler", [2], later
    yield "more work, hidden", on_gpu(4, more_on({2}), hidden=True), "latency.straggler", [2], None
    yield "as much work", on_gpu(4, more_on(set())), None, [], None
    yield "hardly more work", on_gpu(4, lambda rank, k: even(us=206.0 if rank == 2 else 200.0)), None, [], None
    yield "more work on half", on_gpu(4, more_on({2, 3})), "latency.wait-not-transfer", [], None
    yield "more work in turn", on_gpu(4, lambda rank, k: even(kernels=7 if k // 4 % 4 == rank else 5)), "latency.wait-not-transfer", [], None
    yield "work uneven by chance", on_gpu(4, uneven_by_chance(0.4)), "latency.wait-not-transfer", [], None
    yield "slower, in seldom grids", on_gpu(4, slower_on({1}, 1.4, True), per_step=2), "latency.straggler", [1], ("late_ns", 400 * (STEPS * 2 - 1))
    yield "slow GPU that others wait for", on_gpu(4, slower_on({1}, 1.4)), "latency.slow-device", [1], ("slower_ns", 400 * STEPS * 4)
    yield "of two the slower", on_gpu(2, slower_on({1}, 1.4)), "latency.straggler", [1], later
    yield "of two the one with more", on_gpu(2, more_on({1})), "latency.wait-not-transfer", [], None
    yield "entry", together(4, lambda rank, k: 0, entry=lambda rank: 9000.0 if rank == 3 else 0.0), None, [], None
    yield "hidden waits", hidden_waits(), None, [], None
    yield "rotating", together(6, stalls(3, 1500)), "latency.rotating-stall", [], ("late_ns", 1500 * 19)
    yield "rotating, each time", together(3, stalls(1, 600, of=3)), "latency.rotating-stall", [], None
    yield "rotating, short", together(6, stalls(3, 150)), None, [], None
    yield "rotating, seldom", together(6, stalls(15, 1500)), "latency.wait-not-transfer", [], None
    yield "two in turn", together(6, stalls(3, 1500, ranks=2)), "latency.straggler", [0, 1], None
    yield "much jitter", together(4, jitter(900)), "latency.wait-not-transfer", [], None
    yield "small collectives", training(small(30, 1024)), "latency.small-collectives", [], ("exposed_ns", 1800 * STEPS)
    yield "few small ones", training(small(5, 1024)), None, [], None
    yield "small but hidden", training(small(30, 1024, beside=2000.0)), None, [], None
    yield "many large ones", training(small(30, 1 << 20)), "latency.exposed-communication", [], ("exposed_ns", 1800 * STEPS)
    yield "jitter", together(4, jitter(40)), None, [], None
    yield "slow device", kernels_by_rank(lambda rank, _: 230.0 if rank == 2 else 200.0), "latency.slow-device", [2], ("slower_ns", 30 * 40 * STEPS)
    yield "devices alike", kernels_by_rank(lambda rank, kernel: 200.0 + 20 * kernel + rank), None, [], None
    yield "a bit slow", kernels_by_rank(lambda rank, _: 208.0 if rank == 2 else 200.0), None, [], None
    yield "one kernel slow", kernels_by_rank(lambda rank, kernel: 290.0 if rank == 2 and kernel == 1 else 200.0), None, [], None
    yield "all but one slow", kernels_by_rank(lambda rank, kernel: 240.0 if rank == 2 and kernel != 1 else 200.0), None, [], None
    yield "slow beside copies", kernels_by_rank(lambda rank, _: 230.0 if rank == 2 else 200.0, beside=100), None, [], None
    yield "one of two slow", kernels_by_rank(lambda rank, _: 230.0 if rank == 1 else 200.0, ranks=2), None, [], None
    yield "half slow", kernels_by_rank(lambda rank, _: 230.0 if rank > 1 else 200.0), None, [], None
    yield "larger on one rank", training(other_grids, 4), None, [], None
    yield "slower", training(slower_from(60, range(12, 24)), steps=24), "latency.step-regression", [0], ("slower_ns", 60 * 40 * 11)
    yield "slower together", together(4, lambda rank, k: 300.0 if rank == 2 and k >= 60 else 0.0, steps=24), "latency.step-regression", [2], ("slower_ns", 300 * 5 * 11)
    yield "slower, all", together(4, lambda rank, k: 300.0 if k >= 60 else 0.0, steps=24), "latency.step-regression", [], ("slower_ns", 300 * 5 * 11)
    yield "slower, not much", training(slower_from(15, range(12, 24)), steps=24), None, [], None
    yield "slower for some", training(slower_from(60, range(8, 14)), steps=24), "latency.step-regression", [0], ("slower_ns", 60 * 40 * 6)
    yield "slower for a few", training(slower_from(60, range(8, 12)), steps=24), None, [], None
    yield "slower for some, little", training(slower_from(15, range(8, 14)), steps=24), None, [], None
    yield "slower for some, more work", training(lambda rank, step: layers(rank, 60 if 8 <= step < 14 else 40), steps=24), None, [], None
    yield "slower for some, longer batches", training(longer_batches(range(8, 14)), steps=24), None, [], None
    yield "slower now and then", training(slower_from(60, range(0, 24, 2)), steps=24), None, [], None
    yield "slower at the end", training(slower_from(60, range(20, 24)), steps=24), None, [], None
    for name, works, culprits in (("on one rank", more_in_steps({1}, range(8, 16)), [1]), ("on all", more_in_steps({0, 1, 2, 3}, range(8, 16)), None)):
        yield f"more work for some steps, {name}", on_gpu(4, works, steps=24), "latency.step-regression" if culprits else None, culprits or [], None
    yield "slower at first", training(slower_from(60, range(0, 12)), steps=24), "latency.step-regression", [], ("slower_ns", 60 * 40 * 11)
    yield "more work", training(lambda rank, step: layers(rank, 40 if step < 12 else 60), steps=24), None, [], None
    # The time until a launch returns and arrives is the host's, 6 us of each 10; a gap between kernels that are queued is not.
    yield "tiny kernels", training(tiny, lead=10), "latency.host-bound", [0], ("idle_ns", 6 * 200 * STEPS)
    # A batch that is fetched while the host is steps ahead.
    yield "prefetched", training(prefetching(100)), None, [], None
    yield "prefetched, copies", training(prefetching(100, 2500)), "latency.exposed-copy", [0], ("exposed_ns", 2500 * STEPS)
    yield "prefetched, one copy", training(prefetching(100, 12000, when=lambda step: step == 6)), "latency.pause", [], ("idle_ns", 12000)
    # Warm-up steps: half of the steps is no less than half.
    for warm, steps, code in ((2, 5, "latency.pause"), (3, 7, "latency.pause"), (4, 9, "latency.pause"), (3, 6, "latency.sync-in-loop"), (3, 5, "latency.sync-in-loop")):
        yield f"{warm} of {steps} warm up", training(pausing_at(range(warm)), steps=steps), code, [] if code == "latency.pause" else [0], None
    # Messages are no collectives, and what nothing joins is not compared.
    yield "pipeline", messages(), "latency.exposed-communication", [], None
    yield "pipeline, nothing noted", messages(noted=False), "latency.exposed-communication", [], None
    yield "groups not named, healthy", without_groups(grid(4, 3, lambda rank, k: 0)), None, [], None
    yield "groups not named", without_groups(grid(2, 2, one_late({2}, 400), with_data=False)), "latency.exposed-communication", [], None
    # Groups of ranks: those that never meet cannot be late for each other.
    yield "grid, healthy", grid(4, 3, lambda rank, k: 0), None, [], None
    yield "grid", grid(4, 3, one_late({6}, 400)), "latency.straggler", [6], ("late_ns", 400 * (STEPS * 4 - 1))
    yield "grid, names alike", grid(4, 3, one_late({6}, 400), same_names=True), "latency.straggler", [6], ("late_ns", 400 * (STEPS * 4 - 1))
    yield "grid, one in each group", grid(4, 3, one_late({1, 6, 8}, 400)), "latency.straggler", [1, 6, 8], ("late_ns", 400 * (STEPS * 4 - 1))
    yield "grid, no data", grid(4, 3, one_late({6}, 400), with_data=False), "latency.straggler", [6], ("late_ns", 400 * (STEPS * 4 - 1))
    yield "never meet", grid(4, 3, lambda rank, k: 0, with_data=False, slower=lambda rank: 400.0 * (rank // 4)), None, [], None
    # A rank that waits for its tensor-parallel neighbour comes late to the data-parallel group, whatever its host does meanwhile.
    slow, busy = (lambda rank: 1.3 if rank == 0 else 1.0), (lambda us: lambda rank: us if rank == 1 else 0.0)
    yield "hybrid, slow GPU", hybrid(slow), "latency.slow-device", [0], ("gain_ns", 4230)
    yield "hybrid, and a busy host that costs nothing", hybrid(slow, busy(200)), "latency.slow-device", [0], ("gain_ns", 4230)
    yield "hybrid, and a host that is nearly late", hybrid(slow, busy(320)), "latency.slow-device", [0], None
    yield "hybrid, busy host alone", hybrid(host_us=busy(260)), "latency.exposed-communication", [], None
    yield "hybrid, slow host", hybrid(host_us=busy(450)), "latency.straggler", [1], ("late_ns", 5680)
    # Who stalls as often and as long as the others is no straggler, where theirs coincide.
    yield "stalls at another time", together(4, stalls_together({0, 1, 2, 3})), "latency.wait-not-transfer", [], None
    yield "stalls at another time, the first before the recording", together(4, stalls_together({0, 1, 2, 3}, others=0)), "latency.wait-not-transfer", [], None
    yield "stalls twice as often", together(4, stalls_together({0, 1, 2, 3}, every=5, others=0)), "latency.straggler", [1], ("late_ns", 20000 * 7)
    yield "stalls, one rank", together(4, stalls_together({1})), "latency.straggler", [1], ("late_ns", 20000 * 6)
    # An expert that is hot in each step, beside collectives to which nobody can be late.
    yield "hot", on_gpu(4, before_first(lambda rank, step: 1.6 if rank == 1 else 1.0)), "latency.straggler", [1], ("gain_ns", 600 * (STEPS - 1))
    yield "hot, each in turn", on_gpu(4, before_first(lambda rank, step: 1.6 if rank == step % 4 else 1.0)), "latency.wait-not-transfer", [], None
    yield "slow now and then", on_gpu(4, lambda rank, k: even(us=300.0 if rank == 1 and k // 4 % 2 else 200.0), steps=16), "latency.slow-device", [1], ("gain_ns", 500 * 4 * 8)
    yield "rings", without(grid(4, 3, one_late({6}, 400)), [4, 5, 9], first=0.2), "latency.straggler", [6], None
    yield "rings, healthy", without(grid(4, 3, lambda rank, k: 0), [4, 5, 9], first=0.2), None, [], None
    yield "tails", without(grid(4, 3, one_late({6}, 400)), [5, 6], last=0.3), "latency.straggler", [6], None
    yield "tails, healthy", without(grid(4, 3, lambda rank, k: 0), [5, 6], last=0.3), None, [], None
    yield "a group that is not whole", grid(4, 3, one_late({6}, 400), with_data=False)[:11], "latency.straggler", [6], None
    late = ("late_ns", 400 * (STEPS * 5 - 1))
    yield "two hosts", on_hosts(together(4, one_late({2}, 400), numbered=True), 12345.0), "latency.straggler", [2], late
    yield "two hosts, healthy", on_hosts(together(4, lambda rank, k: 0, numbered=True), -70000.0), None, [], None
    yield "a second ahead", on_hosts(together(4, one_late({1}, 400), numbered=True), 1e6), "latency.straggler", [1], late
    yield "drift", on_hosts(together(4, one_late({2}, 400), numbered=True, steps=60), 12345.0, ppm=80), "latency.straggler", [2], ("late_ns", 400 * 299)
    yield "drift, healthy", on_hosts(together(4, lambda rank, k: 0, numbered=True, steps=60), 1e6, ppm=80), None, [], None
    yield "ranks alone", on_hosts(together(3, one_late({2}, 400), numbered=True), 12345.0, per_host=1), "latency.straggler", [2], late
    yield "hosts not named", on_hosts(together(3, one_late({2}, 400), numbered=True), 12345.0, per_host=1, named=False), "latency.straggler", [2], late
    yield "not numbered", on_hosts(together(4, one_late({2}, 400)), 12345.0), "trace.incomplete-timeline", [], None
    yield "clocks that jump", on_hosts(together(4, one_late({2}, 400), numbered=True), 12345.0, jitter_us=300.0), "trace.incomplete-timeline", [], None
    yield "too few to align", on_hosts(together(4, one_late({2}, 400), numbered=True, steps=3), 12345.0), "trace.incomplete-timeline", [], None
    yield "noise of clocks", on_hosts(together(4, one_late({2}, 60), numbered=True), 12345.0, jitter_us=40.0), "latency.wait-not-transfer", [], None
    # Ends of some collectives differ by more than they may, by one clock.
    some = {"skew": lambda rank, k: 60.0 if rank == 1 and k % 4 == 3 else 0.0}
    half = {"skew": lambda rank, k: 60.0 if rank == 1 and k % 2 == 1 else 0.0}
    yield "some ends differ", on_hosts(together(4, one_late({2}, 400), **some), 0.0, per_host=4), "latency.straggler", [2], ("late_ns", 400 * 44)
    yield "some ends differ, healthy", on_hosts(together(4, lambda rank, k: 0, **some), 0.0, per_host=4), None, [], None
    yield "half of the ends differ", on_hosts(together(4, one_late({2}, 400), **half), 0.0, per_host=4), "trace.incomplete-timeline", [], None
    yield "clocks", together(4, one_late({2}, 400), skew=lambda rank, k: 5000.0 * rank), "trace.incomplete-timeline", [], None


def analyze(traintrace, jobs, order):
    with tempfile.TemporaryDirectory() as folder:
        for rank in jobs:
            rank.write(folder)
        files = [jobs[i].path(folder) for i in order]
        done = subprocess.run([traintrace, "analyze", *files, "--format=json"], stdout=subprocess.PIPE, check=False)
    assert done.returncode == 0, done.returncode
    return done.stdout


def check(name, document, code, culprits, value):
    found = {finding["code"]: finding for finding in document["findings"]}
    loud = {each["code"] for each in document["findings"] if each["severity"] != "info"}
    wrong = []
    if code is None:
        if loud or set(found) - QUIET or "run.healthy" not in found:
            wrong.append(f"expected nothing, found {sorted(found)}")
        return wrong
    if code not in found:
        return [f"expected {code}, found {sorted(found)}"]
    if found[code]["culprits"] != culprits:
        wrong.append(f"culprits are {found[code]['culprits']}, not {culprits}")
    root = document["findings"][0]["code"]
    # Who comes late from one step on makes the steps slower by as much.
    roots = {"latency.step-regression": "latency.straggler", "trace.incomplete-timeline": root}
    if found[code]["severity"] != "info" and root not in (code, roots.get(code)):
        wrong.append(f"the root is {root}")
    if value:
        key, us = value
        measured = found[code]["values"][key] / (1 if key.endswith("_count") else 1000)
        if abs(measured - us) > 0.05 * us:
            wrong.append(f"{key} is {measured:.0f} us, not {us}")
    # Beside it, what follows from it: who waits for a straggler.
    allowed = {"latency.step-regression": {"latency.straggler", "latency.wait-not-transfer"},
               "latency.rotating-stall": {"latency.wait-not-transfer"},
               "latency.wait-not-transfer": {"latency.exposed-communication"},
               "latency.straggler": {"latency.wait-not-transfer", "latency.exposed-communication", "latency.host-bound", "latency.sync-in-loop"},
               "latency.slow-device": {"latency.straggler", "latency.wait-not-transfer", "latency.exposed-communication"},
               "latency.cpu-contention": {"latency.host-bound"},
               "trace.incomplete-timeline": {"latency.exposed-communication", "latency.host-bound"}}.get(code, set())
    if code == "latency.sync-in-loop" and "latency.harmless-sync" in found:
        wrong.append("what costs idle time is called harmless")
    if loud - allowed - {code}:
        wrong.append(f"also found {sorted(loud - allowed - {code})}")
    return wrong


def beside_traces(traintrace):
    """A profile in a folder of traces: those are looked at, and it says so."""
    with tempfile.TemporaryDirectory() as folder:
        training(loader(2000))[0].write(folder)
        with open(f"{folder}/host.1.2.trace", "wb"):
            pass
        done = subprocess.run([traintrace, "analyze", folder], capture_output=True, text=True, check=False)
    return [] if done.returncode == 2 and "of a profiler not looked at" in done.stderr else [f"{done.returncode}: {done.stderr}"]


def causes_of_lateness(traintrace):
    """What made a GPU late is said, who came last, and no rank that is late all along is cleared by the sentence about its entry."""
    wrong = []
    for jobs, title, evidence in ((on_gpu(4, more_on({2})), "its GPU has more work", "96 kernels more than usual take 19.2 ms"),
                                  (on_gpu(4, slower_on({1}, 1.4, True), per_step=2), "its GPU takes longer for the same kernels", "the same kernels with the same grids take 38 % longer"),
                                  (on_gpu(2, more_on({1})), "waiting for the last rank", "rank 1 started last on the GPU in 47 of 47 collectives")):
        document = json.loads(analyze(traintrace, jobs, range(len(jobs))))
        if not any(title in finding["title"] for finding in document["findings"]):
            wrong.append(f"{title}: {[finding['title'] for finding in document['findings']]}")
        if not any(evidence in line for finding in document["findings"] for line in finding["evidence"]):
            wrong.append(f"{evidence}: {document['findings'][0]['evidence']}")
        wrong += [finding["title"] for finding in document["findings"] if "not enough for a straggler" in finding["title"]]
        gain = document["findings"][0]["values"]["gain_ns"]
        collectives = sum(event["name"].startswith("nccl") for event in jobs[0].events)
        if abs(gain - 400_000 * collectives) > 1_000_000:
            wrong.append(f"{title}: gain_ns is {gain}")
    return wrong


def symptom_and_cause(traintrace):
    """Of two ranks none is called a straggler; but that one waits longer than the other is idle is no reason to begin with the one that waits."""
    jobs = after_a_call(2, {1}, 6000.0, more=20.0)
    findings = json.loads(analyze(traintrace, jobs, range(2)))["findings"]
    codes = [(finding["code"], finding["culprits"]) for finding in findings if finding["severity"] != "info"]
    return [] if codes == [("latency.sync-in-loop", [1]), ("latency.wait-not-transfer", [])] else [f"symptom and cause: {codes}"]


def with_own_kernels(traintrace):
    """A kernel that only the job's authors know to communicate; and an expression that is none."""
    with tempfile.TemporaryDirectory() as folder:
        training(other_kernel("acme_fused_exchange"))[0].write(folder)
        codes = {}
        for options in ([], ["--communication-kernels=acme.*exchange"]):
            done = subprocess.run([traintrace, "analyze", folder, "--format=json", *options], stdout=subprocess.PIPE, check=True)
            codes[len(options)] = [finding["code"] for finding in json.loads(done.stdout)["findings"]]
        done = subprocess.run([traintrace, "analyze", folder, "--communication-kernels=a("], capture_output=True, text=True, check=False)
    wrong = [] if codes == {0: ["run.healthy"], 1: ["latency.exposed-communication"]} else [f"own kernels: {codes}"]
    return wrong + ([] if done.returncode == 2 and "regular expression" in done.stderr else [f"{done.returncode}: {done.stderr}"])


def victims_of_a_grid(traintrace):
    """Who never meets a straggler waits for those that do; who waits for nobody is no victim."""
    wrong = []
    for name, jobs, wanted in (("all groups", grid(2, 4, one_late({5}, 400)), [0, 1, 2, 3, 4, 6, 7]), ("its own", grid(4, 2, one_late({6}, 400), with_data=False), [4, 5, 7])):
        found = json.loads(analyze(traintrace, jobs, range(8)))["findings"]
        victims = [each["victims"] for each in found if each["code"] == "latency.straggler"]
        wrong += [] if victims == [wanted] else [f"victims of {name}: {victims}"]
        wrong += [each["title"] for each in found if each["code"] == "latency.entry-skew" and "started last on the GPU" in each["title"]]
    return wrong


def late_in_few_steps(traintrace):
    """All collectives of a step are late together: what counts is in how many steps."""
    jobs = {"once": on_gpu(8, more_once({0}, {5})), "twice": on_gpu(4, more_once({0}, {4, 9}), hidden=True)}
    jobs |= {f"uneven {ranks} {seed}": on_gpu(ranks, uneven_steps(0.15, seed), steps=10) for ranks in (2, 8) for seed in range(3)}
    named = {name: [finding["culprits"] for finding in json.loads(analyze(traintrace, each, range(len(each))))["findings"]
                    if finding["code"] in ("latency.straggler", "latency.slow-device")] for name, each in jobs.items()}
    return [f"late in few steps, {name}: {culprits}" for name, culprits in named.items() if culprits]


def who_is_named_leads(traintrace):
    """Steps that are slow at the start may be warming up; which rank they wait for is likely, though mending that gains less."""
    late = {1: 15_000.0, 2: 50_000.0}
    jobs = together(4, lambda rank, k: (late.get(rank, 0.0) if 5 <= k < 30 and k % 5 == 0 else 0.0) + (2500.0 if rank == 2 and k % 2 == 0 else 0.0), steps=100)
    found = [(each["code"], each["certainty"], each["culprits"]) for each in json.loads(analyze(traintrace, jobs, range(4)))["findings"]]
    possible = ("latency.step-regression", "possible", [])
    return [] if found[0] == ("latency.straggler", "likely", [2]) and possible in found else [f"who is named leads: {found}"]


def slow_from_one_on(traintrace):
    """The same pause in each step of the second half is no pause that comes again."""
    found = json.loads(analyze(traintrace, training(pausing(6000, when=lambda step: step > 120), steps=240), [0]))["findings"]
    codes = [each["code"] for each in found if each["severity"] != "info"]
    return [] if codes[0] == "latency.step-regression" and "latency.pause" not in codes else [f"slow from one step on: {codes}"]


def waited_for_a_pause(traintrace):
    """A checkpoint on one rank with an idle GPU: the others waited for it once."""
    jobs = together(4, lambda rank, k: 0.0, idle_us=lambda rank, k: 300_000.0 if (rank, k) == (0, 28) else 0.0)
    document = json.loads(analyze(traintrace, jobs, range(4)))
    wrong = check("", document, "latency.pause", [], ("idle_ns", 300_000))
    pause = next((each for each in document["findings"] if each["code"] == "latency.pause"), {"victims": [], "title": "", "severity": ""})
    if pause["victims"] != [1, 2, 3] or not pause["title"].endswith("; ranks 1-3 waited for it") or pause["severity"] != "info":
        wrong.append(f"waited for a pause: {pause}")
    unnamed = [each["unattributed_ns"] / each["window_ns"] for each in document["lost_time"]]
    wrong += [] if max(unnamed) < 0.1 else [f"waited for a pause: without a name are {unnamed}"]
    for name, who, victims in ("one rank", [0], [1, 2, 3]), ("all ranks", [0, 1, 2, 3], []):
        again = together(4, lambda rank, k, who=who: 0.0, idle_us=lambda rank, k, who=who: 300_000.0 if rank in who and k in (13, 28, 43) else 0.0)
        found = json.loads(analyze(traintrace, again, range(4)))["findings"]
        pause = next((each for each in found if each["code"] == "latency.pause"), {})
        if pause.get("severity") != "warning" or pause.get("victims", []) != victims:
            wrong.append(f"waited for pauses of {name} that come again: {pause}")
    return wrong


def main(traintrace):
    failed = 0
    for each in (beside_traces(traintrace) + causes_of_lateness(traintrace) + symptom_and_cause(traintrace) + with_own_kernels(traintrace) +
                 waited_for_a_pause(traintrace) + late_in_few_steps(traintrace) + victims_of_a_grid(traintrace) + slow_from_one_on(traintrace) +
                 who_is_named_leads(traintrace)):
        print(f"beside the cases: {each}")
        failed += 1
    for name, jobs, code, culprits, value in cases():
        order = list(range(len(jobs)))
        text = analyze(traintrace, jobs, order)
        wrong = check(name, json.loads(text), code, culprits, value)
        if len(order) > 1 and analyze(traintrace, jobs, order[::-1]) != text:
            wrong.append("the order of the files leaves a mark")
        for each in wrong:
            print(f"{name}: {each}")
        failed += bool(wrong)
    print("as expected" if not failed else f"{failed} cases failed")
    return 1 if failed else 0


sys.exit(main(*sys.argv[1:]))
