"""What the tracer has to say on stderr, where nobody reads: no call of the job's waits for that, nor does its end.

  unread.py LIBRARY JOB TRAINTRACE [TEST..]"""
import contextlib
import fcntl
import os
import signal
import subprocess
import sys
import threading
import time
import unittest
from pathlib import Path

import storage

SECONDS = 1
PATIENCE = 1  # of an exit, for a line: docs/interposing.md
SLACK = 5  # of a loaded machine
BLOCKED = 0.8  # seconds in a call that are too many: what hangs, hangs to the end
BUILD = Path(storage.LIBRARY).parent.parent
SERVER = Path(__file__).with_name("hanging.py")
# By a thread of the job's, and by the own thread when recording begins; sorted, as they may come in any order.
LINES = ["traintrace: GPU 0 is shared through MPS: what other processes do there is not recorded, and takes time and memory from this one",
         "traintrace: TRAINTRACE_MODEE is no setting and is ignored (traintrace settings lists them)"]
SAYS = {"TRAINTRACE_MODEE": "x", "SIMGPU_MPS": "1"}


def fill(pipe):
    """Until no byte more fits."""
    flags = fcntl.fcntl(pipe, fcntl.F_GETFL)
    fcntl.fcntl(pipe, fcntl.F_SETFL, flags | os.O_NONBLOCK)
    for size in (4096, 1):
        with contextlib.suppress(BlockingIOError):
            while True:
                os.write(pipe, b"." * size)
    fcntl.fcntl(pipe, fcntl.F_SETFL, flags)


class Job:
    def __init__(self, stack, stderr, seconds=SECONDS, **settings):
        self.counts = storage.Counts(stack.enter_context(storage.empty_folder("/dev/shm")))
        self.trace = stack.enter_context(storage.empty_folder()) / "trace"
        self.begun = time.monotonic()
        settings = {**SAYS, "STORAGE_JOB_ALLOCATES": 1, "SIMGPU_NODE": self.trace, "LD_LIBRARY_PATH": BUILD / "simgpu", **settings}
        arguments = [storage.JOB, "work", self.counts.path, str(seconds), "2", "500", "7"]
        self.job = subprocess.Popen(arguments, env=storage.environment(self.trace, **settings), stdout=subprocess.PIPE, stderr=stderr, text=True)
        stack.callback(self.job.kill)

    def end(self):
        """(exit status, stdout), and for how long the exit waited."""
        output, _ = self.job.communicate(timeout=storage.LONG)
        return (self.job.returncode, output), time.monotonic() - self.begun - SECONDS


