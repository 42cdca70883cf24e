"""judge.py BUILD CASE ENDING CODE [NAME=VALUE ..]: what is said about the memory of a program on simgpu under the preload.

It must be exactly CODE (of several, `code,code`, the values are of the first; `-`: nothing above info; `-code`: nor CODE as info; `code~`: CODE as info and nothing above it), with the values that the
program itself printed, in this source file, of the function that it named, and the ranks alone that say so by a line `culprit.RANK 1`.  A line `held.SOME-WORDS BYTES` wants
these words in the evidence of who holds as many bytes."""
import json
import os
import subprocess
import sys
import tempfile

build, case, ending, code = sys.argv[1:5]
program = "tensor_cases" if case.startswith("tensors-") else "memory_cases"
settings = dict(argument.split("=", 1) for argument in sys.argv[5:])


def record(folder):
    environment = dict(os.environ, **{"TRAINTRACE_RING_MB": "4", "SIMGPU_DEVICES": "1", **settings},
                       TRAINTRACE_DIR=f"{folder}/traces", SIMGPU_NODE=folder,
                       LD_PRELOAD=f"{build}/lib/libtraintrace.so")
    beside = None
    if case.startswith("oom-neighbour"):
        alone = {key: value for key, value in environment.items() if key != "LD_PRELOAD"}
        beside = subprocess.Popen([f"{build}/tests/{program}", "hold", ending], env=alone, stdout=subprocess.PIPE)
        beside.stdout.readline()
    if "RANKS" in settings:
        return record_ranks(int(settings["RANKS"]), environment)
    done = subprocess.run([f"{build}/tests/{program}", case, ending], env=environment, capture_output=True, text=True,
                          timeout=200, check=False)
    if beside:
        beside.kill()
        beside.communicate()
    if done.returncode != (1 if case.startswith("oom") and code != "-" else 0):
        sys.exit(f"{case} ended with {done.returncode}: {done.stderr}")
    return {key: int(value) for key, value in (line.split() for line in done.stdout.splitlines())}


def record_ranks(count, environment):
    launched = dict(environment, WORLD_SIZE=str(count), MASTER_ADDR="localhost", MASTER_PORT="1")
    ranks = [subprocess.Popen([f"{build}/tests/{program}", case, ending], stdout=subprocess.PIPE, text=True,
                              env=dict(launched, RANK=str(rank), LOCAL_RANK=str(rank))) for rank in range(count)]
    outputs = [rank.communicate(timeout=200)[0] for rank in ranks]
    if any(rank.returncode for rank in ranks):
        sys.exit(f"{case} ended with {[rank.returncode for rank in ranks]}")
    return {key: int(value) for output in outputs for key, value in (line.split() for line in output.splitlines())}


def analyze(folder):
    done = subprocess.run([f"{build}/bin/traintrace", "analyze", f"{folder}/traces", "--format=json"],
                          capture_output=True, text=True, timeout=200, check=False)
    return json.loads(done.stdout)


def problem(findings, printed):
    alarms = [finding for finding in findings if finding["severity"] != "info"]
    wanted = [] if code.startswith("-") or code.endswith("~") else code.split(",")
    if sorted(finding["code"] for finding in alarms) != sorted(wanted):
        return f"expected {wanted}, found {[finding['code'] for finding in alarms]}"
    if code.rstrip("~") != "memory.unaccounted" and any(finding["code"] == "memory.unaccounted" for finding in findings):
        return "what was seen differs from what the allocator said"
    if code.startswith("-"):
        return f"{code[1:]} was found" if any(finding["code"] == code[1:] for finding in findings) else None
    found = [finding for finding in findings if finding["code"] == code.split(",")[0].rstrip("~")]
    if len(found) != 1:
        return f"{len(found)} findings of {code}"
    values = found[0]["values"]
    culprits = {int(key.split(".")[1]) for key in printed if key.startswith("culprit.")}
    if culprits and culprits != set(found[0]["culprits"]):
        return f"the ranks {sorted(culprits)} say that it is them, the finding {found[0]['culprits']}"
    held = {key.split(".", 1)[1].replace("-", " "): value for key, value in printed.items() if key.startswith("held.")}
    for words, value in held.items():
        if not any(line.startswith(f"held: {value} bytes") and words in line for line in found[0]["evidence"]):
            return f"{words} does not hold {value} bytes: {found[0]['evidence']}"
        del printed["held." + words.replace(" ", "-")]
    for key, value in printed.items():
        if not key.startswith("culprit.") and values.get(key) != value:
            return f"{key}: the program says {value}, the finding {values.get(key)}"
    if code.rstrip("~") == "memory.unaccounted":
        return None  # which of all blocks is missing cannot be said
    own = ("/memory.cc", "/tensors.cc")
    if not any(place["file"].endswith(own) for place in found[0]["where"]):
        return f"no place in the program: {found[0]['where']}"
    return None


def main():
    with tempfile.TemporaryDirectory(prefix="memory.") as folder:
        printed = record(folder)
        report = analyze(folder)
    wrong = problem(report["findings"], printed)
    if wrong:
        print(json.dumps(report, indent=1))
    print(f"WRONG: {wrong}" if wrong else "ok: " + report["verdict"])
    return 1 if wrong else 0


sys.exit(main())
