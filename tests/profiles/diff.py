"""What is said of two runs by their timelines.   diff.py TRAINTRACE: of made profiles;   diff.py BUILD recorded: of our own traces"""
import json
import os
import subprocess
import sys
import tempfile

from made import Rank


LAYERS = [f"gemm_{layer}" for layer in range(40)]


def layers(rank, names, us=200.0):
    for name in names:
        rank.launch(us, name)


def healthy(rank, _):
    layers(rank, LAYERS)


def alike(rank, _):
    layers(rank, ["gemm"] * 42)


def item(rank, _):
    """loss.item() in the loop, and 1.5 ms until there is work again: 1.508 ms without any, 3 us of it the launch's."""
    layers(rank, LAYERS[:20])
    began = rank.now
    rank.block()
    rank.frame("train.py(31): log_loss", began - 1)
    rank.host(1500)
    layers(rank, LAYERS[20:])


def item_once(rank, step):
    (item if step == 6 else healthy)(rank, step)


def other_kernels(rank, _):
    layers(rank, ["flash_fwd_kernel", "gemm", "elementwise"] * 14)


def slower(us):
    return lambda rank, _: layers(rank, LAYERS, us)


def run_of(each_step, steps=12, ranks=1, marked=True):
    jobs = []
    for number in range(ranks):
        rank = Rank(number, ranks)
        rank.launch(2000.0, "warm")
        for step in range(steps):
            began = rank.now
            each_step(rank, step)
            if marked:
                rank.step(step, began)
        jobs.append(rank)
    return jobs


def without_tail(jobs, step):
    """The recording of the GPU ends in the middle of that step."""
    for rank in jobs:
        begin, until = (next(each["ts"] for each in rank.events if each["name"] == f"ProfilerStep#{number}") for number in (step, step + 1))
        launched = {each["args"]["correlation"]: each["ts"] for each in rank.events if each["cat"] == "cuda_runtime"}
        rank.events = [each for each in rank.events if each["cat"] != "kernel" or launched[each["args"]["correlation"]] < (begin + until) / 2]
    return jobs


def diff(traintrace, a, b):
    """The same, as text and as JSON."""
    outputs = [subprocess.run([traintrace, "diff", a, b, f"--format={form}"], capture_output=True, text=True, timeout=120, check=False)
               for form in ("text", "json")]
    assert [each.returncode for each in outputs] == [0, 0], outputs
    document = json.loads(outputs[1].stdout)
    assert document["schema"] == "traintrace.diff/1"
    assert outputs[0].stdout.splitlines()[0] == "verdict: " + document["verdict"]
    time = document.get("time")
    if time:
        total = sum(bucket[side] for bucket in time["buckets"] for side in ("a_ns", "b_ns"))
        assert abs(total - time["window"]["a_ns"] - time["window"]["b_ns"]) <= len(time["buckets"]) * 2, "the parts add up"
    return document, outputs[0].stdout


def grew(document):
    return [bucket["bucket"] for bucket in document["time"]["buckets"] if bucket["grew"]]


def change(document, name):
    return next(bucket["b_ns"] - bucket["a_ns"] for bucket in document["time"]["buckets"] if bucket["bucket"] == name)


def syncs(document):
    return [(each["change"], each["call"], each["site"]) for each in document["time"]["synchronisations"]]


def kernels(document, key):
    return [each["name"] for each in document["time"][key]]


def is_quiet(document):
    return not grew(document) and not syncs(document) and not kernels(document, "new_kernels") + kernels(document, "vanished_kernels")


NEW_ITEM = [("new", "cudaStreamSynchronize", "train.py(31): log_loss")]


def check_item(document, text):
    assert grew(document) == ["sync-induced"] and document["time"]["per"] == "step"
    assert abs(change(document, "sync-induced") - 1_505_000) < 0.05 * 1_505_000, change(document, "sync-induced")
    assert syncs(document) == NEW_ITEM
    assert "sync-induced grew by" in document["verdict"] and "a step takes" in document["verdict"]
    assert "new synchronisation: cudaStreamSynchronize at train.py(31): log_loss, 1.0 times instead of 0.0 per step" in text


def check_item_gone(document, text):
    assert not grew(document) and [each[0] for each in syncs(document)] == ["vanished"]
    assert "sync-induced shrank by" in document["verdict"] and "vanished synchronisation" in text


def check_kernels(document, text):
    shares = {each["category"]: (each["a_percent"], each["b_percent"]) for each in document["time"]["kernels"]}
    assert round(shares["GEMM"][0]) > 95 and 30 < shares["GEMM"][1] < 35 and 30 < shares["attention"][1] < 40 and 30 < shares["other"][1] < 40, shares
    assert kernels(document, "new_kernels") == ["elementwise", "flash_fwd_kernel"] and not kernels(document, "vanished_kernels")
    assert not grew(document) and "no part of a step grew" in document["verdict"] and "new kernel: flash_fwd_kernel" in text


