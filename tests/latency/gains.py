"""gains.py BUILD [CAUSE ..]: what `analyze` says that fixing a cause would gain, against what a run without it gains on simgpu, to 10 %:
the table of docs/latency.md.

A machine that others use makes runs of different length: a pair is run again then.  One that never fits although both runs were
left alone is wrong (status 1); where none was left alone, nothing is known (77)."""
import json
import os
import subprocess
import sys
import tempfile

STEPS = 15
ATTEMPTS = 6
WORK = {"SIMGPU_KERNEL_US": "forward_*=400,backward_*=1000,update_*=1000"}
NCCL = {"SIMGPU_NCCL_US": "2000"}
QUICK = {"SIMGPU_KERNEL_US": "*=20"}
PASSES = {"SIMGPU_KERNEL_US": "forward_*=400,backward_*=800,update_*=10"}
# Code of a finding, or a cause of `report --by=cause`; the job with the cause and without it: case, ranks, settings, and how many steps.
PAIRS = [
    ("latency.sync-in-loop", ("sync", 1, {}), ("sync-alone", 1, {})),
    ("latency.data-starvation", ("loader", 1, {}), ("loader-quick", 1, {})),
    ("latency.pageable-copy", ("pageable", 1, {}), ("no-sync", 1, {})),
    ("latency.exposed-copy", ("no-sync", 1, {"SIMGPU_COPY_GBPS": "0.2"}), ("no-sync", 1, {"SIMGPU_COPY_GBPS": "1000"})),
    ("latency.implicit-sync", ("allocates", 1, {"SIMGPU_CALL_US": "cudaMalloc=3000"}), ("allocates", 1, {})),
    ("latency.lazy-load", ("new-code", 1, {"SIMGPU_CALL_US": "cuLaunchKernelEx=3000:before"}), ("new-code", 1, {})),
    ("latency.host-bound", ("slow-host", 1, QUICK), ("quick-host", 1, QUICK)),
    ("latency.cpu-contention", ("quick-host", 3, {**QUICK, "SIMGPU_CALL_US@1": "cuLaunchKernel=400:before"}), ("quick-host", 3, QUICK)),
    ("latency.default-stream", ("legacy", 1, {}), ("legacy-ignored", 1, {})),
    ("latency.graph-gap", ("graph", 1, {}), ("graph-whole", 1, {})),
    ("latency.pause", ("pauses", 1, {}), ("pauses-never", 1, {})),
    ("latency.exposed-communication", ("communication", 2, {"SIMGPU_NCCL_US": "18000"}), ("communication", 2, {"SIMGPU_NCCL_US": "1"})),
    ("latency.exposed-communication", ("communication-two-ahead", 2, {"SIMGPU_NCCL_US": "18000"}), ("communication-two-ahead", 2, {"SIMGPU_NCCL_US": "1"})),
    # One of 30 in each step is left.
    ("latency.small-collectives", ("small", 2, {"SIMGPU_NCCL_US": "200"}), ("bucketed", 2, {"SIMGPU_NCCL_US": "200"})),
    ("latency.straggler", ("late", 3, NCCL), ("in-time", 3, NCCL)),
    ("latency.wait-not-transfer", ("late", 3, NCCL), ("in-time", 3, NCCL)),
    ("latency.rotating-stall", ("in-turn", 3, {"SIMGPU_NCCL_US": "200"}, 30), ("in-turn-never", 3, {"SIMGPU_NCCL_US": "200"}, 30)),
    # A stage whose GPU is slow, beside receives that wait.
    ("latency.slow-device", ("one-by-one", 4, {**PASSES, "SIMGPU_KERNEL_US@2": "forward_*=600,backward_*=1200,update_*=15"}), ("one-by-one", 4, PASSES)),
    # Causes of idle time that no finding above is about.
    ("dependency", ("held-up", 1, {}), ("held-up-never", 1, {})),
    ("copy-wait", ("awaits-copies", 1, {"SIMGPU_DEVICES": "2", "SIMGPU_COPY_GBPS": "0.2"}), ("awaits-copies", 1, {"SIMGPU_DEVICES": "2", "SIMGPU_COPY_GBPS": "1000"})),
    ("communication-wait", ("awaits-collectives", 2, {"SIMGPU_DEVICES": "4", "SIMGPU_NCCL_US": "5000"}), ("awaits-collectives", 2, {"SIMGPU_DEVICES": "4", "SIMGPU_NCCL_US": "1"})),
]
DELAYED_NS = 5_000_000  # of a rank's threads, waiting for a processor


