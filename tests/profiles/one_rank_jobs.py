"""Profiles of one rank, or of several that do not meet.  Most functions make one that does one step and loses a known time in it."""
import random

from made import Rank

STEPS = 12


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


def start_up(us, each_step=None):
    """Before the first step the GPU is used once, and then nothing happens for long."""
    rank = Rank(0, 1)
    for _ in range(10):
        rank.launch(20.0)
        rank.block()
        rank.host(us / 10)
    for step in range(STEPS):
        began = rank.now
        (each_step or healthy)(rank, step)
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
