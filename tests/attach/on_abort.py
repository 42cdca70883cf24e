"""A job that its watchdogs abort and its launcher then kills: what the rank was doing that the others waited for?

    on_abort.py BUILD_FOLDER

With TRAINTRACE_ON_ABORT=snapshot `traintrace analyze` knows afterwards that it is stuck, and where; without it only where the
recorder saw it now and then.  The processes that abort get no child, signal or descriptor from that.
"""
import glob
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile

import jobs
from jobs import check, line_of

RANKS, CULPRIT = 4, 2
build = os.path.abspath(sys.argv[1])


def run(folder, setting, library=os.path.join(build, "lib", "libtraintrace.so")):
    processes = jobs.start(build, folder, RANKS, "lock", CULPRIT, "--watchdog", ready=False, output=None,
                           settings=lambda rank: {"TRAINTRACE_DIR": "trace", "TRAINTRACE_ON_ABORT": setting,
                                                  "LD_PRELOAD": library})
    try:
        for rank in set(range(RANKS)) - {CULPRIT}:
            check(processes[rank].wait() == 6, f"rank {rank} ended with {processes[rank].returncode}")
    finally:  # the launcher
        jobs.stop(processes)


def check_processes(folder):
    for rank in set(range(RANKS)) - {CULPRIT}:
        with open(os.path.join(folder, f"aborted.{rank}")) as file:
            facts = json.load(file)
        before, after = facts["before"], facts["after"]
        # The abort itself closes what NCCL had open.
        check(set(after.pop("descriptors")) <= set(before.pop("descriptors")), f"rank {rank}: open descriptors", facts)
        check(before == after, f"rank {rank}: the abort changed something", facts)
        print(f"rank {rank}: the abort took {facts['seconds']:.2f} s")


def analyze(folder):
    done = subprocess.run([os.path.join(build, "bin", "traintrace"), "analyze", os.path.join(folder, "trace"),
                           "--format=json", "--hang-after=1s"], capture_output=True, text=True)
    check(done.returncode in (0, 1), f"analyze exits with {done.returncode}", done.stderr)
    return json.loads(done.stdout)["findings"]


def nothing_runs_on(folder):
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/cmdline", errors="replace") as text:
                if "--snapshot" in (line := text.read()) and folder in line:
                    return False
        except OSError:
            continue
    return True


def forget(folder):
    """As if it had been looked at an hour earlier."""
    for path in glob.glob(os.path.join(folder, "trace", "*.threads")):
        with open(path) as file:
            start, _, rest = file.read().partition("\n")
        with open(path, "w") as file:
            file.write(f"start {int(start.split()[1].split('.')[0]) - 3600}.0\n{rest}")


def try_program_that_hangs():
    """It is not waited for, and has nothing of the job's."""
    folder = tempfile.mkdtemp(prefix="traintrace-attach-")
    program = os.path.join(folder, "bin", "traintrace")
    for name in ("lib", "bin"):
        os.mkdir(os.path.join(folder, name))
    shutil.copy(os.path.join(build, "lib", "libtraintrace.so"), os.path.join(folder, "lib"))
    with open(program, "w") as file:
        file.write(f"#!/bin/sh\n/usr/bin/env >{folder}/environment.$$\n/bin/ls /proc/$$/fd >{folder}/descriptors.$$\n"
                   f"echo >{folder}/started.$$\nexec /bin/sleep 1000\n")
    os.chmod(program, 0o700)
    programs = []
    try:
        run(folder, "snapshot", os.path.join(folder, "lib", "libtraintrace.so"))
        programs = [int(path.rpartition(".")[2]) for path in glob.glob(os.path.join(folder, "started.*"))]
        check(len(programs) == RANKS - 1, "hangs: not started once per rank that aborts", programs)
        for pid in programs:
            check(os.path.exists(f"/proc/{pid}"), "hangs: the abort has waited for the end")
            with open(os.path.join(folder, f"environment.{pid}")) as file:
                check("LD_PRELOAD" not in file.read(), "hangs: the environment of the job")
            with open(os.path.join(folder, f"descriptors.{pid}")) as file:
                # From 10 on they are the shell's.
                check(not set(file.read().split()) & set("456789"), "hangs: descriptors of the job")
    finally:
        for pid in programs:
            os.kill(pid, signal.SIGKILL)
        shutil.rmtree(folder, ignore_errors=True)
    print("hangs ok" if not jobs.failures else "")


def try_setting(setting):
    folder = tempfile.mkdtemp(prefix="traintrace-attach-")
    try:
        run(folder, setting)
        check_processes(folder)
        check(nothing_runs_on(folder), "a process that looked still runs")
        found = analyze(folder)
        places = [(place["rank"], place["line"]) for finding in found for place in finding["where"]]
        knows = (CULPRIT, line_of("STUCK lock")) in places
        check(knows, f"{setting}: the line of the stuck rank", found)
        check(setting == "snapshot" or found[0]["code"] == "collective.missing-rank", f"{setting}: verdict", found[0])
        if setting == "snapshot":
            check(found[0]["culprits"] == [CULPRIT], "snapshot: culprits", found[0])
            check(found[0]["code"] == "host.stuck", "snapshot: verdict", found[0])
            forget(folder)
            found = analyze(folder)
            check(found[0]["code"] == "collective.missing-rank", "snapshot: what was seen long before counts", found[0])
        print(setting, found[0]["code"], found[0]["title"])
    finally:
        shutil.rmtree(folder, ignore_errors=True)


try_program_that_hangs()
for each in ("snapshot", "off"):
    try_setting(each)
jobs.end("on_abort")
