"""How often is the analyzer right about simulated jobs?

    python3 measure.py TRAINTRACE FROM:TO [--causes NAME,..] [--worst N] [--jobs N]
"""
import argparse
import collections
import concurrent.futures
import json
import os
import subprocess
import sys
import tempfile

import kineto
import scenario

EXACT, BEHIND, MISSED, WRONG, ALARM, CALM, FAILED = ("exact", "right but not first", "not named", "wrong culprit", "alarm", "healthy", "failed")
ORDER = (WRONG, FAILED, ALARM, MISSED, BEHIND)  # the worst first
LEAST_EXPOSED = 0.05  # share of exposed communication of which a warning is true


def analyze(traintrace, folder):
    done = subprocess.run([traintrace, "analyze", folder, "--format=json"], capture_output=True, text=True, timeout=120, check=False)
    try:
        return json.loads(done.stdout)["findings"]
    except ValueError:
        return None


def is_right(finding, case):
    culprits = case.cause.culprits(case.job)
    return finding["code"] in case.cause.codes and (not culprits or sorted(finding.get("culprits", [])) == culprits)


def accused(case, findings):
    """Ranks that findings name and that have done nothing."""
    everyone = set(range(case.job.ranks))
    found = set()
    for finding in findings:
        named = set(finding.get("culprits", []))
        # What all do alike accuses no rank.
        if finding["severity"] in ("warning", "error") and named != everyone:
            found |= named & case.innocent
    return found


def classify(case, findings):
    if findings is None:
        return FAILED
    if accused(case, findings):
        return WRONG
    right = [finding for finding in findings if is_right(finding, case)]
    if case.is_noticeable:
        return EXACT if right and findings[0] is right[0] else BEHIND if right else MISSED
    warnings = [finding for finding in findings if finding["severity"] in ("warning", "error") and finding not in right]
    if case.exposed_share() >= LEAST_EXPOSED:
        warnings = [finding for finding in warnings if finding["code"] != scenario.causes.EXPOSED]
    if case.job.loads_modules:
        warnings = [finding for finding in warnings if finding["code"] != scenario.causes.LAZY_LOAD]
    return ALARM if warnings else CALM


class Result:
    """What is kept of a case."""

    def __init__(self, label, case, findings):
        self.label, self.name, self.kind = label, case.name, classify(case, findings)
        self.lost_share = case.lost_ns / case.recorded_ns
        self.culprits = case.cause.culprits(case.job)
        self.findings = [(finding["code"], finding["severity"], finding.get("culprits"), finding["title"]) for finding in findings or []]
        self.names_culprits = any(severity != "info" and culprits for _, severity, culprits, _ in self.findings)
        self.gain = self.has_line = None
        right = [finding for finding in findings or [] if is_right(finding, case)]
        if case.is_noticeable and right:
            gain = (right[0].get("values") or {}).get("gain_ns")
            self.gain = None if gain is None else gain / case.lost_ns
            if case.cause.line and case.job.with_stacks:
                self.has_line = any(case.cause.line in f"{where.get('file')} {where.get('function')}" for where in right[0].get("where", []))

    def __str__(self):
        lines = [f"{self.kind}: {self.label} {self.name}, {100 * self.lost_share:.1f} % lost, culprits {self.culprits}"]
        lines += [f"    {severity} {code} {culprits or ''} {title[:150]}" for code, severity, culprits, title in self.findings if severity != "info"]
        return "\n".join(lines)


def judged(traintrace, label, case):
    with tempfile.TemporaryDirectory() as folder:
        kineto.write(case.simulation, folder)
        return Result(label, case, analyze(traintrace, folder))


def judge_seed(task):
    traintrace, seed, *how = task
    return judged(traintrace, f"seed {seed}", scenario.drawn(seed, *how))


def gains(results):
    known = [result.gain for result in results if result.gain is not None]
    return f"{sum(0.8 <= gain <= 1.2 for gain in known)}/{len(known)}"


def lines(results):
    known = [result.has_line for result in results if result.has_line is not None]
    return f"{sum(known)}/{len(known)}"


def table(results):
    columns = (EXACT, BEHIND, MISSED, WRONG, ALARM, CALM, FAILED)
    print(f"{'cause':22}{'cases':>6}" + "".join(f"{column:>{len(column) + 2}}" for column in columns) + "  gain within 20 %  line")
    for name in sorted({result.name for result in results}) + [None]:
        of_it = [result for result in results if name in (None, result.name)]
        count = collections.Counter(result.kind for result in of_it)
        print(f"{name or 'all':22}{len(of_it):6}" + "".join(f"{count[column]:{len(column) + 2}}" for column in columns)
              + f"{gains(of_it):>18}{lines(of_it):>6}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("traintrace")
    parser.add_argument("seeds", metavar="FROM:TO")
    parser.add_argument("--causes", help="names; else all in turn")
    parser.add_argument("--worst", type=int, default=0, metavar="N")
    parser.add_argument("--jobs", type=int, default=1)
    arguments = parser.parse_args()
    names = arguments.causes.split(",") if arguments.causes else list(scenario.CAUSES)
    if not set(names) <= set(scenario.CAUSES):
        parser.error("causes are " + ", ".join(scenario.CAUSES))
    first, last = map(int, arguments.seeds.split(":"))
    shares = scenario.SHARES
    tasks = [(os.path.abspath(arguments.traintrace), seed, names[seed % len(names)], shares[seed // len(names) % len(shares)])
             for seed in range(first, last)]
    with concurrent.futures.ProcessPoolExecutor(arguments.jobs) as pool:
        results = list(pool.map(judge_seed, tasks))
    table(results)
    for result in sorted((result for result in results if result.kind in ORDER), key=lambda result: ORDER.index(result.kind))[:arguments.worst]:
        print(f"\n{result}")
    return 1 if any(result.kind in (WRONG, FAILED) for result in results) else 0


if __name__ == "__main__":
    sys.exit(main())
