"""verdict.py BUILD PROGRAM MISTAKE CULPRIT CODE [NAME=VALUE ..]: what is said about a program that goes wrong so on simgpu.

At no time anybody else may be blamed, twice in a row; when those that hang are all named, or the run is through, it must be exactly CODE
with exactly the culprit.  CODE `-`: nothing may be found, in a run that ends.  CODE `code?`: nobody may be blamed.  CODE
`code@1+code@6`: several, of which each has its culprit.  The order of the files must not change what is said in the end.
CODE `info:code`: that, of severity info, in a run that ends, and nobody is blamed.  NAME@RANK=VALUE: for that rank only.
KILLED=1: the same must be said once all that is left has been killed."""
import sys
import time

from recorded_job import RecordedJob, alarms

build, program, mistake, culprit, codes = sys.argv[1:6]
settings = dict(argument.split("=", 1) for argument in sys.argv[6:])
RANKS = int(settings.pop("RANKS", 4))
KILLED = settings.pop("KILLED", "")


def expectation(code):
    code, _, own = code.partition("@")
    return code.rstrip("?"), [] if code.endswith("?") else [int(own or culprit)]


info = codes.removeprefix("info:") if codes.startswith("info:") else ""
expected = [] if codes == "-" or info else sorted(expectation(code) for code in codes.split("+"))
culprits = [rank for _, ranks in expected for rank in ranks]


def settings_of(rank):
    split = ((name.partition("@"), value) for name, value in settings.items())
    return {name: value for (name, _, own), value in split if own in ("", str(rank))}


def is_right(report):
    if info and info not in [finding["code"] for finding in report["findings"]]:
        return False
    return sorted((finding["code"], finding["culprits"]) for finding in alarms(report)) == expected


def accuses_others(found):
    return any(rank not in culprits for finding in found for rank in finding["culprits"])


def is_settled(report, job):
    """Those that are left hang, and are named; or all are through."""
    named = {rank for finding in alarms(report) for rank in finding["victims"] + finding["culprits"]}
    return is_right(report) and job.left() <= named


def judge(job):
    deadline = time.monotonic() + 90
    while time.monotonic() < deadline:
        time.sleep(0.5)
        through = not job.left()
        report = job.analyze()
        if report is None:
            continue
        if accuses_others(alarms(report)):
            # Held up for as long as a hang takes, by a machine that serves nobody: then it goes on.
            time.sleep(3)
            report = job.analyze()
            if report is None or accuses_others(alarms(report)):
                return False, report
            continue
        if through or (expected and is_settled(report, job)):
            return is_right(report), report
    return False, report


def main():
    # While a job goes on that nothing is wrong with, a busy machine may hold up one of its ranks for seconds.
    hang_after = "2s" if expected else "5s"
    with RecordedJob(build, [program, mistake, culprit], RANKS, settings_of, hang_after) as job:
        right, report = judge(job)
        job.stop()
        if KILLED and right:
            time.sleep(2)  # the keepers store what there is
            report = job.analyze()
            right = report is not None and is_right(report)
        if job.depends_on_order():
            print("the order of the files changes what is said")
            right = False
        if not right:
            job.print_all(report)
    print(("ok: " if right else "WRONG: ") + report["verdict"])
    return 0 if right else 1


sys.exit(main())
