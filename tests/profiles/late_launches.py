"""What is named where kernels are launched too late: the line in which the host was, else the operator, else the kernel.
late_launches.py TRAINTRACE"""
import json
import subprocess
import sys
import tempfile

from made import Rank

STEPS = 12
LOG, FORWARD = "train.py(31): log_metrics", "train.py(50): forward"


def framed(rank, name, work):
    began = rank.now
    work()
    rank.frame(name, began)


def forward(rank, operator=None, kernel="gemm"):
    def launches():
        for _ in range(20):
            if operator:
                rank.operate(operator, None, None, 30.0, kernel)
            else:
                rank.launch(30.0, kernel)
    return launches


def job(each_step):
    rank = Rank()
    for step in range(STEPS):
        began = rank.now
        framed(rank, "train.py(10): main", lambda: each_step(rank))
        rank.step(step, began)
    return rank


def host_bound(rank):
    with tempfile.TemporaryDirectory() as folder:
        rank.write(folder)
        done = subprocess.run([sys.argv[1], "analyze", "--format=json", folder], capture_output=True, text=True, timeout=60, check=False)
    return next((each for each in json.loads(done.stdout)["findings"] if each["code"] == "latency.host-bound"), None)


def line_of(finding):
    where = finding["where"][0]
    return where["file"], where.get("line", 0), where["function"]


def names_where_the_host_was():
    """Not who launches in the end."""
    def step(rank):
        framed(rank, LOG, lambda: rank.host(3000.0))
        framed(rank, FORWARD, forward(rank))
    found = host_bound(job(step))
    assert line_of(found) == ("train.py", 31, "log_metrics"), found
    assert any(f"gaps at cudaLaunchKernel, while the host was in train.py:31 in log_metrics" in line for line in found["evidence"]), found


def counts_all_of_a_gap():
    """Calls that neither launch nor wait cut what the host did into pieces; the last of these is not what took the time.  And what Python's
    own library does is its caller's doing."""
    def log(rank):
        for _ in range(3):
            framed(rank, "json/encoder.py(183): encode", lambda: framed(rank, "contextlib.py(81): inner", lambda: rank.host(1000.0)))
            rank.add("cuda_runtime", "cudaEventRecord", rank.now, 2.0, "host", correlation=0)
            rank.now += 2

    def step(rank):
        framed(rank, LOG, lambda: log(rank))
        framed(rank, FORWARD, lambda: rank.host(20.0) or forward(rank)())
    assert line_of(host_bound(job(step))) == ("train.py", 31, "log_metrics")


def names_who_launches_slowly():
    """A near miss: most of the time is between the launches themselves, and the call before them is short."""
    def step(rank):
        framed(rank, LOG, lambda: rank.host(40.0))
        framed(rank, FORWARD, lambda: [rank.host(100.0) or rank.launch(30.0) for _ in range(20)])
    assert line_of(host_bound(job(step))) == ("train.py", 50, "forward")


def ignores_other_threads():
    """A thread that writes logs holds nobody up."""
    def step(rank):
        rank.host(3000.0)
        framed(rank, FORWARD, forward(rank))
    rank = job(step)
    rank.add("python_function", "logger.py(5): write", 0.0, rank.now, "host")
    rank.events[-1]["tid"] = 4712
    assert line_of(host_bound(rank)) == ("train.py", 10, "main")


def names_operator_or_kernel():
    """Without frames; and with an operator the kernel says nothing more."""
    def without_frames(each_step):
        rank = job(each_step)
        rank.events = [event for event in rank.events if event["cat"] != "python_function"]
        return host_bound(rank)

    found = without_frames(lambda rank: rank.host(3000.0) or forward(rank, "aten::mm")())
    assert line_of(found) == ("", 0, "aten::mm"), found
    found = without_frames(lambda rank: rank.host(3000.0) or forward(rank, kernel="flash_fwd_kernel")())
    assert line_of(found) == ("", 0, "flash_fwd_kernel"), found
    assert any("gaps at cudaLaunchKernel of flash_fwd_kernel" in line for line in found["evidence"]), found


def is_quiet_where_the_host_is_ahead():
    """The healthy twin: it logs as long, with as much queued."""
    def step(rank):
        framed(rank, LOG, lambda: rank.host(3000.0))
        framed(rank, FORWARD, lambda: [rank.launch(200.0) for _ in range(20)])
    rank = Rank()
    rank.launch(5000.0)
    for number in range(STEPS):
        began = rank.now
        step(rank)
        rank.step(number, began)
    assert host_bound(rank) is None


names_where_the_host_was()
counts_all_of_a_gap()
names_who_launches_slowly()
ignores_other_threads()
names_operator_or_kernel()
is_quiet_where_the_host_is_ahead()
print("as made")
