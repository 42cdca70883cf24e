"""Four `traintrace attach` under mpirun, each of which sees one rank of a stuck job: one verdict.

    several.py BUILD_FOLDER      Exit status 77: Open MPI is not installed
"""
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time

import jobs
from jobs import check

RANKS, CULPRIT = 4, 2
build = os.path.abspath(sys.argv[1])


def mpirun(folder, targets):
    """Process N of mpirun looks at the N-th target."""
    words = " ".join(targets)
    command = f'set -- {words}; shift $OMPI_COMM_WORLD_RANK; exec {build}/bin/traintrace attach "$1" ' \
              f'--format=json --interval=500ms --hang-after=500ms'
    # The job may be root's in a container, and there are fewer cores than processes.
    done = subprocess.run(["mpirun", "--allow-run-as-root", "--oversubscribe", "-n", str(len(targets)), "sh", "-c", command],
                          capture_output=True, text=True, cwd=folder)
    return done


def check_merged(folder, processes):
    done = mpirun(folder, [str(process.pid) for process in processes])
    answer = json.loads(done.stdout[:done.stdout.rindex("}") + 1])
    check(done.stdout.count('"schema"') == 1, "not one answer", done.stdout)
    finding = answer["findings"][0]
    check(answer["run"]["ranks"] == list(range(RANKS)), "ranks", answer["run"])
    check(finding["code"] == "host.stuck" and finding["culprits"] == [CULPRIT], "verdict", finding)
    check({thread["rank"] for thread in answer["threads"]} == set(range(RANKS)), "threads", answer["threads"])
    check(answer["looks"]["processes"] == RANKS, "processes", answer["looks"])


def check_part(folder, processes):
    """One of them finds nothing: the others' answer, and what is missing."""
    done = mpirun(folder, [str(processes[0].pid), str(processes[CULPRIT].pid), "/nowhere"])
    answer = json.loads(done.stdout[:done.stdout.rindex("}") + 1])
    check(answer["run"]["ranks"] == [0, CULPRIT], "part: ranks", answer["run"])
    check(any("nowhere" in limit or "list" in limit for limit in answer["limits"]), "part: what is missing", answer["limits"])


if not shutil.which("mpirun"):
    print("SKIPPED: there is no mpirun; Debian's openmpi-bin has it")
    sys.exit(77)
folder = tempfile.mkdtemp(prefix="traintrace-attach-")
processes = jobs.start(build, folder, RANKS, "lock", CULPRIT,
                       settings=lambda rank: {"TRAINTRACE_DIR": os.path.join(folder, f"host{rank}")})
try:
    time.sleep(2)  # the last-alive time is written each second
    check_merged(folder, processes)
    check_part(folder, processes)
    check(all(process.poll() is None for process in processes), "a rank ended")
finally:
    jobs.stop(processes)
    shutil.rmtree(folder, ignore_errors=True)
jobs.end("several")
