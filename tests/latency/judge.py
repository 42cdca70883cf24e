"""judge.py BUILD CASE RANKS CODE [NAME=VALUE ..]: what is said about the time of a job on simgpu, recorded with
TRAINTRACE_GPU_TIMELINE=cupti.

It must be exactly CODE (`-`: nothing above info; several with commas), with the ns that the ranks say they have lost, to 5 %;
EXPECT_key=ns stands for what simgpu was told. A machine that others use wakes up late: what is lost then is no fault, and
the job runs again."""
import json
import os
import subprocess
import sys
import tempfile

build, case, ranks, code = sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4]
settings = dict(argument.split("=", 1) for argument in sys.argv[5:])
ATTEMPTS = 5
STEPS = 30


def record(folder):
    os.mkdir(f"{folder}/shared")
    environment = dict(os.environ, SIMGPU_KERNEL_US="forward_*=400,backward_*=1000,update_*=1000", SIMGPU_DEVICES=str(ranks),
                       **settings, TRAINTRACE_GPU_TIMELINE="cupti", TRAINTRACE_DIR=f"{folder}/traces", SIMGPU_NODE=folder,
                       LD_PRELOAD=f"{build}/lib/libtraintrace.so", WORKLOAD_DIR=f"{folder}/shared")
    running = [subprocess.Popen([f"{build}/tests/latency_cases", case, str(STEPS)], stdout=subprocess.PIPE, text=True,
                                env=dict(environment, RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(ranks)))
               for rank in range(ranks)]
    printed = {key[len("EXPECT_"):]: int(value) for key, value in settings.items() if key.startswith("EXPECT_")}
    for rank, process in enumerate(running):
        output = process.communicate(timeout=120)[0]
        if process.returncode != 0:
            sys.exit(f"rank {rank} of {case} ended with {process.returncode}")
        printed.update({key: int(value) for key, value in (line.split() for line in output.splitlines())})
    return printed


def analyze(folder):
    done = subprocess.run([f"{build}/bin/traintrace", "analyze", f"{folder}/traces", "--format=json"],
                          capture_output=True, text=True, timeout=120, check=False)
    return json.loads(done.stdout)


def problem(findings, printed):
    alarms = [finding for finding in findings if finding["severity"] != "info"]
    wanted = [] if code == "-" else code.split(",")
    if sorted(finding["code"] for finding in alarms) != sorted(wanted):
        return f"expected {wanted}, found {[finding['code'] for finding in alarms]}"
    for key, value in printed.items() if wanted else []:
        found = [finding["values"][key] for finding in alarms if key in finding["values"]]
        if not found or abs(found[0] - value) > 0.05 * value:
            return f"{key}: {value} were lost, the findings say {found}"
    return None


def main():
    wrong = report = None
    for attempt in range(ATTEMPTS):
        with tempfile.TemporaryDirectory(prefix="latency.") as folder:
            printed = record(folder)
            report = analyze(folder)
        wrong = problem(report["findings"], printed)
        if not wrong:
            break
        print(f"attempt {attempt + 1}: {wrong}; lost: {printed}")
    if wrong:
        print(json.dumps(report, indent=1))
    print(f"WRONG: {wrong}" if wrong else "ok: " + report["verdict"])
    return 1 if wrong else 0


sys.exit(main())
