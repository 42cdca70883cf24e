"""Compares what `attach` says of running processes with what other tools see of the same.

    compare.py BUILD_FOLDER eu-stack|gdb|py-spy      Exit status 77: that tool is not installed
"""
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time

import jobs
from jobs import check

RANKS = 2
build, tool = os.path.abspath(sys.argv[1]), sys.argv[2]


def run(*command):
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout


def attach(pid, *options):
    answer = json.loads(run(os.path.join(build, "bin", "traintrace"), "attach", str(pid), "--format=json", "--interval=0s",
                            *options))
    return {thread["tid"]: thread for thread in answer["threads"] if thread["pid"] == pid}


def plain(name):
    """Without arguments of functions and templates, and versions of symbols."""
    name = name.partition("@")[0].replace("(anonymous namespace)::", "").replace("[abi:cxx11]", "")
    while (shorter := re.sub(r"<[^<>]*>|\([^()]*\)( const)?$", "", name)) != name:
        name = shorter
    # The same function has several names in libc.
    return name.split(" ")[-1].replace("__GI_", "").lstrip("_")


def by_eu_stack(pid):
    threads = {}
    for line in run("eu-stack", "-p", str(pid)).splitlines():
        if match := re.match(r"TID (\d+):", line):
            frames = threads.setdefault(int(match[1]), [])
        elif match := re.match(r"#\d+ +0x[0-9a-f]+(?: - 1)?(?: +(.*))?$", line):
            frames.append(plain(re.sub(r" - 1$", "", match[1] or "")))
    return threads


def by_gdb(pid):
    threads = {}
    for line in run("gdb", "-p", str(pid), "-nx", "-batch", "-ex", "set width 0", "-ex", "thread apply all bt").splitlines():
        if match := re.match(r"Thread \d+ \(.*LWP (\d+)\)", line):
            frames = threads.setdefault(int(match[1]), [])
        elif match := re.match(r"#\d+ +(?:0x[0-9a-f]+ in )?(.+?) \(", line):
            frames.append(plain(match[1]))
    return threads


def is_part(names, others):
    """In this order, with others between them (gdb shows what is inlined)."""
    rest = iter(others)
    return all(name in rest for name in names)


def stacks_that_wait(pid, *arguments):
    """By thread: how it is shown, and its functions."""
    return {tid: (f"thread {thread['name']}, {thread['state']}", [plain(frame["function"]) for frame in thread["native"]])
            for tid, thread in attach(pid, *arguments).items() if thread["waits_for"] != "nothing"}


def compare_eu_stack(pid):
    theirs = by_eu_stack(pid)
    for tid, (thread, ours) in stacks_that_wait(pid, "--stop").items():
        check(tid not in theirs or ours == theirs[tid], f"{thread}, stopped", ours, theirs.get(tid))
    # A thread that nobody stops may wake up for a moment while it is looked at: then it has no stack, in that look.
    empty = None
    for _ in range(5):
        now = stacks_that_wait(pid)
        for tid in now.keys() & theirs.keys():  # without all registers a stack may end early
            thread, ours = now[tid]
            check(ours == theirs[tid][:len(ours)], thread, ours, theirs[tid])
        without = {tid for tid in now.keys() & theirs.keys() if not now[tid][1]}
        empty = without if empty is None else empty & without
        if not empty:
            return
    check(False, "threads without a stack in each of five looks", empty)


def compare_gdb(pid):
    theirs = by_gdb(pid)
    for tid, thread in attach(pid, "--stop").items():
        ours = [name for frame in thread["native"] if (name := plain(frame["function"]))]
        if thread["waits_for"] == "nothing" or tid not in theirs:
            continue
        theirs_named = [name for name in theirs[tid] if name != "??"]
        check(is_part([name for name in ours if name in theirs_named], theirs_named) and
              len(set(ours) - set(theirs_named)) <= len(ours) // 4, f"thread {thread['name']}", ours, theirs[tid])


def compare_py_spy(pid):
    theirs = json.loads(run("py-spy", "dump", "--nonblocking", "--json", "--pid", str(pid)))
    ours = attach(pid)
    for thread in theirs:
        own = ours[thread["os_thread_id"]]
        check([(frame["function"].split(".")[-1], frame["line"]) for frame in own["python"]] ==
              [(frame["name"], frame["line"]) for frame in thread["frames"]], "py-spy", own, thread)


if not shutil.which(tool):
    print(f"SKIPPED: {tool} is not installed, so nothing is compared with what it sees")
    sys.exit(77)
folder = tempfile.mkdtemp(prefix="traintrace-attach-")
processes = jobs.start(build, folder, RANKS, "lock", 1)  # rank 1 waits for a lock, rank 0 for rank 1
try:
    time.sleep(1)
    for process in processes:
        {"eu-stack": compare_eu_stack, "gdb": compare_gdb, "py-spy": compare_py_spy}[tool](process.pid)
        check(process.poll() is None, "a rank ended")
finally:
    jobs.stop(processes)
    shutil.rmtree(folder, ignore_errors=True)
jobs.end(tool)
