"""hosts.py BUILD [--one-name]: a job of 16 ranks on four hosts that hangs until its watchdog kills all of it.

The hosts are pretended: each has namespaces of its own for mounts (with its own /tmp and /var/tmp; /dev/shm is where simgpu's ranks meet), names and network;
they share one folder, which is too small for traces, so that it gets pointers as one on a file server would.  `traintrace collect`
on each, then `analyze` on the shared folder must say what it says of the same traces on one host.  With one host lost its ranks
are silent members, and it is told where their traces are.  --one-name: all hosts are called "localhost", as containers often are, and have PID
namespaces of their own; simgpu's ranks do not meet across these, so there all of them are killed before the communicator is there.  Exit 77: no such namespaces can be had here."""
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time

BUILD = os.path.abspath(sys.argv[1])
ONE_NAME = "--one-name" in sys.argv
TRAINTRACE = f"{BUILD}/bin/traintrace"
HOSTS = 4
PER_HOST = 4
RANKS = HOSTS * PER_HOST
CULPRIT = 9  # on node2
SKIP = 77
LONG = 120  # seconds that anything may take on a loaded machine

# What lies below the folders that are mounted over must stay: the build may.
BECOME_HOST = """set -e
build=$1; hostname "$2"; shift 2
mount --make-rprivate /
mount --rbind "$build" /mnt
for folder in /tmp /var/tmp; do mount -t tmpfs -o size=1g,mode=1777 tmpfs $folder; done
mkdir -p "$build"
mount --rbind /mnt "$build"
ip link set lo up 2>/dev/null || true
echo ready
exec sleep 100000
"""


def unshare():
    """The command that gives namespaces; nothing where there are none."""
    for options in ([], ["--user", "--map-root-user"]):
        command = ["unshare", *options, "--mount", "--uts", "--net"]
        probe = "mount --make-rprivate / && mount -t tmpfs tmpfs /mnt && hostname probe"
        try:
            if subprocess.run([*command, "sh", "-c", probe], capture_output=True, check=False).returncode == 0:
                return command
        except OSError:
            return None
    return None


class Host:
    def __init__(self, number, command):
        self.name = "localhost" if ONE_NAME else f"node{number}"
        pids = ["--pid", "--fork", "--mount-proc", "--kill-child"] if ONE_NAME else []
        self.init = subprocess.Popen([*command, *pids, "sh", "-c", BECOME_HOST, "sh", BUILD, self.name], stdout=subprocess.PIPE, text=True)
        if self.init.stdout.readline() != "ready\n":
            print("no host can be made here")
            sys.exit(SKIP)
        target = self.init.pid
        if ONE_NAME:
            with open(f"/proc/{target}/task/{target}/children", encoding="utf-8") as children:
                target = int(children.read().split()[0])
        user = ["--user", "--preserve-credentials"] if "--user" in command else []
        self.enter = ["nsenter", f"--target={target}", *user, "--mount", "--uts", "--net", *(["--pid"] if ONE_NAME else [])]

    def start(self, arguments, environment, output):
        return subprocess.Popen([*self.enter, *arguments], env=environment, stdin=subprocess.DEVNULL, stdout=output,
                                stderr=subprocess.STDOUT)

    def run(self, *arguments):
        return subprocess.run([*self.enter, *arguments], capture_output=True, text=True, timeout=LONG, check=False)


def environment(rank, scratch):
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("TRAINTRACE_", "SLURM_"))}
    return dict(kept, RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(RANKS), LOCAL_WORLD_SIZE=str(PER_HOST),
                MASTER_ADDR="node0", MASTER_PORT="29500", WORKLOAD_DIR=f"{scratch}/rendezvous",
                TRAINTRACE_DIR=f"{scratch}/shared/traces", TRAINTRACE_RING_MB="4", SIMGPU_NODE=f"{scratch}/gpus",
                SIMGPU_DEVICES=str(RANKS), LD_LIBRARY_PATH=f"{BUILD}/simgpu", LD_PRELOAD=f"{BUILD}/lib/libtraintrace.so")


