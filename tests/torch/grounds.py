"""Where the scripts of this folder run: real PyTorch on simgpu (docs/torch-rig.md), or this machine's own PyTorch on its GPUs."""
import os
import re
import shutil
import signal
import socket
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
# Of torchrun.
SETTINGS = {"elastic.py": {"PET_MAX_RESTARTS": "1", "PET_MONITOR_INTERVAL": "1"}}
LIMIT_S = 240


def lines_of_ranks(output):
    """Sorted.  Ranks share stdout and write a line's end apart from the line, so that two may stand in one."""
    return sorted(re.findall(r"rank \d+: .*?(?=rank \d+: |\n|$)", output))


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as server:
        return server.getsockname()[1]


class Rig:
    name = "simgpu"

    def command(self, words, ranks, preload):
        return [os.path.join(ROOT, "scripts", "torch-rig"), "run", "-n", str(ranks), *(["--preload"] if preload else []),
                os.path.join("tests", "torch", words[0]), *words[1:]]

    def environment(self, out, _preload):
        return dict(os.environ, RIG_OUT=out)


class OwnGpus:
    """Ranks that have no GPU of their own share one (rig.share_gpus)."""
    name = "this machine's GPUs"

    def command(self, words, ranks, _preload):
        return [shutil.which("python3"), "-m", "torch.distributed.run", "--nproc-per-node", str(ranks), "--master-addr", "127.0.0.1", "--master-port", str(free_port()),
                os.path.join(HERE, words[0]), *words[1:]]

    def environment(self, out, preload):
        ours = {"RIG_OUT": out, "OMP_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": "1", "PYTHONPATH": ":".join(filter(None, [HERE, f"{ROOT}/python", os.environ.get("PYTHONPATH")])),
                "TORCH_NCCL_TRACE_BUFFER_SIZE": "20000", "TORCH_FR_BUFFER_SIZE": "20000"}
        library = os.path.join(ROOT, "build", "lib", "libtraintrace.so")
        if preload:
            witness = os.path.join(ROOT, "build", "simgpu12", "libnvtx_witness.so")
            ours |= {"TRAINTRACE_NVTX_NEXT": witness} if os.path.exists(witness) else {}
            ours |= {"LD_PRELOAD": library, "NVTX_INJECTION64_PATH": library, "TRAINTRACE_DIR": os.environ.get("TRAINTRACE_DIR", os.path.join(out, "traces"))}
        return {**os.environ, **ours}


def kill_all_of(out):
    """What was started with this RIG_OUT: torchrun gives each rank a session of its own, but the environment stays."""
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/environ", "rb") as environment:
                ours = f"RIG_OUT={out}".encode() in environment.read().split(b"\0")
            if ours:
                os.kill(int(pid), signal.SIGKILL)
        except OSError:
            continue


def run(ground, words, ranks, out, *, preload=False, **settings):
    """(status, the ranks' lines, all output).  Ends this program with 77 where the ground cannot be had."""
    environment = ground.environment(out, preload) | SETTINGS.get(words[0], {}) | settings
    try:
        done = subprocess.run(ground.command(words, ranks, preload), cwd=ROOT, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              timeout=LIMIT_S, check=False)
    except subprocess.TimeoutExpired as late:
        kill_all_of(out)
        said = "".join(part.decode(errors="replace") for part in (late.stdout, late.stderr) if part)
        return "timeout", [], f"{said}\nafter {LIMIT_S} s it still ran"
    if done.returncode == 77:
        print(done.stderr, end="")
        sys.exit(77)
    return done.returncode, lines_of_ranks(done.stdout), done.stdout + done.stderr
