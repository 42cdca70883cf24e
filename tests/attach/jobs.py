"""What the tests of this folder share: jobs of rank.py, and how they say what is wrong."""
import os
import signal
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
PROGRAM = os.path.join(HERE, "rank.py")
failures = []


def check(holds, what, *details):
    if not holds:
        failures.append(what)
        print("WRONG:", what, *details)


def end(name):
    print(name, "ok" if not failures else "failed")
    sys.exit(1 if failures else 0)


def line_of(mark, path=PROGRAM):
    with open(path) as file:
        return next(number for number, line in enumerate(file, 1) if line.rstrip().endswith("# " + mark))


def environment(build, folder, **others):
    """Of a job on simgpu that is recorded; what is None is left out."""
    settings = dict(os.environ, SIMGPU_NODE=folder, TRAINTRACE_DIR=os.path.join(folder, "trace"), TRAINTRACE_RING_MB="4",
                    LD_LIBRARY_PATH=os.path.join(build, "simgpu"), LD_PRELOAD=os.path.join(build, "lib", "libtraintrace.so"))
    settings.update(others)
    return {name: value for name, value in settings.items() if value is not None}


def start(build, folder, ranks, kind, who, *arguments, ready=True, output=subprocess.DEVNULL, settings=lambda rank: {},
          before=lambda rank: []):
    """One process per rank; `settings` are those of a rank's environment, `before` starts its command.  They are ready after some
    exchanges."""
    processes = []
    for rank in range(ranks):
        own = {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(ranks), **settings(rank)}
        processes.append(subprocess.Popen(
            [*before(rank), "/usr/bin/python3", "-B", PROGRAM, folder, str(rank), str(ranks), kind, str(who), *arguments], cwd=folder,
            env=environment(build, folder, **own), stdin=subprocess.DEVNULL, stdout=output))
    if ready:
        wait_until_ready(folder, processes)
    return processes


def wait_until_ready(folder, processes):
    while not all(os.path.exists(os.path.join(folder, f"ready.{rank}")) for rank in range(len(processes))):
        if any(process.poll() is not None for process in processes):
            stop(processes)
            raise SystemExit("the job did not start")
        time.sleep(0.05)


def stop(processes):
    for process in processes:
        process.send_signal(signal.SIGKILL)
    for process in processes:
        process.wait()
