"""One rank of a job that is to be looked at: rank.py FOLDER RANK RANKS KIND WHO

All ranks exchange a few times; then rank WHO gets stuck as KIND says, and the others go on into the next exchange.
With KIND `none` everybody goes on for ever.
"""
import ctypes
import fcntl
import multiprocessing
import os
import queue
import signal
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "examples", "ddp"))
import nccl as gpu  # noqa: E402

folder, rank, ranks, kind, who = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4], int(sys.argv[5])


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


def stuck_busy():
    while True:  # STUCK busy
        pass


def exchange(buffer, communicator, stream):
    gpu.ncclAllReduce(buffer, buffer, 1024, gpu.ncclFloat32, gpu.ncclSum, communicator, stream)
    gpu.cudaStreamSynchronize(stream)  # WAIT


def main():
    gpu.cudaSetDevice(int(os.environ["LOCAL_RANK"]))
    buffer, stream = gpu.c_void_p(), gpu.Stream()
    gpu.cudaMalloc(ctypes.byref(buffer), 4096)
    gpu.cudaStreamCreate(ctypes.byref(stream))
    communicator = gpu.Comm("dp")
    gpu.ncclCommInitRankConfig(ctypes.byref(communicator), ranks, unique_id(), rank, ctypes.byref(communicator.config))
    for _ in range(5):
        exchange(buffer, communicator, stream)
    with open(os.path.join(folder, f"ready.{rank}"), "w"):
        pass
    if kind != "none" and rank == who:
        globals()["stuck_" + kind]()
    while True:
        exchange(buffer, communicator, stream)
        time.sleep(0.01)


main()
