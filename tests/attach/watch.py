"""attach --watch from before a job begins until after it has ended, and the commands that get its verdict.

    watch.py BUILD_FOLDER
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
RANKS = 3


def watch(folder, *arguments):
    return subprocess.Popen([os.path.join(build, "bin", "traintrace"), "attach", os.path.join(folder, "trace"), "--watch", "--interval=200ms", *arguments],
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def on_verdict(folder):
    """What a command gets: for this code and for no other."""
    told = os.path.join(folder, "told")
    return told, (f"--on=collective.*,host.stuck:cat > {told}.json; printf '%s|%s|%s' \"$TRAINTRACE_CODE\" \"$TRAINTRACE_CULPRITS\" \"$TRAINTRACE_VERDICT\" > {told}",
                  f"--on=memory.*:touch {told}.wrong", f"--on-hang=touch {told}.hang")


def hang(folder):
    told, commands = on_verdict(folder)
    watching = watch(folder, "--hang-after=1s", *commands)
    time.sleep(0.7)
    check(watching.poll() is None, "it does not wait for the job", watching.poll())
    processes = jobs.start(build, folder, RANKS, "lock", 2)
    try:
        out, err = watching.communicate(timeout=100)
    finally:
        stop(processes)
    check(watching.returncode == 1 and "host.stuck" in out, "the hang", watching.returncode, out, err)
    check("waiting for the job to begin" in err, "it says that it waits", err)
    with open(told + ".json", encoding="utf-8") as file:
        found = json.load(file)
    with open(told, encoding="utf-8") as file:
        code, culprits, verdict = file.read().split("|")
    check(found["findings"][0]["code"] == code == "host.stuck", "the code", code)
    check(culprits == "2" and verdict == found["verdict"], "culprits and verdict", culprits, verdict)
    check(os.path.exists(told + ".hang") and not os.path.exists(told + ".wrong"), "which commands were run")


def killed_while_hanging(folder):
    """Nobody has waited for long enough yet, and then it is over: the traces say what was wrong."""
    watching = watch(folder, "--hang-after=2s")
    processes = jobs.start(build, folder, RANKS, "lock", 2)
    time.sleep(1)
    for process in processes[2:]:  # the one that the others wait for dies, and later they are killed
        process.kill()
        process.wait()
    time.sleep(5)
    stop(processes)
    out, err = watching.communicate(timeout=100)
    check(watching.returncode == 1, "a job that was killed while it hung", watching.returncode, out, err)
    check("2" in out and "error " in out, "its verdict", out)


def ended(folder):
    processes = jobs.start(build, folder, RANKS, "lock", 2)
    time.sleep(6)
    stop(processes)
    told, commands = on_verdict(folder)
    watching = watch(folder, *commands)
    out, err = watching.communicate(timeout=100)
    check("the job has ended" in err and "verdict: " in out, "the verdict of a job that has ended", out, err)
    check("none of these processes runs any more" in out, "nobody is looked at", out)
    check(watching.returncode == (1 if "\nerror " in out else 0), "its status", watching.returncode)


def refused():
    for wrong in ("host.stuck", "host.stuk:true", ":true"):
        done = subprocess.run([os.path.join(build, "bin", "traintrace"), "attach", "1", f"--on={wrong}"], capture_output=True, text=True, check=False)
        check(done.returncode == 2 and "--on" in done.stderr, "--on", wrong, done)


for case in (hang, killed_while_hanging, ended):
    folder = tempfile.mkdtemp(prefix="traintrace-watch-")
    try:
        case(folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
refused()
jobs.end("watch")
