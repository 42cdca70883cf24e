"""Real profiles against the figures of an independent program, to the nanosecond.   exact.py TRAINTRACE DATA

Ends with 77 where DATA, which is not part of this repository, is not at hand.
"""
import collections
import csv
import decimal
import glob
import json
import os
import subprocess
import sys

# Ours, and the name in exact_ref.json of what it must equal.
FIGURES = {"window_ns": "span_ns", "busy_ns": "busy_ns", "idle_ns": "idle_ns", "compute_ns": "comp_ns", "communication_ns": "comm_ns",
           "memory_ns": "mem_ns", "exposed_communication_ns": "exposed_comm_vs_comp_ns", "overlap_percent": "overlap_pct"}


def report(traintrace, folder):
    done = subprocess.run([traintrace, "report", folder, "--by=rank", "--format=json"], stdout=subprocess.PIPE, check=True)
    document = json.loads(done.stdout)
    assert document["schema"] == "traintrace.report/1", document["schema"]
    return document["rows"]


# Columns of gpu_idle_by_cause.csv, and our causes that they hold.
CAUSES = {"sync_induced_us": ["sync-induced"], "host_bound_us": ["host-bound", "data-starvation", "allocator", "host-peer-wait"],
          # From the launch on: the reference does not ask how long that may take, so what begins long after it is one sum here.
          "launch_latency_us+device_or_launch_latency_us": [
              "lazy-load", "launch-call", "launch-latency", "communication-wait", "straggler-wait", "copy-wait", "kernel-gap", "dependency", "graph-internal"],
          "unknown_launch_us": ["unattributed"]}


def idle_expected(data):
    with open(os.path.join(data, "expected", "gpu_idle_by_cause.csv"), encoding="utf-8") as file:
        return {os.path.basename(row["trace"]).removesuffix(".gz"): row for row in csv.DictReader(file)}


def compare_idle(name, row, entry):
    """The loader takes precedence here and not there: a synchronisation in a gap may lose a little to it."""
    causes = row["idle_by_cause_ns"]
    wrong = [] if sum(causes.values()) == row["idle_ns"] else [f"{name}: causes add up to {sum(causes.values())}, not {row['idle_ns']}"]
    for column, parts in CAUSES.items():
        ours = sum(causes[part] for part in parts)
        theirs = sum(round(decimal.Decimal(entry[each]) * 1000) for each in column.split("+"))
        if abs(ours - theirs) > 0.01 * theirs:
            wrong.append(f"{name}: {column} is {ours} ns, not {theirs}")
    return wrong


def expected(data):
    """By file name; a folder's name may stand before it."""
    files = {}
    for path in glob.glob(os.path.join(data, "expected", "*", "exact_ref.json")):
        with open(path, encoding="utf-8") as file:
            read = json.load(file)
        for entry in read if isinstance(read, list) else [read]:
            files[entry["file"].removesuffix(".gz")] = entry
    return files


def main(traintrace, data):
    if not os.path.isdir(data):
        print("SKIPPED: the data are not here")
        sys.exit(77)
    files, idle, seen, wrong = expected(data), idle_expected(data), collections.Counter(), []
    for folder in sorted(glob.glob(os.path.join(data, "kineto", "*"))):
        for row in report(traintrace, folder):
            name = os.path.basename(row["source"]).removesuffix(".gz")
            if name in idle:
                wrong += compare_idle(name, row, idle.pop(name))
            entry = files.get(name)
            if not entry:
                continue
            seen[name] += 1
            wrong += [f"{name}: {ours} is {row[ours]}, not {entry['all'][theirs]}"
                      for ours, theirs in FIGURES.items() if row[ours] != entry["all"][theirs]]
            parts = row["compute_ns"] + row["exposed_communication_ns"] + row["exposed_memory_ns"] + row["idle_ns"]
            wrong += [] if parts == row["window_ns"] else [f"{name}: the parts add up to {parts}, not {row['window_ns']}"]
    wrong += [f"{name}: {seen[name]} rows" for name in files if seen[name] != 1] + [f"{name}: no row" for name in idle]
    print("\n".join(wrong) or f"{len(FIGURES)} figures of {len(files)} files are equal")
    sys.exit(1 if wrong else 0)


main(*sys.argv[1:])