class Unread(unittest.TestCase):
    def harmless(self, job):
        ended, late = job.end()
        self.assertEqual(ended, (7, "done\n"))
        self.assertLess(late, PATIENCE + SLACK)
        self.assertLess(job.counts.longest_ms(), 1000 * BLOCKED)
        self.assertGreater(job.counts.returned(), 0)
        print(f"{self.id()}: {late:.2f} s longer than {SECONDS} s, longest call {job.counts.longest_ms():.1f} ms, the first "
              f"{job.counts.first_ms():.1f} ms", file=sys.stderr)

    def test_a_full_pipe(self):
        with contextlib.ExitStack() as stack:
            read, write = os.pipe()
            stack.callback(os.close, read)
            fill(write)
            job = Job(stack, write)
            os.close(write)
            self.harmless(job)

    def test_a_full_pipe_where_nothing_is_recorded(self):
        """The call that would begin recording says why it does not."""
        with contextlib.ExitStack() as stack:
            read, write = os.pipe()
            stack.callback(os.close, read)
            fill(write)
            begun = time.monotonic()
            job = storage.start(None, "calls", 10, 10, 7, before=["prlimit", "--data=300000000"], pipes=write)
            os.close(write)
            self.assertEqual(job.wait(timeout=storage.LONG), 7)
            self.assertLess(time.monotonic() - begun, PATIENCE + SLACK)

    def test_a_file_on_a_server_that_is_gone(self):
        """There even the question whether it can be written to is not answered."""
        if not os.path.exists("/dev/fuse"):
            self.skipTest("no /dev/fuse")
        with contextlib.ExitStack() as stack:
            folder = stack.enter_context(storage.empty_folder())
            server = subprocess.Popen([sys.executable, SERVER, folder, "fuse", "-1", "closes"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            stack.callback(subprocess.run, ["umount", "-l", folder], check=False)
            stack.callback(server.communicate)
            stack.callback(server.kill)
            if server.stdout.readline() != "mounted\n":
                self.skipTest("FUSE: " + server.stderr.read())
            log = os.open(folder / "log", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
            stack.callback(os.close, log)
            os.close(os.dup(log))
            server.send_signal(signal.SIGSTOP)
            stack.callback(server.send_signal, signal.SIGCONT)
            self.harmless(Job(stack, log))

    def test_a_pipe_that_is_read_later(self):
        """It is said once, when there is room."""
        with contextlib.ExitStack() as stack:
            read, write = os.pipe()
            fill(write)
            job = Job(stack, write, seconds=3)
            os.close(write)
            self.assertTrue(storage.until(lambda: job.counts.returned() > 100))
            with open(read, encoding="utf-8") as pipe:
                said = []
                reader = threading.Thread(target=lambda: said.append(pipe.read()))
                reader.start()
                self.assertEqual(job.end()[0], (7, "done\n"))
                reader.join(storage.LONG)
            self.assertEqual(sorted(said[0].lstrip(".").splitlines()), LINES)

    def test_what_is_read_is_there_once(self):
        with contextlib.ExitStack() as stack:
            job = Job(stack, subprocess.PIPE)
            output, errors = job.job.communicate(timeout=storage.LONG)
            self.assertEqual((job.job.returncode, output, sorted(errors.splitlines())), (7, "done\n", LINES))
            trace = stack.enter_context(storage.empty_folder())
            with open(trace / "log", "w", encoding="utf-8") as log:
                job = Job(stack, log)
                self.assertEqual(job.end()[0], (7, "done\n"))
            self.assertEqual(sorted((trace / "log").read_text().splitlines()), LINES)


# Closes stderr and opens a file: it has that number.
PROGRAM = """
import ctypes, os, sys
cuda = ctypes.CDLL(sys.argv[1])
os.close(2)
assert os.open(sys.argv[2], os.O_RDWR | os.O_CREAT | int(sys.argv[3])) == 2
memory = ctypes.c_void_p()
assert cuda.cudaMalloc(ctypes.byref(memory), 256) == 0
"""


class Replaced(unittest.TestCase):
    """A job that closes stderr and opens others gets the same number."""

    def program(self, folder, flags):
        path = folder / "file"
        done = subprocess.run([sys.executable, "-c", PROGRAM, BUILD / "simgpu/libcudart.so.13", path, str(flags)], capture_output=True,
                              env=storage.environment(folder / "trace", SIMGPU_NODE=folder, LD_LIBRARY_PATH=BUILD / "simgpu", **SAYS),
                              timeout=storage.LONG, check=False)
        self.assertEqual((done.returncode, done.stdout), (0, b""), done.stderr)
        self.assertTrue(storage.until(lambda: storage.traces(folder / "trace")))
        return path.read_text()

    def test_data_stay_what_they_are(self):
        with storage.empty_folder() as folder:
            self.assertEqual(self.program(folder, 0), "")

    def test_a_log_gets_the_lines(self):
        with storage.empty_folder() as folder:
            self.assertEqual(sorted(self.program(folder, os.O_APPEND).splitlines()), LINES)


if __name__ == "__main__":
    storage.in_own_mounts()
    unittest.main(argv=[sys.argv[0], *sys.argv[4:]])
