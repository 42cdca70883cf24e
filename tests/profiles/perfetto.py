"""Exports for Perfetto, field by field, to the ns.   perfetto.py TRAINTRACE: of profiles;   perfetto.py BUILD recorded: of our own traces"""
import collections
import json
import math
import os
import shutil
import struct
import subprocess
import sys
import tempfile

from made import Rank
from perfetto_trace import Reader

HOST_CAUSES = {"data-starvation", "sync-induced", "allocator", "host-peer-wait", "host-bound", "lazy-load", "launch-call", "launch-latency"}
BASE = 1_700_000_000_000_000_000


def run(*command):
    done = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode in (0, 1), (command, done.returncode, done.stderr)
    return done.stdout


def ns(us):
    return BASE + round(us * 1000)


def check_findings(trace, findings, end_of=None):
    """Each finding at each of its culprits, else once for all; at the end of the records, where that is known."""
    wanted = []
    for finding in findings:
        places = [f"rank {rank}" for rank in finding["culprits"]] or [""]
        wanted += [(place, finding["title"], finding["code"]) for place in places]
    found = [(trace.process_of(each.track) if trace.parents[each.track] else "", each.name, dict(each.notes)["code"])
             for each in trace.instants if trace.tracks[each.track] == "findings"]
    assert sorted(found) == sorted(wanted), (found, wanted)
    severities = {finding["code"]: finding["severity"] for finding in findings}
    for each in trace.instants:
        if trace.tracks[each.track] == "findings":
            notes = dict(each.notes)
            assert notes["severity"] == severities[notes["code"]], notes
            assert end_of is None or each.time == end_of(trace.process_of(each.track)), each
    return len(found)


def made():
    """Two ranks that wait for the GPU in each step; a graph with two nodes; copies beside it; kernels that overlap on one stream."""
    jobs = []
    for number in range(2):
        rank = Rank(number, 2)
        for step in range(6):
            began = rank.now
            for kernel in range(20):
                rank.launch(200.125, f"kernel{kernel}")
            rank.launch(50.001, "ncclDevKernel_AllReduce_Sum_f32_RING_LL", stream=20, **{
                "Collective name": "allreduce", "Process Group Name": "dp", "Group size": 2, "Seq": step, "dtype": "Float", "In msg nelems": 256})
            rank.block()
            rank.host(2000)
            rank.step(step, began)
        rank.launch(10, "node", call="cudaGraphLaunch")
        rank.add("kernel", "node two", rank.free[7] + 1, 7.25, 7, device=0, stream=7, correlation=rank.correlation)
        rank.add("kernel", "beside", rank.free[7] + 3, 9, 7, device=0, stream=7, correlation=0)
        rank.add("kernel", "empty", rank.free[7] + 40, 0, 7, device=0, stream=7, correlation=0)
        jobs.append(rank)
    return jobs


def expected_work(rank):
    return collections.Counter((f"GPU 0 stream {each['tid']}", each["name"], ns(each["ts"]), ns(each["ts"]) + round(each["dur"] * 1000))
                               for each in rank.events if each["cat"] == "kernel")


def without_lane(name):
    return name.rsplit(" (", 1)[0]


def check_rank(trace, rank):
    name = f"rank {rank.rank}"
    work = trace.on(name, "GPU")
    found = collections.Counter((without_lane(trace.tracks[each.track]), each.name, each.start, each.end) for each in work)
    assert found == expected_work(rank), found - expected_work(rank)
    calls = [each for each in rank.events if each["cat"] == "cuda_runtime"]
    assert collections.Counter((each.name, each.start, each.end) for each in trace.on(name, "thread")) == collections.Counter(
        (each["name"], ns(each["ts"]), ns(each["ts"]) + round(each["dur"] * 1000)) for each in calls)
    collectives = trace.on(name, "communicator dp")
    assert [each.name for each in sorted(collectives, key=lambda each: each.start)] == [f"allreduce #{step}" for step in range(6)]
    assert {tuple(each.notes) for each in collectives} == {(("ranks", "2"), ("bytes", "1024"))}
    marks = [ns(each["ts"]) for each in rank.events if each["name"].startswith("ProfilerStep#")]
    assert [(each.name, each.start, each.end) for each in sorted(trace.on(name, "steps"), key=lambda each: each.start)] == [
        (f"step {step}", start, end) for step, (start, end) in enumerate(zip(marks, marks[1:] + [None]))]
    return calls


