"""Runs jobs in which one rank is stuck, asks `traintrace attach`, and checks the answer.

    attached.py BUILD_FOLDER [KIND ..] [--no-preload] [--ranks=4]

The job goes on unharmed: a healthy one has exchanged again after each look.
"""
import argparse
import json
import os
import shutil
import socket
import subprocess
import tempfile
import threading
import time

import jobs
from jobs import check, line_of, stop

# What `attach` says the stuck thread waits for.
WAITS_FOR = {"lock": "a lock", "gil": "the end of a sleep", "queue": "a queue", "file": "a file", "filelock": "a file",
             "sleep": "the end of a sleep", "child": "another process", "busy": "nothing", "free": "CUDA", "oom": "a queue",
             "group": "a queue"}
# The others: host.stuck, where the stack says.
CODES = {"free": "host.implicit-sync-deadlock", "oom": "run.oom-then-hang", "group": "collective.group-unclosed"}
PLACES = {"oom": "FAILED oom", "group": "OPENED group"}

# They keep the others waiting, and move.
MOVES = {"computes", "writes"}

# They poll CUDA, and may be anywhere in the loop around that.
POLLS = {"polls"}

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("build")
parser.add_argument("kinds", nargs="*", default=[*WAITS_FOR, *MOVES, *POLLS, "none"])
parser.add_argument("--no-preload", action="store_true")
parser.add_argument("--stop", action="store_true")
parser.add_argument("--forms", action="store_true", help="the forms for people and flame graphs, and --watch")
parser.add_argument("--containers", action="store_true", help="each rank has a mount namespace and a root of its own")
parser.add_argument("--ranks", type=int, default=4)
options = parser.parse_args()
build = os.path.abspath(options.build)


class Ras(threading.Thread):
    """What NCCL's RAS service says, to a client that speaks its protocol."""
    STATUS = "NCCL version 2.28.9\nGroup     0: 1 communicator of 4 ranks, MISMATCH\n"

    def __init__(self):
        super().__init__(daemon=True)
        self.server = socket.create_server(("127.0.0.1", 0))
        self.address = "127.0.0.1:%d" % self.server.getsockname()[1]

    def run(self):
        while True:
            client, _ = self.server.accept()
            with client, client.makefile("rw") as lines:
                for line in lines:
                    if line.startswith("CLIENT PROTOCOL "):
                        lines.write("SERVER PROTOCOL 2\n")
                    elif line == "STATUS\n":
                        lines.write(self.STATUS)
                        break
                    lines.flush()


def settings(rank):
    # 16 devices are the most that simgpu has.
    own = {"LOCAL_RANK": str(rank % 16), "LOCAL_WORLD_SIZE": str(options.ranks), "SIMGPU_DEVICES": "16",
           "SIMGPU_NCCL_SHARED_GPU": "1" if options.ranks > 16 else "0"}
    if ras:
        own["NCCL_RAS_ADDR"] = ras.address
    if options.no_preload:
        own["LD_PRELOAD"] = None
    return own


def start(folder, kind, who):
    def container(rank):
        root = os.path.join(folder, f"root.{rank}")
        make = f'mkdir {root} && mount --rbind / {root} && exec chroot {root} "$@"'
        return ["unshare", "--mount", "sh", "-c", make, "sh"] if options.containers else []
    processes = jobs.start(build, folder, options.ranks, kind, who, settings=settings, before=container)
    if kind != "none":
        time.sleep(2)  # the last-alive time is written each second
    return processes


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


def is_left_out(pid, answer):
    """On a machine that gives it no processor, the look at one of many is left out, and said."""
    return any(f"process {pid} could not be looked at" in limit for limit in answer["limits"])


