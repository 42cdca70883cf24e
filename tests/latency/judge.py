"""judge.py BUILD CASE RANKS CODE [NAME=VALUE ..]: what is said about the time of a job on simgpu, recorded with
TRAINTRACE_GPU_TIMELINE=cupti.

It must be exactly CODE (several with commas; `-`: nothing above info), with the ns that the ranks say they have lost, to 5 %: of several
codes what only one of them can mean.  An info may be asked for too; CODE? may be there or not, !CODE must not, be it an info.
CODE=CERTAINTY has to be so certain.
=CODE=RANK: that one has this culprit and no other.  :FUNCTION= the first place of what is found has to be there.
NAME@RANK=VALUE is set for one rank; +KEY=NS is lost besides what the ranks say; !KEY= no finding may have.
What a rank says as idle_for_CAUSE_ns is what `report --by=rank` must have of that cause.
A machine that others use wakes up late: then a job loses what it was not made to, and runs again.  One that was never left
alone is no failure (status 77)."""
import json
import os
import re
import subprocess
import sys
import tempfile

import accounts

build, case, ranks, code = sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4]
given = dict((argument[:1] + argument[1:].split("=", 1)[0], argument[1:].split("=", 1)[1]) for argument in sys.argv[5:])
settings = {key: value for key, value in given.items() if "@" not in key and key[0] not in "+!:="}
culprits = {key[1:]: [int(value)] for key, value in given.items() if key[0] == "="}
first_place = [key[1:] for key in given if key[0] == ":"]
absent = [key[1:] for key in given if key[0] == "!"]
lost = {key[1:]: int(value) for key, value in given.items() if key[0] == "+"}


def settings_of(rank):
    return {key.split("@")[0]: value for key, value in given.items() if key.endswith(f"@{rank}")}


ATTEMPTS = 12
STEPS = 30
KEYS_OF_ONE = ("late_ns", "waited_ns", "extra_ns", "bubble_ns", "schedule_percent")
KEYS = (*KEYS_OF_ONE, "idle_ns", "exposed_ns", "slower_ns", "blocked_ns", "slow_ns", "blocking_ns", "lost_ns")
SHAPE = ("m", "n", "k")  # to the last digit
# 10^9 operations in a second on CUDA cores, by NVIDIA's data sheets; the job counts by those of the first.
FLOATS = {"NVIDIA H100 80GB HBM3": 67_000, "NVIDIA L40": 90_500}
MUCH_NS = 15_000_000  # of some 500 ms
DELAYED_NS = 20_000_000 * ranks  # over all threads of one; on two idle cores one rank has up to 10, three up to 46 ms


compared = set()


def is_spoilt(report, printed):
    """Its threads waited for processors, or the ends of collectives differ on simgpu because a host woke up late."""
    lost = printed.get("idle_ns", 0) + printed.get("exposed_ns", 0)
    return (printed.get("delayed_ns", 0) > DELAYED_NS or (code[0] == "-" and lost > MUCH_NS) or
            any(finding["code"] == "trace.incomplete-timeline" and "end_skew_ns" in finding["values"] for finding in report["findings"]))


def record(folder):
    os.mkdir(f"{folder}/shared")
    environment = dict(os.environ, **{"SIMGPU_KERNEL_US": "forward_*=400,backward_*=1000,update_*=1000", "SIMGPU_DEVICES": str(ranks), **settings},
                       TRAINTRACE_GPU_TIMELINE="cupti", TRAINTRACE_DIR=f"{folder}/traces", SIMGPU_NODE=folder,
                       LD_PRELOAD=f"{build}/lib/libtraintrace.so", WORKLOAD_DIR=f"{folder}/shared")
    program = [f"{build}/tests/latency_cases"]
    if case.startswith("loader"):
        program = ["/usr/bin/python3", os.path.join(os.path.dirname(os.path.abspath(__file__)), "loader.py")]
        environment["LD_LIBRARY_PATH"] = f"{build}/simgpu"
    running = [subprocess.Popen([*program, case, str(STEPS)], stdout=subprocess.PIPE, text=True,
                                env=dict(environment, **settings_of(rank), RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(ranks)))
               for rank in range(ranks)]
    printed = dict(lost)
    for rank, process in enumerate(running):
        output = process.communicate(timeout=120)[0]
        if process.returncode != 0:
            sys.exit(f"rank {rank} of {case} ended with {process.returncode}")
        for key, value in (line.split() for line in output.splitlines()):
            sums = key.startswith("+")
            key = key.lstrip("+")
            printed[key] = int(value) + printed.get(key, 0) if sums else max(int(value), printed.get(key, 0))
    return printed


def analyze(folder):
    done = subprocess.run([f"{build}/bin/traintrace", "analyze", f"{folder}/traces", "--format=json"],
                          capture_output=True, text=True, timeout=120, check=False)
    return json.loads(done.stdout)


def rows(trace, by):
    done = subprocess.run([f"{build}/bin/traintrace", "report", f"--by={by}", "--format=json", trace], capture_output=True,
                          text=True, timeout=120, check=True)
    return [{key: value for key, value in row.items() if key != "source" and not key.startswith("peak_")}
            for row in json.loads(done.stdout)["rows"]]


