"""Runs of job.py on simgpu under the preload, and what the analyzer makes of them."""
import os
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
JOB = f"{HERE}/job.py"


def line_of(mark):
    with open(JOB, encoding="utf-8") as file:
        return next(number for number, line in enumerate(file, 1) if line.rstrip().endswith(f"# {mark}"))


def record(build, case, ranks, folder, job="job.py", fails=False, **settings):
    """Traces in FOLDER/traces."""
    environment = dict(os.environ, TRAINTRACE_RING_MB="4", SIMGPU_DEVICES=str(ranks), TRAINTRACE_DIR=f"{folder}/traces", SIMGPU_NODE=folder,
                       LD_PRELOAD=f"{build}/lib/libtraintrace.so", LD_LIBRARY_PATH=f"{build}/simgpu", WORLD_SIZE=str(ranks),
                       MASTER_ADDR="localhost", MASTER_PORT="1", PYTHONDONTWRITEBYTECODE="1", NUMBERS_DIR=folder, **settings)
    running = [subprocess.Popen(["/usr/bin/python3", f"{HERE}/{job}", case], env=dict(environment, RANK=str(rank), LOCAL_RANK=str(rank)))
               for rank in range(int(ranks))]
    ends = [each.wait(200) for each in running]
    if any(ends) != fails:
        sys.exit(f"{case} ended with {ends}")


def traintrace(build, *arguments):
    return subprocess.run([f"{build}/bin/traintrace", *arguments], capture_output=True, text=True, timeout=200, check=False).stdout
