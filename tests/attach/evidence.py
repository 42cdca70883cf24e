"""A rank that is silent is not dead: stopped, copied to another machine, killed with all others, on a clock that was set.

    evidence.py BUILD_FOLDER

Four ranks exchange for ever (rank.py none).  What the tracer's keeper would have noted, and what other machines have, is put into
copies of the traces.
"""
import glob
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

import jobs
from jobs import check, stop

build = os.path.abspath(sys.argv[1])
traintrace = os.environ.get("TRAINTRACE_ANALYZER", os.path.join(build, "bin", "traintrace"))
RANKS, SILENT = 4, 2
SECOND = 10 ** 9
# Places in format/trace_format.h's FileHeader.
START_TIME, BOOT_ID, NEWEST, ANCHORS = 608, 616, 708, (712, 736, 760)
EXIT_KIND, BOOTTIMES, GONE = 808, 832, 856
MONOTONIC, REALTIME = 8, 16  # within an anchor


class Header:
    def __init__(self, path):
        self.file = open(path, "r+b")

    def get(self, offset, form="Q"):
        self.file.seek(offset)
        return struct.unpack("<" + form, self.file.read(struct.calcsize("<" + form)))[0]

    def put(self, offset, *values, form="Q"):
        self.file.seek(offset)
        self.file.write(struct.pack("<" + form * len(values) if len(form) == 1 else "<" + form, *values))

    def newest(self):
        return ANCHORS[1 + self.get(NEWEST, "I")]

    def note_boottime(self):
        """As if the machine had been started 1000 s before CLOCK_MONOTONIC began: it slept for as long."""
        self.put(BOOTTIMES, *[self.get(anchor + MONOTONIC) + 1000 * SECOND for anchor in ANCHORS])

    def note_gone(self, boottime_ns, signal_number=9):
        self.put(GONE, boottime_ns, 0)
        self.put(GONE + 16, signal_number, 2, form="iI")
        return self

    def silent_since(self):
        return self.get(self.newest() + MONOTONIC) + 1000 * SECOND


def collectives_of_each(folder):
    """How many each rank has entered, by rank."""
    dump = subprocess.run([traintrace, "dump", os.path.join(folder, "trace")], capture_output=True, text=True).stdout
    entered, rank = {}, None
    for line in dump.splitlines():
        if line.startswith("process "):
            rank = int(line.split()[1])
        elif line.startswith("communicator dp "):
            entered[rank] = int(re.search(r" collectives=(\d+)", line).group(1))
    return entered


def sleeps(process):
    """In time.sleep of its main thread, also while it is stopped."""
    with open(f"/proc/{process.pid}/syscall") as file:
        return file.read().split()[0] == {"x86_64": "230", "aarch64": "115"}[os.uname().machine]  # clock_nanosleep


def stop_outside(folder, processes):
    """Stops a rank that has lived for two heartbeats, and not inside what the others wait in: its GPU, which is simulated, stops
    with it.  It sleeps between two exchanges then; that it has entered fewer is not enough, since the others may have finished
    the exchange whose end it has not seen."""
    time.sleep(2.5)
    for _ in range(40):
        processes[SILENT].send_signal(signal.SIGSTOP)
        time.sleep(0.5)
        entered = collectives_of_each(folder)
        if sleeps(processes[SILENT]) and entered[SILENT] < max(entered.values()):
            return
        processes[SILENT].send_signal(signal.SIGCONT)
        time.sleep(random.uniform(0.1, 0.3))
    sys.exit("FAILED: never outside")


def wait_for_copies(folder):
    """After the end of a process its keeper makes the final copy: until nothing has changed for a second."""
    def state():
        return [(path, os.stat(path).st_ino, os.stat(path).st_mtime_ns) for path in sorted(glob.glob(folder + "/trace/*.trace"))]

    before = None
    while before != (before := state()):
        time.sleep(1)


def copy_of(folder, name, change):
    """`change(rank, header)` for each trace."""
    target = os.path.join(folder, name)
    os.mkdir(target)
    for path in glob.glob(os.path.join(folder, "trace", "*.trace")):
        header = Header(shutil.copy(path, target))
        header.note_boottime()
        header.put(GONE, 0, 0, 0)
        change(pids.index(int(path.split(".")[-3])), header)
        header.file.close()
    return target


