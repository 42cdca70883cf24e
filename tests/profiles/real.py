"""What is said of real profiles, where they are at hand, else 77.   real.py TRAINTRACE DATA"""
import json
import os
import subprocess
import sys


def run(*command):
    done = subprocess.run(command, stdout=subprocess.PIPE, check=False)
    assert done.returncode == 0, (command, done.returncode)
    return json.loads(done.stdout)


def steps_found(traintrace, data):
    """Against step_detection.jsonl, of another program: the period, and the median length to 0.01 ms."""
    wrong = []
    with open(os.path.join(data, "expected", "step_detection.jsonl"), encoding="utf-8") as file:
        for entry in map(json.loads, file):
            folder, start = entry["file"].split("/")
            file_name = next(name for name in os.listdir(os.path.join(data, "kineto", folder)) if name.startswith(start))
            rows = run(traintrace, "report", os.path.join(data, "kineto", folder, file_name), "--by=step", "--format=json")["rows"]
            found = [row for row in rows if row["found_by"] == "period"]
            marked = [row for row in rows if row["found_by"] == "marks"]
            if len(found) != (round(entry["n_periods"]) if entry["P"] else 0):
                wrong.append(f"{entry['file']}: {len(found)} steps found")
            if len(marked) != entry["steps"]:
                wrong.append(f"{entry['file']}: {len(marked)} steps marked, not {entry['steps']}")
            for row, milliseconds in zip(marked, entry["gt_ms"]):
                if abs(row["duration_ns"] / 1e6 - milliseconds) > 0.01:
                    wrong.append(f"{entry['file']}: marked step {row['step']} takes {row['duration_ns']} ns, not {milliseconds} ms")
            if found and abs(found[0]["usual_ns"] / 1e6 - entry["est_ms_med"]) > 0.01:
                wrong.append(f"{entry['file']}: found steps take {found[0]['usual_ns']} ns, not {entry['est_ms_med']} ms")
    return wrong


# Folder or file; codes at warning that must be there with their culprits, in the order root first; codes that must not.
LATE = {"latency.straggler"}
EXPECTED = [
    ("dlrm_v100_8rank", {"latency.wait-not-transfer": [], "latency.straggler": [4, 5], "latency.entry-skew": []}, {"latency.data-starvation"}),
    ("kineto_resnet50_workers/num_workers_0", {"latency.data-starvation": [0]}, LATE | {"latency.sync-in-loop"}),
    ("kineto_resnet50_workers/num_workers_4", {"latency.host-bound": [0]}, LATE | {"latency.data-starvation", "latency.sync-in-loop"}),
    ("hta_sampled_2of128_v100", {"trace.incomplete-timeline": [], "latency.unattributed": []}, LATE | {"latency.host-bound", "latency.entry-skew"}),
    ("hta_trace_diff_control_a100_rank3of8", {"latency.harmless-sync": []}, LATE | {"latency.sync-in-loop", "latency.wait-not-transfer"}),
    ("tracelens_h100/h100_Falconsai", {"latency.host-bound": [0]}, LATE | {"latency.sync-in-loop"}),
    ("tracelens_h100/h100_gaunernst", {"latency.host-bound": [0]}, LATE | {"latency.sync-in-loop"}),
]
ROOTS = {"kineto_resnet50_workers/num_workers_0": "latency.data-starvation",
         "kineto_resnet50_workers/num_workers_4": "latency.host-bound"}


def verdicts(traintrace, data):
    wrong = []
    for name, codes, never in EXPECTED:
        folder, _, start = name.partition("/")
        path = os.path.join(data, "kineto", folder)
        if start:
            path = os.path.join(path, next(file for file in os.listdir(path) if file.startswith(start)))
        findings = run(traintrace, "analyze", path, "--format=json")["findings"]
        found = {finding["code"]: finding for finding in findings}
        for code, culprits in codes.items():
            if code not in found:
                wrong.append(f"{name}: no {code}, but {sorted(found)}")
            elif found[code]["culprits"] != culprits:
                wrong.append(f"{name}: {code} blames {found[code]['culprits']}, not {culprits}")
        wrong += [f"{name}: {code}" for code in sorted(never & set(found))]
        if name in ROOTS and findings[0]["code"] != ROOTS[name]:
            wrong.append(f"{name}: the verdict is about {findings[0]['code']}")
    return wrong


def main(traintrace, data):
    if not os.path.isdir(os.path.join(data, "kineto")):
        print("the profiles are not at hand")
        return 77
    wrong = steps_found(traintrace, data) + verdicts(traintrace, data)
    print("\n".join(wrong) if wrong else "as known")
    return 1 if wrong else 0


sys.exit(main(*sys.argv[1:]))
