"""What PyTorch said by NVTX, as the witness (tests/simgpu/cuda12/nvtx_witness.cc) has it, and what a trace has of it."""
import glob
import json
import os
import re
import subprocess
from collections import Counter

KINDS = {"nvtxRangePush": "push", "nvtxRangePop": "pop", "nvtxMark": "mark", "nvtxRangeStart": "start"}
RECORD = re.compile(r"\+\S+ \S+?/(\d+) \* (nvtx[A-Za-z]+?)(?:Ex)?(?: \"?range=\d+(?:=(.*?))?\"?)?(?: handle=\w+)?"
                    r"(?: category=0 payload_type=1 payload=0x(\w+))?(?: on-device=\d+)?$")


def of_witness(path):
    """By thread, (kind, name); the name of a pop is that of its push.  And what does not nest."""
    threads, open_ranges, wrong = {}, {}, []
    with open(path, encoding="utf-8") as file:
        for line in file:
            tid, kind, name = re.match(r"(\d+) (\w+) (.*)", line).groups()
            name = kept_of(name)
            if kind == "push":
                open_ranges.setdefault(tid, []).append(name)
            elif kind == "pop":
                wrong += [] if open_ranges.get(tid) else [f"{path}: a pop too many"]
                name = open_ranges[tid].pop() if open_ranges.get(tid) else "?"
            threads.setdefault(tid, []).append((kind, name))
    return threads, wrong


def kept_of(name):
    """Of a name, what the recorder keeps: what the inputs of an operator came from it leaves out."""
    return name.encode()[:512].decode(errors="ignore").partition(", input_op_ids = [")[0]


def of_dump(text):
    """By thread as the kernel numbers it."""
    tids, open_ranges = dict(re.findall(r"^thread (\d+) .*?\btid=(\d+)", text, re.M)), {}
    threads = {}
    for line in text.splitlines():
        found = RECORD.match(line)
        if found and found[2] in KINDS:
            bare, sizes = re.match(r"(.*?)(, sizes = \[.*)?$", found[3]).groups()
            kind, name = KINDS[found[2]], bare + numbers_of(found[4]) + (sizes or "")
            if kind == "push":
                open_ranges.setdefault(found[1], []).append((found[3], name))
            elif kind == "pop":  # it says the name alone, which must be that of the innermost one
                bare, name = (open_ranges.get(found[1]) or [("", "")]).pop()
                name = name if bare == found[3] else f"{found[3]} instead of {bare}"
            threads.setdefault(tids.get(found[1], found[1]), []).append((kind, name))
    return threads


def numbers_of(payload):
    """As emit_nvtx writes them."""
    if payload is None:
        return ""
    sequence, number = divmod(int(payload, 16), 1 << 32)
    return (f", seq = {sequence - 1}" if sequence else "") + f", op_id = {number}"


def differences(out, program):
    """What is wrong, as texts, and how many ranges were compared."""
    wrong, ranges = [], Counter()
    for path in sorted(glob.glob(os.path.join(out, "witness.*"))):
        pid = path.rsplit(".", 1)[1]
        traces = glob.glob(os.path.join(out, "traces", f"*.{pid}.*.trace"))
        if len(traces) != 1:
            wrong.append(f"{path}: {len(traces)} traces of this process")
            continue
        text = subprocess.run([program, "dump", traces[0]], capture_output=True, text=True, check=True).stdout
        expected, found = of_witness(path), of_dump(text)
        wrong += expected[1]
        for tid, events in expected[0].items():
            if found.get(tid) != events:
                wrong.append(f"{path}, thread {tid}: {difference(events, found.get(tid, []))}")
            ranges.update(name for kind, name in events if kind == "push")
        wrong += [f"{path}: thread {tid} is in the trace alone" for tid in found.keys() - expected[0].keys()]
        wrong += [f"{path}: {stat}" for stat in re.findall(r"^stat (?:unknown-range-end|range-names-full|ranges-deep)\b.*", text, re.M)]
    return wrong + missing(out, ranges), ranges


def difference(expected, found):
    at = next((i for i, pair in enumerate(zip(expected, found)) if pair[0] != pair[1]), min(len(expected), len(found)))
    return f"{len(expected)} against {len(found)}; the {at}th: {expected[at:at + 3]} against {found[at:at + 3]}"


def missing(out, ranges):
    """What the scripts say they have pushed, and nobody has heard."""
    said = Counter()
    for path in glob.glob(os.path.join(out, "ranges.*")):
        with open(path, encoding="utf-8") as file:
            said.update(name for _, name in json.load(file))
    return [] if said and all(ranges[name] == count for name, count in said.items()) else [f"not all of {dict(said)} in {dict(ranges)}"]
