"""What the tests of this folder share: a job under the preload, its keeper, its memory, its trace."""
import contextlib
import mmap
import os
import re
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

LIBRARY, JOB, TRAINTRACE = (os.path.abspath(path) for path in sys.argv[1:4])
LONG = 30  # seconds that a condition may take on a loaded machine
SKIP = 77
SHM = Path("/dev/shm")
MEMORY = SHM / f"traintrace-{os.geteuid()}"
MAX_THREADS = 8  # of job.cc
KEEPER = "traintrace-keep"

# FileHeader of format/trace_format.h.
_SECTIONS = 24 + 24 * 24
_AFTER = _SECTIONS + 232
FIELDS = {
    "version": (8, "I"), "ready": (20, "I"), "pid": (_SECTIONS, "i"), "start_time": (_SECTIONS + 8, "Q"),
    "exit_kind": (_SECTIONS + 208, "I"), "exit_status": (_SECTIONS + 212, "i"),
    "gone_how": (_AFTER + 44, "I"), "gone_status": (_AFTER + 40, "i"),
    "copy_state": (_AFTER + 48 + 192 + 28, "I"), "copied_realtime_ns": (_AFTER + 48 + 192 + 32, "Q"), "keeper_pid": (_AFTER + 48 + 192 + 40, "i"),
    "copies_made": (_AFTER + 48 + 192 + 60, "I"),
}
TEXTS = {"memory_path": (_AFTER + 48 + 192 + 136, 256), "folder": (_AFTER + 48 + 192 + 392, 1024),
         "copy_path": (_AFTER + 48 + 192 + 1416, 1024)}
FINAL = 2


class Header:
    """None of its fields where the file is none of ours, or not ready yet."""

    def __init__(self, path):
        try:
            with open(path, "rb") as file:
                data = file.read(4096)
        except OSError:
            data = b""
        self.ready = 0
        if len(data) < 4096 or data[:8] != b"trtrace\n":
            return
        for name, (offset, kind) in FIELDS.items():
            setattr(self, name, struct.unpack_from(kind, data, offset)[0])
        for name, (offset, size) in TEXTS.items():
            setattr(self, name, data[offset:offset + size].split(b"\0")[0].decode())


class Counts:
    """What job.cc counts in memory that outlives it."""

    def __init__(self, folder):
        self.path = os.path.join(folder, "counts")
        Path(self.path).write_bytes(bytes(MAX_THREADS * 16 + 16))
        with open(self.path, "r+b") as file:
            self.memory = mmap.mmap(file.fileno(), 0)

    def words(self):
        return struct.unpack(f"{2 * MAX_THREADS + 2}Q", self.memory[:])

    def entering(self):
        return sum(self.words()[:MAX_THREADS])

    def returned(self):
        return sum(self.words()[MAX_THREADS:2 * MAX_THREADS])

    def longest_ms(self):
        return self.words()[-2] / 1e6

    def first_ms(self):
        return self.words()[-1] / 1e6


def environment(folder, **settings):
    kept = {name: value for name, value in os.environ.items() if not name.startswith("TRAINTRACE_")}
    kept["LD_PRELOAD"] = LIBRARY
    if folder is not None:
        kept["TRAINTRACE_DIR"] = str(folder)
    return {**kept, **{name: str(value) for name, value in settings.items()}}


def start(folder, *arguments, before=(), pipes=subprocess.PIPE, cwd=None, preexec=None, **settings):
    return subprocess.Popen([*before, JOB, *map(str, arguments)], env=environment(folder, **settings), stdout=pipes, stderr=pipes,
                            text=True, cwd=cwd, preexec_fn=preexec)


def until(condition, seconds=LONG, step=0.01):
    """What the condition returned: it is true, unless that took too long."""
    end = time.monotonic() + seconds
    while True:
        value = condition()
        if value or time.monotonic() > end:
            return value
        time.sleep(step)


def comm(pid):
    """Any bytes: those of foreign processes too."""
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/comm").read_text(errors="replace").strip()
    return ""


def alive(pid):
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text(errors="replace").rsplit(")", 1)[1].split()[0] not in "ZX"
    return False


def memory_of(pid):
    """The named memory of a process; None: it has none."""
    return next(iter(MEMORY.glob(f"*.{pid}.*.trace")), None)


def keepers():
    """Those of these mounts, by process id: what each of them keeps."""
    found = {}
    for pid in filter(str.isdigit, os.listdir("/proc")):
        if comm(pid) == KEEPER:
            with contextlib.suppress(OSError):
                if os.readlink(f"/proc/{pid}/ns/mnt") == os.readlink("/proc/self/ns/mnt"):
                    found[int(pid)] = " ".join(os.readlink(f"/proc/{pid}/fd/{fd}") for fd in os.listdir(f"/proc/{pid}/fd"))
    return found


