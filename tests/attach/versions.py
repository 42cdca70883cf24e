"""Reads the Python stacks of every CPython from 3.9 to 3.14 that is at hand, from outside.

    versions.py BUILD_FOLDER      Exit status 77: there is none but the system's
"""
import glob
import json
import os
import shutil
import subprocess
import sys

MINORS = range(9, 15)
build = os.path.abspath(sys.argv[1])
failures = []
PROGRAM = '''
import ctypes, sys, threading

def holder():
    ctypes.PyDLL(None).sleep(1000)  # HOLDS

def waiter(lock):
    lock.acquire()  # WAITS

def outer():
    lock = threading.Lock()
    lock.acquire()
    threads = [threading.Thread(target=waiter, args=(lock,), daemon=True)]
    [thread.start() for thread in threads]
    print("ready", flush=True)
    [len(each) for each in [[1]]] and (lambda: holder())()  # OUTER

outer()  # MODULE
'''


def check(holds, what, *details):
    if not holds:
        failures.append(what)
        print("WRONG:", what, *details)


def line_of(mark):
    return next(number for number, line in enumerate(PROGRAM.splitlines(), 1) if line.endswith("# " + mark))


def interpreters():
    found = {}
    for minor in MINORS:
        paths = sorted(glob.glob(os.path.expanduser(f"~/.pyenv/versions/3.{minor}.*/bin/python3.{minor}")))
        for path in [*paths, shutil.which(f"python3.{minor}", path="/usr/bin:/usr/local/bin") or ""]:
            works = path and subprocess.run([path, "-c", "import ctypes"], capture_output=True).returncode == 0
            if works:
                found.setdefault(minor, path)
    return found


def look(path):
    process = subprocess.Popen([path, "-c", PROGRAM], stdout=subprocess.PIPE, text=True)
    try:
        process.stdout.readline()
        done = subprocess.run([os.path.join(build, "bin", "traintrace"), "attach", str(process.pid), "--format=json",
                               "--interval=300ms"], capture_output=True, text=True)
        check(done.returncode == 0, f"{path}: attach exits with {done.returncode}", done.stderr)
        return json.loads(done.stdout)["threads"]
    finally:
        process.kill()
        process.wait()


def frames(thread):
    return [(frame["function"].split(".")[-1], frame["line"]) for frame in thread["python"] if frame["file"] == "<string>"]


def check_version(minor, path):
    threads = look(path)
    main = next(thread for thread in threads if thread["role"] == "main")
    check(frames(main) == [("holder", line_of("HOLDS")), ("<lambda>", line_of("OUTER")), ("outer", line_of("OUTER")),
                           ("<module>", line_of("MODULE"))], f"3.{minor}: main", main)
    check(main["holds_gil"], f"3.{minor}: who holds the GIL", main)
    others = [frames(thread) for thread in threads if thread is not main and thread["python"]]
    check(others == [[("waiter", line_of("WAITS"))]], f"3.{minor}: the other thread", others)
    print(f"3.{minor} looked at ({os.path.basename(path)})")


found = interpreters()
for minor in MINORS:
    if minor in found:
        check_version(minor, found[minor])
    else:
        print(f"SKIPPED: there is no CPython 3.{minor} here")
sys.exit(1 if failures else 0 if len(found) > 1 else 77)
