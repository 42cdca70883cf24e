"""by_host.py BUILD: what is proven about jobs on simgpu that were recorded without a timeline of the GPU, by the host's calls alone.

What is said to be lost must not be more than what the job itself has measured on the GPU, and not much less.  A machine that others use
wakes up late: a healthy job may then lose what it was not made to, and runs again; one that was never left alone is no failure (77)."""
import json
import os
import subprocess
import sys
import tempfile

build = sys.argv[1]
STEPS, ATTEMPTS = 44, 6
DELAYED_NS = 30_000_000  # for each rank
# case, ranks, settings, {code: culprits}, the key of what it has lost
CASES = [
    ("sync", 1, {}, {"latency.sync-in-loop": [0]}, "idle_ns"),
    # A copy to pageable memory has waited for the GPU before the call does that is made for it; or nothing else does.
    ("item", 1, {}, {"latency.sync-in-loop": [0]}, "idle_ns"),
    ("item", 3, {"SIMGPU_NCCL_US": "2000"}, {"latency.sync-in-loop": [0, 1, 2]}, None),
    ("item-pinned", 1, {}, {"latency.sync-in-loop": [0]}, "idle_ns"),
    ("item-ahead", 1, {}, {}, None),
    ("item-seldom", 1, {}, {}, None),
    ("copies-back", 1, {}, {"latency.pageable-copy": [0]}, "idle_ns"),
    ("copies-back-pinned", 1, {}, {}, None),
    # So does cudaFree; and a kernel of 1 ms behind it is as long as the host lets it be.
    ("frees", 1, {}, {"latency.implicit-sync": [0]}, "idle_ns"),
    ("frees-shortly", 1, {}, {}, None),
    ("frees-ahead", 1, {}, {}, None),
    ("frees-before-update", 1, {}, {}, None),
    ("loader", 1, {}, {"latency.sync-in-loop": [0], "latency.host-bound": [0]}, None),  # what it loses beyond the time blocked is not the call's
    ("late", 3, {"SIMGPU_NCCL_US": "2000"}, {"latency.sync-in-loop": [1], "latency.straggler": [1]}, "late_ns"),
    # A second value is read behind a short kernel: the call that reads it hardly blocks, and what comes then is the host's. 20 ms in each step
    # of 35, or in each second; 1 ms; 0.
    ("two-items-loader", 1, {}, {"latency.host-bound": [0]}, "idle_ns"),
    ("two-items-second-loader", 1, {}, {"latency.host-bound": [0]}, "idle_ns"),
    ("two-items-quick-loader", 1, {}, {}, None),
    ("two-items", 1, {}, {}, None),
    # After each micro-batch of 4 ms the host does something for 3 ms, or nothing.
    ("items-of-batches", 1, {}, {"latency.sync-in-loop": [0]}, None),
    ("items-of-batches-quick", 1, {}, {}, None),
    ("sync-alone", 1, {}, {}, None),
    ("no-sync", 1, {}, {}, None),
    ("late-behind-work", 3, {"SIMGPU_NCCL_US": "2000"}, {}, None),
    ("in-time", 3, {"SIMGPU_NCCL_US": "2000"}, {}, None),
    ("late-once", 3, {"SIMGPU_NCCL_US": "2000"}, {}, None),
    ("communication", 2, {"SIMGPU_NCCL_US": "18000"}, {}, None),
    ("small", 2, {"SIMGPU_NCCL_US": "200"}, {}, None),
]


def record(folder, case, ranks, settings):
    os.mkdir(f"{folder}/shared")
    environment = dict(os.environ, **{"SIMGPU_KERNEL_US": "forward_*=400,backward_*=1000,update_*=1000", "SIMGPU_DEVICES": str(ranks), **settings},
                       TRAINTRACE_DIR=f"{folder}/traces", SIMGPU_NODE=folder, WORKLOAD_DIR=f"{folder}/shared",
                       LD_PRELOAD=f"{build}/lib/libtraintrace.so", WORLD_SIZE=str(ranks))
    environment.pop("TRAINTRACE_GPU_TIMELINE", None)
    program = [f"{build}/tests/latency_cases"]
    if case == "loader":
        program = ["/usr/bin/python3", os.path.join(os.path.dirname(os.path.abspath(__file__)), "loader.py")]
        environment["LD_LIBRARY_PATH"] = f"{build}/simgpu"
    running = [subprocess.Popen([*program, case, str(STEPS)], stdout=subprocess.PIPE, text=True,
                                env=dict(environment, RANK=str(rank), LOCAL_RANK=str(rank))) for rank in range(ranks)]
    printed = {}
    for process in running:
        output = process.communicate(timeout=120)[0]
        assert process.returncode == 0, process.returncode
        for key, value in (line.split() for line in output.splitlines()):
            printed[key] = max(printed.get(key, 0), int(value))
    return printed


# Of these a host is late, but its GPU may have been busy: information, and nobody is blamed.
HINTS = {"late-behind-work": [1]}


def problem_of_quiet(case, findings):
    healthy = next((finding for finding in findings if finding["code"] == "run.healthy"), None)
    if healthy is None or healthy["certainty"] != "likely" or "host's calls only" not in healthy["title"]:
        return f"not healthy as far as calls tell: {healthy}"
    hints = [finding for finding in findings if finding["code"] == "latency.straggler"]
    if [hint["sides"] for hint in hints] != ([[HINTS[case]]] if case in HINTS else []) or any(hint["culprits"] for hint in hints):
        return f"hosts said to be late: {hints}"
    return None


def problem(case, findings, codes, key, printed):
    # How long the GPU works is not known, so that a host with little to give it is no more than an info.
    found = {finding["code"]: finding for finding in findings if finding["severity"] != "info" or finding["code"] == "latency.host-bound"}
    if {code: finding["culprits"] for code, finding in found.items()} != codes:
        return f"expected {codes}, found {[(code, finding['culprits']) for code, finding in found.items()]}"
    if not codes:
        return problem_of_quiet(case, findings)
    for finding in found.values():
        if not any("lower bound" in line for line in finding["evidence"]):
            return "not said to be a lower bound"
    costs = next(finding for code, finding in found.items() if code != "latency.straggler")
    if "at least" not in costs["title"] or not costs["where"][0]["line"]:
        return f"{costs}"
    sync = found.get("latency.sync-in-loop")
    if sync and not any("which code that was is not recorded" in line for line in sync["evidence"]):
        return f"not said that the host did something else: {sync}"
    values = [finding["values"][key] for finding in found.values() if key and key in finding["values"]]
    if not all(0.8 * printed[key] <= value <= 1.02 * printed[key] for value in values):
        return f"{key}: {printed[key]} were lost, found {values}"
    return None


def main():
    failed = skipped = 0
    for case, ranks, settings, codes, key in CASES:
        spoilt = True
        for _ in range(ATTEMPTS):
            with tempfile.TemporaryDirectory(prefix="by_host.") as folder:
                printed = record(folder, case, ranks, settings)
                done = subprocess.run([f"{build}/bin/traintrace", "analyze", f"{folder}/traces", "--format=json"], stdout=subprocess.PIPE, check=True)
            wrong = problem(case, json.loads(done.stdout)["findings"], codes, key, printed)
            if not wrong:
                break
            spoilt = spoilt and printed.get("delayed_ns", 0) > DELAYED_NS * ranks
            print(f"{case}: {wrong}; {printed}")
        failed += bool(wrong) and not spoilt
        skipped += bool(wrong) and spoilt
    print("as expected" if not failed + skipped else f"{failed} failed, {skipped} never left alone")
    return 1 if failed else 77 if skipped else 0


sys.exit(main())
