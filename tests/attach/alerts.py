"""What attach --watch leaves for those who are to be called: metrics while the job runs, the verdict behind them, and one tar file.

    alerts.py BUILD_FOLDER
"""
import glob
import json
import os
import re
import shutil
import stat
import subprocess
import sys
import tarfile
import tempfile
import time

import jobs
from jobs import check, stop

build = os.path.abspath(sys.argv[1])
RANKS = 3
SAMPLE = re.compile(r'(\w+)(?:\{((?:\w+="(?:\\.|[^"\\])*",?)*)\})? ([0-9.e+-]+)')  # nothing behind the value: no timestamp


def metrics(path):
    """{name: {labels: value}}, or nothing where there is no file."""
    try:
        with open(path, encoding="utf-8") as file:
            text = file.read()
    except FileNotFoundError:
        return {}
    found, described = {}, set()
    for line in text.splitlines():
        if line.startswith("# "):
            described.add(line.split()[2])
            continue
        match = SAMPLE.fullmatch(line)
        check(match is not None and match[1] in described, "a line of the metrics", line)
        if match:
            found.setdefault(match[1], {})[match[2] or ""] = float(match[3])
    if shutil.which("promtool"):
        done = subprocess.run(["promtool", "check", "metrics"], input=text, capture_output=True, text=True, check=False)
        check(done.returncode == 0 and not done.stdout + done.stderr, "promtool check metrics", done.stdout, done.stderr, text)
    return found


def by_rank(samples):
    return {re.search(r'rank="(\d+)"', labels)[1]: value for labels, value in samples.items()}


