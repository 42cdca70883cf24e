"""What `traintrace analyze` must say of the cases of memory_cases.py, and whether it does."""
import json
import os
import re
import subprocess

HERE = os.path.dirname(os.path.abspath(__file__))
LEAK = "memory.growth-leak"
# The first finding that is no info; beside it others may stand, but none of `memory.`.
WANTED = {
    "leak_until_full": [LEAK, "memory.capacity-oom"],
    "leak_with_lengths_until_full": [LEAK, "memory.capacity-oom"],
    "too_large": ["memory.capacity-oom"],
    "too_large_batch": ["memory.capacity-oom"],
    "pieces": ["memory.fragmentation-oom"],
    "limited": ["memory.capacity-oom"],
}
# What is told of a case that raises or is killed, or that runs out of memory.
OF_THE_END = ("run.rank-failed", "run.unexplained")


def marked_lines(name):
    with open(os.path.join(HERE, "memory_cases.py"), encoding="utf-8") as file:
        return {number for number, line in enumerate(file, 1) if re.search(rf"# leak: {name}$", line.rstrip())}


def analyze(traintrace, out):
    done = subprocess.run([traintrace, "analyze", os.path.join(out, "traces"), "--format=json"], capture_output=True, text=True, check=False)
    try:
        return json.loads(done.stdout)
    except ValueError:
        return {"findings": [{"code": "no-verdict", "severity": "error", "title": done.stderr[-300:], "where": []}]}


def size_text(size):
    """As PyTorch writes it."""
    for unit, name in ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")):
        if size > unit or (unit > 1 << 10 and size == unit):
            return f"{size / unit:.2f} {name}"
    return f"{size} bytes"


def message_problem(job, report):
    """The finding's figures against PyTorch's own message."""
    with open(os.path.join(job["out"], "output.0"), encoding="utf-8") as file:
        message = re.search(r"Tried to allocate (\S+ \S+)\. GPU 0 has a total capacity of (\S+ \S+) of which (\S+ \S+) is free\. "
                            r"Of the allocated memory (\S+ \S+) is allocated by PyTorch, and (\S+ \S+) is reserved", file.read())
    finding = next((each for each in report["findings"] if each["code"].endswith("-oom")), None)
    if not message or not finding:
        return "no message, or no finding"
    values = finding["values"]
    names = ["segment_bytes" if "segment_bytes" in values else "requested_bytes", "total_bytes", "free_bytes", "job_bytes", "idle_bytes"]
    ours = tuple(size_text(values[name]) if name in values else None for name in names)
    return None if ours == message.groups() else f"{ours}, PyTorch says {message.groups()}"


def problem(job, report, leaks):
    """What is wrong, as text; nothing if all is right."""
    if job["name"] == "random_state":
        return message_problem(job, report)
    wanted = WANTED.get(job["name"], [LEAK] if job["name"] in leaks else [])
    ends_badly = job["ending"] != "exit" or job["name"] in WANTED
    found = [finding for finding in report["findings"]
             if finding["severity"] != "info" and not (ends_badly and finding["code"] in OF_THE_END)]
    codes = [finding["code"] for finding in found]
    if sorted(codes) != sorted(wanted):
        return f"expected {wanted}, found {[(finding['code'], finding['title'][:160]) for finding in found]}"
    lines = marked_lines(job["name"])
    if wanted and lines:
        first = next(finding for finding in found if finding["code"] == wanted[0])
        places = [(os.path.basename(place["file"]), place["line"]) for place in first["where"]]
        if not places or places[0][0] != "memory_cases.py" or places[0][1] not in lines:
            return f"{wanted[0]} at {places}, not at {sorted(lines)}"
    return None
