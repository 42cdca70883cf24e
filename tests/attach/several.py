"""Four `traintrace attach` under mpirun, each of which sees one rank of a stuck job: one verdict.

    several.py BUILD_FOLDER [--networks]      Exit status 77: Open MPI is not installed

--networks: two of them are in a network of their own, as on another machine, and only a link between the two leads there.
"""
import contextlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time

import jobs
from jobs import check

RANKS, CULPRIT = 4, 2
HERE, THERE = "10.111.0.1", "10.111.0.2"
build = os.path.abspath(sys.argv[1])
networks = "--networks" in sys.argv


def enter_network():
    """Starts this again in a network of its own."""
    if "SEVERAL_NETWORK" in os.environ:
        return
    if os.geteuid() != 0 or not shutil.which("ip") or subprocess.run(["unshare", "-n", "-u", "true"], capture_output=True).returncode:
        print("SKIPPED: no networks can be made here")
        sys.exit(77)
    os.environ["SEVERAL_NETWORK"] = "1"
    os.execvp("unshare", ["unshare", "-n", sys.executable, *sys.argv])


@contextlib.contextmanager
def other_machine(folder):
    """What makes mpirun reach it, as ssh would."""
    if not networks:
        yield []
        return
    other = subprocess.Popen(["unshare", "-n", "-u", "sh", "-c", "hostname other && echo made && exec sleep 1000"],
                             stdout=subprocess.PIPE, text=True)
    try:
        other.stdout.readline()
        there = f"nsenter -t {other.pid} -n"
        for command in ("ip link set lo up", f"ip link add here type veth peer name there netns {other.pid}",
                        f"ip addr add {HERE}/24 dev here", "ip link set here up", f"{there} ip link set lo up",
                        f"{there} ip addr add {THERE}/24 dev there", f"{there} ip link set there up"):
            subprocess.run(command.split(), check=True)
        agent = os.path.join(folder, "agent")
        with open(agent, "w") as file:
            file.write(f'#!/bin/sh\nshift\nmkdir -p {folder}/other\nTMPDIR={folder}/other exec {there} -u sh -c "$*"\n')
        os.chmod(agent, 0o755)
        yield ["-H", f"{HERE}:2,{THERE}:2", "--mca", "plm_rsh_agent", agent, "--mca", "btl", "tcp,self"]
    finally:
        other.kill()
        other.wait()


def mpirun(folder, targets):
    """Process N of mpirun looks at the N-th target."""
    words = " ".join(targets)
    command = f'set -- {words}; shift $OMPI_COMM_WORLD_RANK; readlink /proc/self/ns/net > {folder}/network.$OMPI_COMM_WORLD_RANK; ' \
              f'exec {build}/bin/traintrace attach "$1" --format=json --interval=500ms --hang-after=500ms'
    with other_machine(folder) as hosts:
        # The job may be root's in a container, and there are fewer cores than processes.
        return subprocess.run(["mpirun", "--allow-run-as-root", "--oversubscribe", *hosts, "-n", str(len(targets)), "sh", "-c", command],
                              capture_output=True, text=True, cwd=folder)


def networks_seen(folder):
    return {open(os.path.join(folder, f"network.{rank}")).read() for rank in range(RANKS)}


def check_merged(folder, processes):
    done = mpirun(folder, [str(process.pid) for process in processes])
    answer = json.loads(done.stdout[:done.stdout.rindex("}") + 1])
    check(done.stdout.count('"schema"') == 1, "not one answer", done.stdout)
    finding = answer["findings"][0]
    check(answer["run"]["ranks"] == list(range(RANKS)), "ranks", answer["run"])
    check(finding["code"] == "host.stuck" and finding["culprits"] == [CULPRIT], "verdict", finding)
    check({thread["rank"] for thread in answer["threads"]} == set(range(RANKS)), "threads", answer["threads"])
    check(answer["looks"]["processes"] == RANKS, "processes", answer["looks"])
    check(len(networks_seen(folder)) == (2 if networks else 1), "networks", networks_seen(folder))


def check_part(folder, processes):
    """One of them finds nothing: the others' answer, and what is missing."""
    done = mpirun(folder, [str(processes[0].pid), str(processes[CULPRIT].pid), "/nowhere"])
    answer = json.loads(done.stdout[:done.stdout.rindex("}") + 1])
    check(answer["run"]["ranks"] == [0, CULPRIT], "part: ranks", answer["run"])
    check(any("nowhere" in limit or "list" in limit for limit in answer["limits"]), "part: what is missing", answer["limits"])


if not shutil.which("mpirun"):
    print("SKIPPED: there is no mpirun; Debian's openmpi-bin has it")
    sys.exit(77)
if networks:
    enter_network()
folder = tempfile.mkdtemp(prefix="traintrace-attach-")
processes = jobs.start(build, folder, RANKS, "lock", CULPRIT,
                       settings=lambda rank: {"TRAINTRACE_DIR": os.path.join(folder, f"host{rank}")})
try:
    time.sleep(2)  # the last-alive time is written each second
    check_merged(folder, processes)
    if not networks:
        check_part(folder, processes)
    check(all(process.poll() is None for process in processes), "a rank ended")
finally:
    jobs.stop(processes)
    shutil.rmtree(folder, ignore_errors=True)
jobs.end("several")
