"""Whether what `traintrace` says of a case (memory_set.py) is what must be said."""
import collections
import enum
import json
import os
import re
import subprocess

from memory_set import End, Kind

HERE = os.path.dirname(os.path.abspath(__file__))
SCRIPTS = os.path.join(HERE, "memory_scripts")
# What is told of a case that raises or is killed, or that runs out of memory.
OF_THE_END = ("run.rank-failed", "run.unexplained")
# PyTorch's: a request from here on is not served from segments of 20 MiB, but has its own, rounded.
LARGE_BLOCK, ROUNDED_TO = 10 << 20, 2 << 20


# Lengths vary, and not all that a step leaves in use is a leak.
RATE_WITHIN, FEWEST_OF_RATE = 0.05, 5
NOT_OF_PYTORCH = ("extension",)
# What autograd's threads keep beside as many blocks of its size is taken for gradients, and not told.
TOLD_IN_PART = ("gradients_with_graph",)
# A batch that fails has no backward pass, and is no step.
FAILS_IN_STEPS = ("information_of_exceptions",)


class Outcome(enum.Enum):
    EXACT = "exact"
    OTHER = "other"  # another code, line or rank
    MISSED = "missed"
    FALSE = "false warnings"
    FAILED = "failed scripts"


Problem = collections.namedtuple("Problem", "outcome text")


def outcome(problem_of_case):
    return problem_of_case.outcome if problem_of_case else Outcome.EXACT


def marked_lines(name):
    """(file, line) of the lines that may be named."""
    found = set()
    for base in os.listdir(SCRIPTS):
        if base.endswith(".py"):
            with open(os.path.join(SCRIPTS, base), encoding="utf-8") as file:
                found |= {(base, number) for number, line in enumerate(file, 1) if re.search(rf"# leak: (.* )?{name}( |$)", line.rstrip())}
    return found


def nothing_said(text):
    return {"findings": [{"code": "no-verdict", "severity": "error", "title": text, "where": []}]}


def report_of(*command):
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    try:
        return json.loads(done.stdout)
    except ValueError:
        return nothing_said(done.stderr[-300:])


def analyze(traintrace, out):
    return report_of(traintrace, "analyze", os.path.join(out, "traces"), "--format=json")


def attach(traintrace, out):
    return report_of(traintrace, "attach", os.path.join(out, "traces"), "--interval=0.5", "--format=json")


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
                            r"(?:\S+ \S+ allowed; )?Of the allocated memory (\S+ \S+) is allocated by PyTorch, and (\S+ \S+) is reserved", file.read())
    finding = next((each for each in report["findings"] if each["code"].endswith("-oom")), None)
    if not message or not finding:
        return Problem(Outcome.MISSED, "no message, or no finding")
    values = finding["values"]
    asked = values.get("segment_bytes", values["requested_bytes"])
    if "expandable" in job["environment"].get("PYTORCH_CUDA_ALLOC_CONF", "") and values["requested_bytes"] >= LARGE_BLOCK:
        asked = -(-values["requested_bytes"] // ROUNDED_TO) * ROUNDED_TO  # the message's: each piece that is mapped has 20 MiB
    names = ["total_bytes", "free_bytes", "job_bytes", "idle_bytes"]
    ours = tuple(size_text(each) if each is not None else None for each in [asked, *(values.get(name) for name in names)])
    return None if ours == message.groups() else Problem(Outcome.OTHER, f"{ours}, PyTorch says {message.groups()}")


def place_problem(case, finding):
    lines = marked_lines(case.name)
    places = [(os.path.basename(place["file"]), place["line"]) for place in finding["where"]]
    if lines and (not places or places[0] not in lines):
        return f"{finding['code']} at {places}, not at {sorted(lines)}"
    if case.culprits and tuple(finding["culprits"]) != case.culprits:
        return f"{finding['code']} of ranks {finding['culprits']}, not {case.culprits}"
    return None


def rate_problem(job, finding):
    """The rate of a leak against what PyTorch had live after each step."""
    with open(os.path.join(job["out"], f"output.{finding['culprits'][0]}"), encoding="utf-8", errors="replace") as file:
        live = [int(each) for each in re.findall(r"^live after \d+: (\d+)$", file.read(), re.M)]
    # What its first step leaves may be in use from then on, and at its end a job lets go.
    live = live[finding["values"].get("steps_before_count", 0):-1]
    if finding["code"] != "memory.growth-leak" or job["name"] in NOT_OF_PYTORCH + TOLD_IN_PART + FAILS_IN_STEPS:
        return None
    more = [b - a for a, b in zip(live, live[1:])]
    kept = [step for step, bytes_more in enumerate(more) if bytes_more > max(more) / 4]  # in which something was
    if len(kept) < FEWEST_OF_RATE:
        return None
    real = (live[kept[-1]] - live[kept[0]]) / (kept[-1] - kept[0])
    told = finding["values"]["bytes_per_step"]
    parts = max(1, round(real / told)) if told else 1  # where two optimizers step in turn, each may be taken for a step of the job
    return None if abs(told * parts - real) <= RATE_WITHIN * real else f"{told} bytes a step, PyTorch has {real:.0f}"


def script_problem(job):
    """An exception that it was not asked for."""
    for rank in range(job["ranks"]):
        with open(os.path.join(job["out"], f"output.{rank}"), encoding="utf-8", errors="replace") as file:
            text = file.read()
        if "Traceback" in text and "Broken: " not in text and "OutOfMemoryError" not in text:
            return Problem(Outcome.FAILED, f"the script itself fails: {text[-300:]}")
    return None


def problem(case, job, report):
    """What is wrong; nothing if all is right."""
    if failed := script_problem(job):
        return failed
    if case.kind is Kind.FIGURES:
        return message_problem(job, report)
    ends_badly = job["end"] != End.EXIT or case.kind is Kind.FULL
    found = [finding for finding in report["findings"]
             if finding["severity"] != "info" and not (ends_badly and finding["code"] in OF_THE_END)]
    codes = [finding["code"] for finding in found]
    if sorted(codes) != sorted(case.wanted):
        text = f"expected {list(case.wanted)}, found {[(finding['code'], finding['title'][:160]) for finding in found]}"
        kind = Outcome.FALSE if not case.wanted else Outcome.OTHER if codes else Outcome.MISSED
        return Problem(kind, text)
    if case.wanted:
        finding = next(finding for finding in found if finding["code"] == case.wanted[0])
        if text := place_problem(case, finding) or rate_problem(job, finding):
            return Problem(Outcome.OTHER, text)
    return None
