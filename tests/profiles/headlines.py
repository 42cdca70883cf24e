"""What the first lines say of time agrees with the table below them, and with the evidence.   headlines.py TRAINTRACE"""
import json
import re
import subprocess
import sys
import tempfile

from made import Rank

STEPS = 12


def analyzed(jobs, *arguments):
    with tempfile.TemporaryDirectory() as folder:
        for rank in jobs:
            rank.write(folder)
        return subprocess.run([sys.argv[1], "analyze", *arguments, folder], capture_output=True, text=True, check=False).stdout


def findings_of(jobs):
    return json.loads(analyzed(jobs, "--format=json"))["findings"]


def job(each_step, lead=0.0):
    """One rank; the host is ahead of its GPU by `lead` us when the first step begins."""
    rank = Rank()
    if lead:
        rank.launch(lead, name="warm")
    for step in range(STEPS):
        began = rank.now
        each_step(rank, step)
        rank.step(step, began)
    return [rank]


def ahead_then_late(late):
    """Most kernels are queued in time; then the host does something else, and `late` of them find the GPU idle."""
    def step(rank, _):
        for _ in range(60):
            rank.launch(100.0)
        rank.now = max(rank.now, rank.free[7])
        for _ in range(late):
            rank.host(100.0)
            rank.launch(50.0, cost=2.0)
    return step


def pause(us):
    def step(rank, number):
        for _ in range(40):
            rank.launch(200.0)
        if number == 6:
            rank.block("cudaDeviceSynchronize")
            rank.host(us)
    return step


def is_proved_by_late_launches():
    """The evidence of host-bound is about the launches that came late, however far ahead the host is else."""
    found = {finding["code"]: finding for finding in findings_of(job(ahead_then_late(40)))}
    bound = found["latency.host-bound"]
    assert bound["values"]["median_lead_ns"] >= 20_000, bound
    late, = [line for line in bound["evidence"] if "had run out of work" in line]
    count, lead = re.search(r"(\d+) launches came .* less than ([\d.]+) us after", late).groups()
    assert 40 * STEPS - 1 <= int(count) <= 41 * STEPS, late
    assert float(lead) <= 5, late
    assert any("at other times the host is ahead" in line for line in bound["evidence"]), bound
    always = {finding["code"]: finding for finding in findings_of(job(lambda rank, _: [rank.host(100.0) or rank.launch(50.0) for _ in range(60)]))}
    assert not any("at other times" in line for line in always["latency.host-bound"]["evidence"]), always
    few = {finding["code"] for finding in findings_of(job(ahead_then_late(2)))}
    assert "latency.host-bound" not in few, few


def agrees_with_table():
    """Late launches are one sum in the title and in the table: before the call, in it and after it."""
    text = analyzed(job(lambda rank, _: [rank.host(60.0) or rank.launch(50.0, cost=20.0, latency=28.0) for _ in range(60)]))
    said = float(re.search(r"idle for ([\d.]+) %", text).group(1))
    row = re.search(r"^ +0 .* (\d+) %   late launches (\d+) %$", text, re.MULTILINE)
    assert row and abs(said - int(row.group(2))) <= 1, text
    parts = re.search(r"(\d+) % +(\d+) % +(\d+) % +(\d+) %   late", text).groups()
    assert abs(sum(map(int, parts)) - 100) <= 2, text


def says_what_was_lost():
    """What a pause cost stands first where it is much, and there it is no health."""
    def verdict(us):
        text = analyzed(job(pause(us), lead=2000.0))
        healthy, = [finding for finding in findings_of(job(pause(us), lead=2000.0)) if finding["code"] == "run.healthy"]
        return text.splitlines()[0], healthy
    first, healthy = verdict(200_000.0)
    assert first.startswith("NOTE  the GPU of rank 0 was idle once for 200."), first
    assert healthy["values"]["lost_percent"] > 60, healthy
    for us in (7_500.0, 1.0):  # a near miss, less than 10 %; and nothing
        first, healthy = verdict(us)
        assert first.startswith("HEALTHY  nothing in the time of 1 GPU is lost"), first
        assert "lost_percent" not in healthy.get("values", {}), healthy


def refuses_to_judge():
    """Where it is not known why the GPU was idle, nothing else is said first."""
    jobs = job(ahead_then_late(40))
    launched = [event for event in jobs[0].events if event["cat"] == "cuda_runtime"]
    for event in launched[::2]:
        jobs[0].events.remove(event)
    first = analyzed(jobs).splitlines()[0]
    assert "the recording is too incomplete to judge the GPU of rank 0" in first, first


is_proved_by_late_launches()
agrees_with_table()
says_what_was_lost()
refuses_to_judge()
print("as made")
