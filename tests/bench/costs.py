"""What the tracer adds to a call, beside its peers in the same run.   costs.py BUILD_FOLDER [--instructions]

Prints a table in Markdown: ns per recorded call, with what the same loop costs unrecorded taken off, and the ratio to
the peer.  With --instructions: instructions by callgrind instead of ns, which other load does not change.
"""
import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile

parser = argparse.ArgumentParser()
parser.add_argument("build")
parser.add_argument("--instructions", action="store_true")
parser.add_argument("--calls", type=int, default=2_000_000)
options = parser.parse_args()

build = os.path.abspath(options.build)
peers = os.path.join(build, "bench", "peers")
call_cost = os.path.join(peers, "call_cost")
preload = os.path.join(build, "lib", "libtraintrace.so")
heaptrack = "/usr/lib/heaptrack/libheaptrack_preload.so"
python = "/usr/bin/python3"


def output(command, scratch, **settings):
    environment = {**os.environ, "TRAINTRACE_DIR": scratch, **settings}
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{command[0]}: exit {done.returncode}: {done.stderr.strip()}")
    return done


def ns(command, scratch, **settings):
    return float(output(command, scratch, **settings).stdout)


def instructions(command, scratch, **settings):
    """Per call: the difference between two runs of which one makes 10,000 calls more in each of its 5 rounds."""
    def count(calls):
        done = output(["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null", *command, str(calls)], scratch,
                      **settings)
        # The tracer's keeper, a child, is counted too, and says so first.
        return int(re.findall(r"Collected\s*:\s*(\d+)", done.stderr)[-1])
    return (count(20_000) - count(10_000)) / 50_000


class LttngSession:
    """Records the events of lttng_cost into files, as its users do."""

    def __init__(self, scratch):
        self.home = os.path.join(scratch, "lttng")
        os.makedirs(self.home)

    def lttng(self, *arguments):
        subprocess.run(["lttng", *arguments], env={**os.environ, "LTTNG_HOME": self.home}, check=True,
                       capture_output=True)

    def __enter__(self):
        subprocess.run(["lttng-sessiond", "--daemonize"], env={**os.environ, "LTTNG_HOME": self.home}, check=True,
                       capture_output=True)
        self.lttng("create", "bench", f"--output={self.home}/trace")
        self.lttng("enable-channel", "--userspace", "--subbuf-size=4M", "--num-subbuf=8", "channel")
        self.lttng("enable-event", "--userspace", "--channel=channel", "traintrace_bench:*")
        self.lttng("start")
        return self

    def __exit__(self, *_):
        self.lttng("destroy")
        subprocess.run(["pkill", "-f", "lttng-sessiond --daemonize"], capture_output=True)


def added(measure, mode, scratch, threads=1, **settings):
    command = [call_cost, mode, str(threads)]
    calls = [] if options.instructions else [str(options.calls)]
    bare = measure(command + calls, scratch)
    return measure(command + calls, scratch, **settings) - bare


def row(what, own, peer_name=None, peer=None):
    compared = f"{peer_name} {peer:.0f} | {own / peer:.2f}" if peer else "|"
    print(f"| {what} | {own:.0f} | {compared} |", flush=True)


def main(scratch):
    measure = instructions if options.instructions else ns
    unit = "instructions" if options.instructions else "ns"
    ours = {"LD_PRELOAD": preload}
    print(f"| a call recorded ({os.cpu_count()} cores) | {unit} | peer, {unit} | ratio |\n|---|---|---|---|")

    def lttng(threads):
        if not os.path.exists(os.path.join(peers, "lttng_cost")):
            return None
        calls = [] if options.instructions else [str(options.calls)]
        with LttngSession(tempfile.mkdtemp(dir=scratch)) as session:
            return measure([os.path.join(peers, "lttng_cost"), str(threads), *calls], scratch, LTTNG_HOME=session.home)

    for threads in (1,) if options.instructions else (1, 2, 4):
        row(f"launch, no stack, {threads} thread(s)", added(measure, "launch", scratch, threads, **ours),
            "two events of LTTng-UST", lttng(threads))
    for threads in (1,) if options.instructions else (1, 2, 4):
        row(f"an NVTX range pushed and popped, {threads} thread(s)",
            added(measure, "range", scratch, threads, **ours, NVTX_INJECTION64_PATH=preload),
            "two events of LTTng-UST", lttng(threads))
    peer_of_one = None
    for threads in (1,) if options.instructions else (1, 2, 4):
        peer = None
        if os.path.exists(heaptrack) and not options.instructions:  # it records nothing under valgrind
            peer = added(measure, "malloc", scratch, threads, LD_PRELOAD=heaptrack, DUMP_HEAPTRACK_OUTPUT="/dev/null")
        peer_of_one = peer if threads == 1 else peer_of_one
        row(f"known stack of 20 native frames, {threads} thread(s)", added(measure, "stack", scratch, threads, **ours),
            "malloc and free under heaptrack", peer)
    block = "a block of PyTorch's allocator taken and given back, known stack of 20 native frames"
    row(block, added(measure, "block", scratch, **ours), "malloc and free under heaptrack", peer_of_one)
    row(f"{block}, every record kept", added(measure, "block", scratch, **ours, TRAINTRACE_MODE="full"),
        "malloc and free under heaptrack", peer_of_one)
    if not options.instructions:
        command = [python, "tests/bench/python_cost.py", os.path.join(peers, "libcall_loop.so")]
        row("known stack of 10 Python frames and native ones", ns(command, scratch, **ours) - ns(command, scratch))


if shutil.which("lttng") is None:
    print("lttng is not installed: its column stays empty", file=sys.stderr)
with tempfile.TemporaryDirectory(prefix="traintrace-bench.", dir="/dev/shm") as folder:
    main(folder)
