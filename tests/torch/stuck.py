"""Data-parallel training in which the last rank gets stuck: stuck.py KIND; `none`: nobody does.  `rendezvous`: rank 0, which makes
NCCL's id for the others, before it does.  `gloo`: the others wait for it in a barrier of gloo, of which NCCL knows nothing.

Every rank writes its process id into RIG_OUT/pid.RANK when the last one is about to get stuck.
"""
import ctypes
import os
import sys
import threading
import time

import torch
from torch.nn.parallel import DistributedDataParallel

import rig

kind = sys.argv[1]
this = rig.Job()
is_culprit = kind != "none" and this.rank == (0 if kind == "rendezvous" else this.size - 1)


class Batches(torch.utils.data.Dataset):
    def __len__(self):
        return 4

    def __getitem__(self, number):
        if number == 2 and is_culprit:
            time.sleep(100000)  # WORKER
        return rig.batch(number, this.rank)


def stuck_lock():
    lock = threading.Lock()
    lock.acquire()
    lock.acquire()  # STUCK lock


def stuck_loader():
    for _ in torch.utils.data.DataLoader(Batches(), batch_size=None, num_workers=1):  # STUCK loader
        pass


def stuck_file():
    path = os.path.join(os.environ["RIG_OUT"], "fifo")
    os.mkfifo(path)
    end = os.open(path, os.O_RDWR)
    os.read(end, 1)  # STUCK file


def stuck_gloo():
    path = os.path.join(os.environ["RIG_OUT"], "fifo")
    os.mkfifo(path)
    with open(path, "rb"):  # STUCK gloo
        pass


def stuck_gil():
    ctypes.PyDLL(None).sleep(100000)  # STUCK gil


def say_ready():
    path = os.path.join(os.environ["RIG_OUT"], f"pid.{this.rank}")
    with open(path + ".new", "w") as file:
        file.write(str(os.getpid()))
    os.rename(path + ".new", path)


def train():
    with rig.job(600) as job:
        torch.manual_seed(2)
        net = DistributedDataParallel(rig.model().cuda())
        gloo = torch.distributed.new_group(backend="gloo") if kind == "gloo" else None
        rig.train(net, "cuda", [job.rank], steps=3)
        torch.cuda.synchronize()
        say_ready()
        if is_culprit and kind != "rendezvous":
            globals()["stuck_" + kind]()
        while True:
            if gloo is not None:
                torch.distributed.monitored_barrier(gloo)
            rig.train(net, "cuda", [job.rank], steps=1)


this.take_device()
torch.ones(1, device="cuda")
if kind == "rendezvous":
    say_ready()
    if is_culprit:
        stuck_lock()
train()
