"""A job of steps in Python that gets its batches from a loader: loader.py CASE STEPS.  Prints what the GPU was idle for, as `idle_ns NS`, and
how long threads waited for processors."""
import ctypes
import importlib.util
import os
import sys
import time

# PyTorch itself may be installed, and is not meant.
PLACE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "python/torch/utils/data/dataloader.py")
spec = importlib.util.spec_from_file_location("dataloader", PLACE)
dataloader = importlib.util.module_from_spec(spec)
spec.loader.exec_module(dataloader)

cuda = ctypes.CDLL("libcuda.so.1")
runtime = ctypes.CDLL("libcudart.so.13")
MUCH = 0.020


def must(result):
    if result:
        sys.exit(f"error {result}")


class Moments:
    def __init__(self, steps):
        self.events = [ctypes.c_void_p() for _ in range(steps)]
        self.used = 0
        for event in self.events:
            must(runtime.cudaEventCreate(ctypes.byref(event)))

    def record(self, stream):
        must(runtime.cudaEventRecord(self.events[self.used], stream))
        self.used += 1


class Job:
    def __init__(self, steps):
        must(runtime.cudaFree(None))
        self.stream = ctypes.c_void_p()
        must(runtime.cudaStreamCreateWithFlags(ctypes.byref(self.stream), 1))
        module = ctypes.c_void_p()
        must(cuda.cuModuleLoadData(ctypes.byref(module), b"no image of any kind, but long enough to look at its start"))
        self.kernels = [ctypes.c_void_p() for _ in range(10)]
        for number, kernel in enumerate(self.kernels):
            must(cuda.cuModuleGetFunction(ctypes.byref(kernel), module, b"forward_%d" % number))
        self.begins, self.ends = Moments(steps), Moments(steps)

    def train_step(self):
        self.begins.record(self.stream)
        for kernel in self.kernels * 3:
            must(cuda.cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, self.stream, None, None))
        self.ends.record(self.stream)

    def read_loss(self):
        must(runtime.cudaStreamSynchronize(self.stream))

    def idle_ns(self):
        idle = 0.0
        for end, begin in zip(self.ends.events, self.begins.events[1:]):
            ms = ctypes.c_float()
            must(runtime.cudaEventElapsedTime(ctypes.byref(ms), end, begin))
            idle += max(0.0, ms.value)
        return int(idle * 1e6)


class Dataset:
    def __init__(self, seconds):
        self.seconds = seconds

    def __getitem__(self, index):
        return self.decode(index)

    def decode(self, index):
        time.sleep(self.seconds)
        return index


def delayed_ns():
    """How long threads of this process have waited for a processor."""
    total = 0
    for task in os.listdir("/proc/self/task"):
        try:
            with open(f"/proc/self/task/{task}/schedstat", encoding="ascii") as file:
                total += int(file.read().split()[1])
        except (OSError, IndexError, ValueError):
            pass  # a thread that has ended, or a kernel that does not count it
    return total


def write_log():
    time.sleep(MUCH)


def write_checkpoint():
    time.sleep(3 * MUCH)


def main(case, steps):
    job = Job(steps)
    loader = dataloader._SingleProcessDataLoaderIter(Dataset({"loader": MUCH, "loader-ahead": 0.004}.get(case, 0.0)))
    delayed_before = delayed_ns()
    for step in range(steps):
        next(loader)
        job.train_step()
        if case != "loader-ahead":
            job.read_loss()
        if case == "loader-and-log":
            write_log()
        if case == "loader-and-checkpoint" and step % 6 == 5:
            write_checkpoint()
    print("delayed_ns", delayed_ns() - delayed_before)
    time.sleep(0.15)  # later than the last look at what is complete
    must(runtime.cudaDeviceSynchronize())
    print("idle_ns", job.idle_ns())


main(sys.argv[1], int(sys.argv[2]))