def keepers_of(pid):
    return [keeper for keeper, target in keepers().items() if f".{pid}." in target]


def traces(folder):
    return sorted(Path(folder).glob("*.trace"))


def final(folder, count=1):
    """The traces of a folder, once all of them are copied in full."""
    def whole():
        found = traces(folder)
        headers = [Header(path) for path in found]
        return found if len(found) == count and all(h.ready and h.copy_state == FINAL for h in headers) else None
    return until(whole)


def dump(folder):
    """(exit status, its text)"""
    done = subprocess.run([TRAINTRACE, "dump", str(folder)], capture_output=True, text=True, timeout=120, check=False)
    return done.returncode, done.stdout + done.stderr


def calls_in(text, name="cudaMemset"):
    """How many calls of a function were entered and left."""
    return tuple(len(re.findall(f"^\\S+ \\S+ {sign} {name}\\b", text, re.MULTILINE)) for sign in "><")


def number(pattern, text):
    found = re.search(pattern, text, re.MULTILINE)
    return int(found[1]) if found else 0


class Trace:
    """Of the only process of a folder, as `dump` shows it."""

    def __init__(self, folder):
        self.path = final(folder)[0]
        self.status, text = dump(folder)
        self.entered, self.left = calls_in(text)
        self.kept = len(re.findall(r"^\+\S+ \S+ [><] ", text, re.MULTILINE))
        self.written = sum(map(int, re.findall(r"^thread .* events=(\d+)", text, re.MULTILINE)))
        self.shortened = number(r"^loss ring-shortened (\d+)", text)
        self.overwritten = number(r"^loss ring-overwritten (\d+)", text)
        self.allocations = len(re.findall(r"^allocation ", text, re.MULTILINE))
        self.last_call = max(re.findall(r"^thread .* last=cudaMemset last-at=(\S+)", text, re.MULTILINE))
        self.last_kept = max(re.findall(r"^(\S+) \S+ > cudaMemset", text, re.MULTILINE), default="")
        self.disk = self.path.stat().st_blocks * 512


def without_places(errors):
    """What a job said on stderr but for where its traces are, if they cannot be in its folder."""
    return "".join(line for line in errors.splitlines(True) if not line.startswith("traintrace: traces are kept in "))


def skip_if_late(test, recorded, called):
    """The first call waits for a second at most: on a machine that is very busy, some pass before recording begins."""
    if recorded < called:
        test.skipTest(f"recording began late: {recorded} of {called} records")


class Watch(threading.Thread):
    """For how many seconds a thread of a job was in state D at a stretch, at most; the tracer's own is while it starts a program."""

    def __init__(self, pid):
        super().__init__()
        self.pid = pid
        self.since = {}
        self.longest = 0

    def run(self):
        while alive(self.pid):
            for task in Path(f"/proc/{self.pid}/task").glob("*"):
                with contextlib.suppress(OSError):
                    name, state = (task / "stat").read_text(errors="replace").split("(", 1)[1].rsplit(")", 1)
                    state = state.split()[0] if name != "traintrace" else ""
                    begun = self.since.setdefault(task.name, time.monotonic()) if state == "D" else self.since.pop(task.name, None)
                    self.longest = max(self.longest, time.monotonic() - begun if begun else 0)
            time.sleep(0.02)


def kill(pid):
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


@contextlib.contextmanager
def empty_folder(inside=None):
    path = tempfile.mkdtemp(prefix="traintrace-storage.", dir=inside)
    try:
        yield Path(path)
    finally:
        shutil.rmtree(path, ignore_errors=True)


def skip(why):
    print("skipped:", why)
    sys.exit(SKIP)


@contextlib.contextmanager
def small_shm(size="64m"):
    """As in a container: too small for memory of ours."""
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"mode=1777,size={size}", "tmpfs", SHM], check=True)
    try:
        yield
    finally:
        subprocess.run(["umount", "-l", SHM], check=True)


def in_own_mounts(shm="size=50%"):
    """Starts this script again where it may mount, with a /dev/shm of its own; all of it goes with its last process."""
    if os.environ.get("TT_OWN_MOUNTS"):
        return
    if os.geteuid() != 0 or not shutil.which("unshare"):
        skip("only root can mount")
    command = ["unshare", "-m", "--propagation=private", "sh", "-c", f'mount -t tmpfs -o mode=1777,{shm} tmpfs /dev/shm && exec "$@"', "sh",
               sys.executable, *sys.argv]
    probe = subprocess.run(["unshare", "-m", "--propagation=private", "mount", "-t", "tmpfs", "tmpfs", "/dev/shm"], check=False)
    if probe.returncode != 0:
        skip("mounting is not possible here")
    os.environ["TT_OWN_MOUNTS"] = "1"
    os.execvp(command[0], command)
