"""A job of several ranks on simgpu under the preload, and `traintrace telemetry` beside it."""
import glob
import os
import signal
import subprocess
import sys
import tempfile
import time

BUILD = sys.argv[1]
TRAINTRACE = f"{BUILD}/bin/traintrace"
KERNELS = "forward_*=400,backward_*=1000,update_*=1000"
UUID = "GPU-73696d67-7075-2d64-6576-6963652d{:04x}"  # of simgpu's devices


class Beside:
    """A folder of its own, in which jobs and sidecars run; within `with`.

    `in_job`: faults that begin later (docs/simgpu.md) do so once the job's ranks are recorded, however long that takes."""

    def __init__(self, ranks, nvml="", in_job=False):
        self.ranks, self.nvml, self.in_job = ranks, nvml, in_job
        self.sidecar = None

    def __enter__(self):
        self.temporary = tempfile.TemporaryDirectory(prefix="telemetry.")
        self.folder = self.temporary.name
        self.traces = f"{self.folder}/traces"
        os.mkdir(f"{self.folder}/shared")
        return self

    def __exit__(self, *_):
        if self.sidecar is not None and self.sidecar.poll() is None:
            self.stop(signal.SIGKILL)
        self.temporary.cleanup()

    def environment(self):
        return dict(os.environ, SIMGPU_NODE=self.folder, SIMGPU_DEVICES=str(self.ranks), SIMGPU_KERNEL_US=KERNELS)

    def start(self, *options, libraries=f"{BUILD}/simgpu/nvml:{BUILD}/simgpu"):
        """The sidecar; it has begun to write when this returns, unless it has ended."""
        environment = dict(self.environment(), SIMGPU_NVML=self.nvml, LD_LIBRARY_PATH=libraries)
        if self.in_job:
            environment["SIMGPU_NVML_AFTER_FILE"] = f"{self.folder}/begin"
        self.said = []
        self.sidecar = subprocess.Popen([TRAINTRACE, "telemetry", f"--dir={self.traces}", "--interval=100ms", "--linger=200ms", *options],
                                        env=environment, stderr=subprocess.PIPE, text=True)
        while self.sidecar.poll() is None:
            line = self.sidecar.stderr.readline()
            self.said += [line] if line else []
            if not line or "telemetry goes to" in line:
                break

    def end(self):
        """Waits for the sidecar: its status."""
        with self.sidecar.stderr as stderr:
            self.said += stderr.read().splitlines(keepends=True)
        return self.sidecar.wait()

    def stop(self, number=signal.SIGTERM):
        self.sidecar.send_signal(number)
        return self.end()

    def begin_job(self, case="no-sync", steps=40, settings_of=lambda rank: {}, **settings):
        environment = dict(self.environment(), LD_PRELOAD=f"{BUILD}/lib/libtraintrace.so", LD_LIBRARY_PATH=f"{BUILD}/simgpu",
                           TRAINTRACE_DIR=self.traces, TRAINTRACE_RING_MB="16", WORKLOAD_DIR=f"{self.folder}/shared", **settings)
        recorded = len(self.recorded())
        job = [subprocess.Popen([f"{BUILD}/tests/latency_cases", case, str(steps)], stdout=subprocess.DEVNULL,
                                env={**environment, "RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(self.ranks), **settings_of(rank)})
               for rank in range(self.ranks)]
        while self.in_job and len(self.recorded()) < recorded + self.ranks and None in [process.poll() for process in job]:
            time.sleep(0.01)
        if self.in_job:
            time.sleep(0.2)  # from its file to its first call
            open(f"{self.folder}/begin", "w", encoding="utf-8").close()
        return job

    def recorded(self):
        """The traces, each from the moment on at which its process is recorded."""
        return glob.glob(f"{self.traces}/*.trace")

    def run_job(self, *arguments, **settings):
        return [process.wait() for process in self.begin_job(*arguments, **settings)]

    def path(self):
        return next(path for path in glob.glob(f"{self.traces}/telemetry.*.log") if not path.endswith(".old.log"))

    def lines(self, word=""):
        with open(self.path(), encoding="utf-8") as file:
            return [line for line in file if line.startswith(word)]

    def values(self, device, key):
        """All that were written of a reading."""
        found = []
        for line in self.lines(f"read {device} "):
            found += [int(word.split("=")[1]) for word in line.split() if word.startswith(f"{key}=")]
        return found