def record(build, folder, case, ranks, settings, steps=STEPS):
    os.makedirs(f"{folder}/shared")
    own = [{name.split("@")[0]: value for name, value in settings.items() if name.partition("@")[2] in ("", str(rank))} for rank in range(ranks)]
    program = [f"{build}/tests/latency_cases"]
    environment = dict(os.environ, **{**WORK, "SIMGPU_DEVICES": str(ranks)}, TRAINTRACE_GPU_TIMELINE="cupti",
                       TRAINTRACE_DIR=f"{folder}/traces", SIMGPU_NODE=folder, LD_PRELOAD=f"{build}/lib/libtraintrace.so", WORKLOAD_DIR=f"{folder}/shared")
    if case.startswith("loader"):
        program = ["/usr/bin/python3", os.path.join(os.path.dirname(os.path.abspath(__file__)), "loader.py")]
        environment["LD_LIBRARY_PATH"] = f"{build}/simgpu"
    running = [subprocess.Popen([*program, case, str(steps)], stdout=subprocess.PIPE, text=True,
                                env=dict(environment, **own[rank], RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(ranks))) for rank in range(ranks)]
    said = [process.communicate(timeout=120)[0] for process in running]
    assert all(process.returncode == 0 for process in running), (case, [process.returncode for process in running])
    delayed = max((int(line.split()[1]) for text in said for line in text.splitlines() if line.lstrip("+").startswith("delayed_ns")), default=0)
    return f"{folder}/traces", delayed > DELAYED_NS * ranks


def run(build, *arguments):
    done = subprocess.run([f"{build}/bin/traintrace", *arguments, "--format=json"], capture_output=True, text=True, timeout=120, check=False)
    return json.loads(done.stdout)


def gain_of(build, traces, code):
    """What is predicted, and a line that says so; none: it is not found."""
    if code.startswith("latency."):
        finding = next((each for each in run(build, "analyze", traces)["findings"] if each["code"] == code), None)
        known = finding is not None and "gain_ns" in finding["values"]
        return (finding["values"]["gain_ns"], " ".join(finding["evidence"])) if known else (None, "")
    gains = [row["gain_ns"] for row in run(build, "report", traces, "--by=cause")["rows"] if row["cause"] == code]
    return (max(gains), "instead of") if gains else (None, "")


def windows_of(build, traces):
    return {(row["rank"], row["device"]): row["window_ns"] for row in run(build, "report", traces, "--by=rank")["rows"]}


def compare(build, code, with_it, without):
    """A row of the table, what is wrong with it, and whether the machine was busy meanwhile."""
    with tempfile.TemporaryDirectory(prefix="gains.") as folder:
        traces, busy = record(build, f"{folder}/with", *with_it)
        other, other_busy = record(build, f"{folder}/without", *without)
        predicted, said = gain_of(build, traces, code)
        causes = [row for row in run(build, "report", traces, "--by=cause")["rows"] if row["cause"] == "none"]
        windows, fixed = windows_of(build, traces), windows_of(build, other)
    name = f"`{code}`, {with_it[0]}"
    if predicted is None:
        return f"| {name} | | | | | |", f"{code}: not found", busy or other_busy
    error = max(abs(row["replayed_ns"] - row["window_ns"]) / row["window_ns"] for row in causes)
    gains = {gpu: windows[gpu] - fixed[gpu] for gpu in windows}
    most = max(gains, key=gains.get)
    measured = gains[most]
    difference = 100 * (predicted - measured) / max(1, abs(measured))
    row = (f"| {name} | {windows[most] / 1e6:.1f} ms | {predicted / 1e6:.1f} ms | {measured / 1e6:.1f} ms | {difference:+.1f} % | {100 * error:.3f} % |")
    wrong = None
    if abs(difference) > 10:
        wrong = f"{code}: predicted {predicted}, measured {measured} ns"
    elif error > 0.01:
        wrong = f"{code}: the replay is off by {100 * error:.2f} %"
    elif "instead of" not in said:
        wrong = f"{code}: no line says what fixing it would gain"
    return row, wrong, busy or other_busy


def main(build, *only):
    failed = unknown = False
    print("| what is left out, and the job | as recorded | gain predicted | gain measured | difference | replay off by |")
    print("|---|---|---|---|---|---|")
    for pair in PAIRS:
        if only and pair[0].removeprefix("latency.") not in only:
            continue
        busy_each_time = True
        for _ in range(ATTEMPTS):
            row, wrong, busy = compare(build, *pair)
            busy_each_time = busy_each_time and busy
            if not wrong:
                break
        print(row, flush=True)
        if wrong:
            print(f"{'BUSY' if busy_each_time else 'WRONG'}: {wrong}", flush=True)
        failed = failed or bool(wrong and not busy_each_time)
        unknown = unknown or bool(wrong)
    return 1 if failed else 77 if unknown else 0


sys.exit(main(*sys.argv[1:]))
