"""Processes of which little can be seen: what is said of them, and status 2 only where nothing can be had.

    limits.py BUILD_FOLDER      What needs root is left out without it, and says so.
"""
import json
import os
import signal
import subprocess
import sys
import time

build = os.path.abspath(sys.argv[1])
traintrace = os.path.join(build, "bin", "traintrace")
failures = []
SLEEPER = "import time\nprint(flush=True)\ntime.sleep(1000)"
# clone with CLONE_VFORK: the parent waits until the child ends, in a sleep that nothing but SIGKILL interrupts.
BLOCKED = """
import ctypes, os, signal, time
libc = ctypes.CDLL(None)
print(flush=True)
if libc.syscall(56 if os.uname().machine == "x86_64" else 220, 0x4000 | signal.SIGCHLD, 0, 0, 0, 0) == 0:
    libc.prctl(1, signal.SIGKILL)
    time.sleep(1000)
"""


def check(holds, what, *details):
    if not holds:
        failures.append(what)
        print("WRONG:", what, *details)


def start(program, *before):
    process = subprocess.Popen([*before, "/usr/bin/python3", "-c", program], stdout=subprocess.PIPE, text=True,
                               start_new_session=True)
    process.stdout.readline()
    time.sleep(0.3)
    return process


def attach(*pids, before=()):
    return subprocess.run([*before, traintrace, "attach", *map(str, pids), "--format=json", "--interval=200ms"],
                          capture_output=True, text=True)


def end(process):
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def nobody_there():
    done = attach(2 ** 22 + 1)
    check(done.returncode == 2 and "there is no process with this number" in done.stderr, "no process", done)


def one_of_them_gone():
    process = start(SLEEPER)
    gone = subprocess.Popen(["/bin/true"])
    gone.wait()
    for pids in ((process.pid, gone.pid), (gone.pid, process.pid)):
        done = attach(*pids)
        answer = json.loads(done.stdout or "{}")
        check(done.returncode == 0 and answer["looks"]["processes"] == 1, "one is gone: the other one", done)
        check(answer.get("limits") == [f"/proc/{gone.pid}/stat: there is no process with this number"], "one is gone", done)
    end(process)


# Opened, but not read: a process that may do what we may not (ptrace(2), access mode checking).
def refused():
    others = start(SLEEPER, "setpriv", "--bounding-set=-all")
    process = start(SLEEPER)
    less = ("setpriv", "--bounding-set=-all")
    alone = attach(process.pid, before=less)
    message = f"/proc/{process.pid}/maps: the memory of process {process.pid} may not be read: "
    check(alone.returncode == 2 and message in alone.stderr, "refused", alone)
    both = attach(process.pid, others.pid, before=less)
    answer = json.loads(both.stdout or "{}")
    check(both.returncode == 0 and answer["looks"]["processes"] == 1, "one is refused: the other one", both)
    check([thread["pid"] for thread in answer.get("threads", [])] == [others.pid], "one is refused: who is shown", both)
    check(len(answer.get("limits", [])) == 1 and answer["limits"][0].startswith(message), "one is refused", both)
    end(process)
    end(others)


def zombie():
    process = subprocess.Popen(["/bin/true"])
    time.sleep(0.3)
    done = attach(process.pid)
    check(done.returncode == 2 and "has ended and waits for its parent (zombie)" in done.stderr, "zombie", done)
    process.wait()


def stopped():
    """It is there, and cannot run: said, though nobody recorded it."""
    process = start(SLEEPER)
    os.kill(process.pid, signal.SIGSTOP)
    time.sleep(0.2)
    answer = json.loads(attach(process.pid).stdout)
    check([thread["state"] for thread in answer["threads"]] == ["T"], "stopped, state", answer)
    check("is stopped (SIGSTOP or a debugger)" in answer["findings"][0]["title"], "stopped", answer)
    end(process)


def runs():
    """Its stack is in registers."""
    process = subprocess.Popen(["/bin/sh", "-c", "while :; do :; done"], start_new_session=True)
    time.sleep(0.3)
    done = attach(process.pid)
    check(done.returncode == 2 and f"process {process.pid}: all its threads run" in done.stderr and "--stop" in done.stderr, "runs", done)
    end(process)


def other_user():
    process = start(SLEEPER)
    done = attach(process.pid, before=("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"))
    check(done.returncode == 2 and "it belongs to user 0; ask as that user or as root" in done.stderr, "other user", done)
    end(process)


def other_container():
    process = start(SLEEPER, "unshare", "--pid", "--fork", "--mount-proc")
    with open(f"/proc/{process.pid}/task/{process.pid}/children") as file:
        inner = int(file.read().split()[0])
    done = attach(inner)
    answer = json.loads(done.stdout)
    check(done.returncode == 0, "container: status", done)
    check(f"process {inner} is in another container (pid namespace), where it is 1" in answer["limits"], "container", answer)
    check(any(thread["native"] for thread in answer["threads"]), "container: native stacks", answer["threads"])
    end(process)


def in_vfork():
    process = start(BLOCKED)
    for options in ((), ("--stop",)):
        done = subprocess.run([traintrace, "attach", str(process.pid), "--format=json", "--interval=200ms", *options],
                              capture_output=True, text=True)
        answer = json.loads(done.stdout)
        check(any("waits in vfork for a child" in limit and "can be killed" in limit for limit in answer["limits"]), "vfork", answer["limits"])
        check(answer["threads"][0]["python"], "vfork: the Python stack", answer["threads"])
    end(process)


nobody_there()
one_of_them_gone()
zombie()
stopped()
runs()
in_vfork()
if os.geteuid() == 0:
    other_user()
    refused()
    other_container()
else:
    print("SKIPPED: another user's process and another container: root is needed to make them")
print("limits ok" if not failures else "")
sys.exit(1 if failures else 0)
