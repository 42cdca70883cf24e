"""SIGKILL at random moments: every call that had returned is in the trace.

  kills.py LIBRARY JOB TRAINTRACE [--rounds=30] [--jobs=2] [--kind=rank,both,keeper] [--seed=1]

rank: the process.  both: it and its keeper, at once.  keeper: the keeper, and some time later the process."""
import argparse
import collections
import concurrent.futures
import random
import sys
import threading
import time

import storage

parser = argparse.ArgumentParser()
parser.add_argument("files", nargs=3)
parser.add_argument("--rounds", type=int, default=30)
parser.add_argument("--jobs", type=int, default=2)
parser.add_argument("--kind", default="rank,both,keeper")
parser.add_argument("--seed", type=int, default=1)
options = parser.parse_args()
THREADS = 3
PAUSE_US = 150
figures = collections.Counter()
slowest = collections.defaultdict(float)
lock = threading.Lock()


def note(name, value=1):
    with lock:
        figures[name] += value


def slow(name, seconds):
    with lock:
        slowest[name] = max(slowest[name], seconds)


def keeper_of(job):
    memory = storage.memory_of(job.pid)
    header = storage.Header(memory) if memory else None
    return header.keeper_pid if header and header.ready and header.keeper_pid != job.pid else 0


def strike(kind, job, rng):
    """Kills; returns the moment of it."""
    if kind == "rank":
        storage.kill(job.pid)
        return time.monotonic()
    keeper = keeper_of(job)
    if kind == "both":
        for pid in rng.sample([job.pid, keeper], 2):
            if pid:
                storage.kill(pid)
        note("both: with a keeper", keeper != 0)
        return time.monotonic()
    if keeper:
        storage.kill(keeper)
        note("keeper: killed")
        struck = time.monotonic()
        if rng.random() < 0.5:  # else the process is killed before anybody can have taken over
            memory = storage.memory_of(job.pid)
            if storage.until(lambda: not storage.alive(job.pid) or storage.Header(memory).keeper_pid == job.pid):
                slow("keeper: taken over after", time.monotonic() - struck)
                note("keeper: taken over")
            else:
                note("keeper: NOT TAKEN OVER")
        time.sleep(rng.uniform(0, 0.3))
    storage.kill(job.pid)
    return time.monotonic()


def check(kind, number, folder, counts, named):
    status, text = storage.dump(folder)
    entered, left = storage.calls_in(text)
    processes = text.count("\nprocess ")
    if processes == 0 and ("not begun" in text or counts.returned() == 0):
        note(f"{kind}: nothing recorded yet")
        return True
    lost = counts.returned() - left
    note(f"{kind}: calls", left)
    if status != 0:
        what = "UNREADABLE"
    elif processes > 1:
        what = "SEEN TWICE"
    elif lost > 0 and "> cudaFree" not in text:
        note(f"{kind}: recording began late")  # the first call waits for a second at most
        return True
    elif lost > 0:
        what = "LOST"
    else:
        what = "" if entered <= counts.entering() else "MORE THAN WAS CALLED"
    if what:
        note(f"{kind}: {what}")
        print(f"{kind} round {number}: {what}: dump {status}, returned {counts.returned()}, in trace {left}, entered {entered} of "
              f"{counts.entering()}; {'named memory' if named else 'no memory'}; {text[:200] if left == 0 else ''}", flush=True)
    return not what


def one(kind, number):
    rng = random.Random(f"{options.seed} {kind} {number}")
    with storage.empty_folder() as folder:
        counts = storage.Counts(folder)
        trace = folder / "trace"
        job = storage.start(trace, "work", counts.path, 60, THREADS, PAUSE_US, 0, TRAINTRACE_RING_MB=64)
        try:
            if kind != "rank" or rng.random() < 0.8:  # the others in the middle of setting up
                storage.until(lambda: counts.returned() > 0 and (kind == "rank" or keeper_of(job)))
            time.sleep(rng.uniform(0, rng.choice([0.01, 0.3, 2.2])))
            named = storage.memory_of(job.pid)
            struck = strike(kind, job, rng)
        finally:
            job.kill()
            job.communicate()
        good = check(kind, number, trace, counts, named)  # at once, in whatever state
        if kind == "rank" and storage.traces(trace):
            good = (storage.final(trace) is not None or counts.returned() == 0) and good
            slow("rank: copied after", time.monotonic() - struck)
            good = check(kind, number, trace, counts, named) and good
        if kind != "rank":  # else the next keeper of this user looks after it
            memory = storage.memory_of(job.pid)
            note(f"{kind}: in named memory", memory is not None)
            if memory:
                memory.unlink(missing_ok=True)
        note(f"{kind}: rounds")
        note(f"{kind}: BAD", not good)
        return good


storage.in_own_mounts()
begun = time.monotonic()
with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
    rounds = [(kind, number) for number in range(options.rounds) for kind in options.kind.split(",")]
    good = list(pool.map(lambda which: one(*which), rounds))
for name, value in sorted(figures.items()):
    print(f"{name:28} {value}")
for name, value in sorted(slowest.items()):
    print(f"{name:28} {value:.2f} s at most")
print(f"{time.monotonic() - begun:.0f} s")
sys.exit(0 if all(good) else 1)
