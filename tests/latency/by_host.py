"""by_host.py BUILD [CASE ..]: what is proven about jobs on simgpu that were recorded without a timeline of the GPU, by the host's calls alone.

What is said to be lost must not be more than what the job itself has measured on the GPU, and not much less.  A machine that others use
wakes up late: a healthy job may then lose what it was not made to, and runs again; one that was never left alone is no failure (77)."""
import concurrent.futures
import json
import os
import subprocess
import sys
import tempfile

build, *only = sys.argv[1:]  # and cases; none: all
STEPS, ATTEMPTS, BESIDE = 44, 6, 3
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
    # Where a thread is in Python while it calls nothing, the tracer looks.
    ("loader", 1, {}, {"latency.data-starvation": [0]}, "idle_ns"),
    ("loader-and-log", 1, {}, {"latency.sync-in-loop": [0], "latency.host-bound": [0]}, None),  # what it loses beyond the time blocked is not the call's
    ("late", 3, {"SIMGPU_NCCL_US": "2000"}, {"latency.sync-in-loop": [1], "latency.straggler": [1]}, "late_ns"),
    # A second value is read behind a short kernel: the call that reads it hardly blocks, and what comes then is the host's. 20 ms in each step
    # of 35; in each second, so that one of four such calls has it; 1 ms; 0.
    ("two-items-loader", 1, {}, {"latency.host-bound": [0]}, "idle_ns"),
    ("two-items-second-loader", 1, {}, {"latency.pause": []}, "idle_ns"),
    ("two-items-quick-loader", 1, {}, {}, None),
    ("two-items", 1, {}, {}, None),
    # After each micro-batch of 4 ms the host does something for 3 ms, or nothing.
    ("items-of-batches", 1, {}, {"latency.sync-in-loop": [0]}, None),
    ("items-of-batches-quick", 1, {}, {}, None),
    # 25 ms before the launches of each step of 15, and nothing waits for their end but at the end of all, or in each tenth step; 5 ms; as long
    # before other work in each step, of which no end was seen.
    ("prepares", 1, {}, {"latency.host-bound": [0]}, "idle_ns"),
    ("prepares-and-reads-seldom", 1, {}, {"latency.host-bound": [0]}, "idle_ns"),
    ("prepares-in-time", 1, {}, {}, None),
    ("prepares-other-work", 1, {}, {}, None),
    # 60 ms after each sixth step, in all of which a value is read, are a warning; 3 ms; in the only steps of a loop that wait they are none.
    ("items-and-pauses", 1, {}, {"latency.pause": []}, None),
    ("items-and-pauses-shortly", 1, {}, {}, None),
    ("pauses", 1, {}, {"latency.pause": []}, "idle_ns"),
    ("pauses-shortly", 1, {}, {}, None),
    # Garbage is collected in each fifth step, some batches take 60 ms, or 3; how long each call blocked before does not part them.
    ("collection", 1, {}, {"latency.pause": []}, "idle_ns"),
    ("loader-and-checkpoint", 1, {}, {"latency.pause": []}, "idle_ns"),
    ("hiccup", 1, {}, {"latency.pause": []}, "idle_ns"),
    ("hiccup-short", 1, {}, {}, None),
    ("hiccup-never", 1, {}, {}, None),
    # 32 MB of pageable memory are copied while the GPU certainly has nothing else to do, or nobody knows; 1 MB; from pinned memory.
    ("batches", 1, {"SIMGPU_COPY_GBPS": "4"}, {"latency.pageable-copy": [0]}, "lost_ns"),
    ("batches-unread", 1, {"SIMGPU_COPY_GBPS": "4"}, {}, None),
    ("batches-small", 1, {"SIMGPU_COPY_GBPS": "4"}, {}, None),
    ("batches-pinned", 1, {"SIMGPU_COPY_GBPS": "4"}, {}, None),
    # A value behind each parameter's norm, and 100 us of the host's after it; nothing after it; one value.
    ("clipping", 1, {}, {"latency.host-bound": [0]}, None),
    ("clipping-quick", 1, {}, {}, None),
    ("clipping-once", 1, {}, {}, None),
    ("allocations", 1, {"SIMGPU_CALL_US": "cudaMalloc=2000"}, {"latency.implicit-sync": [0]}, None),
    ("allocations-few", 1, {"SIMGPU_CALL_US": "cudaMalloc=100"}, {}, None),
    ("allocations-none", 1, {}, {}, None),
    ("late-always", 3, {"SIMGPU_NCCL_US": "1000"}, {"latency.sync-in-loop": [1], "latency.straggler": [1]}, None),
    ("late-twice", 3, {"SIMGPU_NCCL_US": "1000"}, {}, None),
    ("buckets-beside", 3, {"SIMGPU_NCCL_US": "1000"}, {}, None),
    ("buckets-behind", 2, {"SIMGPU_NCCL_US": "2000"}, {}, None),
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
    environment = dict(os.environ, **{"SIMGPU_KERNEL_US": "forward_*=400,backward_*=1000,update_*=1000,tiny_*=5", "SIMGPU_DEVICES": str(ranks), **settings},
                       TRAINTRACE_DIR=f"{folder}/traces", SIMGPU_NODE=folder, WORKLOAD_DIR=f"{folder}/shared",
                       LD_PRELOAD=f"{build}/lib/libtraintrace.so", WORLD_SIZE=str(ranks))
    environment.pop("TRAINTRACE_GPU_TIMELINE", None)
    program = [f"{build}/tests/latency_cases"]
    if case.startswith("loader"):
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


