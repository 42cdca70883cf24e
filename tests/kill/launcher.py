"""A rank is killed, crashes or aborts; a launcher asks the others to end a second later, and waits for all of them only then.

    launcher.py BUILD_FOLDER

Kernels before 6.15 tell nobody but the parent how a process ended, and every kernel only once that has waited for it, or as long as nobody
has (a zombie).  That rank alone must be named, with its signal, although all have ended within a few seconds.
"""
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time

RANKS = 4
build = os.path.abspath(sys.argv[1])


def start(rank, folder):
    environment = dict(
        os.environ, RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(RANKS), WORKLOAD_DIR=f"{folder}/shared",
        TRAINTRACE_DIR=f"{folder}/trace", TRAINTRACE_RING_MB="4", SIMGPU_NODE=folder, LD_LIBRARY_PATH=f"{build}/simgpu",
        LD_PRELOAD=f"{build}/lib/libtraintrace.so")
    return subprocess.Popen([f"{build}/tests/counted_ranks", f"{folder}/account.{rank}"], env=environment,
                            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def is_running(folder, rank):
    try:
        with open(f"{folder}/account.{rank}", "rb") as file:
            return int.from_bytes(file.read(24)[8:16], "little") > 0
    except OSError:
        return False


def once(victim, how):
    folder = tempfile.mkdtemp(prefix="traintrace-launcher.", dir="/dev/shm")
    os.mkdir(f"{folder}/shared")
    processes = []
    try:
        processes = [start(rank, folder) for rank in range(RANKS)]
        end = time.monotonic() + 60
        while not all(is_running(folder, rank) for rank in range(RANKS)):
            if time.monotonic() > end:
                return "the job did not start"
            time.sleep(0.01)
        os.kill(processes[victim].pid, how)  # send_signal() would wait for who has ended
        time.sleep(1)
        for rank in set(range(RANKS)) - {victim}:
            os.kill(processes[rank].pid, signal.SIGTERM)
        time.sleep(1)
        for process in processes:
            process.wait()
        done = subprocess.run([f"{build}/bin/traintrace", "analyze", f"{folder}/trace", "--format=json"],
                              capture_output=True, text=True, check=False)
        findings = json.loads(done.stdout)["findings"]
        errors = [(finding["code"], finding["culprits"]) for finding in findings if finding["severity"] == "error"]
        if errors not in ([("run.rank-failed", [victim])], [("collective.dead-rank", [victim])]):
            return f"{errors}: {[finding['title'] for finding in findings]}"
        if signal.strsignal(how) not in findings[0]["title"]:
            return f"it does not say {signal.strsignal(how)}: {findings[0]['title']}"
        return None
    finally:
        for process in processes:
            process.kill()
            process.wait()
        shutil.rmtree(folder)


failed = False
for number, how in enumerate((signal.SIGKILL, signal.SIGSEGV, signal.SIGABRT)):
    problem = once(number + 1, how)
    print(f"{how.name}: {problem or 'right'}", flush=True)
    failed = failed or problem is not None
sys.exit(failed)