def check_stuck(kind, who, pids, answer, status):
    left_out = set()
    if options.ranks > 4 and is_left_out(pids[who], answer):
        print("SKIPPED: the process that is stuck was not looked at in time")
        raise SystemExit(77)
    culprit = main_thread(answer, who)
    check(user_line(culprit) == line_of("STUCK " + kind) or kind == "busy", f"{kind}: line", culprit)
    check(culprit["waits_for"] == WAITS_FOR[kind], f"{kind}: waits for {culprit['waits_for']}", culprit)
    check(culprit["steady"] or kind == "busy", f"{kind}: two looks differ", culprit)
    if kind == "gil":
        check(culprit["holds_gil"], "gil: who holds it", culprit)
    for rank in set(range(options.ranks)) - {who}:
        if is_left_out(pids[rank], answer):
            left_out.add(rank)
            continue
        victim = main_thread(answer, rank)
        check(user_line(victim) == line_of("WAIT"), f"{kind}: line of rank {rank}", victim)
        check(victim["waits_for"] == "CUDA" and victim["waits_on"] == "cudaStreamSynchronize",
              f"{kind}: rank {rank} is in {victim['waits_for']} {victim['waits_on']}", victim)
    check(len(left_out) < options.ranks / 2, f"{kind}: not looked at", left_out)
    finding = answer["findings"][0]
    if options.no_preload:
        check(finding["code"] == "run.in-progress" and not finding["culprits"] and status == 0,
              f"{kind}: blames without records", finding)
        check([who] in finding["sides"], f"{kind}: sides", finding)
        check("NCCL RAS: Group     0: 1 communicator of 4 ranks, MISMATCH" in finding["evidence"], f"{kind}: RAS", finding)
    else:
        code = CODES.get(kind, "host.stuck")
        check(finding["code"] == code and finding["culprits"] == [who] and status == 1, f"{kind}: verdict", finding)
        place = line_of(PLACES.get(kind, "STUCK " + kind))
        check(finding["where"][0]["line"] == place or kind == "busy", f"{kind}: where", finding)


def check_healthy(answer, status):
    check(status == 0, "none: exit", status)
    check([finding["code"] for finding in answer["findings"]] == ["run.in-progress"], "none: findings", answer["findings"])


def check_moves(kind, who, answer, status):
    finding = answer["findings"][0]
    check(finding["code"] == "run.in-progress" and not finding["culprits"] and status == 0, f"{kind}: verdict", finding)
    check(f"rank {who} works at rank.py:" in finding["title"] and finding["where"][0]["rank"] == who, f"{kind}: who and where", finding)
    check(not main_thread(answer, who)["steady"], f"{kind}: two looks agree", main_thread(answer, who))


def check_polls(kind, who, answer, status):
    finding = answer["findings"][0]
    steady = main_thread(answer, who)["steady"]
    print(f"{kind}: two looks {'agree' if steady else 'differ'}")
    check(finding["code"] == "collective.missing-rank" and finding["culprits"] == [who] and status == 1, f"{kind}: verdict", finding)
    check(steady or finding["where"][0]["line"] == line_of("STUCK " + kind), f"{kind}: where", finding)


def run_attach(*arguments):
    done = subprocess.run([os.path.join(build, "bin", "traintrace"), "attach", "--interval=500ms", *arguments],
                          capture_output=True, text=True, timeout=100)
    return done.stdout, done.returncode


