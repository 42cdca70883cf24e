"""A job of several ranks on simgpu under the preload, and what the analyzer says of it."""
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time


class RecordedJob:
    """Runs within `with`.  `settings_of(rank)`: what is set for that rank besides."""

    def __init__(self, build, command, ranks, settings_of, hang_after="2s"):
        self.build, self.command, self.ranks, self.settings_of, self.hang_after = build, command, ranks, settings_of, hang_after

    def __enter__(self):
        self.folder = tempfile.mkdtemp(prefix="verdict.")
        os.mkdir(f"{self.folder}/shared")
        self.processes = [self._start(rank) for rank in range(self.ranks)]
        return self

    def __exit__(self, *_):
        self.stop()
        shutil.rmtree(self.folder)

    def _start(self, rank):
        environment = dict(
            os.environ, **self.settings_of(rank), RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(self.ranks),
            LOCAL_WORLD_SIZE=str(self.ranks), WORKLOAD_DIR=f"{self.folder}/shared", TRAINTRACE_DIR=f"{self.folder}/traces",
            TRAINTRACE_RING_MB="4", SIMGPU_NODE=self.folder, SIMGPU_DEVICES=str(self.ranks),
            LD_LIBRARY_PATH=f"{self.build}/simgpu", LD_PRELOAD=f"{self.build}/lib/libtraintrace.so")
        with open(f"{self.folder}/output.{rank}", "wb") as output:
            return subprocess.Popen([*self._program(), *self.command[1:]], env=environment,
                                    stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT)

    def _program(self):
        """A built one, or a script beside this one."""
        name = self.command[0]
        return [sys.executable, os.path.join(os.path.dirname(os.path.abspath(__file__)), name)] if name.endswith(".py") else [
            f"{self.build}/tests/{name}"]

    def stop(self):
        for process in self.processes:
            process.send_signal(signal.SIGKILL)
            process.wait()

    def left(self):
        """The ranks that have not ended."""
        return {rank for rank, process in enumerate(self.processes) if process.poll() is None}

    def _said_of(self, traces):
        done = subprocess.run([f"{self.build}/bin/traintrace", "analyze", *traces, "--format=json", f"--hang-after={self.hang_after}"],
                              capture_output=True, text=True, check=False)
        return done.stdout if done.returncode in (0, 1) else None

    def analyze(self):
        """The report; nothing where there is no trace yet."""
        said = self._said_of([f"{self.folder}/traces"])
        return said and json.loads(said)

    def depends_on_order(self):
        """The traces of processes that were killed just now are completed meanwhile: what depends on the order differs each time."""
        for _ in range(5):
            traces = sorted(os.path.join(self.folder, "traces", name) for name in os.listdir(f"{self.folder}/traces"))
            if len({self._said_of(traces), self._said_of(traces[::-1]), self._said_of(traces[1:] + traces[:1])}) == 1:
                return False
            time.sleep(2)
        return True

    def print_all(self, report):
        print(json.dumps(report, indent=1))
        for rank in range(self.ranks):
            with open(f"{self.folder}/output.{rank}", errors="replace") as output:
                print(f"[{rank}]", output.read()[-500:])


def alarms(report):
    return [finding for finding in report["findings"] if finding["severity"] != "info"]
