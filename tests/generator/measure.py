#!/usr/bin/env python3
"""How often is the judge right? Generates jobs, analyzes each, and compares the verdict with what is true.

    python3 measure.py TRAINTRACE --seeds 0:100 [--faults any|healthy|KIND,..] [--form flight|text] [--by KEY] [--jobs 2] [--strict]
"""
import argparse
import collections
import concurrent.futures
import json
import os
import subprocess
import sys
import tempfile
import time

import faults
import generate

HERE = os.path.dirname(os.path.abspath(__file__))
EXACT, OTHER, OPEN, MISSED, WRONG, ALARM, BROKEN, CALM = ("exact", "right rank, other code", "no culprit", "missed", "WRONG ACCUSATION",
                                                          "ALARM ON HEALTHY", "crash or slow", "healthy")
FAULTY = [EXACT, OTHER, OPEN, MISSED, WRONG, BROKEN]
HANGS = ("collective.", "p2p.", "comm.", "device.", "host.", "run.")
SLOW = 60


def about_hangs(finding):
    return finding["severity"] in ("error", "warning") and finding["code"].startswith(HANGS) and finding["code"] != "collective.late-rank"


def classify(told, findings):
    """The class of a verdict. A finding that names a rank which is not to blame decides, whatever else was found."""
    grave = [finding for finding in findings if about_hangs(finding)]
    errors = [finding for finding in findings if finding["severity"] == "error"]
    if told["fault"] == "none":
        return ALARM if errors or any(finding["code"] != "run.unexplained" for finding in grave) else CALM
    true = set(told["culprits"])
    if any(set(finding.get("culprits", [])) - true for finding in grave):
        return WRONG
    unexplained = any(finding["code"] == "run.unexplained" for finding in grave)
    if not errors and unexplained and not told.get("evidence_in_ring", True):
        return EXACT  # that what was recorded does not tell is all that can be said
    if not errors:
        return OPEN if unexplained else MISSED
    named = set(errors[0].get("culprits", []))
    if errors[0]["certainty"] == "possible" and not named and not told.get("evidence_in_ring", True):
        return EXACT
    if errors[0]["code"] in told["acceptable_codes"] and (named == true or (told.get("tie") and not named)):
        return EXACT
    if any(true and set(finding.get("culprits", [])) == true for finding in errors):
        return OTHER
    return OPEN


def judge(traintrace, folder):
    """(exit status, findings, seconds)"""
    begin = time.monotonic()
    try:
        text = os.path.join(folder, "traces", "job.txt")
        input_path = text if os.path.exists(text) else os.path.dirname(text)
        done = subprocess.run([traintrace, "analyze", input_path, "--format=json"], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              timeout=SLOW)
    except subprocess.TimeoutExpired:
        return None, [], SLOW
    seconds = time.monotonic() - begin
    try:
        return done.returncode, json.loads(done.stdout)["findings"], seconds
    except (ValueError, KeyError):
        return None, [], seconds


def one(task):
    traintrace, seed, form, kind, ranks, by = task
    with tempfile.TemporaryDirectory() as folder:
        try:
            told = generate.generate(seed, form, kind, ranks, folder)
        except SystemExit as error:
            return seed, kind, None, str(error), 0, ""
        status, findings, seconds = judge(traintrace, folder)
    verdict = BROKEN if status not in (0, 1) else classify(told, findings)
    errors = [finding for finding in findings if finding["severity"] == "error"] or [finding for finding in findings if about_hangs(finding)]
    said = "; ".join("%s %s %s" % (finding["certainty"], finding["code"], finding.get("culprits", [])) for finding in errors[:3])
    return seed, told["fault"], verdict, "truth %s%s: %s" % (told["culprits"], " (tie)" if told.get("tie") else "", said or "no error"), seconds, str(told.get(by))


def table(results, kinds, healthy):
    columns = FAULTY + ([CALM, ALARM] if healthy else [])
    width = max(len(kind) for kind in kinds) + 1
    print(" " * width + "  ".join("%s" % column for column in columns) + "  jobs")
    total = collections.Counter()
    for kind in kinds + ["all"]:
        counted = total if kind == "all" else collections.Counter(result[2] for result in results if result[5] == kind)
        if kind != "all":
            total.update(counted)
        cells = ["%*s" % (len(column), counted[column] or ".") for column in columns]
        print("%-*s" % (width, kind) + "  ".join(cells) + "  %4d" % sum(counted.values()))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("traintrace")
    parser.add_argument("--seeds", required=True, metavar="FROM:TO")
    parser.add_argument("--faults", default="any")
    parser.add_argument("--form", choices=["flight", "text"], default="flight")
    parser.add_argument("--ranks", type=int)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--by", default="fault", help="a row for each value of this key of truth.json: fault, stop, time_evidence, version, timing, ranks, ..")
    parser.add_argument("--worst", type=int, default=15, help="so many seeds are listed")
    parser.add_argument("--strict", action="store_true", help="exit status 1 if a wrong rank is named or a healthy job alarms")
    arguments = parser.parse_args()
    shown = faults.FLIGHT if arguments.form == "flight" else faults.TEXT
    kinds = {"any": shown, "healthy": ["none"]}.get(arguments.faults) or arguments.faults.split(",")
    unknown = [kind for kind in kinds if kind not in shown + ["none"]]
    if unknown:
        sys.exit("not a fault of this form: %s; there are %s" % (", ".join(unknown), ", ".join(shown)))
    first, last = (int(number) for number in arguments.seeds.split(":"))
    tasks = [(arguments.traintrace, seed, arguments.form, kinds[seed % len(kinds)], arguments.ranks, arguments.by) for seed in range(first, last)]
    with concurrent.futures.ProcessPoolExecutor(arguments.jobs) as pool:
        results = list(pool.map(one, tasks))
    for result in results:
        if result[2] is None:
            print("seed %d: %s" % (result[0], result[3]), file=sys.stderr)
    results = [result for result in results if result[2] is not None]
    table(results, kinds if arguments.by == "fault" else sorted({result[5] for result in results}), "none" in kinds)
    order = [WRONG, ALARM, BROKEN, MISSED, OPEN, OTHER]
    worst = sorted((result for result in results if result[2] in order), key=lambda result: (order.index(result[2]), result[0]))
    for seed, kind, verdict, said, _, _ in worst[:arguments.worst]:
        print("\n%s: %s\n  %s\n  python3 %s --seed %d --form %s --fault %s%s /tmp/job && %s analyze /tmp/job/traces%s" % (
            verdict, kind, said, os.path.join(HERE, "generate.py"), seed, arguments.form, kind,
            " --ranks %d" % arguments.ranks if arguments.ranks else "", arguments.traintrace, "/job.txt" if arguments.form == "text" else ""))
    return 1 if arguments.strict and any(result[2] in (WRONG, ALARM) for result in results) else 0


if __name__ == "__main__":
    sys.exit(main())
