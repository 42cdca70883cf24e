"""Real profiles against the figures of an independent program, to the nanosecond.   exact.py TRAINTRACE DATA

Ends with 77 where DATA, which is not part of this repository, is not at hand.
"""
import collections
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
    files, seen, wrong = expected(data), collections.Counter(), []
    for folder in sorted(glob.glob(os.path.join(data, "kineto", "*"))):
        for row in report(traintrace, folder):
            name = os.path.basename(row["source"]).removesuffix(".gz")
            entry = files.get(name)
            if not entry:
                continue
            seen[name] += 1
            wrong += [f"{name}: {ours} is {row[ours]}, not {entry['all'][theirs]}"
                      for ours, theirs in FIGURES.items() if row[ours] != entry["all"][theirs]]
            parts = row["compute_ns"] + row["exposed_communication_ns"] + row["exposed_memory_ns"] + row["idle_ns"]
            wrong += [] if parts == row["window_ns"] else [f"{name}: the parts add up to {parts}, not {row['window_ns']}"]
    wrong += [f"{name}: {seen[name]} rows" for name in files if seen[name] != 1]
    print("\n".join(wrong) or f"{len(FIGURES)} figures of {len(files)} files are equal")
    sys.exit(1 if wrong else 0)


main(*sys.argv[1:])