def check_quiet(document, text):
    assert is_quiet(document), (grew(document), syncs(document))
    assert "no part of a step grew by 5 %" in document["verdict"] and "new" not in text


def check_tail(document, text):
    """Steps of which nothing was recorded count in none of the figures."""
    check_quiet(document, text)
    window = document["time"]["window"]
    assert abs(window["b_ns"] - window["a_ns"]) < 0.02 * window["a_ns"], window


def check_slower(document, _):
    assert grew(document) == ["compute"] and abs(change(document, "compute") - 40 * 20_000) < 40_000
    assert not syncs(document)


def check_not_much(document, _):
    assert is_quiet(document)


def check_shares(document, text):
    """Of all that was recorded, since one of them has no steps."""
    assert document["time"]["per"] == "recording" and grew(document) == ["sync-induced"] and syncs(document) == NEW_ITEM
    assert "steps are not known in both runs" in document["verdict"] and "in all that was recorded" in text


def check_quiet_shares(document, _):
    assert document["time"]["per"] == "recording" and is_quiet(document)
    assert "no part of the time grew" in document["verdict"]


def check_ranks(document, text):
    assert document["time"]["ranks"] == [0] and document["time"]["only_in_b"] == [1] and is_quiet(document)
    assert "rank 1: only in B" in text


def check_none(document, _):
    assert document["time"]["ranks"] == [] and "no rank in common" in document["verdict"]


def together(slow=None, us=40.0, host=0.0, ranks=4, steps=12):
    """Each step one collective behind the layers; rank `slow` takes `us` longer for each layer, or its host stops for so long before it."""
    jobs = [Rank(number, ranks) for number in range(ranks)]
    for step in range(steps):
        began = [rank.now for rank in jobs]
        for rank in jobs:
            if rank.rank == slow:
                rank.host(host)
            layers(rank, LAYERS, 200.0 + (us if rank.rank == slow and not host else 0.0))
        last = max(rank.free[7] for rank in jobs)
        for rank, start in zip(jobs, began):
            begins = rank.free[7]
            rank.launch(last + 100.0 - begins, "ncclDevKernel_AllReduce_Sum_f32_RING_LL", stream=20, after=(begins,))
            rank.block(stream=20)
            rank.step(step, start)
    return jobs


def apart(document):
    return [(each["rank"], each["bucket"]) for each in document["time"]["ranks_apart"]]


def check_slow_rank(document, text):
    assert apart(document) == [(2, "compute")], text
    change_ns = document["time"]["ranks_apart"][0]["b_ns"] - document["time"]["ranks_apart"][0]["a_ns"]
    assert abs(change_ns - 1_600_000) < 20_000, change_ns
    assert "rank 2: compute grew by 1.600 ms; in consequence the others wait 1.6" in document["verdict"], document["verdict"]


def check_late_rank(document, _):
    assert apart(document) == [(2, "sync-induced")] and "rank 2: idle, sync-induced grew by" in document["verdict"], document["verdict"]


def check_no_rank(document, _):
    assert apart(document) == [] and "rank" not in document["verdict"], document["verdict"]


def cases():
    good = run_of(healthy)
    even = together()
    yield "one rank slower", even, together(slow=2), check_slow_rank
    yield "one rank hardly slower", even, together(slow=2, us=8.0), check_no_rank
    yield "one host late", even, together(slow=2, host=1600.0), check_late_rank
    yield "one of three slower", together(ranks=3), together(slow=2, ranks=3), check_slow_rank
    yield "all slower", run_of(healthy, ranks=3), run_of(slower(220.0), ranks=3), check_no_rank
    yield "equal", good, run_of(healthy), check_quiet
    yield "longer recording", good, run_of(healthy, steps=24), check_quiet
    yield "lost tail", run_of(healthy, steps=30), without_tail(run_of(healthy, steps=30), 20), check_tail
    yield "slower, lost tail", run_of(healthy, steps=24), without_tail(run_of(slower(220.0), steps=24), 20), check_slower
    yield "item", good, run_of(item), check_item
    yield "item gone", run_of(item), good, check_item_gone
    yield "item once", good, run_of(item_once), check_quiet
    yield "item, unmarked", run_of(healthy, marked=False), run_of(item, marked=False), check_item
    yield "item, marked in one", good, run_of(item, marked=False), check_shares
    yield "equal, marked in one", good, run_of(healthy, marked=False), check_quiet_shares
    yield "kernels", run_of(alike), run_of(other_kernels), check_kernels
    yield "slower", good, run_of(slower(220.0)), check_slower
    yield "not much slower", good, run_of(slower(206.0)), check_not_much
    yield "more ranks", good, run_of(healthy, ranks=2), check_ranks
    # One rank of each is compared whatever its number; of several those that both have.
    yield "another rank", good, run_of(healthy, ranks=2)[1:], check_quiet
    yield "another rank, slower", good, run_of(item, ranks=2)[1:], check_item
    yield "other ranks", run_of(healthy, ranks=2), run_of(healthy, ranks=4)[2:], check_none


