"""A program under a sanitizer, or under valgrind, does the same with the tracer, and nothing is reported.

  sanitized.py LIBRARY PROGRAM BUILD SANITIZER ANALYZER     SANITIZER: asan, tsan or valgrind"""
import os
import shutil
import subprocess
import sys
import tempfile

library, program, build, sanitizer, analyzer = sys.argv[1:6]
SKIPPED = 77


def skip(reason):
    print(f"SKIPPED: {reason}")
    sys.exit(SKIPPED)


def runtime():
    """The sanitizer's library must be the first of a process, so before us."""
    path = subprocess.run(["g++", f"-print-file-name=lib{sanitizer}.so"], capture_output=True, text=True).stdout.strip()
    if not os.path.isabs(path):
        skip(f"g++ has no lib{sanitizer}.so")
    return path


def run(preload, folder, recorder=()):
    """With PRELOAD in LD_PRELOAD, started by the command RECORDER."""
    command = [*recorder, program]
    if sanitizer == "valgrind":
        command = ["valgrind", "-q", "--error-exitcode=99", "--leak-check=no", 
                   f"--suppressions={os.path.dirname(__file__)}/sanitized/valgrind.supp", program]
    elif subprocess.run(["setarch", "-R", "true"], capture_output=True).returncode == 0:
        command = ["setarch", "-R", *command]  # GCC 12's do not start at every address
    environment = {**os.environ, "TRAINTRACE_DIR": folder, "TRAINTRACE_RING_MB": "4", "SIMGPU_DEVICES": "2",
                   "SIMGPU_NODE": folder, "LD_LIBRARY_PATH": os.path.join(build, "simgpu"),
                   "ASAN_OPTIONS": "detect_leaks=0:exitcode=99", 
                   # Nothing of CUDA's is built for it, so it does not see how they wait for each other.
                   "TSAN_OPTIONS": "exitcode=99:ignore_noninstrumented_modules=1"}
    environment.pop("LD_PRELOAD", None)
    if preload:
        environment["LD_PRELOAD"] = " ".join(preload)
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    expected = ("sigprocmask: unknown 'how' field", "traintrace: recorded ")  # valgrind's, and what `run` says at its end
    errors = [line for line in done.stderr.splitlines() if not any(text in line for text in expected)]
    return done.returncode, done.stdout, "\n".join(errors)


def compare(plain, how, *arguments):
    # The keeper may still write its copy.
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        traced = run(arguments[0], folder, *arguments[1:])
        traces = [name for name in os.listdir(folder) if name.endswith(".trace")]
    if traced != plain:
        sys.exit(f"without the tracer:\n{plain}\nwith it, {how}: exit {traced[0]}\n{traced[1]}{traced[2][:10000]}")
    if len(traces) != (1 if sanitizer == "tsan" else 2):  # of the program and of its forked child
        sys.exit(f"{how}: {traces}")


if sanitizer == "valgrind" and shutil.which("valgrind") is None:
    skip("valgrind is not installed")
first = [] if sanitizer == "valgrind" else [runtime()]
with tempfile.TemporaryDirectory() as folder:
    without = run(first, folder)
if without[0] != 0 or without[2]:
    skip(f"without the tracer: exit {without[0]}: {without[1]}{without[2][:3000]}")
compare(without, "in LD_PRELOAD", [*first, library])
if first:
    recorder = [analyzer, "run", "--"]
    compare(without, "by traintrace run", [], recorder)
    compare(without, "by traintrace run, the sanitizer's library in LD_PRELOAD", first, recorder)
print(without[1])
