"""A short program, an idle process or the launcher does not hide a job that hangs.

    runs.py BUILD_FOLDER
"""
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time

import jobs
from jobs import check, stop

build = os.path.abspath(sys.argv[1])
traintrace = os.environ.get("TRAINTRACE_ANALYZER", os.path.join(build, "bin", "traintrace"))
RANKS, WHO = 4, 2
SHORT = "import ctypes; ctypes.CDLL('libcudart.so.13').cudaMalloc(ctypes.byref(ctypes.c_void_p()), ctypes.c_size_t(4096))"
IDLE = "import ctypes, time; ctypes.CDLL('libcuda.so.1'); print(flush=True); time.sleep(1000)"


def python(folder, program, **settings):
    return subprocess.Popen(["/usr/bin/python3", "-c", program], stdout=subprocess.PIPE,
                            env=jobs.environment(build, folder, **settings))


def ask(*arguments):
    done = subprocess.run([traintrace, *arguments, "--format=json"], capture_output=True, text=True)
    check(done.returncode in (0, 1), arguments[0], done.stderr)
    return json.loads(done.stdout), done.returncode


def check_short_program(folder, trace):
    """It was recorded into the same folder, later, and ended well."""
    check(python(folder, SHORT).wait() == 0, "the short program")
    answer, status = ask("analyze", trace, "--hang-after=1s")
    check(status == 1 and answer["run"]["ranks"] == list(range(RANKS)), "analyze: leads with", answer["verdict"], answer["run"])
    check(answer["findings"][0]["culprits"] == [WHO], "analyze: verdict", answer["findings"])
    others = answer["run"]["other_runs"]
    check([(other["ranks"], other["errors"]) for other in others] == [(1, 0)], "analyze: others", others)
    answer, status = ask("analyze", trace, "--run=" + others[0]["id"])
    check(status == 0 and answer["run"]["ranks"] == [0], "analyze --run", answer["run"])


def check_others(folder, pids, hang_after, right):
    """Among the processes are one that idles with libcuda, and the one that started them all."""
    idle = python(folder, IDLE, LD_PRELOAD=None)
    idle.stdout.readline()
    try:
        for extra in ([idle.pid], [os.getpid()], [idle.pid, os.getpid()]):
            answer, status = ask("attach", *map(str, [*pids, *extra]), "--hang-after=" + hang_after, "--interval=200ms")
            check(right(answer["findings"][0], status), f"attach, {len(extra)} more", answer["verdict"])
            said = " ".join(answer["limits"])
            check("not recorded" in said and all(str(pid) in said for pid in extra), "attach: limits", answer["limits"])
        answer, status = ask("attach", str(idle.pid), "--interval=200ms")
        check(status == 0 and "not recorded" in answer["verdict"], "attach: the idle one alone", answer["verdict"])
    finally:
        stop([idle])


def try_job(kind, hang_after, right):
    folder = tempfile.mkdtemp(prefix="traintrace-runs-")
    processes = jobs.start(build, folder, RANKS, kind, WHO)
    try:
        time.sleep(3)
        check_others(folder, [process.pid for process in processes], hang_after, right)
        if kind != "none":
            check_short_program(folder, os.path.join(folder, "trace"))
    finally:
        stop(processes)
        shutil.rmtree(folder, ignore_errors=True)


try_job("lock", "500ms", lambda finding, status: (finding["code"], finding["culprits"], status) == ("host.stuck", [WHO], 1))
try_job("none", "60s", lambda finding, status: (finding["code"], status) == ("run.in-progress", 0)
        and "not recorded" not in finding["title"])
jobs.end("runs")