def check_arrows(trace, jobs):
    launched = {each["args"]["correlation"]: each for each in jobs[0].events if each["cat"] == "cuda_runtime"}
    wanted = collections.Counter()
    for rank in jobs:
        for each in rank.events:
            if each["cat"] == "kernel" and each["args"]["correlation"]:
                call = next(call for call in rank.events if call["cat"] == "cuda_runtime" and call["args"]["correlation"] == each["args"]["correlation"])
                wanted[f"rank {rank.rank}", call["name"], ns(call["ts"]), each["name"], ns(each["ts"])] += 1
    found = collections.Counter((trace.process_of(a.track), a.name, a.start, b.name, b.start) for a, b in trace.arrows())
    assert found == wanted and len(launched) > 100, (found - wanted, wanted - found)
    assert all(trace.process_of(a.track) == trace.process_of(b.track) for a, b in trace.arrows())


def of_profiles(traintrace, folder):
    jobs = made()
    for rank in jobs:
        rank.write(folder)
    run(traintrace, "export", "perfetto", folder, f"--output={folder}/out")
    trace = Reader(f"{folder}/out")
    for rank in jobs:
        check_rank(trace, rank)
    check_arrows(trace, jobs)
    ends = {f"rank {rank.rank}": max(ns(each["ts"]) + round(each["dur"] * 1000) for each in rank.events if each["cat"] == "kernel")
            for rank in jobs}
    return check_findings(trace, json.loads(run(traintrace, "analyze", folder, "--format=json"))["findings"],
                          lambda process: ends.get(process, max(ends.values())))


def record(build, folder, ranks):
    os.mkdir(f"{folder}/shared")
    environment = dict(os.environ, SIMGPU_KERNEL_US="*=100", SIMGPU_DEVICES=str(ranks), TRAINTRACE_GPU_TIMELINE="cupti",
                       TRAINTRACE_DIR=f"{folder}/traces", SIMGPU_NODE=folder, LD_PRELOAD=f"{build}/lib/libtraintrace.so",
                       WORKLOAD_DIR=f"{folder}/shared", WORLD_SIZE=str(ranks))
    running = [subprocess.Popen([f"{build}/tests/latency_cases", "communication", "5"], stdout=subprocess.DEVNULL,
                                env=dict(environment, RANK=str(rank), LOCAL_RANK=str(rank))) for rank in range(ranks)]
    assert [each.wait(120) for each in running] == [0] * ranks


def check_calls(traintrace, folder, trace):
    """Calls and the time in them, against the report; one that is lost on the way is missing in both."""
    rows = {row["call"]: row for row in json.loads(run(traintrace, "report", f"{folder}/traces", "--by=call", "--format=json"))["rows"]}
    lost = [sum(ns for cause, ns in row["idle_by_cause_ns"].items() if cause in HOST_CAUSES)
            for row in json.loads(run(traintrace, "report", f"{folder}/traces", "--by=rank", "--format=json"))["rows"]]
    assert sum(row["idle_ns"] for row in rows.values()) == sum(lost), "idle time that calls have to answer for"
    calls = collections.defaultdict(list)
    for each in trace.slices:
        if trace.tracks[each.track].startswith("thread"):
            calls[each.name].append(each)
    for name, slices in calls.items():
        assert len(slices) == rows[name]["count"], name
        assert sum(each.end - each.start for each in slices) == rows[name]["host_ns"], name
    assert len(calls["ncclAllReduce"]) == 10 and len(calls["cuLaunchKernel"]) == 2 * 5 * 21
    assert any("job.cc" in dict(each.notes).get("at", "") for each in calls["ncclAllReduce"])