def watch(folder, *arguments):
    return subprocess.Popen([os.path.join(build, "bin", "traintrace"), "attach", os.path.join(folder, "trace"), "--watch", "--interval=200ms",
                             f"--prometheus={folder}/watch.prom", "--artifacts=artifacts", *arguments],
                            cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def wait_for(condition, seconds=60):
    for _ in range(seconds * 20):
        if condition():
            return True
        time.sleep(0.05)
    return False


def write_telemetry(folder, xid):
    """As `traintrace telemetry` would have recorded it beside the job: an Xid of rank 2's GPU."""
    with open(f"{folder}/trace/telemetry.{os.uname().nodename}.1.log", "w", encoding="utf-8") as file:
        now = time.time_ns()
        file.write(f"traintrace-telemetry 1\nfact host {os.uname().nodename}\n")
        for device in range(RANKS):
            file.write(f"device {device} uuid=GPU-73696d67-7075-2d64-6576-6963652d{device:04x}\nread {device} {now - 10**9} sm_mhz=1980\n"
                       f"read {device} {now} sm_mhz=1980\n")
        file.write(f"xid 2 {now} 79\n" if xid else "")


def hang(folder):
    prom, told = f"{folder}/watch.prom", f"{folder}/told"
    dumps = f"{folder}/dump_"
    watching = watch(folder, "--hang-after=3s", f"--on=host.stuck:printf %s \"$TRAINTRACE_ARTIFACT\" > {told}")
    check(wait_for(lambda: "traintrace_watch_running" in metrics(prom)), "metrics before the job begins")
    processes = jobs.start(build, folder, RANKS, "lock", 2, settings=lambda rank: {
        "TORCH_FR_DUMP_TEMP_FILE": dumps, "CUDA_VISIBLE_DEVICES": None, "SIMGPU_DEVICES": str(RANKS)})
    try:
        write_telemetry(folder, xid=True)
        with open(f"{dumps}1", "wb") as file:  # of another rank than the one to blame
            file.write(b'{"version": "2.5", "pg_config": {}, "pg_status": {}, "entries": []}')
        with open(f"{dumps}0", "wb") as file:
            file.write(b"something else")
        check(wait_for(lambda: min(by_rank(metrics(prom).get("traintrace_rank_since_collective_seconds", {})).values(), default=0) > 1),
              "seconds since the last collective grow on all ranks")
        seen = metrics(prom)
        check(set(by_rank(seen["traintrace_rank_since_collective_seconds"])) == {"0", "1", "2"}, "each rank once", seen)
        check(stat.S_IMODE(os.stat(prom).st_mode) == 0o644, "readable for the exporter")
        out, err = watching.communicate(timeout=100)
    finally:
        stop(processes)
    check(watching.returncode == 1 and "host.stuck" in out, "the hang", watching.returncode, out, err)
    with open(told, encoding="utf-8") as file:
        artifact = file.read()
    check(artifact in err and [artifact] == glob.glob(f"{folder}/artifacts/*"), "the path of the one artifact", artifact, err)
    verdicts = metrics(prom)
    check(set(verdicts) == {"traintrace_verdict"}, "the verdict alone", verdicts)
    check(any('code="host.stuck"' in each and 'severity="error"' in each and 'culprits="2"' in each and f'artifact="{artifact}"' in each
              for each in verdicts["traintrace_verdict"]), "its labels", verdicts)
    # What lies beside the traces counts here, too.
    check("device.xid" in out and any('code="device.xid"' in each for each in verdicts["traintrace_verdict"]), "the Xid", out)
    check_artifact(folder, artifact)


def check_artifact(folder, artifact):
    check(stat.S_IMODE(os.stat(artifact).st_mode) == 0o600, "its rights")
    with tarfile.open(artifact) as tar:
        members = {member.name.split("/", 1)[1]: member for member in tar.getmembers()}
        check(all(member.isfile() and member.mode == 0o600 for member in members.values()), "files of the owner", members)
        read = {name: tar.extractfile(member).read() for name, member in members.items()}
        tar.extractall(f"{folder}/unpacked", filter="data") if hasattr(tarfile, "data_filter") else tar.extractall(f"{folder}/unpacked")
    check({"verdict.json", "verdict.txt", "verdict.html", "stacks.collapsed", "xids.txt", "flight-recorder/dump_1"} <= set(read), "what is in it", sorted(read))
    check("flight-recorder/dump_0" not in read, "what is no dump stays out")
    check(json.loads(read["verdict.json"])["findings"][0]["code"] == "host.stuck", "the verdict in it")
    check(b"Xid 79" in read["xids.txt"] and read["xids.txt"].count(b"\n") == 1, "the Xid in it", read["xids.txt"])
    packs = [name for name in read if name.startswith("traces/")]
    check(len(packs) == RANKS and sum(name.startswith("telemetry/") for name in read) == 1, "traces and telemetry", sorted(read))
    # The same verdict again from what is in it alone.
    top = glob.glob(f"{folder}/unpacked/*")[0]
    again = subprocess.run([os.path.join(build, "bin", "traintrace"), "analyze", f"{top}/traces", *glob.glob(f"{top}/telemetry/*"), "--format=json",
                            "--hang-after=1s"], capture_output=True, text=True, check=False)
    codes = [each["code"] for each in json.loads(again.stdout)["findings"]]
    check("device.xid" in codes and again.returncode == 1, "analyze of what is in it", codes, again.stderr)


def healthy(folder):
    """Nothing is left of a job that ends well, and a healthy GPU adds nothing."""
    watching = watch(folder, "--hang-after=60s")
    os.mkdir(f"{folder}/shared")
    processes = [subprocess.Popen([f"{build}/tests/latency_cases", "no-sync", "40"], stdout=subprocess.DEVNULL,
                                  env=jobs.environment(build, folder, RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(RANKS), SIMGPU_DEVICES=str(RANKS),
                                                       WORKLOAD_DIR=f"{folder}/shared")) for rank in range(RANKS)]
    write_when_there(folder)
    for process in processes:
        process.wait()
    out, err = watching.communicate(timeout=100)
    check(watching.returncode == 0 and "device." not in out, "a job that ends", watching.returncode, out, err)
    check(not os.path.exists(f"{folder}/watch.prom") and not glob.glob(f"{folder}/artifacts/*"), "nothing is left", os.listdir(folder))


def write_when_there(folder):
    if wait_for(lambda: os.path.isdir(f"{folder}/trace")):
        write_telemetry(folder, xid=False)


def ended_watch(folder):
    """A watch that is killed takes its metrics along."""
    watching = watch(folder)
    prom = f"{folder}/watch.prom"
    check(wait_for(lambda: os.path.exists(prom)), "metrics")
    watching.kill()
    watching.communicate()
    check(wait_for(lambda: not os.path.exists(prom)), "no metrics of a watch that is gone")


def refused():
    done = subprocess.run([os.path.join(build, "bin", "traintrace"), "attach", "--all", "--prometheus=x"], capture_output=True, text=True, check=False)
    check(done.returncode == 2 and "--watch" in done.stderr, "--prometheus without --watch", done)


for case in (hang, healthy, ended_watch):
    folder = tempfile.mkdtemp(prefix="traintrace-alerts-")
    try:
        case(folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
refused()
jobs.end("alerts")
