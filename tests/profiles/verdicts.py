"""What is said of profiles in which a known time is lost, of their healthy twins and of near misses.   verdicts.py TRAINTRACE"""
import json
import subprocess
import sys
import tempfile

from many_rank_jobs import (
    after_a_call, before_first, even, grid, hidden_waits, hybrid, jitter, kernels_by_rank, longer_batches, more_in_steps, more_on, more_once,
    on_gpu, on_hosts, one_late, other_grids, slower_from, slower_on, small, stalls, stalls_together, together, uneven_by_chance, uneven_steps,
    without)
from one_rank_jobs import (
    STEPS, allocating, begins_late, blocked_beyond, blocked_while_busy, captures, copied, drops_rows, exposed, exposed_little_unknown,
    exposed_unknown, first_use, graph, half_recorded, healthy, held_up, item, launching, layers, loader, loader_once, marked_nowhere, messages,
    on_amd, once, other_kernel, pageable, pausing, pausing_at, polling, prefetching, queueing, short_kernels, slow_host, start_up, tiny,
    training, unknown, warm_up, without_groups)

QUIET = {"run.healthy", "latency.harmless-sync", "latency.entry-skew", "trace.missing-rank"}


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
                                    ("unevenly", lambda step: step % 7 in (1, 3, 4), "latency.pause", ("returning_ns", 103 * 6000)),
                                    ("unevenly in half of it", lambda step: step % 7 in (1, 3, 4) and 60 <= step < 180, "latency.unattributed", None)):
        yield f"checkpoint {name}, long recording", training(pausing(6000, when=when), steps=240), code, [], value
    yield "checkpoint unevenly, long recording, quick", training(pausing(1500, when=lambda step: step % 7 in (1, 3, 4)), steps=240), None, [], None
    for name, steps in (("twice", (3, 9)), ("unevenly", (2, 3, 10)), ("in one phase", (4, 5, 6))):
        yield f"checkpoint {name}", training(pausing(2_000_000, when=lambda step, steps=steps: step in steps)), "run.healthy", [], None
    yield "checkpoint every third step, quick", training(pausing(3000, when=lambda step: step % 3 == 2)), "run.healthy", [], None
    yield "checkpoint, what it costs", training(pausing(2_000_000)), "latency.pause", [], ("gain_ns", 2_000_000)
    yield "checkpoint, short", training(pausing(3000)), None, [], None
    yield "checkpoint beside a habit", training(pausing(2_000_000, each=70_000)), "latency.sync-in-loop", [0], ("idle_ns", 70_000 * STEPS)
    yield "start-up", start_up(300_000), "latency.pause", [], ("idle_ns", 300_000)
    # However long the start takes: the loop loses as much.
    for us in (300_000, 5_000_000):
        yield f"start-up of {us} us, then a habit", start_up(us, pausing(0, each=2000, when=lambda _: False)), "latency.sync-in-loop", [0], ("idle_ns", 2000 * STEPS)
    yield "start-up, then as usual", start_up(5_000_000), "latency.pause", [], ("start_up_ns", 5_000_000)
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