def check_gpu(traintrace, folder, trace):
    """Against the rows of the export for PyTorch's tools."""
    arrows = {(trace.process_of(b.track), b.start, b.name): a for a, b in trace.arrows()}
    for rank in range(2):
        with open(f"{folder}/kineto/rank{rank}.json", encoding="utf-8") as file:
            document = json.load(file, parse_float=lambda text: int(text.replace(".", "")))
        base, events = document["baseTimeNanoseconds"], document["traceEvents"]
        work = [each for each in events if each["cat"] in ("kernel", "gpu_memcpy", "gpu_memset")]
        wanted = collections.Counter((each["name"], base + each["ts"], base + each["ts"] + each["dur"]) for each in work)
        found = trace.on(f"rank {rank}", "GPU")
        assert collections.Counter((each.name, each.start, each.end) for each in found) == wanted
        launches = {each["args"]["correlation"]: each for each in events
                    if each["cat"].startswith("cuda_") and "correlation" in each.get("args", {})}
        for each in work:
            arrow = arrows[f"rank {rank}", base + each["ts"], each["name"]]
            # The clocks of all processes of the machine, or of this one alone: some ns apart.
            assert abs(arrow.start - base - launches[each["args"]["correlation"]]["ts"]) <= 100
        collectives = sorted(f"{each['args']['Collective name']} #{each['args']['Seq']}" for each in work if "Collective name" in each["args"])
        assert sorted(each.name for each in trace.on(f"rank {rank}", "communicator")) == collectives != []


def of_traces(traintrace, build, folder):
    record(build, folder, 2)
    os.mkdir(f"{folder}/kineto")
    done = subprocess.run([traintrace, "export", "kineto", f"{folder}/traces", f"--output={folder}/kineto/rank"], capture_output=True, text=True,
                          timeout=120, check=False)
    if done.returncode != 0 or not os.path.exists(f"{folder}/kineto/rank1.json"):
        print(f"SKIPPED: this machine lost records of a rank: {done.stderr}")
        sys.exit(77)
    run(traintrace, "export", "perfetto", f"{folder}/traces", f"--output={folder}/out")
    trace = Reader(f"{folder}/out")
    check_calls(traintrace, folder, trace)
    check_gpu(traintrace, folder, trace)
    assert any("in use" in trace.tracks[track] for track in trace.counters)
    return check_findings(trace, json.loads(run(traintrace, "analyze", f"{folder}/traces", "--format=json"))["findings"])


# Two hosts where processes have the same number; one call never returned.
HUNG = """start 1700000000
process 0 host=a pid=7 rank=0 world=2 armed=+0 alive=+60
process 1 host=b pid=7 rank=1 world=2 armed=+0 alive=+60
+1 0/1 > cudaMalloc bytes=64
+1.5 0/1 > cuMemAlloc_v2 bytes=64
+1.6 0/1 < cuMemAlloc_v2 =0 address=0x1000
+2 0/1 < cudaMalloc =0 address=0x1000
+3 1/1 > cudaDeviceSynchronize
+4 0/1 > cudaMalloc bytes=16
+5 0/1 < cudaMalloc =0 address=0x2000
+6 0/1 > cudaFree address=0x1000
+7 0/1 < cudaFree =0
+8 0/1 > cudaFree address=0x2000
+9 0/1 < cudaFree =0
"""


