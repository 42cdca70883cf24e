"""Tables about profiles: by stream, call and place, against what was made and against each other.   reports.py TRAINTRACE"""
import collections
import csv
import io
import json
import os
import subprocess
import sys
import tempfile

from made import Rank

HOST_CAUSES = {"data-starvation", "sync-induced", "allocator", "host-peer-wait", "host-bound", "lazy-load", "launch-call", "launch-latency"}


def made(number):
    """Each step waits for the GPU at a line of its own, then allocates; the other rank only launches slowly."""
    rank = Rank(number, 2)
    rank.launch(500.0, "warm")
    for step in range(8):
        began = rank.now
        for layer in range(25):
            rank.launch(100.0 if number == 0 else 5.0, f"gemm_{layer}")
            rank.host(10)
        rank.launch(70.0, "ncclDevKernel_AllReduce_Sum_f32_RING_LL", stream=20)
        if number == 0:
            before = rank.now
            rank.block()
            rank.frame("train.py(31): log_loss", before - 1)
            rank.host(300)
        rank.launch(30.0, "Memcpy DtoD (Device -> Device)", call="cudaMemcpyAsync", category="gpu_memcpy", stream=20)
        rank.step(step, began)
    return rank


def rows(traintrace, folder, by):
    """The same rows as JSON, CSV and text."""
    outputs = {form: subprocess.run([traintrace, "report", folder, f"--by={by}", f"--format={form}"], capture_output=True, text=True,
                                    timeout=60, check=True).stdout for form in ("json", "csv", "text")}
    document = json.loads(outputs["json"])
    assert document["schema"] == "traintrace.report/1" and document["by"] == by
    table = list(csv.reader(io.StringIO(outputs["csv"])))
    assert len(table) == len(document["rows"]) + 1 == len(outputs["text"].splitlines())
    for row, line in zip(document["rows"], table[1:]):
        assert dict(zip(table[0], line)) == {key: "" if value is None else str(value) for key, value in row.items()} or by in ("rank", "step")
    return document["rows"]


def ns(us):
    return round(us * 1000)


def check_streams(found, jobs):
    wanted = {}
    for rank in jobs:
        for each in rank.events:
            if each["cat"] in ("kernel", "gpu_memcpy"):
                sums = wanted.setdefault((rank.rank, each["tid"]), collections.Counter())
                kind = "memory_ns" if each["cat"] == "gpu_memcpy" else "communication_ns" if each["name"].startswith("nccl") else "compute_ns"
                sums.update({"work_count": 1, "busy_ns": ns(each["dur"]), kind: ns(each["dur"])})
    for row in found:
        sums = wanted.pop((row["rank"], row["stream"]))
        assert all(row[key] == sums[key] for key in ("work_count", "busy_ns", "compute_ns", "communication_ns", "memory_ns")), row
        assert row["idle_ns"] == row["window_ns"] - row["busy_ns"] and row["device"] == 0
    assert not wanted


def check_calls(found, jobs, idle):
    wanted = collections.defaultdict(list)
    for rank in jobs:
        for each in rank.events:
            if each["cat"] == "cuda_runtime":
                wanted[each["name"]].append(ns(each["dur"]))
    for row in found:
        times = wanted.pop(row["call"])
        assert (row["count"], row["host_ns"], row["max_ns"]) == (len(times), sum(times), max(times)), row
        assert row["mean_ns"] == sum(times) // len(times)
        assert row["work_count"] == (len(times) if row["call"] in ("cudaLaunchKernel", "cudaMemcpyAsync") else 0), row
    assert not wanted and {row["call"]: row["kind"] for row in found}["cudaStreamSynchronize"] == "blocking"
    assert sum(row["idle_ns"] for row in found) == sum(idle[cause] for cause in HOST_CAUSES) > 0