# Whether they warn, or are no more than an info.
WARNS = {"loader-and-checkpoint": True, "two-items-second-loader": True, "items-and-pauses": True, "collection": True, "hiccup": True, "pauses": False}
# The first place: where the host was, not the call that had waited for the GPU.
PLACES = {"loader-and-checkpoint": "write_checkpoint"}
# Nothing is known of the line: launches have no stacks, and what is not Python is not looked at.
NO_LINE = {"prepares", "prepares-and-reads-seldom"}
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
    # Nor is one pause, as others that use the machine make.
    infos = ["latency.host-bound"] + (["latency.pause"] if case in WARNS else [])
    found = {finding["code"]: finding for finding in findings if finding["severity"] != "info" or finding["code"] in infos}
    if {code: finding["culprits"] for code, finding in found.items()} != codes:
        return f"expected {codes}, found {[(code, finding['culprits']) for code, finding in found.items()]}"
    if not codes:
        return problem_of_quiet(case, findings)
    for finding in found.values():
        if not any("lower bound" in line for line in finding["evidence"]):
            return "not said to be a lower bound"
    costs = next(finding for code, finding in found.items() if code != "latency.straggler")
    if "at least" not in costs["title"] or (case not in NO_LINE and not costs["where"][0]["line"]):
        return f"{costs}"
    if case in PLACES and costs["where"][0]["function"] != PLACES[case]:
        return f"at {costs['where']}"
    if case in WARNS and WARNS[case] != (costs["severity"] == "warning"):
        return f"as a {costs['severity']}: {costs}"
    if case in NO_LINE and (costs["certainty"] != "likely" or not any("nothing waited for the end" in line for line in costs["evidence"])):
        return f"not said to be supposed: {costs}"
    # What costs that much is said where nothing is wrong.
    healthy = next((finding for finding in findings if finding["code"] == "run.healthy"), None)
    if healthy and "ended normally, but the GPU" not in healthy["title"] and "ended normally, but host-bound: the GPU" not in healthy["title"]:
        return f"not said: {healthy}"
    sync = found.get("latency.sync-in-loop")
    said = "loader.py:" if case == "loader-and-log" else "which code that was is not recorded"
    if sync and not any(said in line for line in sync["evidence"]):
        return f"not said that the host did something else: {sync}"
    values = [finding["values"][key] for finding in found.values() if key and key in finding["values"]]
    lost = printed.get(key, 0) + printed.get("lost_before_ns", 0)  # by calls alone the first step does not begin later than its first copy
    if not all(0.8 * lost <= value <= 1.02 * lost for value in values):
        return f"{key}: {lost} were lost, found {values}"
    return None


def attempt(case, ranks, settings, codes, key):
    """What is wrong, and whether the machine was left alone."""
    with tempfile.TemporaryDirectory(prefix="by_host.") as folder:
        printed = record(folder, case, ranks, settings)
        done = subprocess.run([f"{build}/bin/traintrace", "analyze", f"{folder}/traces", "--format=json"], stdout=subprocess.PIPE, check=True)
    wrong = problem(case, json.loads(done.stdout)["findings"], codes, key, printed)
    if wrong:
        print(f"{case}: {wrong}; {printed}")
    return wrong, printed.get("delayed_ns", 0) <= DELAYED_NS * ranks


def main():
    cases = [case for case in CASES if not only or case[0] in only]
    # Most of them wait for a GPU that is simulated.  What is disturbed by the others runs again, alone.
    with concurrent.futures.ThreadPoolExecutor(BESIDE) as pool:
        first = list(pool.map(lambda case: attempt(*case), cases))
    failed = skipped = 0
    for case, (wrong, _) in zip(cases, first):
        alone = False
        for _ in range(ATTEMPTS):
            if wrong:
                wrong, undisturbed = attempt(*case)
                alone = alone or bool(wrong) and undisturbed
        failed += bool(wrong) and alone
        skipped += bool(wrong) and not alone
    print("as expected" if not failed + skipped else f"{failed} failed, {skipped} never left alone")
    return 1 if failed else 77 if skipped else 0


sys.exit(main())
