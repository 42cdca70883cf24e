"""Looks at the example of examples/ddp under the real torchrun, on simgpu, in which rank 2 is stuck.

    torchrun.py BUILD_FOLDER KIND..     KIND: loader, store, checkpoint, slow, none.   Exit status 77: no PyTorch
"""
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

import jobs
from jobs import check

ROOT = os.path.dirname(os.path.dirname(jobs.HERE))
RANKS, CULPRIT = 4, 2
WAITS_FOR = {"loader": "the data loader", "store": "the rendezvous store", "checkpoint": "a checkpoint"}
build, kinds = os.path.abspath(sys.argv[1]), sys.argv[2:]


def line_of(file, text):
    with open(os.path.join(ROOT, file)) as lines:
        return next(number for number, line in enumerate(lines, 1) if text in line)


def line_where(kind):
    if kind == "loader":
        return line_of("examples/ddp/train.py", "next(batches, None)")
    return line_of("tests/attach/ddp.py", "# STUCK " + kind)


class Job:
    def __init__(self, folder, kind):
        self.folder = folder
        with open(os.path.join(folder, "output"), "wb") as output:
            self.torchrun = subprocess.Popen(
                [os.path.join(ROOT, "scripts/lib/torchrun"), str(RANKS), "--log_dir", os.path.join(folder, "log"),
                 os.path.join(jobs.HERE, "ddp.py"), kind, folder, "--steps=100000"],
                env=jobs.environment(build, folder), stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT, start_new_session=True)

    def output(self):
        with open(os.path.join(self.folder, "output"), errors="replace") as text:
            return text.read()

    def wait_for_step(self, step):
        """Until all ranks have made that step; the time limit is the test's."""
        while len(set(re.findall(rf"step rank=(\d+) step={step} ", self.output()))) < RANKS:
            if self.torchrun.poll() is not None or "Traceback" in self.output():
                raise SystemExit("the job failed:\n" + self.output()[-4000:])
            time.sleep(0.1)

    def kill(self):
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open(f"/proc/{pid}/stat", errors="replace") as stat:
                    session = int(stat.read().rpartition(")")[2].split()[3])
                if session == self.torchrun.pid:
                    os.kill(int(pid), signal.SIGKILL)
            except OSError:
                continue
        self.torchrun.wait()


def attach(folder, *options):
    done = subprocess.run([os.path.join(build, "bin", "traintrace"), "attach", os.path.join(folder, "trace"),
                           "--format=json", "--interval=500ms", *options], capture_output=True, text=True)
    check(done.returncode in (0, 1), f"attach exits with {done.returncode}", done.stderr)
    return json.loads(done.stdout)


def check_all(job):
    """--all: the ranks and nobody else, not the workers that share their trace."""
    for _ in range(3):  # the latest job of this machine may be another test's, and end meanwhile
        done = subprocess.run([os.path.join(build, "bin", "traintrace"), "attach", "--all", "--format=json", "--interval=500ms",
                               "--hang-after=60s"], capture_output=True, text=True)
        if done.stdout:
            break
    else:
        check(False, f"--all exits with {done.returncode}", done.stderr)
        return
    answer = json.loads(done.stdout)
    with open(f"/proc/{job.torchrun.pid}/task/{job.torchrun.pid}/children") as file:
        ranks = {int(pid) for pid in file.read().split()}
    looked_at = {thread["pid"] for thread in answer["threads"]}
    if looked_at & ranks:  # else another job of this machine was the latest
        check(looked_at <= ranks, "--all: processes that are no ranks", looked_at - ranks)


def check_answer(kind, answer):
    finding = answer["findings"][0]
    if kind == "none":
        check(finding["code"] == "run.in-progress" and not finding["culprits"], "none: blames", finding)
        return
    check(finding["culprits"] == [CULPRIT], f"{kind}: culprits", finding)
    if kind == "slow":  # it moves: late, as far as can be said
        check(finding["code"] in ("host.stuck", "collective.missing-rank"), "slow: verdict", finding)
        check(finding["code"] != "host.stuck" or finding["certainty"] != "proof", "slow: a proof", finding)
        return
    check(finding["code"] == "host.stuck", f"{kind}: verdict", finding)
    check(finding["where"][0]["line"] == line_where(kind), f"{kind}: where", finding)
    main = next(thread for thread in answer["threads"] if thread["rank"] == CULPRIT and thread["role"] == "main")
    check(main["waits_for"] == WAITS_FOR[kind], f"{kind}: waits for {main['waits_for']}", main)


def try_kind(kind):
    folder = tempfile.mkdtemp(prefix="traintrace-attach-")
    job = Job(folder, kind)
    try:
        job.wait_for_step(3 if kind == "none" else 4)
        time.sleep(0 if kind == "none" else 3)  # the last-alive time is written each second
        answer = attach(folder, "--hang-after=" + ("60s" if kind == "none" else "1s"))
        check_answer(kind, answer)
        if kind == "none":
            check_all(job)
        if kind == "loader":
            worker = line_of("tests/attach/ddp.py", "# WORKER")
            check(f"ddp.py:{worker}" in json.dumps(answer["findings"][0]["evidence"]),
                  "loader: the line of the worker", answer["findings"][0]["evidence"])
        check(job.torchrun.poll() is None, f"{kind}: the job has ended")
    finally:
        job.kill()
        shutil.rmtree(folder, ignore_errors=True)
    print(kind, "ok" if not jobs.failures else "")


if not os.access("/usr/bin/torchrun", os.X_OK):
    print("SKIPPED: there is no /usr/bin/torchrun; Debian's python3-torch has it")
    sys.exit(77)
for each in kinds:
    try_kind(each)
jobs.end("torchrun")