def check_forms(kind, who, folder, processes):
    pids = [str(process.pid) for process in processes]
    others = ",".join(str(rank) for rank in range(options.ranks) if rank != who)
    text, _ = run_attach(*pids, "--hang-after=1s")
    check(f"ranks {others}: main thread is in cudaStreamSynchronize" in text, "text: the stacks of the others", text)
    check(f"> rank {who} (culprit): main thread " in text, "text: the culprit's stack is marked", text)
    check(text.count("rank.py:%d" % line_of("WAIT")) >= 1, "text: their line", text)
    collapsed, _ = run_attach(*pids, "--format=collapsed", "--hang-after=1s")
    lines = [line for line in collapsed.splitlines() if f"stuck_{kind} (rank.py:{line_of('STUCK ' + kind)})" in line]
    check(len(lines) == 1 and lines[0].startswith(f"rank {who};main thread;<module> (rank.py:"), "collapsed", lines)
    check(all(line.endswith(" 1") for line in collapsed.splitlines()), "collapsed: counts", collapsed)
    told = os.path.join(folder, "told")
    text, status = run_attach(*pids, "--watch", "--hang-after=1s", f"--on-hang=echo > {told}")
    check(status == 1 and "host.stuck" in text and os.path.exists(told), "--watch", status, text)
    stop(processes)
    _, status = run_attach(os.path.join(folder, "trace"), "--watch", "--hang-after=1s")
    check(status in (0, 1), "--watch when all is over", status)


def check_watch_of_healthy(folder, processes):
    """It goes on looking at a job that works until that ends."""
    told = os.path.join(folder, "told")
    watching = subprocess.Popen([os.path.join(build, "bin", "traintrace"), "attach", *[str(each.pid) for each in processes],
                                 "--watch", "--interval=200ms", f"--on-hang=echo > {told}"], stdout=subprocess.PIPE, text=True)
    time.sleep(2)
    check(watching.poll() is None, "--watch of a healthy job ends")
    stop(processes)
    said, _ = watching.communicate(timeout=100)
    check(watching.returncode == 0 and not os.path.exists(told), "--watch of a healthy job", watching.returncode, said)


def check_folder(folder, who):
    """Whose traces are in a folder that was named is the job, whatever else its processes share with others, such as /dev/shm."""
    aside = tempfile.mkdtemp(prefix="traintrace-attach-")
    others = jobs.start(build, aside, 2, "none", 0, settings=settings)
    try:
        said, status = run_attach(os.path.join(folder, "trace"), "--hang-after=500ms", "--format=json")
        answer = json.loads(said)
        finding = answer["findings"][0]
        check(finding["code"] == "host.stuck" and finding["culprits"] == [who] and status == 1, "folder: verdict", finding)
        check(answer["run"]["ranks"] == list(range(options.ranks)) and not answer["run"]["other_runs"], "folder: runs", answer["run"])
        check(answer["looks"] == {**answer["looks"], "processes": options.ranks, "unrecorded": 0}, "folder: looks", answer["looks"])
    finally:
        stop(others)
        shutil.rmtree(aside, ignore_errors=True)


def try_kind(kind):
    folder = tempfile.mkdtemp(prefix="traintrace-attach-")
    who = 2 % options.ranks
    processes = start(folder, kind, who)
    try:
        if options.forms:
            (check_watch_of_healthy(folder, processes) if kind == "none" else check_forms(kind, who, folder, processes))
            return
        answer, status = attach(processes, "60s" if kind == "none" else "500ms")
        if kind in MOVES:
            check_moves(kind, who, answer, status)
        elif kind in POLLS:
            check_polls(kind, who, answer, status)
        elif kind == "none":
            check_healthy(answer, status)
            again, _ = attach(processes, "60s")
            if not options.no_preload:
                check(again["run"]["records"] > answer["run"]["records"], "none: the job has stopped")
        else:
            check_stuck(kind, who, [process.pid for process in processes], answer, status)
            if options.containers:
                check_folder(folder, who)
        check(all(process.poll() is None for process in processes), f"{kind}: a rank ended")
    finally:
        stop(processes)
        shutil.rmtree(folder, ignore_errors=True)
    print(kind, "ok" if not jobs.failures else "")


if options.containers and (os.geteuid() != 0 or subprocess.run(["unshare", "--mount", "true"], check=False).returncode):
    print("SKIPPED: containers cannot be made here")
    raise SystemExit(77)
ras = Ras() if options.no_preload else None
if ras:
    ras.start()
for each in options.kinds:
    try_kind(each)
jobs.end("attached")
