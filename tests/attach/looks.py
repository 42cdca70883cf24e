"""Looks again and again at a job that trains, and compares what it computes with what it computes unseen.

    looks.py BUILD_FOLDER [--looks=20] [--stop] [--apart=PAIRS]      Exit status 77: no PyTorch

Nothing fails, no wait of the job's is interrupted and no signal comes; with --stop a wait may be interrupted, and it is
printed how long threads stood still.

--apart has the job on one core and the looks on another, so that they do not take the job's processor from it, and prints by how
much steps take longer while looked at, in pairs of runs that alternate.
"""
import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time

import jobs
from jobs import check

ROOT = os.path.dirname(os.path.dirname(jobs.HERE))
RANKS = 2
parser = argparse.ArgumentParser()
parser.add_argument("build")
parser.add_argument("--looks", type=int, default=20)
parser.add_argument("--stop", action="store_true")
parser.add_argument("--apart", type=int, default=0, metavar="PAIRS")
options = parser.parse_args()
build = os.path.abspath(options.build)
cores = sorted(os.sched_getaffinity(0))
if options.apart and len(cores) < 2:
    print("SKIPPED: --apart needs two cores")
    sys.exit(77)


def on_core(which):
    """What a program does before it starts; cores are only set where --apart asks for it."""
    return (lambda: os.sched_setaffinity(0, {cores[which]})) if options.apart else None


class Job:
    def __init__(self, folder, steps):
        self.output_path = os.path.join(folder, "output")
        self.traces = os.path.join(folder, "trace")
        with open(self.output_path, "wb") as output:
            self.torchrun = subprocess.Popen(
                [os.path.join(ROOT, "scripts/lib/torchrun"), str(RANKS), "--log_dir", os.path.join(folder, "log"),
                 os.path.join(jobs.HERE, "ddp.py"), "watched", folder, f"--steps={steps}"],
                env=jobs.environment(build, folder), stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT,
                preexec_fn=on_core(0))

    def output(self):
        with open(self.output_path, errors="replace") as text:
            return text.read()

    def results(self):
        """The losses of every step and the weights at the end; both depend on every exchange before."""
        text = self.output()
        return sorted(re.findall(r"step rank=\d+ step=\d+ loss=\S+", text) + re.findall(r"done rank=\d+ .*weights=\S+", text))

    def ms_per_step(self):
        return [float(ms) for ms in re.findall(r"ms_per_step=([\d.]+)", self.output())]


def look_at(job):
    stops, looks = [], 0
    while (looks < options.looks or options.apart) and job.torchrun.poll() is None:
        done = subprocess.run([os.path.join(build, "bin", "traintrace"), "attach", job.traces, "--format=json",
                               "--interval=0s", "--hang-after=60s", *(["--stop"] if options.stop else [])],
                              capture_output=True, text=True, preexec_fn=on_core(1))
        if done.returncode == 2:  # before the ranks have started, or while they end
            time.sleep(0.05)
            continue
        answer = json.loads(done.stdout)
        check(done.returncode == 0, "a running job is accused", answer["findings"])
        stops += answer["looks"]["stops_ns"]
        looks += 1
    return looks, sorted(stops)


def run(steps, looking):
    with tempfile.TemporaryDirectory(prefix="traintrace-attach-") as folder:
        job = Job(folder, steps)
        looks, stops = look_at(job) if looking else (0, [])
        status = job.torchrun.wait()
        check(status == 0, f"the job ended with {status}", job.output()[-3000:])
        for waits, interrupted, signals in re.findall(r"watched waits=(\d+) interrupted=(\d+) signals=(\d+)", job.output()):
            check(signals == "0", f"{signals} signals", job.output()[-500:])
            check(interrupted == "0" or options.stop and looking, f"{interrupted} of {waits} waits interrupted")
            print(f"{interrupted} of {waits} waits interrupted, {signals} signals")
        return job, looks, stops, job.results(), job.ms_per_step()


if not os.access("/usr/bin/torchrun", os.X_OK):
    print("SKIPPED: there is no /usr/bin/torchrun; Debian's python3-torch has it")
    sys.exit(77)
steps = 400 if options.looks <= 50 else 2000
looked, all_stops, ratios = 0, [], []
unseen, unseen_ms = [], []
while (len(ratios) < options.apart if options.apart else looked < options.looks) and not jobs.failures:
    if options.apart or not unseen:
        _, _, _, unseen, unseen_ms = run(steps, False)
        check(len(unseen) == RANKS * (steps + 1), "the job lacks results", len(unseen))
    _, looks, stops, seen, seen_ms = run(steps, True)
    check(seen == unseen, "the results differ")
    check(looks > 0, "the job was too short to look at")
    print(f"{looks} looks at {steps} steps; ms per step unseen {unseen_ms}, seen {seen_ms}", flush=True)
    looked += looks
    all_stops += stops
    ratios.append(statistics.mean(seen_ms) / statistics.mean(unseen_ms))
if options.apart and len(ratios) > 1:
    low, middle, high = statistics.quantiles(ratios, n=4)
    print(f"steps looked at take {middle:.3f} of the time (quartiles {low:.3f} to {high:.3f}, {len(ratios)} pairs)")
all_stops.sort()
if all_stops:
    at = lambda part: all_stops[min(len(all_stops) - 1, int(part * len(all_stops)))] / 1e6
    print(f"{len(all_stops)} threads stopped: median {at(0.5):.3f} ms, 99 % within {at(0.99):.3f} ms, longest {at(1):.3f} ms")
jobs.end(f"{looked} looks")