def of_hang(traintrace, folder):
    with open(f"{folder}/hung", "w", encoding="utf-8") as file:
        file.write(HUNG)
    run(traintrace, "export", "perfetto", f"{folder}/hung", f"--output={folder}/out")
    trace = Reader(f"{folder}/out")
    second = 1_000_000_000
    found = {(trace.process_of(each.track), each.name): (each.start - BASE, each.end and each.end - BASE)
             for each in trace.slices if each.start < BASE + 4 * second}
    assert found == {("rank 0", "cudaMalloc"): (second, 2 * second), ("rank 0", "cuMemAlloc_v2"): (1.5 * second, 1.6 * second),
                     ("rank 1", "cudaDeviceSynchronize"): (3 * second, None)}, found
    assert len(trace.processes) == 2
    counters = {trace.tracks[track]: [(time - BASE, value) for time, value in values] for track, values in trace.counters.items()}
    in_use = [(2 * second, 64), (5 * second, 80), (6 * second, 16), (8 * second, 0)]
    assert counters == {"a device: in use": in_use, "a device: unknown": in_use}, counters
    return check_findings(trace, json.loads(run(traintrace, "analyze", f"{folder}/hung", "--format=json"))["findings"],
                          lambda _: BASE + 60 * second)


def scalar(time, rank, value, line="train.py:10:step"):
    return f"+{time:.3f} {rank}/1 * scalarRead bytes=4 value={struct.unpack('<I', struct.pack('<f', value))[0]:#x} @{line}"


def of_numbers(traintrace, folder):
    """The loss of two ranks; that of rank 1 is NaN twice, then once infinite, and NaN from value 40 to the end."""
    losses = [[4 / (1 + step) + rank for step in range(50)] for rank in range(2)]
    losses[1][20:22], losses[1][30], losses[1][39:] = [math.nan] * 2, -math.inf, [math.nan] * 11
    lines = ["start 1700000000", "ranks 0-1", "fact setting.TRAINTRACE_PAYLOAD scalars", "communicator dp members=0-1"]
    lines += [scalar(1 + step / 10, rank, losses[rank][step]) for step in range(50) for rank in range(2)]
    with open(f"{folder}/numbers", "w", encoding="utf-8") as file:
        file.write("\n".join(lines) + "\nend +60\n")
    run(traintrace, "export", "perfetto", f"{folder}/numbers", f"--output={folder}/out")
    trace = Reader(f"{folder}/out")
    name = "train.py:10 in step: float32"
    counters = {trace.process_of(track): values for track, values in trace.counters.items() if trace.tracks[track] == name}
    for rank in range(2):
        found = counters[f"rank {rank}"]
        wanted = [(BASE + 1_000_000_000 + step * 100_000_000, value) for step, value in enumerate(losses[rank]) if math.isfinite(value)]
        assert [time for time, _ in found] == [time for time, _ in wanted], found
        assert all(math.isclose(a, b, rel_tol=1e-6) for (_, a), (_, b) in zip(found, wanted)), found
    at = [BASE + 1_000_000_000 + step * 100_000_000 for step in range(50)]
    slices = [(trace.process_of(each.track), each.name, each.start, each.end, dict(each.notes)["values"]) for each in trace.slices
              if trace.tracks[each.track] == name + ": NaN or Inf"]
    assert sorted(slices, key=lambda each: each[2]) == [("rank 1", "NaN", at[20], at[22], "2"), ("rank 1", "-Inf", at[30], at[31], "1"),
                                                        ("rank 1", "NaN", at[39], None, "11")], slices
    return check_findings(trace, json.loads(run(traintrace, "analyze", f"{folder}/numbers", "--format=json"))["findings"])


def main(where, *mode):
    if not shutil.which("protoc"):
        print("SKIPPED: no protoc")
        return 77
    with tempfile.TemporaryDirectory(prefix="perfetto.") as folder:
        findings = of_traces(f"{where}/bin/traintrace", where, folder) if mode else of_profiles(where, folder) + of_hang(where, folder) + of_numbers(where, folder)
    print(f"as expected, with {findings} findings")
    return 0


sys.exit(main(*sys.argv[1:]))
