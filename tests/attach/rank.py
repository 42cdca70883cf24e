"""One rank of a job that is to be looked at: rank.py FOLDER RANK RANKS KIND WHO [--watchdog]

All ranks exchange a few times; then rank WHO gets stuck as KIND says, and the others go on into the next exchange.
With KIND `none` everybody goes on for ever.  With a watchdog the others abort their communicators after 3 s and end.
"""
import ctypes
import fcntl
import json
import multiprocessing
import os
import queue
import signal
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "examples", "common"))
import nccl as gpu  # noqa: E402

folder, rank, ranks, kind, who = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4], int(sys.argv[5])
watchdog = "--watchdog" in sys.argv
caught = []
last_step = time.monotonic()


def unique_id():
    identity = gpu.UniqueId()
    path = os.path.join(folder, "id")
    if rank == 0:
        gpu.ncclGetUniqueId(ctypes.byref(identity))
        with open(path + ".new", "wb") as file:
            file.write(bytes(identity))
        os.rename(path + ".new", path)
    while not os.path.exists(path):
        time.sleep(0.01)
    with open(path, "rb") as file:
        return gpu.UniqueId.from_buffer_copy(file.read())


def stuck_lock():
    lock = threading.Lock()
    lock.acquire()
    lock.acquire()  # STUCK lock


def stuck_gil():
    libc = ctypes.PyDLL(None)
    libc.sleep(100000)  # STUCK gil


def stuck_queue():
    queue.Queue().get()  # STUCK queue


def stuck_file():
    path = os.path.join(folder, "fifo")
    os.mkfifo(path)
    end = os.open(path, os.O_RDWR)
    os.read(end, 1)  # STUCK file


