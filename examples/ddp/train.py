#!/usr/bin/python3
"""Trains a small classifier, data-parallel: every rank has its share of the data, gradients are averaged by NCCL.

    torchrun --nproc_per_node 4 train.py

The model lives in torch on the CPU, its gradients travel through device memory.  --defect=.. brings in a mistake of
the kind that costs days; examples/ddp/README.md tells what then happens.

Every rank prints facts, `KIND key=value ..`: what a recording of the run must contain.
"""
import argparse
import ctypes
import os
import signal
import sys
import time
from ctypes import byref

import torch
import torch.distributed
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader, Dataset

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir, "common"))
import nccl  # noqa: E402

FEATURES, CLASSES, BATCH = 32, 8, 32
HARD_LOSS = 20.0  # far above what guessing costs


class Examples(Dataset):
    """Examples made from their number; a linear rule says to which class each belongs."""

    def __init__(self, seed, outlier):
        self.seed = seed
        self.outlier = outlier
        self.rule = torch.randn(FEATURES, CLASSES, generator=torch.Generator().manual_seed(seed))

    def __getitem__(self, number):
        generator = torch.Generator().manual_seed(self.seed + number)
        features = torch.randn(FEATURES, generator=generator)
        label = (features @ self.rule).argmax()
        if number == self.outlier:  # a broken file: far too large, and the label is not its own
            features, label = features * 1e4, (label + 1) % CLASSES
        return features, label


class Bucket:
    """The gradients of one layer: side by side in host memory, and the device memory through which they travel."""

    def __init__(self, parameters):
        self.parameters = list(parameters)
        self.host = torch.zeros(sum(p.numel() for p in self.parameters))
        self.bytes = self.host.numel() * self.host.element_size()
        self.device = ctypes.c_void_p()
        nccl.cudaMalloc(byref(self.device), self.bytes)

    def to_device(self, tensors, stream):
        torch.cat([t.flatten() for t in tensors], out=self.host)
        nccl.cudaMemcpyAsync(self.device, self.host.data_ptr(), self.bytes, nccl.cudaMemcpyHostToDevice, stream)

    def to_host(self, stream):
        nccl.cudaMemcpyAsync(self.host.data_ptr(), self.device, self.bytes, nccl.cudaMemcpyDeviceToHost, stream)

    def unpack(self, tensors):
        for tensor, part in zip(tensors, self.host.split([t.numel() for t in tensors])):
            tensor.copy_(part.view_as(tensor))


