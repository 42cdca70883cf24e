"""verdict.py BUILD PROGRAM MISTAKE CULPRIT CODE [NAME=VALUE ..]: what is said about a program that goes wrong so on simgpu.

At no time anybody else may be blamed; when those that hang are all named, or the run is through, it must be exactly CODE
with exactly the culprit.  CODE `-`: nothing may be found, in a run that ends.  CODE `code?`: nobody may be blamed.  CODE
`code@1+code@6`: several, of which each has its culprit.  The order of the files must not change what is said in the end.
CODE `info:code`: that, of severity info, in a run that ends, and nobody is blamed.  NAME@RANK=VALUE: for that rank only."""
import json
import os
import signal
import subprocess
import sys
import tempfile
import time

build, program, mistake, culprit, codes = sys.argv[1:6]
settings = dict(argument.split("=", 1) for argument in sys.argv[6:])
RANKS = int(settings.pop("RANKS", 4))


def expectation(code):
    code, _, own = code.partition("@")
    return code.rstrip("?"), [] if code.endswith("?") else [int(own or culprit)]


info = codes.removeprefix("info:") if codes.startswith("info:") else ""
expected = [] if codes == "-" or info else sorted(expectation(code) for code in codes.split("+"))
culprits = [rank for _, ranks in expected for rank in ranks]


def settings_of(rank):
    split = ((name.partition("@"), value) for name, value in settings.items())
    return {name: value for (name, _, own), value in split if own in ("", str(rank))}


def start(rank, folder):
    environment = dict(
        os.environ, **settings_of(rank), RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(RANKS),
        LOCAL_WORLD_SIZE=str(RANKS), WORKLOAD_DIR=f"{folder}/shared", TRAINTRACE_DIR=f"{folder}/traces",
        TRAINTRACE_RING_MB="4", SIMGPU_NODE=folder, SIMGPU_DEVICES=str(RANKS),
        LD_PRELOAD=f"{build}/lib/libtraintrace.so")
    with open(f"{folder}/output.{rank}", "wb") as output:
        return subprocess.Popen([f"{build}/tests/{program}", mistake, culprit], env=environment,
                                stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT)


def said_of(traces):
    done = subprocess.run([f"{build}/bin/traintrace", "analyze", *traces, "--format=json", "--hang-after=2s"],
                          capture_output=True, text=True, check=False)
    return done.stdout if done.returncode in (0, 1) else None


def analyze(folder):
    said = said_of([f"{folder}/traces"])
    return said and json.loads(said)


def depends_on_order(folder):
    traces = sorted(os.path.join(folder, "traces", name) for name in os.listdir(f"{folder}/traces"))
    return len({said_of(traces), said_of(traces[::-1]), said_of(traces[1:] + traces[:1])}) > 1


def alarms(report):
    return [finding for finding in report["findings"] if finding["severity"] != "info"]


def is_right(report):
    if info and info not in [finding["code"] for finding in report["findings"]]:
        return False
    return sorted((finding["code"], finding["culprits"]) for finding in alarms(report)) == expected


def accuses_others(found):
    return any(rank not in culprits for finding in found for rank in finding["culprits"])


def is_settled(report, processes):
    """Those that are left hang, and are named; or all are through."""
    left = {rank for rank, process in enumerate(processes) if process.poll() is None}
    named = {rank for finding in alarms(report) for rank in finding["victims"] + finding["culprits"]}
    return is_right(report) and left <= named


def judge(folder, processes):
    deadline = time.monotonic() + 90
    while time.monotonic() < deadline:
        time.sleep(0.5)
        through = all(process.poll() is not None for process in processes)
        report = analyze(folder)
        if report is None:
            continue
        if accuses_others(alarms(report)):
            return False, report
        if through or (expected and is_settled(report, processes)):
            return is_right(report), report
    return False, report


def main():
    with tempfile.TemporaryDirectory(prefix="verdict.") as folder:
        os.mkdir(f"{folder}/shared")
        processes = [start(rank, folder) for rank in range(RANKS)]
        try:
            right, report = judge(folder, processes)
        finally:
            for process in processes:
                process.send_signal(signal.SIGKILL)
                process.wait()
        if depends_on_order(folder):
            print("the order of the files changes what is said")
            right = False
        if not right:
            print(json.dumps(report, indent=1))
            for rank in range(RANKS):
                with open(f"{folder}/output.{rank}", errors="replace") as output:
                    print(f"[{rank}]", output.read()[-500:])
    print(("ok: " if right else "WRONG: ") + report["verdict"])
    return 0 if right else 1


sys.exit(main())
