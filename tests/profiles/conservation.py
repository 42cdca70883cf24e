"""Conservation over real profiles: what was lost is named or said to be unattributed, to the ns; and the replay reproduces what was
recorded.   conservation.py TRAINTRACE DATA

Prints a table.  Ends with 77 where DATA, which is not part of this repository, is not at hand."""
import glob
import json
import os
import subprocess
import sys


def run(*command):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=120, check=False)
    assert done.returncode == 0, (command, done.returncode)
    return json.loads(done.stdout)


def traces(data):
    """Each job of several ranks, and each file of one."""
    for folder in sorted(glob.glob(os.path.join(data, "kineto", "*"))):
        files = sorted(glob.glob(os.path.join(folder, "*.json.gz")))
        whole = {"dlrm_v100_8rank", "hta_sampled_2of128_v100"}
        yield from [folder] if os.path.basename(folder) in whole else files


def check(traintrace, trace):
    wrong = []
    name = os.path.basename(trace)
    report = run(traintrace, "analyze", trace, "--format=json")
    table = {(row["rank"] or 0, row["device"]): row for row in run(traintrace, "report", trace, "--by=rank", "--format=json")["rows"]}
    causes = run(traintrace, "report", trace, "--by=cause", "--format=json")["rows"]
    codes = [finding["code"] for finding in report["findings"]]
    rows = {(row["rank"], row["device"]): row for row in report["lost_time"]}
    if sorted(rows) != sorted(table):
        wrong.append(f"{name}: lost time of {sorted(rows)}, but GPUs {sorted(table)}")
    unnamed = 0.0
    for key in sorted(rows.keys() & table.keys()):
        lost, row = rows[key], table[key]
        if lost["lost_ns"] != row["idle_ns"] + row["exposed_communication_ns"] + row["exposed_memory_ns"] or lost["window_ns"] != row["window_ns"]:
            wrong.append(f"{name}: {key} lost {lost['lost_ns']} ns, but was idle for {row['idle_ns']}, exposed for {row['exposed_communication_ns']}, copied for {row['exposed_memory_ns']}")
        if lost["named_ns"] + lost["unattributed_ns"] != lost["lost_ns"] or min(lost["named_ns"], lost["unattributed_ns"]) < 0:
            wrong.append(f"{name}: {key} {lost}")
        unnamed = max(unnamed, lost["unattributed_ns"] / max(1, lost["window_ns"]))
    if "run.healthy" in codes and unnamed > 0.10:
        wrong.append(f"{name}: healthy, and {100 * unnamed:.1f} % are lost without a name")
    error = 0.0
    for row in causes:
        if row["cause"] == "none":
            error = max(error, abs(row["replayed_ns"] - row["window_ns"]) / row["window_ns"])
        elif row["replayed_ns"] > 1.01 * row["window_ns"]:
            wrong.append(f"{name}: without {row['cause']} it would take longer: {row}")
    if error > 0.01 or sum(row["cause"] == "none" for row in causes) != len(rows):
        wrong.append(f"{name}: the replay is off by {100 * error:.2f} %")
    gains = [(finding["code"], finding["values"]["gain_ns"]) for finding in report["findings"] if "gain_ns" in finding["values"]]
    window = max(row["window_ns"] for row in table.values())
    wrong += [f"{name}: {code} gains {gain} ns of {window}" for code, gain in gains if not 0 <= gain <= window]
    print(f"{name[:52]:52} {len(rows):2} GPUs  without a name {100 * unnamed:5.2f} %  replay off by {100 * error:6.3f} %  "
          + (", ".join(f"{code.removeprefix('latency.')} -{gain / 1e6:.1f} ms" for code, gain in gains) or "-"))
    return wrong


def main(traintrace, data):
    if not os.path.isdir(os.path.join(data, "kineto")):
        print("SKIPPED: the data are not here")
        return 77
    wrong = [each for trace in traces(data) for each in check(traintrace, trace)]
    print("\n".join(wrong))
    return 1 if wrong else 0


sys.exit(main(*sys.argv[1:]))