def write(jobs, folder):
    os.mkdir(folder)
    for rank in jobs:
        rank.write(folder)
    return folder


def of_profiles(traintrace, folder):
    for number, (name, a, b, check) in enumerate(cases()):
        document, text = diff(traintrace, write(a, f"{folder}/a{number}"), write(b, f"{folder}/b{number}"))
        try:
            check(document, text)
        except AssertionError:
            print(f"{name}:\n{text}")
            raise
    write(without_tail(run_of(healthy, steps=30), 20), f"{folder}/tail")
    for command in (("diff", f"{folder}/a0", f"{folder}/tail"), ("report", "--by=step", f"{folder}/tail")):
        said = subprocess.run([traintrace, *command], capture_output=True, text=True, timeout=60, check=True).stderr
        assert "the GPU timeline of rank 0 ends early: 9 of 30 steps at the end are left out" in said, (command, said)
    with open(f"{folder}/trace", "w", encoding="utf-8") as file:
        file.write("start 1700000000\nprocess 0 rank=0 world=1 armed=+0 alive=+1\n")
    done = subprocess.run([traintrace, "diff", f"{folder}/a0", f"{folder}/trace"], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 2 and "cannot be compared" in done.stderr, done


def record(build, folder, case, timeline="cupti"):
    os.makedirs(f"{folder}/shared")
    environment = dict(os.environ, SIMGPU_KERNEL_US="forward_*=100,backward_*=300,update_*=300", SIMGPU_DEVICES="1", SIMGPU_NODE=folder,
                       TRAINTRACE_GPU_TIMELINE=timeline, TRAINTRACE_DIR=f"{folder}/traces", LD_PRELOAD=f"{build}/lib/libtraintrace.so",
                       WORKLOAD_DIR=f"{folder}/shared")
    subprocess.run([f"{build}/tests/latency_cases", case, "20"], env=environment, stdout=subprocess.DEVNULL, timeout=120, check=True)
    return f"{folder}/traces"


def of_traces(traintrace, build, folder):
    """How long anything took on this machine is not asked: only what must be so."""
    without, reading = record(build, f"{folder}/without", "no-sync"), record(build, f"{folder}/reading", "sync")
    for trace in (without, reading):
        rows = json.loads(subprocess.run([traintrace, "report", "--by=step", "--format=json", trace], capture_output=True, text=True,
                                         timeout=60, check=True).stdout)["rows"]
        if sum(row["found_by"] == "period" for row in rows) < 15:
            print("SKIPPED: this machine lost records of the GPU")
            sys.exit(77)
    same, _ = diff(traintrace, without, without)
    assert is_quiet(same) and "no difference in the collectives of the two runs; no part of a step grew" in same["verdict"], same["verdict"]
    document, text = diff(traintrace, without, reading)
    new = [each for each in syncs(document) if each[0] == "new"]
    assert document["time"]["per"] == "step" and len(new) == 1 and new[0][1] == "cudaStreamSynchronize" and "job.cc" in new[0][2], text
    assert change(document, "sync-induced") > 0 and "sync-induced" in grew(document), text
    assert kernels(document, "vanished_kernels") == ["Memcpy HtoD (Pinned -> Device)"], text
    plain = record(build, f"{folder}/plain", "no-sync", "off")
    for trace, times in ((plain, 1), (without, 0)):
        said = subprocess.run([traintrace, "analyze", trace], capture_output=True, text=True, timeout=60, check=True).stdout
        assert said.count("TRAINTRACE_GPU_TIMELINE=cupti") == times, said
    done = subprocess.run([traintrace, "diff", plain, reading], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0 and "only B has a timeline" in done.stderr and "time per step" not in done.stdout, done


def main(where, *mode):
    with tempfile.TemporaryDirectory(prefix="diff.") as folder:
        if mode:
            of_traces(f"{where}/bin/traintrace", where, folder)
        else:
            of_profiles(where, folder)
    print("as expected")
    return 0


sys.exit(main(*sys.argv[1:]))
