"""Runs jobs in which one rank is stuck, asks `traintrace attach`, and checks the answer.

    attached.py BUILD_FOLDER [KIND ..] [--no-preload] [--ranks=4]

The job goes on unharmed: a healthy one has exchanged again after each look.
"""
import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
PROGRAM = os.path.join(HERE, "rank.py")
# What `attach` says the stuck thread waits for.
WAITS_FOR = {"lock": "a lock", "gil": "the end of a sleep", "queue": "a queue", "file": "a file", "filelock": "a file",
             "sleep": "the end of a sleep", "child": "another process", "busy": "nothing"}

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("build")
parser.add_argument("kinds", nargs="*", default=[*WAITS_FOR, "none"])
parser.add_argument("--no-preload", action="store_true")
parser.add_argument("--stop", action="store_true")
parser.add_argument("--ranks", type=int, default=4)
options = parser.parse_args()
build = os.path.abspath(options.build)
failures = []


def check(holds, what, *details):
    if not holds:
        failures.append(what)
        print("WRONG:", what, *details)


def line_of(mark):
    with open(PROGRAM) as file:
        return next(number for number, line in enumerate(file, 1) if line.rstrip().endswith("# " + mark))


def start(folder, kind, who):
    processes = []
    for rank in range(options.ranks):
        # 16 devices are the most that simgpu has.
        environment = dict(os.environ, RANK=str(rank), LOCAL_RANK=str(rank % 16), WORLD_SIZE=str(options.ranks),
                           LOCAL_WORLD_SIZE=str(options.ranks), SIMGPU_NODE=folder, SIMGPU_DEVICES="16",
                           SIMGPU_NCCL_SHARED_GPU="1" if options.ranks > 16 else "0",
                           TRAINTRACE_DIR=os.path.join(folder, "trace"), TRAINTRACE_RING_MB="4",
                           LD_LIBRARY_PATH=os.path.join(build, "simgpu"))
        if not options.no_preload:
            environment["LD_PRELOAD"] = os.path.join(build, "lib", "libtraintrace.so")
        processes.append(subprocess.Popen(
            ["/usr/bin/python3", "-B", PROGRAM, folder, str(rank), str(options.ranks), kind, str(who)], env=environment,
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL))
    end = time.monotonic() + 60
    while not all(os.path.exists(os.path.join(folder, f"ready.{rank}")) for rank in range(options.ranks)):
        if time.monotonic() > end or any(process.poll() is not None for process in processes):
            stop(processes)
            raise SystemExit("the job did not start")
        time.sleep(0.05)
    if kind != "none":
        time.sleep(2)  # the last-alive time is written each second
    return processes


def stop(processes):
    for process in processes:
        process.send_signal(signal.SIGKILL)
    for process in processes:
        process.wait()


def attach(processes, hang_after):
    pids = [str(process.pid) for process in processes]
    began = time.monotonic()
    done = subprocess.run([os.path.join(build, "bin", "traintrace"), "attach", *pids, "--format=json", "--interval=500ms",
                           "--hang-after=" + hang_after, *(["--stop"] if options.stop else [])],
                          capture_output=True, text=True)
    print(f"{len(pids)} processes attached and judged in {time.monotonic() - began:.2f} s")
    check(done.returncode in (0, 1), f"attach exits with {done.returncode}", done.stderr)
    return json.loads(done.stdout), done.returncode


def main_thread(answer, rank):
    return next(thread for thread in answer["threads"] if thread["rank"] == rank and thread["role"] == "main")


def user_line(thread):
    return next((frame["line"] for frame in thread["python"] if frame["file"].endswith("rank.py")), None)


def check_stuck(kind, who, answer, status):
    culprit = main_thread(answer, who)
    check(user_line(culprit) == line_of("STUCK " + kind) or kind == "busy", f"{kind}: line", culprit)
    check(culprit["waits_for"] == WAITS_FOR[kind], f"{kind}: waits for {culprit['waits_for']}", culprit)
    check(culprit["steady"] or kind == "busy", f"{kind}: two looks differ", culprit)
    if kind == "gil":
        check(culprit["holds_gil"], "gil: who holds it", culprit)
    for rank in set(range(options.ranks)) - {who}:
        victim = main_thread(answer, rank)
        check(user_line(victim) == line_of("WAIT"), f"{kind}: line of rank {rank}", victim)
        check(victim["waits_for"] == "CUDA" and victim["waits_on"] == "cudaStreamSynchronize",
              f"{kind}: rank {rank} is in {victim['waits_for']} {victim['waits_on']}", victim)
    finding = answer["findings"][0]
    if options.no_preload:
        check(finding["code"] == "run.in-progress" and not finding["culprits"] and status == 0,
              f"{kind}: blames without records", finding)
        check([who] in finding["sides"], f"{kind}: sides", finding)
    else:
        check(finding["code"] == "host.stuck" and finding["culprits"] == [who] and status == 1, f"{kind}: verdict", finding)
        check(finding["where"][0]["line"] == line_of("STUCK " + kind) or kind == "busy", f"{kind}: where", finding)


def check_healthy(answer, status):
    check(status == 0, "none: exit", status)
    check([finding["code"] for finding in answer["findings"]] == ["run.in-progress"], "none: findings", answer["findings"])


def try_kind(kind):
    folder = tempfile.mkdtemp(prefix="traintrace-attach-")
    who = 2 % options.ranks
    processes = start(folder, kind, who)
    try:
        answer, status = attach(processes, "60s" if kind == "none" else "500ms")
        if kind == "none":
            check_healthy(answer, status)
            again, _ = attach(processes, "60s")
            if not options.no_preload:
                check(again["run"]["records"] > answer["run"]["records"], "none: the job has stopped")
        else:
            check_stuck(kind, who, answer, status)
        check(all(process.poll() is None for process in processes), f"{kind}: a rank ended")
    finally:
        stop(processes)
        shutil.rmtree(folder, ignore_errors=True)
    print(kind, "ok" if not failures else "")


for each in options.kinds:
    try_kind(each)
sys.exit(1 if failures else 0)
