"""gains.py BUILD: what `analyze` says that fixing a cause would gain, against what a run without it gains on simgpu, to 10 %.

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
# Finding; the job with the cause and without it: case, ranks, settings.
PAIRS = [
    ("latency.sync-in-loop", ("sync", 1, {}), ("sync-alone", 1, {})),
    ("latency.pageable-copy", ("pageable", 1, {}), ("no-sync", 1, {})),
    ("latency.implicit-sync", ("allocates", 1, {"SIMGPU_CALL_US": "cudaMalloc=3000"}), ("allocates", 1, {})),
    ("latency.host-bound", ("slow-host", 1, {"SIMGPU_KERNEL_US": "*=20"}), ("quick-host", 1, {"SIMGPU_KERNEL_US": "*=20"})),
    ("latency.exposed-communication", ("communication", 2, {"SIMGPU_NCCL_US": "18000"}), ("communication", 2, {"SIMGPU_NCCL_US": "1"})),
    ("latency.exposed-communication", ("communication-two-ahead", 2, {"SIMGPU_NCCL_US": "18000"}), ("communication-two-ahead", 2, {"SIMGPU_NCCL_US": "1"})),
    ("latency.straggler", ("late", 3, {"SIMGPU_NCCL_US": "2000"}), ("in-time", 3, {"SIMGPU_NCCL_US": "2000"})),
]
# A stage whose GPU is slow, beside receives that wait.
PASSES = {"SIMGPU_KERNEL_US": "forward_*=400,backward_*=800,update_*=10"}
PAIRS.append(("latency.slow-device", ("one-by-one", 4, {**PASSES, "SIMGPU_KERNEL_US@2": "forward_*=600,backward_*=1200,update_*=15"}), ("one-by-one", 4, PASSES)))
DELAYED_NS = 5_000_000  # of a rank's threads, waiting for a processor


def record(build, folder, case, ranks, settings):
    os.makedirs(f"{folder}/shared")
    own = [{name.split("@")[0]: value for name, value in settings.items() if name.partition("@")[2] in ("", str(rank))} for rank in range(ranks)]
    environment = dict(os.environ, **{**WORK, "SIMGPU_DEVICES": str(ranks)}, TRAINTRACE_GPU_TIMELINE="cupti",
                       TRAINTRACE_DIR=f"{folder}/traces", SIMGPU_NODE=folder, LD_PRELOAD=f"{build}/lib/libtraintrace.so", WORKLOAD_DIR=f"{folder}/shared")
    running = [subprocess.Popen([f"{build}/tests/latency_cases", case, str(STEPS)], stdout=subprocess.PIPE, text=True,
                                env=dict(environment, **own[rank], RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(ranks))) for rank in range(ranks)]
    said = [process.communicate(timeout=120)[0] for process in running]
    assert all(process.returncode == 0 for process in running), (case, [process.returncode for process in running])
    delayed = max((int(line.split()[1]) for text in said for line in text.splitlines() if line.lstrip("+").startswith("delayed_ns")), default=0)
    return f"{folder}/traces", delayed > DELAYED_NS * ranks


def run(build, *arguments):
    done = subprocess.run([f"{build}/bin/traintrace", *arguments, "--format=json"], capture_output=True, text=True, timeout=120, check=False)
    return json.loads(done.stdout)


def compare(build, code, with_it, without):
    """A row of the table, what is wrong with it, and whether the machine was busy meanwhile."""
    with tempfile.TemporaryDirectory(prefix="gains.") as folder:
        traces, busy = record(build, f"{folder}/with", *with_it)
        other, other_busy = record(build, f"{folder}/without", *without)
        finding = next((each for each in run(build, "analyze", traces)["findings"] if each["code"] == code), None)
        causes = [row for row in run(build, "report", traces, "--by=cause")["rows"] if row["cause"] == "none"]
        windows = {row["rank"]: row["window_ns"] for row in run(build, "report", traces, "--by=rank")["rows"]}
        fixed = {row["rank"]: row["window_ns"] for row in run(build, "report", other, "--by=rank")["rows"]}
    error = max(abs(row["replayed_ns"] - row["window_ns"]) / row["window_ns"] for row in causes)
    if finding is None or "gain_ns" not in finding["values"]:
        return f"{code:32} not found", "not found", busy or other_busy
    predicted = finding["values"]["gain_ns"]
    measured = max(windows[rank] - fixed[rank] for rank in windows)
    row = (f"{code:32} {with_it[0]:14} {max(windows.values()) / 1e6:8.1f} ms  without: predicted {-predicted / 1e6:8.1f}, "
           f"measured {-measured / 1e6:8.1f} ms ({100 * (predicted - measured) / max(1, measured):+5.1f} %)  replay off by {100 * error:.3f} %")
    wrong = None
    if abs(predicted - measured) > 0.1 * abs(measured):
        wrong = f"{code}: predicted {predicted}, measured {measured} ns"
    elif error > 0.01:
        wrong = f"{code}: the replay is off by {100 * error:.2f} %"
    elif "instead of" not in " ".join(finding["evidence"]):
        wrong = f"{code}: no line says what fixing it would gain"
    return row, wrong, busy or other_busy


def main(build):
    failed = unknown = False
    for pair in PAIRS:
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


sys.exit(main(sys.argv[1]))