def stuck_filelock():
    path = os.path.join(folder, "checkpoint.lock")
    other = open(path, "w")
    fcntl.flock(other, fcntl.LOCK_EX)
    with open(path, "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)  # STUCK filelock


def stuck_sleep():
    time.sleep(100000)  # STUCK sleep


def sleep_until_the_parent_dies():
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
    time.sleep(100000)


def stuck_child():
    child = multiprocessing.get_context("fork").Process(target=sleep_until_the_parent_dies, daemon=True)
    child.start()
    child.join()  # STUCK child


def stuck_oom():
    memory = gpu.c_void_p()
    try:
        gpu.cudaMalloc(ctypes.byref(memory), 1 << 40)  # FAILED oom
    except RuntimeError:
        queue.Queue().get()  # STUCK oom


def stuck_busy():
    while True:  # STUCK busy
        pass


def grams(text, length):
    return [text[i:i + length] for i in range(len(text) - length)]


def overlap(one, other):
    return len(set(one) & set(other)) / (len(one) + 1)


def stuck_computes():
    """Not stuck: an evaluation that the others do not have.  Two looks at one of so many places are few."""
    text = "abcdefgh" * 40
    while True:
        overlap(grams(text, 2), grams(text[::-1], 2))
        overlap(grams(text, 3), grams(text[::-1], 3))
        overlap(grams(text, 4), grams(text[::-1], 4))
        overlap(grams(text, 5), grams(text[::-1], 5))
        overlap(grams(text, 6), grams(text[::-1], 6))
        overlap(grams(text, 7), grams(text[::-1], 7))
        overlap(grams(text, 8), grams(text[::-1], 8))
        overlap(grams(text, 9), grams(text[::-1], 9))


def stuck_writes():
    """Not stuck: a checkpoint on a slow disk, from one line."""
    with open(os.path.join(folder, "checkpoint"), "wb") as file:
        while True:
            file.seek(0), file.write(b"x" * 65536), file.flush(), os.fsync(file.fileno()), time.sleep(0.02)  # STUCK writes


def look_up():
    time.sleep(0.05)


def look_down():
    time.sleep(0.05)


def stuck_polls():
    """A loop around a poll, which two looks see at two places."""
    while True:
        gpu.cudaStreamQuery(None)  # STUCK polls
        time.sleep(0.05), look_up(), look_down()


class Experts:
    """A second communicator of all ranks, with a stream of its own."""

    def __init__(self, communicator, buffer):
        self.communicator, self.stream, self.spare = gpu.Comm("experts"), gpu.Stream(), gpu.c_void_p()
        gpu.cudaStreamCreate(ctypes.byref(self.stream))
        gpu.cudaMalloc(ctypes.byref(self.spare), 4096)
        gpu.ncclCommSplit(communicator, 0, rank, ctypes.byref(self.communicator), ctypes.byref(self.communicator.config))
        exchange(buffer, self.communicator, self.stream)

    def out_of_step(self, communicator, buffer, stream):
        """The others want the experts first, and wait; the culprit frees memory in between."""
        if rank == who:
            gpu.ncclAllReduce(buffer, buffer, 1024, gpu.ncclFloat32, gpu.ncclSum, communicator, stream)
            gpu.cudaFree(self.spare)  # STUCK free
        exchange(buffer, self.communicator, self.stream)


def facts_of_process():
    """What an outsider must leave as it is."""
    try:
        children = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
    except ChildProcessError:
        children = False
    return {"descriptors": sorted(os.listdir("/proc/self/fd"), key=int)[:-1], "ended children": children, "signals": caught,
            "blocked": [str(each) for each in signal.pthread_sigmask(signal.SIG_BLOCK, [])], "folder": os.getcwd()}


def abort_when_stuck(communicator):
    """A framework's watchdog: aborts, says what it did to the process, and ends it."""
    while time.monotonic() - last_step < 3:
        time.sleep(0.1)
    before, began = facts_of_process(), time.monotonic()
    gpu.nccl.ncclCommAbort(communicator)
    facts = {"before": before, "after": facts_of_process(), "seconds": time.monotonic() - began}
    with open(os.path.join(folder, f"aborted.{rank}.new"), "w") as file:
        json.dump(facts, file)
    os.rename(os.path.join(folder, f"aborted.{rank}.new"), os.path.join(folder, f"aborted.{rank}"))
    os._exit(6)


def in_open_group(buffer, communicator, stream):
    gpu.nccl.ncclGroupStart()  # OPENED group
    gpu.ncclAllReduce(buffer, buffer, 1024, gpu.ncclFloat32, gpu.ncclSum, communicator, stream)
    queue.Queue().get()  # STUCK group


def exchange(buffer, communicator, stream):
    global last_step
    gpu.ncclAllReduce(buffer, buffer, 1024, gpu.ncclFloat32, gpu.ncclSum, communicator, stream)
    gpu.cudaStreamSynchronize(stream)  # WAIT
    last_step = time.monotonic()


def main():
    gpu.cudaSetDevice(int(os.environ["LOCAL_RANK"]))
    buffer, stream = gpu.c_void_p(), gpu.Stream()
    gpu.cudaMalloc(ctypes.byref(buffer), 4096)
    gpu.cudaStreamCreate(ctypes.byref(stream))
    communicator = gpu.Comm("dp")
    gpu.ncclCommInitRankConfig(ctypes.byref(communicator), ranks, unique_id(), rank, ctypes.byref(communicator.config))
    experts = Experts(communicator, buffer) if kind == "free" else None
    for _ in range(5):
        exchange(buffer, communicator, stream)
    with open(os.path.join(folder, f"ready.{rank}"), "w"):
        pass
    if watchdog and rank != who:
        signal.signal(signal.SIGCHLD, lambda number, _: caught.append(number))
        threading.Thread(target=abort_when_stuck, args=(communicator,), daemon=True).start()
    if experts:
        experts.out_of_step(communicator, buffer, stream)
    elif kind == "group" and rank == who:
        in_open_group(buffer, communicator, stream)
    elif kind != "none" and rank == who:
        globals()["stuck_" + kind]()
    while True:
        try:
            exchange(buffer, communicator, stream)
        except RuntimeError:  # the communicator is aborted: the watchdog ends this
            time.sleep(60)
            raise
        time.sleep(0.01)


main()
