"""conservation.py BUILD [CASE ..]: every program of tests/latency, recorded with a timeline of the GPU and without.  What is lost is named or said to
have no name, to the ns; no run is healthy that has lost more than a tenth without a name; and the replay of what was recorded takes as long.

That holds however busy the machine is: nothing is run again."""
import concurrent.futures
import json
import os
import subprocess
import sys
import tempfile

import accounts

STEPS = 12
SETTINGS = {"SIMGPU_KERNEL_US": "forward_*=400,backward_*=1000,update_*=1000,tiny_*=5,simgpu_*gemm=1000", "SIMGPU_NCCL_US": "2000", "SIMGPU_COPY_GBPS": "2",
            "SIMGPU_CALL_US": "cudaMalloc=1000,cuLaunchKernelEx=3000:before", "SIMGPU_BLAS_COMPUTES": "0"}
# Ranks; the others have one.
RANKS = {"communication": 2, "communication-two-ahead": 2, "small": 2, "few-small": 2, "bucketed": 2, "one-saves": 3, "late": 3, "late-once": 3, "late-at-first": 3,
         "late-behind-work": 3, "late-to-connect": 3, "in-time": 3, "in-turn": 3, "in-turn-seldom": 3, "two-in-turn": 3, "in-turn-never": 3,
         "all-forward": 4, "one-by-one": 4, "all-to-all": 4, "ring": 4, "awaits-collectives": 2, "awaits-a-late-rank": 2,
         "buckets-behind": 2, "buckets-beside": 3, "buckets-unread": 3, "late-for-a-while": 3, "late-always": 3, "late-twice": 3, "late-never": 3, "groups": 12, "groups-late": 12}
SEVERAL_TOO = ("item", "no-sync", "quick-host")  # of these three ranks as well
TWO_GPUS = ("awaits-copies", "awaits-collectives", "awaits-a-late-rank")
FOLDER = os.path.dirname(os.path.abspath(__file__))


def cases(build):
    done = subprocess.run([f"{build}/tests/latency_cases"], stdout=subprocess.PIPE, text=True, check=True)
    names = done.stdout.split() + ["loader", "loader-quick", "loader-ahead", "loader-and-log", "loader-and-checkpoint"]
    return [(name, ranks) for name in names for ranks in ([1, 3] if name in SEVERAL_TOO else [RANKS.get(name, 1)])]


def record(build, folder, case, ranks, timeline):
    os.mkdir(f"{folder}/shared")
    environment = dict(os.environ, **SETTINGS, SIMGPU_DEVICES=str(2 * ranks if case in TWO_GPUS else ranks), TRAINTRACE_DIR=f"{folder}/traces", SIMGPU_NODE=folder,
                       WORKLOAD_DIR=f"{folder}/shared", LD_PRELOAD=f"{build}/lib/libtraintrace.so", WORLD_SIZE=str(ranks))
    environment.pop("TRAINTRACE_GPU_TIMELINE", None)
    if timeline:
        environment["TRAINTRACE_GPU_TIMELINE"] = "cupti"
    program = [f"{build}/tests/latency_cases"]
    if case.startswith("loader"):
        program = ["/usr/bin/python3", os.path.join(FOLDER, "loader.py")]
        environment["LD_LIBRARY_PATH"] = f"{build}/simgpu"
    running = [subprocess.Popen([*program, case, str(STEPS)], stdout=subprocess.DEVNULL, env=dict(environment, RANK=str(rank), LOCAL_RANK=str(rank)))
               for rank in range(ranks)]
    codes = [each.wait(120) for each in running]
    assert codes == [0] * ranks, (case, codes)


def read(build, *arguments):
    done = subprocess.run([f"{build}/bin/traintrace", *arguments, "--format=json"], stdout=subprocess.PIPE, text=True, timeout=120, check=False)
    return json.loads(done.stdout)


def judge(build, case, ranks, timeline):
    """A line, and what is wrong."""
    with tempfile.TemporaryDirectory(prefix="conservation.") as folder:
        record(build, folder, case, ranks, timeline)
        report = read(build, "analyze", f"{folder}/traces")
        table = read(build, "report", "--by=rank", f"{folder}/traces")["rows"] if timeline else []
        causes = read(build, "report", "--by=cause", f"{folder}/traces")["rows"] if timeline else []
    wrong = accounts.unaccounted(report, table) or accounts.not_replayed(causes) if timeline else accounts.unsaid(report)
    if timeline and not wrong and len(table) < ranks:
        wrong = f"{len(table)} GPUs of {ranks} ranks"
    lost = report.get("lost_time") or []
    share = max((each["lost_ns"] / each["window_ns"] for each in lost), default=0)
    unnamed = max((each["unattributed_ns"] / each["window_ns"] for each in lost), default=0)
    codes = [finding["code"].removeprefix("latency.") for finding in report["findings"] if finding["severity"] != "info" or finding["code"] == "run.healthy"]
    line = f"{case:26} x{ranks} {'timeline' if timeline else 'calls   '}  lost {100 * share:5.1f} %  without a name {100 * unnamed:5.1f} %  {', '.join(codes)}"
    return line, wrong and f"{case}, {ranks} ranks, {'with' if timeline else 'without'} a timeline: {wrong}"


def main(build, *only):
    wanted = [(case, ranks, timeline) for case, ranks in cases(build) for timeline in (True, False) if not only or case in only]
    wrong = []
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        for line, problem in pool.map(lambda each: judge(build, *each), wanted):
            print(line, flush=True)
            wrong += [problem] if problem else []
    print("\n".join(wrong) or f"{len(wanted)} recordings: conserved")
    return 1 if wrong or not wanted else 0


sys.exit(main(*sys.argv[1:]))
