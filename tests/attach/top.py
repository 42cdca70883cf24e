"""`traintrace top` of a job that runs, that hangs, that is gone.

    top.py BUILD_FOLDER
"""
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time

import jobs
from jobs import check, stop

build = os.path.abspath(sys.argv[1])
RANKS, WHO = 4, 2


def top(folder):
    done = subprocess.run([os.path.join(build, "bin", "traintrace"), "top", os.path.join(folder, "trace"), "--once", "--format=json", "--interval=300ms", "--hang-after=2s"],
                          capture_output=True, text=True, check=False)
    check(done.returncode == 0, "its status", done)
    return json.loads(done.stdout)


def of_all(found, key):
    return [rank.get(key) for rank in found["ranks"]]


def moving(folder):
    first = top(folder)
    check(first["states"]["moving"] == RANKS and [row["ranks"] for row in first["rows"]][-1:] != [], "all move", first)
    check(all("rank.py:" in place for place in of_all(first, "place")), "where they are", of_all(first, "place"))
    check(all(step and step > 0 for step in of_all(first, "step_ns")), "how long a step takes", of_all(first, "step_ns"))
    second = top(folder)
    check(all(b["collective"]["sequence"] > a["collective"]["sequence"] for a, b in zip(first["ranks"], second["ranks"])), "they get on", first, second)


def hanging(folder):
    time.sleep(3)
    found = top(folder)
    check(of_all(found, "state") == ["on-host" if rank == WHO else "blocked" for rank in range(RANKS)], "who does what", found)
    waits, missing = found["ranks"][0]["collective"], found["ranks"][WHO]["collective"]
    check(waits["pending"] and waits["sequence"] == missing["sequence"] + 1, "who lacks what", waits, missing)


for kind, look in (("none", moving), ("lock", hanging)):
    folder = tempfile.mkdtemp(prefix="traintrace-top-")
    processes = jobs.start(build, folder, RANKS, kind, WHO)
    try:
        look(folder)
        stop(processes)
        gone = top(folder)
        check(gone["states"]["ended"] == RANKS and all("SIGKILL" in doing or "gone" in doing for doing in of_all(gone, "doing")), "how it ended", gone)
    finally:
        stop(processes)
        shutil.rmtree(folder, ignore_errors=True)
jobs.end("top")
