"""Runs scripts that treat their memory well or badly, each in a process (or several) of its own: memory_cases.py JOBS

JOBS is a file: [{"name": a function of memory_scripts, "steps": N, "end": exit|exception|kill|live|hang, "out": folder, "ranks": 1, "environment": {}}, ..].
PyTorch is imported once, and each process is forked from that.  What must be said of a case stands in memory_set.py; lines that may be named end
with `# leak: NAME`.
"""
import datetime
import json
import os
import signal
import sys
import time

import torch
import torch.distributed as dist

from memory_scripts import everyday, everyday_leaks, full, habits, healthy, leaks, near_misses, practice, practice_leaks, ranks, retained, slow_leaks, training
from memory_scripts.common import Job

SCRIPTS = (everyday, everyday_leaks, full, habits, healthy, leaks, near_misses, practice, practice_leaks, ranks, retained, slow_leaks, training)
AT_A_TIME = 4  # they wait for each other's starts and looks more than they compute
LONGEST_S = 900


def script(name):
    return next(getattr(module, name) for module in SCRIPTS if name in vars(module))


def wait_for_the_tracer():
    """On a machine with much else to do it may take some time to begin, and threads would go on without it."""
    folder = os.environ["TRAINTRACE_DIR"]
    for _ in range(600):
        if "LD_PRELOAD" not in os.environ:
            return
        if os.path.isdir(folder) and f".{os.getpid()}." in " ".join(os.listdir(folder)):
            time.sleep(1)
            return
        time.sleep(0.1)


def run(job, rank):
    """In a process of its own, to the end of its interpreter."""
    output = os.open(os.path.join(job["out"], f"output.{rank}"), os.O_WRONLY | os.O_CREAT, 0o644)
    os.dup2(output, 1)
    os.dup2(output, 2)
    count = job["ranks"]
    os.environ.update({"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(count), "LOCAL_WORLD_SIZE": str(count),
                       "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(job["port"]), "CASE_OUT": job["out"],
                       "TORCHELASTIC_USE_AGENT_STORE": "False",  # rank 0 makes the store: torchrun's is for the process that forks
                       "TRAINTRACE_DIR": os.path.join(job["out"], "traces"), "SIMGPU_NODE": "case-" + job["out"].replace("/", "-")[-40:],
                       "SIMGPU_DEVICES": "16", **job["environment"]})
    torch.cuda.set_device(rank)
    torch.cuda.synchronize()  # the current device may be set without a call of CUDA
    wait_for_the_tracer()
    if count > 1:
        dist.init_process_group("nccl", timeout=datetime.timedelta(seconds=LONGEST_S))
    script(job["name"])(Job(job["steps"], job["end"]))
    torch.cuda.synchronize()
    if count > 1:
        dist.destroy_process_group()


def start(job):
    """Its processes; who looks at it finds them in the file `pids`."""
    os.makedirs(job["out"], exist_ok=True)
    processes = []
    for rank in range(job["ranks"]):
        process = os.fork()
        if process == 0:
            signal.alarm(LONGEST_S)
            run(job, rank)
            return None
        processes.append(process)
    with open(os.path.join(job["out"], "pids.new"), "w", encoding="utf-8") as file:
        json.dump(processes, file)
    os.rename(file.name, os.path.join(job["out"], "pids"))
    return processes


def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        waiting = json.load(file)
    running = {}  # of each process its job
    while waiting or running:
        while waiting and len({job["out"] for job in running.values()}) < AT_A_TIME:
            job = waiting.pop(0)
            processes = start(job)
            if processes is None:
                return
            running.update({process: job for process in processes})
        process, status = os.wait()
        job = running.pop(process, None)
        if job:
            print(json.dumps({"out": job["out"], "status": os.waitstatus_to_exitcode(status)}), flush=True)


if __name__ == "__main__":
    main()
