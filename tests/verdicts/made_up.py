"""made_up.py BUILD [SEED[=CULPRIT] ..] [--from=A --to=B] [--keep=FOLDER]: what is said about jobs made up from seeds,
of which one rank does something else once (made_up.cc).

A line for each: the culprit is named (`right`), `nobody` is blamed, nothing is found (`quiet`).  These are honest.  It ends
with 1 where somebody else is blamed at any time, or anything found in a healthy job (`wrong`), where several findings stand
in the end (`noise`), where a healthy job `hangs`, where what is said depends on the order of the files (`order`), and where
a CULPRIT is given and is not blamed in the end.  The traces of these are kept in FOLDER."""
import argparse
import os
import random
import shutil
import sys
import time

from recorded_job import RecordedJob, alarms

# A seed means what it does by the order and the number of these.
FAULTS = ["none", "pause", "slow-function", "late", "skip", "extra", "count", "kill", "exit", "fail", "stuck", "function",
          "type", "operation", "swap", "oom", "abort", "crash"]
HEALTHY = ["none", "pause", "slow-function"]
MISMATCHES = ["", "hang", "corrupt", "error"]
PROGRESS = ["observe", "observe", "marks", "plugin"]

DEADLINE_SECONDS = 90
LOOKS_NAMED = 4  # in a row at which nothing changes, once the culprit is named
LOOKS_ELSE = 20


class MadeUp:
    def __init__(self, seed):
        draws = random.Random(seed)
        self.seed = seed
        self.ranks = draws.choice([2, 3, 4, 4, 5, 6])
        self.fault = draws.choice(FAULTS)
        self.culprit = draws.randrange(self.ranks)
        mismatch = draws.choice(MISMATCHES)
        self.settings = {"TRAINTRACE_GPU_PROGRESS": draws.choice(PROGRESS)}
        if mismatch:
            self.settings["SIMGPU_NCCL_MISMATCH"] = mismatch
        self.healthy = self.fault in HEALTHY
        self.ends = self.healthy or self.fault == "late"

    def recorded(self, build):
        command = ["made_up", str(self.seed), self.fault, str(self.culprit)]
        return RecordedJob(build, command, self.ranks, lambda rank: self.settings)

    def is_wrong(self, found):
        return any(self.healthy or set(finding["culprits"]) - {self.culprit} for finding in found)

    def is_right(self, found):
        return [finding["culprits"] for finding in found] == [[self.culprit]]

    def describe(self):
        settings = " ".join(f"{name}={value}" for name, value in self.settings.items())
        return f"seed={self.seed} ranks={self.ranks} fault={self.fault} culprit={self.culprit} {settings}"


def is_settled(made_up, found, looks):
    if made_up.ends or len(found) > 1:
        return False
    return looks >= (LOOKS_NAMED if made_up.is_right(found) else LOOKS_ELSE)


def judge(made_up, job):
    """What it comes to, and the report."""
    deadline = time.monotonic() + DEADLINE_SECONDS
    before, looks, report, through = None, 0, {"findings": []}, False
    while not through and time.monotonic() < deadline:
        time.sleep(0.5)
        left = job.left()
        through = not left
        report = job.analyze() or report
        found = alarms(report)
        if made_up.is_wrong(found):
            return "wrong", report
        state = left, [(finding["code"], finding["culprits"]) for finding in found]
        looks = looks + 1 if state == before else 0
        before = state
        if is_settled(made_up, found, looks):
            break
    if made_up.ends and not through:
        return "hangs", report
    if len(found) > 1:
        return "noise", report
    return "right" if made_up.is_right(found) else "nobody" if found else "quiet", report


def keep(folder, made_up, job):
    place = os.path.join(folder, str(made_up.seed))
    shutil.rmtree(place, ignore_errors=True)
    shutil.copytree(f"{job.folder}/traces", place)


def try_out(seed, culprit, options):
    made_up = MadeUp(seed)
    if culprit not in (None, made_up.culprit):
        sys.exit(f"the culprit of seed {seed} is {made_up.culprit}")
    with made_up.recorded(options.build) as job:
        verdict, report = judge(made_up, job)
        job.stop()
        if job.depends_on_order():
            verdict = "order"
        passed = verdict == "right" or (culprit is None and verdict in ("nobody", "quiet"))
        if not passed:
            job.print_all(report)
            if options.keep:
                keep(options.keep, made_up, job)
    found = " ".join(f"{finding['code']}{finding['culprits']}" for finding in alarms(report))
    print(f"{verdict:6} {made_up.describe()}: {found or 'nothing'}", flush=True)
    return passed


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("build")
    parser.add_argument("seeds", nargs="*", metavar="SEED[=CULPRIT]")
    parser.add_argument("--from", type=int, dest="first", default=0)
    parser.add_argument("--to", type=int, dest="last", default=-1)
    parser.add_argument("--keep")
    options = parser.parse_args()
    given = [seed.partition("=") for seed in options.seeds]
    jobs = [(int(seed), int(culprit) if culprit else None) for seed, _, culprit in given]
    jobs += [(seed, None) for seed in range(options.first, options.last + 1)]
    passed = [try_out(seed, culprit, options) for seed, culprit in jobs]
    print(f"{sum(passed)} of {len(passed)} are right or honest")
    return 0 if all(passed) else 1


sys.exit(main())