def analyze(*traces):
    done = subprocess.run([TRAINTRACE, "analyze", "--format=json", "--hang-after=2s", *traces], capture_output=True, text=True,
                          timeout=LONG, check=False)
    return json.loads(done.stdout) if done.returncode in (0, 1) else {"findings": [], "error": done.stderr}


def until(condition, what):
    end = time.monotonic() + LONG
    while time.monotonic() < end:
        value = condition()
        if value:
            return value
        time.sleep(0.5)
    sys.exit(f"never: {what}")


def check(condition, *what):
    if not condition:
        print("WRONG:", *what)
        sys.exit(1)


def alarms(report):
    return [finding for finding in report["findings"] if finding["severity"] == "error"]


def finding(report, code):
    return next((found for found in report["findings"] if found["code"] == code), None)


def rank_of(process):
    """nsenter has become the rank, or is its parent."""
    if not ONE_NAME:
        return process.pid
    with open(f"/proc/{process.pid}/task/{process.pid}/children", encoding="utf-8") as children:
        return int(children.read().split()[0])


def record(hosts, scratch):
    """Until each rank has been silent for a while, or has ended: then the watchdog kills them."""
    logs = [open(f"{scratch}/output.{rank}", "wb") for rank in range(RANKS)]  # pylint: disable=consider-using-with
    ranks = [hosts[rank // PER_HOST].start([f"{BUILD}/tests/mistakes", "count", str(CULPRIT)], environment(rank, scratch), logs[rank])
             for rank in range(RANKS)]

    def pointers():
        folder = f"{scratch}/shared/traces"
        return os.path.isdir(folder) and len([name for name in os.listdir(folder) if name.endswith(".pointer")]) == RANKS
    until(pointers, "a pointer for each rank in the shared folder")
    time.sleep(8)
    for process in ranks:
        os.kill(rank_of(process), signal.SIGKILL)
    for process, log in zip(ranks, logs):
        process.wait()
        log.close()
    for host in hosts:
        def whole(host=host):
            dumped = host.run("sh", "-c", f"{TRAINTRACE} dump --no-tables /tmp/traintrace-*/")
            return len(re.findall(r"^process .* gone=", dumped.stdout, re.MULTILINE)) == PER_HOST
        until(whole, f"final traces of {host.name}")


def check_uncollected(scratch):
    done = subprocess.run([TRAINTRACE, "analyze", f"{scratch}/shared/traces"], capture_output=True, text=True, timeout=LONG, check=False)
    check(done.returncode == 2 and len(done.stderr.splitlines()) == 1, "16 pointers give one line:", done.stderr)
    hosts = "4 containers, all called localhost" if ONE_NAME else "4 hosts (node0, node1, node2, node3)"
    check(f"16 traces are on the disks of {hosts}: collect" in done.stderr and "traintrace collect" in done.stderr, done.stderr)


def reference(hosts, scratch):
    """What is said of the same traces in one folder."""
    folders = []
    for number, host in enumerate(hosts):
        folders.append(f"{scratch}/one/{number}")
        os.makedirs(folders[-1])
        copied = host.run("sh", "-c", f"cp /tmp/traintrace-*/*.trace {folders[-1]}/")
        check(copied.returncode == 0, copied.stderr)
    return analyze(*folders)


def packs_of(scratch):
    return {name for name in os.listdir(f"{scratch}/shared/traces") if name.endswith(".ttz")}


def collect(host, scratch):
    """Which packs have come."""
    before = packs_of(scratch)
    done = host.run(TRAINTRACE, "collect", f"{scratch}/shared/traces")
    check(done.returncode == 0, done.stderr, done.stdout)
    check(done.stdout.startswith(f"{host.name}: collected {PER_HOST} processes into"), done.stdout)
    return packs_of(scratch) - before


def check_lost_innocents(report, lost):
    """The host of innocent ranks is not there."""
    ranks = list(range(lost * PER_HOST, (lost + 1) * PER_HOST))
    elsewhere = finding(report, "trace.elsewhere")
    check(elsewhere is not None, report)
    check(elsewhere["title"] == f"the traces of ranks {ranks[0]}-{ranks[-1]} are not here but on {'localhost' if ONE_NAME else f'node{lost}'}", elsewhere)
    check(ONE_NAME or f"--nodelist=node{lost} traintrace collect" in elsewhere["advice"], elsewhere)
    check(finding(report, "trace.corrupt") is None and finding(report, "trace.missing-rank") is None, report)
    accused = {rank for found in alarms(report) for rank in found["culprits"]}
    check(accused <= {CULPRIT}, "accuses", accused, report)
    check(report["run"]["missing_ranks"] == ranks, report["run"])


def verdict_of(report):
    """All but where it was read from."""
    return json.dumps([report["verdict"], report["run"], report["losses"], report["findings"]], sort_keys=True)


def inside(scratch, command):
    for folder in ("rendezvous", "gpus", "shared"):
        os.mkdir(f"{scratch}/{folder}")
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=7m", "tmpfs", f"{scratch}/shared"], check=True)
    hosts = [Host(number, command) for number in range(HOSTS)]
    try:
        record(hosts, scratch)
        check_uncollected(scratch)
        expected = reference(hosts, scratch)
        packs = [collect(host, scratch) for host in hosts[:3]]
        without_innocents = analyze(f"{scratch}/shared/traces")
        check_lost_innocents(without_innocents, 3)
        collect(hosts[3], scratch)
        whole = analyze(f"{scratch}/shared/traces")
        errors = alarms(whole)
        if not ONE_NAME:
            check(len(errors) == 1 and errors[0]["culprits"] == [CULPRIT] and errors[0]["code"] == "collective.count-mismatch", whole)
            check(errors[0]["certainty"] == "proof", errors)
        check(whole["run"]["ranks"] == list(range(RANKS)) and finding(whole, "trace.elsewhere") is None, whole)
        check(verdict_of(whole) == verdict_of(expected), "not the verdict of one host:", verdict_of(whole), verdict_of(expected))
        os.mkdir(f"{scratch}/shared/other")
        for name in os.listdir(f"{scratch}/shared/traces"):
            if name not in packs[2]:
                shutil.copy(f"{scratch}/shared/traces/{name}", f"{scratch}/shared/other/{name}")
        without_culprit = analyze(f"{scratch}/shared/other")
        check_lost_innocents(without_culprit, 2)
        check(ONE_NAME or "ranks 8-11 (traces on another host) may not have entered" in without_culprit["verdict"], without_culprit["verdict"])
        print("all of it:      ", whole["verdict"])
        print("without node3:  ", without_innocents["verdict"])
        print("without node2:  ", without_culprit["verdict"])
        sizes = [os.path.getsize(f"{scratch}/shared/traces/{name}") for name in packs_of(scratch)]
        print(f"{len(sizes)} packs, {sum(sizes) // len(sizes)} bytes each")
    finally:
        for host in hosts:
            host.init.kill()
            host.init.wait()


def main():
    command = unshare()
    if command is None:
        print("no namespaces can be made here")
        return SKIP
    if "inside" not in sys.argv:  # once more, where mounts are nobody else's
        user = ["--user", "--map-root-user"] if "--user" in command else []
        return subprocess.run(["unshare", *user, "--mount", sys.executable, __file__, *sys.argv[1:], "inside"], check=False).returncode
    scratch = f"{BUILD}/tests/collect-hosts.{os.getpid()}"
    os.makedirs(scratch)
    try:
        inside(scratch, ["unshare", "--mount", "--uts", "--net"])
    finally:
        subprocess.run(["umount", "-l", f"{scratch}/shared"], check=False)
        shutil.rmtree(scratch, ignore_errors=True)
    return 0


sys.exit(main())