def check_steps(found, jobs):
    """Each step's parts add up; all steps together are all that was launched from the first mark on, each with what it launched."""
    for row in found:
        exposed = row["compute_ns"] + row["exposed_communication_ns"] + row["exposed_memory_ns"]
        assert row["busy_ns"] == exposed and sum(row["idle_by_cause_ns"].values()) == row["idle_ns"] == row["gpu_duration_ns"] - exposed, row
    for rank in jobs:
        marks = [ns(each["ts"]) for each in rank.events if each["name"].startswith("ProfilerStep#")]
        work = [(ns(each["ts"]), ns(each["ts"]) + ns(each["dur"]), each["args"]["correlation"], each["tid"]) for each in rank.events if each["cat"] in ("kernel", "gpu_memcpy")]
        launched = {each["args"]["correlation"]: ns(each["ts"]) for each in rank.events if each["cat"] == "cuda_runtime"}
        cuts = []
        for mark in marks:
            done = max((end for _, end, launch, _ in work if launched[launch] < mark), default=None)
            # What another stream than the one that computes does ahead of it draws no step forward.
            begins = min(start for start, _, launch, stream in work if launched[launch] >= mark and (stream == 7 or done is None))
            cuts.append(begins if done is None or begins <= done else min(max(mark, done), begins))
        end = max(end for _, end, _, _ in work)
        of_rank = [row for row in found if row["rank"] == rank.rank and row["found_by"] == "marks"]
        assert [row["gpu_duration_ns"] for row in of_rank] == [b - a for a, b in zip(cuts, cuts[1:] + [end])]
        assert [row["duration_ns"] for row in of_rank] == [b - a for a, b in zip(marks, marks[1:])] + [end - cuts[-1]]
        # Nothing ran before the first mark but the warm-up: no cause is missing, and the host's pause is in each step but the first.
        assert all(row["idle_by_cause_ns"]["unattributed"] == 0 for row in of_rank), of_rank
        if rank.rank == 0:
            assert all(row["idle_by_cause_ns"]["sync-induced"] >= ns(300) for row in of_rank[1:-1]), of_rank


def check_table(traintrace, folder, jobs):
    """`export csv`: a row for each piece of work and each call, as made."""
    text = subprocess.run([traintrace, "export", "csv", folder, "--output=-"], capture_output=True, text=True, timeout=60, check=True).stdout
    found = collections.Counter((int(row["rank"]), row["name"], row["kind"].startswith("gpu-"), int(row["end_ns"]) - int(row["start_ns"]),
                                 int(row["correlation"] or 0)) for row in csv.DictReader(io.StringIO(text)))
    wanted = collections.Counter()
    for rank in jobs:
        for each in rank.events:
            if each["cat"] in ("kernel", "gpu_memcpy", "cuda_runtime"):
                wanted[rank.rank, each["name"], each["cat"] != "cuda_runtime", ns(each["dur"]), each["args"].get("correlation", 0)] += 1
    assert found == wanted, (found - wanted, wanted - found)
    assert "train.py(31): log_loss" in text


def check_import(traintrace, folder, rows_of_ranks):
    """`import kineto`: the files it writes say the same."""
    with tempfile.TemporaryDirectory(prefix="imported.") as imported:
        subprocess.run([traintrace, "import", "kineto", folder, f"--out={imported}"], timeout=60, check=True)
        assert sorted(os.listdir(imported)) == ["kineto.0.json", "kineto.1.json"]
        again = [dict(row, source=None) for row in rows(traintrace, imported, "rank")]
        assert again == [dict(row, source=None) for row in rows_of_ranks]
        refused = subprocess.run([traintrace, "import", "kineto", folder, "--out=-"], capture_output=True, timeout=60, check=False)
        assert refused.returncode == 2 and b"--out=FOLDER" in refused.stderr


def main(traintrace):
    jobs = [made(0), made(1)]
    with tempfile.TemporaryDirectory(prefix="reports.") as folder:
        for rank in jobs:
            rank.write(folder)
        idle = collections.Counter()
        of_ranks = rows(traintrace, folder, "rank")
        check_import(traintrace, folder, of_ranks)
        for row in of_ranks:
            idle.update(row["idle_by_cause_ns"])
        check_steps(rows(traintrace, folder, "step"), jobs)
        check_streams(rows(traintrace, folder, "stream"), jobs)
        check_calls(rows(traintrace, folder, "call"), jobs, idle)
        places = rows(traintrace, folder, "stack")
        check_table(traintrace, folder, jobs)
    found = collections.Counter()
    for row in places:
        found[row["cause"]] += row["idle_ns"]
    assert found == +idle, (found, idle)
    assert any((row["cause"], row["call"], row["stack"]) == ("sync-induced", "cudaStreamSynchronize", "train.py(31): log_loss") for row in places)
    assert all((row["call"] is None) == (row["cause"] not in HOST_CAUSES) for row in places)
    assert [row["idle_ns"] for row in places] == sorted((row["idle_ns"] for row in places), reverse=True)
    print("as expected")
    return 0


sys.exit(main(*sys.argv[1:]))
