"""Kills one of four ranks at random moments and asks the analyzer.

    killed_rank.py BUILD_FOLDER [--times=5] [--together=0.3] [--lanes=5] [--seed=1] [--wait=10]

Each time with another level of TRAINTRACE_PAYLOAD.  The survivors are killed `wait` seconds later, or (a share `together` of the times) at once.  Each time
- every trace is readable, and holds every call that the rank's own account says it made (tests/kill/counted_ranks.cc);
- survivors killed later: collective.dead-rank, this rank and no other;
- all killed at once: nobody but this rank is blamed, and nothing is called a proof.
Prints a line for each time; exit 1 if one was wrong.
"""
import argparse
import concurrent.futures
import json
import os
import random
import re
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time

RANKS = 4
LEVELS = ["off", "scalars", "batches", "small", "check"]

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("build")
parser.add_argument("--times", type=int, default=5)
parser.add_argument("--together", type=float, default=0.3)
parser.add_argument("--lanes", type=int, default=5)
parser.add_argument("--seed", type=int, default=1)
parser.add_argument("--wait", type=float, default=10)
parser.add_argument("--longest", type=float, default=1.0, help="seconds of running before the kill, at most")
options = parser.parse_args()
build = os.path.abspath(options.build)


class Wrong(Exception):
    pass


def start(rank, folder, level):
    environment = dict(
        os.environ, RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(RANKS), LOCAL_WORLD_SIZE=str(RANKS),
        WORKLOAD_DIR=os.path.join(folder, "shared"), TRAINTRACE_DIR=os.path.join(folder, "trace"),
        TRAINTRACE_RING_MB="4", TRAINTRACE_PAYLOAD=level, SIMGPU_NODE=folder, LD_LIBRARY_PATH=os.path.join(build, "simgpu"),
        LD_PRELOAD=os.path.join(build, "lib", "libtraintrace.so"))
    return subprocess.Popen([os.path.join(build, "tests", "counted_ranks"), os.path.join(folder, f"account.{rank}")],
                            env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                            stderr=subprocess.DEVNULL)


def account(folder, rank):
    with open(os.path.join(folder, f"account.{rank}"), "rb") as file:
        return struct.unpack("3Q", file.read(24))


def wait_until_running(processes, folder):
    end = time.monotonic() + 60
    while time.monotonic() < end:
        if any(process.poll() is not None for process in processes):
            raise Wrong("a rank ended by itself")
        try:
            if all(account(folder, rank)[1] > 0 for rank in range(RANKS)):
                return
        except (OSError, struct.error):
            pass
        time.sleep(0.002)
    raise Wrong("the job did not start")


def traintrace(*arguments):
    return subprocess.run([os.path.join(build, "bin", "traintrace"), *arguments], capture_output=True, text=True)


def check_records(folder):
    """The number of the last all-reduce in the trace of each rank, against the rank's own account."""
    done = traintrace("dump", os.path.join(folder, "trace"), "--call=ncclAllReduce")
    if done.returncode or "rror" in done.stderr:
        raise Wrong(f"dump: exit {done.returncode}: {done.stderr.strip()}")
    for rank in range(RANKS):
        entered, returned, _ = account(folder, rank)
        sequences = [int(n) for n in re.findall(rf"^\S+ {rank}/\S+ > ncclAllReduce .*?\bseq=(\d+)", done.stdout, re.M)]
        last = max(sequences, default=0)
        if not returned <= last <= entered:
            raise Wrong(f"rank {rank} made {returned} to {entered} calls, the trace says {last}")
        # The ring holds the newest: whatever is there has no gap.
        if sequences != list(range(last - len(sequences) + 1, last + 1)):
            raise Wrong(f"rank {rank}: the sequence in the trace has a gap")


def check_verdict(folder, victim, together):
    done = traintrace("analyze", os.path.join(folder, "trace"), "--format=json")
    if done.returncode not in (0, 1):
        raise Wrong(f"analyze: exit {done.returncode}: {done.stderr.strip()}")
    findings = json.loads(done.stdout)["findings"]
    errors = [finding for finding in findings if finding["severity"] == "error"]
    said = "; ".join(f"{finding['code']} {finding.get('culprits')} {finding['certainty']}" for finding in findings)
    if together:
        wrong = [finding for finding in errors
                 if not set(finding.get("culprits", [])) <= {victim} or finding["certainty"] == "proof"]
        if wrong:
            raise Wrong(f"rank {victim} was killed with all others: {said}")
    elif [(finding["code"], finding["culprits"]) for finding in errors] != [("collective.dead-rank", [victim])]:
        raise Wrong(f"rank {victim} was killed: {said}")
    return said


def once(number):
    choice = random.Random(options.seed * 1_000_003 + number)
    victim = choice.randrange(RANKS)
    together = choice.random() < options.together
    delay = choice.uniform(0, options.longest)
    level = LEVELS[number % len(LEVELS)]
    folder = tempfile.mkdtemp(prefix="traintrace-kill.", dir="/dev/shm")
    os.mkdir(os.path.join(folder, "shared"))
    processes = []
    try:
        processes = [start(rank, folder, level) for rank in range(RANKS)]
        wait_until_running(processes, folder)
        time.sleep(delay)
        processes[victim].send_signal(signal.SIGKILL)
        if not together:
            time.sleep(options.wait)
        for process in processes:
            process.kill()
        for process in processes:
            process.wait()
        check_records(folder)
        said = check_verdict(folder, victim, together)
        verdict = None
    except Wrong as wrong:
        said, verdict = str(wrong), wrong
    finally:
        for process in processes:
            process.kill()
            process.wait()
    print(f"{'WRONG ' if verdict else ''}{number}: rank {victim} after {delay:.3f} s, {level}"
          f"{', all together' if together else ''}: {said}", flush=True)
    if verdict:
        print(f"  kept: {folder}", flush=True)
    else:
        shutil.rmtree(folder)
    return verdict is None


with concurrent.futures.ThreadPoolExecutor(options.lanes) as lanes:
    right = sum(lanes.map(once, range(options.times)))
print(f"{right} of {options.times} right")
sys.exit(right != options.times)