def export_differs(folder):
    """As PyTorch's profiler writes it and read back, the figures are the same to the ns."""
    os.mkdir(f"{folder}/kineto")
    output = f"{folder}/kineto/rank" + (".json" if ranks == 1 else "")
    subprocess.run([f"{build}/bin/traintrace", "export", "kineto", f"{folder}/traces", f"--output={output}"], check=True,
                   timeout=120)
    for name in os.listdir(f"{folder}/kineto"):  # Holistic Trace Analysis looks for the rank so, in the first lines
        with open(f"{folder}/kineto/{name}", encoding="utf-8") as file:
            if not re.search(r'"rank": \d+', file.read(4096)):
                return f"{name} does not say its rank as Holistic Trace Analysis reads it"
    for by in ("rank", "step"):
        own, exported = rows(f"{folder}/traces", by), rows(f"{folder}/kineto", by)
        if by == "step" and not exported:  # each rank of a run has a row, where it has no steps, too
            own = [row for row in own if row["step"] is not None]
        if own != exported or len(own) < (ranks if by == "rank" else 0):
            return f"own figures by {by} {own}, of the export {exported}"
    return None


def misjudged(table, printed):
    """Against `report --by=rank`: why it was idle, and what is a pipeline."""
    for key in (key for key in printed if key.startswith("idle_for_")):
        cause = key.removeprefix("idle_for_").removesuffix("_ns").replace("_", "-")
        value = sum(row["idle_by_cause_ns"][cause] for row in table)
        if abs(printed[key] - value) > 0.05 * value:
            return f"{printed[key]} ns were lost for {cause}, report says {value}"
        compared.add(key)
    if "bubble_ns" in absent and any(row["pipeline_bubble_ns"] is not None for row in table):
        return f"no pipeline, but report says {[row['pipeline_bubble_ns'] for row in table]}"
    if "bubble_ns" in printed and abs(printed["bubble_ns"] - max(row["pipeline_bubble_ns"] for row in table)) > 0.05 * printed["bubble_ns"]:
        return f"a bubble of {printed['bubble_ns']} ns, but report says {[row['pipeline_bubble_ns'] for row in table]}"
    return None


def untold(findings):
    """A tenth of the window or more stands first, although it is as it is meant to be."""
    for healthy in (finding for finding in findings if finding["code"] == "run.healthy"):
        told = healthy["values"].get("lost_percent", 0)
        most = max((finding["values"]["idle_percent"] for finding in findings if finding["code"] == "latency.pause" and
                    "idle_percent" in finding["values"]), default=0)
        if most > 10 and told < most:
            return f"healthy, but {most} % are lost, and {told} % are said first"
    return None


def problem(findings, printed):
    certainty = dict(each.split("=") for each in code.split(",") if "=" in each)
    codes = [each.split("=")[0] for each in code.split(",") if each != "-"]
    wanted = [each for each in codes if each[-1] != "?" and each[0] != "!"]
    found = [finding for finding in findings if "!" + finding["code"] in codes or finding["code"] in wanted or
             (finding["severity"] != "info" and finding["code"] + "?" not in codes)]
    if sorted(finding["code"] for finding in found) != sorted(wanted):
        return f"expected {wanted}, found {[finding['code'] for finding in found]}"
    for finding in found:
        if finding["certainty"] != certainty.get(finding["code"], finding["certainty"]):
            return f"{finding['code']} is {finding['certainty']}: {finding['evidence']}"
        if set(absent) & set(finding["values"]):
            return f"{finding['code']} has {sorted(set(absent) & set(finding['values']))}"
        if finding["culprits"] != culprits.get(finding["code"], finding["culprits"]):
            return f"{finding['code']} blames {finding['culprits']}"
        if first_place and finding["where"][0].get("function") not in first_place:
            return f"{finding['code']} is at {finding['where']}"
        for key in KEYS if len(wanted) == 1 else KEYS_OF_ONE:
            value = None if key == "idle_ns" and "lost_ns" in printed else finding["values"].get(key)  # copies are a part of what the rank measures
            if value is not None and abs(printed.get(key, value) - value) > 0.05 * value:
                return f"{key}: {printed[key]} were lost, {finding['code']} says {value}"
            compared.add(key if value is not None and key in printed else None)
        for key in SHAPE if "m" in printed else ():
            if finding["values"].get(key) != printed[key]:
                return f"{key}: {printed[key]} of products, {finding['code']} says {finding['values'].get(key)}"
            compared.add(key)
    return None


def utilisation_differs(folder, printed):
    """What is computed, and the share of the GPU's peak, against what the rank says of itself."""
    if "flops" not in printed:
        return None
    row = rows(f"{folder}/traces", "rank")[0]
    if row["gemm_flops"] != printed["flops"]:
        return f"{printed['flops']} operations, the report says {row['gemm_flops']}"
    device = given.get("SIMGPU_DEVICE_NAME")
    expected = None if device is None else 100 * printed["at_peak_ns"] * FLOATS["NVIDIA H100 80GB HBM3"] / FLOATS[device] / row["window_ns"]
    if (row["mfu_percent"] is None) != (expected is None) or (expected and abs(row["mfu_percent"] - expected) > 0.001):
        return f"{expected} % of the peak, the report says {row['mfu_percent']}"
    return None


def main():
    wrong = report = None
    spoilt = True  # each time
    for attempt in range(ATTEMPTS):
        with tempfile.TemporaryDirectory(prefix="latency.") as folder:
            printed = record(folder)
            report = analyze(folder)
            differs = export_differs(folder) or utilisation_differs(folder, printed)
            table = rows(f"{folder}/traces", "rank")
        differs = differs or accounts.unaccounted(report, table) or untold(report["findings"])
        if differs:
            sys.exit(f"WRONG: {differs}")
        wrong = problem(report["findings"], printed) or misjudged(table, printed)
        if not wrong:
            break
        spoilt = spoilt and is_spoilt(report, printed)
        print(f"attempt {attempt + 1}: {wrong}; lost: {printed}")
    if wrong:
        print(json.dumps(report, indent=1))
    print(f"WRONG: {wrong}" if wrong else f"ok: {report['verdict']}; the same by both sides: {sorted(compared - {None})}")
    return 0 if not wrong else 77 if spoilt else 1


sys.exit(main())
