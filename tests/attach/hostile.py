"""Processes and files that want `traintrace attach --all` to hang, to starve or to obey them.

    hostile.py BUILD_FOLDER [--processes=20]

Whatever they do, all are looked at or named, and one that is healthy is seen beside them.
"""
import argparse
import gzip
import json
import os
import re
import resource
import subprocess
import sys
import tempfile
import time

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("build")
parser.add_argument("--processes", type=int, default=20)
options = parser.parse_args()
build = os.path.abspath(options.build)
failures = []

# More frames than anybody reads.
DEEP = """
import ctypes, sys, time
ctypes.CDLL("libcuda.so.1")
def innermost():
    print("ready", flush=True)
    time.sleep(1000)
def deep(n):
    deep(n - 1) if n else innermost()
sys.setrecursionlimit(1 << 20)
deep(20000)
"""
# A frame that stands for C code and is the one that called it: who skips it comes to it again.  The places are those of
# CPython 3.11: PyFrameObject.f_frame, _PyInterpreterFrame.previous and .owner.
CIRCLE = """
import ctypes, sys, time
ctypes.CDLL("libcuda.so.1")
def run_in_circles():
    if sys.version_info[:2] == (3, 11):
        frame = ctypes.c_uint64.from_address(id(sys._getframe()) + 24).value
        ctypes.c_uint64.from_address(frame + 48).value = frame
        ctypes.c_uint8.from_address(frame + 69).value = 3
    print("ready", flush=True)
    time.sleep(1000)
run_in_circles()
"""
# Code with names and a line table that are as long as they may be.
LONG_NAMES = """
import ctypes, sys, time
ctypes.CDLL("libcuda.so.1")
name = "n" * (1 << 20)
scope = {"time": time, "print": print}
exec(compile("def f():\\n print('ready', flush=True)\\n time.sleep(1000)", name, "exec"), scope)
scope["f"].__code__ = scope["f"].__code__.replace(co_name=name)
scope["f"]()
"""
HEALTHY = """
import ctypes, time
ctypes.CDLL("libcuda.so.1")
def the_healthy_one():
    print("ready", flush=True)
    time.sleep(1000)
the_healthy_one()
"""
TRICKS = ["fifo", "device", "bomb", "nothing", "trace", "names", "threads=2500", "mappings=20000", "dying", "exec"]


def check(holds, what, *details):
    if not holds:
        failures.append(what)
        print("WRONG:", what, *(str(detail)[-3000:] for detail in details))


class Processes:
    running = []

    def __init__(self, folder):
        self.folder, self.all = folder, Processes.running
        self.environment = {**os.environ, "LD_LIBRARY_PATH": os.path.join(build, "simgpu")}

    def start(self, *command):
        own = os.path.join(self.folder, str(len(self.all)))
        os.mkdir(own)
        os.link(os.path.join(self.folder, "bomb.gz"), os.path.join(own, "bomb.gz"))
        rank = {"RANK": str(len(self.all)), "WORLD_SIZE": "1000", "TORCHELASTIC_RUN_ID": "hostile"}
        process = subprocess.Popen(command, stdout=subprocess.PIPE, cwd=own, env={**self.environment, **rank})
        process.stdout.readline()
        self.all.append(process)
        return process

    def end(self):
        for process in self.all:
            process.kill()
        for process in self.all:
            process.wait()


def attach(*arguments):
    before = time.monotonic()
    # A gigabyte is what it may take on a machine whose jobs need the rest.
    done = subprocess.run([os.path.join(build, "bin", "traintrace"), "attach", *arguments, "--interval=500ms"],
                          capture_output=True, timeout=60)
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss >> 10
    print(f"attach {' '.join(arguments)}: {time.monotonic() - before:.1f} s, {peak} MiB, status {done.returncode}")
    check(peak < 1024, "memory", peak)
    return done


def no_controls(text, what):
    # C0 but the line feed, DEL, C1 as characters, bidirectional overrides.
    found = re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", text)
    check(found is None, what + ": control characters", found)


def looked_at_beside(*targets):
    text = attach(*targets)
    check(text.returncode in (0, 1), "status", text.stderr)
    no_controls(text.stdout.decode("utf-8"), "text")
    no_controls(text.stderr.decode("utf-8"), "stderr")
    done = attach(*targets, "--format=json")
    answer = json.loads(done.stdout.decode("utf-8"))
    check("\x9b" not in done.stdout.decode("utf-8"), "JSON: C1")
    functions = {frame["function"] for thread in answer["threads"] for frame in thread["python"]}
    # With --all, the job that another test runs meanwhile may come first, and nobody of ours is told of.
    own = {process.pid for process in Processes.running}
    if targets != ("--all",) or own & {thread["pid"] for thread in answer["threads"]}:
        check("the_healthy_one" in functions, "the healthy one is seen", answer["limits"], sorted(functions)[:20])
    return answer


def main():
    with tempfile.TemporaryDirectory(prefix="hostile.") as folder:
        with gzip.open(os.path.join(folder, "bomb.gz"), "wb") as bomb:
            for _ in range(64):
                bomb.write(bytes(1 << 20))
        processes = Processes(folder)
        hostile = os.path.join(build, "tests", "hostile")
        try:
            for i in range(options.processes):
                processes.start(hostile, "libcuda", TRICKS[i % len(TRICKS)])
            for program in (DEEP, CIRCLE, LONG_NAMES):
                processes.start("/usr/bin/python3", "-c", program)
            processes.start("/usr/bin/python3", "-c", HEALTHY)
            time.sleep(0.5)
            pids = [str(process.pid) for process in processes.all]
            answer = looked_at_beside(*pids)
            # Beside others that are as hungry, on a busy machine, there may be no time for them at all.
            for what in ("of its 2501 threads were looked at", "more files mapped than are looked at"):
                check(any(what in limit or "could not be looked at" in limit for limit in answer["limits"]), what, answer["limits"])
            for process in processes.all[:options.processes]:
                check(process.poll() is None, "it goes on", process.args, process.returncode)
            looked_at_beside("--all")
        finally:
            processes.end()
    print("hostile ok" if not failures else "")
    return 1 if failures else 0


sys.exit(main())