def analyze(folder):
    done = subprocess.run([traintrace, "analyze", folder, "--format=json"], capture_output=True, text=True)
    check(done.returncode in (0, 1), "analyze", done.stderr)
    answer = json.loads(done.stdout)
    return answer["findings"][0], done.returncode, answer["verdict"]


def is_silent_only(finding, status, verdict):
    """Possible, and nobody is blamed."""
    return (finding["code"], finding["certainty"], finding["culprits"], status) == ("collective.dead-rank", "possible", [], 1) \
        and "silent" in verdict


def is_ended_as_a_whole(finding):
    return finding["code"] == "run.rank-failed" and not finding["culprits"]


def names_it(finding, status, _verdict, code):
    return (finding["code"], finding["culprits"], status) == (code, [SILENT], 1)


def other_machine(_rank, header):
    header.put(BOOT_ID, 1, 2)


def all_gone_at_once(_rank, header):
    other_machine(_rank, header)
    header.note_gone(max_silent)


def gone_first(rank, header):
    other_machine(rank, header)
    header.note_gone(header.silent_since() + SECOND // 10 if rank == SILENT else max_silent)


def clock_was_set(rank, header):
    """The last heartbeat of rank 1 lay before somebody set the clock forward by an hour, those of the others after it."""
    all_gone_at_once(rank, header)
    if rank == 1:
        for anchor in ANCHORS:
            header.put(anchor + REALTIME, header.get(anchor + REALTIME) - 3600 * SECOND)


def latest_heartbeat(folder):
    return max(Header(path).silent_since() for path in glob.glob(folder + "/trace/*.trace"))


folder = tempfile.mkdtemp(prefix="traintrace-evidence-")
processes = jobs.start(build, folder, RANKS, "none", 0)
pids = [process.pid for process in processes]
try:
    stop_outside(folder, processes)
    time.sleep(9)
    seen = analyze(os.path.join(folder, "trace"))
    check(names_it(*seen, "collective.missing-rank"), "stopped, looked at here", seen)
    check("stopped (SIGSTOP or a debugger)" in seen[2], "that it is stopped", seen)
    seen = analyze(copy_of(folder, "elsewhere", other_machine))
    check(is_silent_only(*seen), "stopped, looked at elsewhere", seen)
    processes[SILENT].send_signal(signal.SIGCONT)
    time.sleep(2)
    seen = analyze(os.path.join(folder, "trace"))
    check(seen[1] == 0 and seen[0]["code"] == "run.in-progress", "goes on", seen)
    stop(processes)
    for process in processes:
        process.wait()
    wait_for_copies(folder)
    max_silent = latest_heartbeat(folder) + SECOND // 10
    seen = analyze(copy_of(folder, "at_once", all_gone_at_once))
    check(is_ended_as_a_whole(seen[0]), "all killed at once", seen)
    seen = analyze(copy_of(folder, "clock", clock_was_set))
    check(is_ended_as_a_whole(seen[0]), "all killed at once, and the clock was set", seen)
finally:
    stop(processes)
    shutil.rmtree(folder, ignore_errors=True)

folder = tempfile.mkdtemp(prefix="traintrace-evidence-")
processes = jobs.start(build, folder, RANKS, "none", 0)
pids = [process.pid for process in processes]
try:
    stop_outside(folder, processes)
    time.sleep(8)
    stop(processes)
    for process in processes:
        process.wait()
    wait_for_copies(folder)
    max_silent = latest_heartbeat(folder) + SECOND // 10
    seen = analyze(os.path.join(folder, "trace"))
    check(seen[0]["culprits"] == [SILENT] and (seen[0]["code"], seen[0]["certainty"]) != ("collective.dead-rank", "proof"),
          "stopped, then all killed", seen)
    seen = analyze(copy_of(folder, "at_once", all_gone_at_once))
    check(names_it(*seen, "collective.missing-rank"), "stopped, then all killed, as noted", seen)
    seen = analyze(copy_of(folder, "first", gone_first))
    check(names_it(*seen, "collective.dead-rank") and seen[0]["certainty"] == "proof", "killed first, as noted", seen)
    check(any("signal 9" in line for line in seen[0]["evidence"]), "by which signal", seen)
    seen = analyze(copy_of(folder, "elsewhere", other_machine))
    check(is_silent_only(*seen), "looked at elsewhere, nothing noted", seen)
finally:
    stop(processes)
    shutil.rmtree(folder, ignore_errors=True)
jobs.end("evidence")