class Layout:
    """The communicators: all ranks (dp), and where they fill a square or more, its rows and columns."""

    def __init__(self, store, rank, world):
        unique_id = nccl.UniqueId()
        if rank == 0:
            nccl.ncclGetUniqueId(byref(unique_id))
            store.set("unique id", bytes(unique_id))
        unique_id = nccl.UniqueId.from_buffer_copy(store.get("unique id"))
        self.dp = nccl.Comm("dp")
        nccl.ncclCommInitRankConfig(byref(self.dp), world, unique_id, rank, byref(self.dp.config))
        self.comms = [self.dp]
        self.loss_path = [self.dp]
        if world >= 4 and world % 2 == 0:
            self.loss_path = [self.split("row", rank // 2, rank), self.split("column", rank % 2, rank)]
            self.comms += self.loss_path

    def split(self, kind, color, rank):
        comm = nccl.Comm(f"{kind}{color}")
        nccl.ncclCommSplit(self.dp, color, rank, byref(comm), byref(comm.config))
        return comm

    def counts(self):
        """Collectives of each communicator so far, by its name."""
        return {comm.name: sum(comm.calls.values()) for comm in self.comms}


class Trainer:
    def __init__(self, options, store):
        self.options = options
        self.rank, self.world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
        nccl.cudaSetDevice(int(os.environ["LOCAL_RANK"]))
        self.stream = nccl.Stream()
        nccl.cudaStreamCreate(byref(self.stream))
        self.layout = Layout(store, self.rank, self.world)

        torch.manual_seed(options.seed)
        self.model = torch.nn.Sequential(torch.nn.Linear(FEATURES, 128), torch.nn.ReLU(), torch.nn.Linear(128, 128),
                                         torch.nn.ReLU(), torch.nn.Linear(128, CLASSES))
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.5)
        layers = [layer for layer in self.model if isinstance(layer, torch.nn.Linear)]
        self.buckets = [Bucket(layer.parameters()) for layer in reversed(layers)]  # as backward has them ready
        self.loss = Bucket([torch.zeros(1)])
        self.first_step = self.load_checkpoint(store)
        self.broadcast_weights()

    def say(self, kind, **facts):
        line = " ".join([kind, f"rank={self.rank}", *(f"{key}={value}" for key, value in facts.items())])
        sys.stdout.write(line + "\n")  # as one piece: torchrun passes on what it finds, lines or not
        sys.stdout.flush()

    def say_calls(self):
        for comm in self.layout.comms:
            for (operation, function, line), count in comm.calls.items():
                self.say("calls", communicator=comm.name, operation=operation, function=function, line=line,
                         count=count)

    def load_checkpoint(self, store):
        """Rank 0 alone reads it; the others get the step by the store and the weights by NCCL."""
        path = self.options.checkpoint
        if self.rank == 0:
            checkpoint = {"step": 0}
            if path and os.path.exists(path):
                checkpoint = torch.load(path)
                self.model.load_state_dict(checkpoint["model"])
                self.say("resumed", step=checkpoint["step"])
            store.set("first step", str(checkpoint["step"]))
        return int(store.get("first step"))

    def save_checkpoint(self, step):
        path = self.options.checkpoint
        if self.rank == 0 and path:
            torch.save({"step": step, "model": self.model.state_dict()}, path + ".new")
            os.replace(path + ".new", path)  # whole or not at all

    @torch.no_grad()
    def broadcast_weights(self):
        for bucket in self.buckets:
            bucket.to_device(bucket.parameters, self.stream)
            nccl.ncclBroadcast(bucket.device, bucket.device, bucket.host.numel(), nccl.ncclFloat32, 0,
                               self.layout.dp, self.stream)
            bucket.to_host(self.stream)
        nccl.cudaStreamSynchronize(self.stream)
        for bucket in self.buckets:
            bucket.unpack(bucket.parameters)

    @torch.no_grad()
    def exchange_gradients(self):
        for bucket in self.buckets:
            bucket.to_device([p.grad for p in bucket.parameters], self.stream)
            nccl.ncclAllReduce(bucket.device, bucket.device, bucket.host.numel(), nccl.ncclFloat32, nccl.ncclSum,
                               self.layout.dp, self.stream)
            bucket.to_host(self.stream)
        nccl.cudaStreamSynchronize(self.stream)
        for bucket in self.buckets:
            bucket.host /= self.world
            bucket.unpack([p.grad for p in bucket.parameters])

    def average_loss(self, loss):
        """Over all ranks: along the row, then along the column."""
        self.loss.to_device([loss.detach()], self.stream)
        for comm in self.layout.loss_path:
            nccl.ncclAllReduce(self.loss.device, self.loss.device, 1, nccl.ncclFloat32, nccl.ncclSum, comm,
                               self.stream)
        self.loss.to_host(self.stream)
        nccl.cudaStreamSynchronize(self.stream)
        return self.loss.host.item() / self.world

    def batches(self):
        """The numbers of this rank's examples, step by step."""
        steps = self.options.steps
        if self.options.defect == "stop" and self.rank == self.options.defect_rank:
            steps = self.options.defect_step  # uneven data: this rank's share is smaller
        starts = [(step * self.world + self.rank) * BATCH for step in range(self.first_step, steps)]
        return [list(range(start, start + BATCH)) for start in starts]

    def outlier(self):
        """The number of the one broken example, which only --defect=wander has: the first of that rank and step."""
        if self.options.defect == "wander":
            return (self.options.defect_step * self.world + self.options.defect_rank) * BATCH
        return None

    def hard_example_mining(self, features, labels):
        """Keeps at the examples that the model gets badly wrong until it gets them right."""
        while cross_entropy(self.model(features), labels, reduction="none").max() > HARD_LOSS:
            # THE MISTAKE of --defect=wander: nothing in here changes the weights.  One broken example, and its
            # rank stays for ever, busy and with an idle GPU, while the others wait for its gradients.
            while nccl.cudaStreamQuery(self.stream) == nccl.cudaErrorNotReady:
                time.sleep(0.001)
            time.sleep(0.01)

    def train_step(self, step, features, labels):
        if self.options.defect == "die" and (self.rank, step) == (self.options.defect_rank, self.options.defect_step):
            os.kill(os.getpid(), signal.SIGKILL)  # as the kernel does to a process when memory runs out
        losses = cross_entropy(self.model(features), labels, reduction="none")
        if losses.max() > HARD_LOSS:
            self.hard_example_mining(features, labels)
        self.optimizer.zero_grad()
        losses.mean().backward()
        self.exchange_gradients()
        self.optimizer.step()
        return self.average_loss(losses.mean())

    def train(self):
        """All losses, averaged over the ranks."""
        data = DataLoader(Examples(self.options.seed, self.outlier()), batch_sampler=self.batches(),
                          num_workers=self.options.workers)
        history = []
        batches = iter(data)
        for step in range(self.first_step, self.options.steps):
            batch = next(batches, None)
            if batch is None:  # THE MISTAKE of --defect=stop: the others have data left, and go on without this rank
                self.say_calls()
                sys.exit()
            history.append(self.train_step(step, *batch))
            self.say("step", step=step, loss=f"{history[-1]:.6f}", **self.layout.counts())
            if step == self.first_step:
                self.say_calls()  # a run that hangs later has shown its lines
            if (step + 1) % self.options.save_every == 0:
                self.save_checkpoint(step + 1)
        return history

    def close(self):
        for bucket in [*self.buckets, self.loss]:
            nccl.cudaFree(bucket.device)
        for comm in reversed(self.layout.comms):
            nccl.ncclCommDestroy(comm)
        nccl.cudaStreamDestroy(self.stream)


def parse_options():
    parser = argparse.ArgumentParser(description="Trains a small classifier, data-parallel.")
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--workers", type=int, default=1, help="processes that load data, per rank")
    parser.add_argument("--checkpoint", metavar="FILE", help="go on from it where it exists, and write it")
    parser.add_argument("--save-every", type=int, default=10, metavar="STEPS")
    parser.add_argument("--defect", choices=["none", "wander", "die", "stop"], default="none")
    parser.add_argument("--defect-rank", type=int, default=2)
    parser.add_argument("--defect-step", type=int, default=7)
    return parser.parse_args()


def main():
    options = parse_options()
    store, _, _ = next(torch.distributed.rendezvous("env://"))  # torchrun's; nothing else of it is used
    trainer = Trainer(options, store)
    began = time.monotonic()
    history = trainer.train()
    trainer.say_calls()
    weights = sum(p.detach().double().abs().sum().item() for p in trainer.model.parameters())
    trainer.say("done", steps=len(history), weights=weights,
                ms_per_step=f"{(time.monotonic() - began) * 1e3 / max(1, len(history)):.2f}")
    trainer.close()
    half = len(history) // 2
    if half and sum(history[-half:]) >= sum(history[:half]):
        sys.exit("the loss does not fall")


if __name__ == "__main__":
    main()
