"""Programs that have nothing to do with GPUs run the same under the preload, byte for byte, and leave no trace.

  ordinary.py LIBRARY PROJECT BUILD"""
import os
import subprocess
import sys
import tempfile
from pathlib import Path

library, project = Path(sys.argv[1]), Path(sys.argv[2])

THREADS = """
import threading, zlib
sums = [0] * 8
def work(i):
    for k in range(200):
        sums[i] = zlib.crc32(bytes([i, k % 256]) * 100, sums[i])
all = [threading.Thread(target=work, args=(i,)) for i in range(8)]
[t.start() for t in all]; [t.join() for t in all]
print(sums)
"""
FORKS = """
import multiprocessing, os, sys
def square(x):
    return x * x
if __name__ == '__main__':
    with multiprocessing.get_context('fork').Pool(3) as pool:
        print(pool.map(square, range(20)))
    child = os.fork()
    if child == 0:
        os._exit(7)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    print(os.waitstatus_to_exitcode(os.spawnlp(os.P_WAIT, 'sh', 'sh', '-c', 'exit 5') << 8))
    sys.exit(3)
"""
LOOKUPS = """
import ctypes
everywhere = ctypes.CDLL(None)
for name in ('cuInit', 'cudaMalloc', 'ncclAllReduce', 'cudnnCreate', 'cublasCreate_v2', 'curl_easy_init', 'qsort'):
    print(name, hasattr(everywhere, name))
try:
    ctypes.CDLL('libm.so.6').cuInit
except AttributeError as e:
    print(e)
print(ctypes.CDLL('libm.so.6').floor is not None)
"""
PROGRAMS = {
    "true": ["true"],
    "false": ["false"],
    "ls": ["ls", "-l", "/usr/include"],
    "ls of nothing": ["ls", "/does/not/exist"],
    "bash": ["bash", "-c", "for i in 1 2 3; do echo $i | sed s/2/two/; done; (exit 4); echo $?; exec ls /etc/passwd"],
    "exit code": ["bash", "-c", "exit 42"],
    "killed": ["bash", "-c", "kill -TERM $$"],
    "aborted": ["python3", "-c", "import os; os.abort()"],
    "python": ["python3", "-c", "import json, socket, ctypes, sqlite3; print(json.dumps({'a': 1}))"],
    "python that fails": ["python3", "-c", "raise SystemExit('no')"],
    "python with threads": ["python3", "-c", THREADS],
    "python that forks": ["python3", "-c", FORKS],
    "python that looks functions up": ["python3", "-c", LOOKUPS],
    "git": ["git", "--no-pager", "log", "--oneline", "-3"],
    "git status of nothing": ["git", "-C", "/", "status"],
    "cmake": ["cmake", "-P", "script.cmake"],
    "sort in threads": ["bash", "-c", "seq 200000 | sort --parallel=4 -R --random-source=/dev/zero | md5sum"],
    "setuid program": ["su", "--version"],
    "env": ["env", "-u", "LD_PRELOAD", "true"],
}


def run(command, preload, folder):
    environment = dict(os.environ, TRAINTRACE_DIR=str(folder / "traces"), LC_ALL="C",
                       GIT_DIR=str(project / ".git"), PATH="/usr/bin:/bin")
    if preload:
        environment["LD_PRELOAD"] = str(library)
    done = subprocess.run(command, env=environment, cwd=folder, capture_output=True, stdin=subprocess.DEVNULL)
    return done.returncode, done.stdout, done.stderr


failures = []
with tempfile.TemporaryDirectory() as name:
    folder = Path(name)
    (folder / "script.cmake").write_text('execute_process(COMMAND echo hello)\nmessage(STATUS "done")\n')
    for title, command in PROGRAMS.items():
        plain = run(command, False, folder)
        traced = run(command, True, folder)
        if plain != traced:
            failures.append(f"{title}: without {plain}, with {traced}")
        if sorted(path.name for path in folder.iterdir()) != ["script.cmake"]:
            failures.append(f"{title}: left {list(folder.iterdir())}")
            break
print("\n".join(failures) or f"ok: {len(PROGRAMS)} programs")
sys.exit(1 if failures else 0)
