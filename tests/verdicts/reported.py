"""reported.py NAME RANK: a hang as people report them in public issues, at rank RANK of a small training job; -1: nothing goes wrong.

Each story is a function, and the line that is wrong is marked with MISTAKE."""
import ctypes
import os
import sys
import time
from ctypes import POINTER, byref, c_int, c_size_t, c_void_p

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir, os.pardir, "examples", "common"))
import nccl  # noqa: E402

ncclAllGather = nccl.declare(nccl.nccl, nccl.count_collective, "ncclAllGather", c_void_p, c_void_p, c_size_t, c_int, nccl.Comm, nccl.Stream)
ncclSend = nccl.declare(nccl.nccl, nccl.check_nccl, "ncclSend", c_void_p, c_size_t, c_int, c_int, nccl.Comm, nccl.Stream)
ncclRecv = nccl.declare(nccl.nccl, nccl.check_nccl, "ncclRecv", c_void_p, c_size_t, c_int, c_int, nccl.Comm, nccl.Stream)

F32, SUM = nccl.ncclFloat32, nccl.ncclSum
STEPS, WRONG = 12, 7
BUCKETS = (4096, 8192, 1024)
RANK, WORLD = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
NAME, CULPRIT = sys.argv[1], int(sys.argv[2])


def goes_wrong(step):
    return RANK == CULPRIT and step == WRONG


def unique_id():
    """The first rank makes it, a file carries it."""
    path = os.path.join(os.environ["WORKLOAD_DIR"], "id")
    made = nccl.UniqueId()
    if RANK == 0:
        nccl.ncclGetUniqueId(byref(made))
        with open(path + ".new", "wb") as file:
            file.write(bytes(made))
        os.rename(path + ".new", path)
    while not os.path.exists(path):
        time.sleep(0.01)
    with open(path, "rb") as file:
        return nccl.UniqueId.from_buffer_copy(file.read())


class Job:
    def __init__(self):
        nccl.cudaSetDevice(int(os.environ["LOCAL_RANK"]))
        self.stream = nccl.Stream()
        nccl.cudaStreamCreate(byref(self.stream))
        self.memory = c_void_p()
        nccl.cudaMalloc(byref(self.memory), 1 << 24)
        self.world = nccl.Comm("world")
        nccl.ncclCommInitRankConfig(byref(self.world), WORLD, unique_id(), RANK, byref(self.world.config))
        self.host = ctypes.create_string_buffer(4)

    def split(self, name, color):
        comm = nccl.Comm(name)
        nccl.ncclCommSplit(self.world, color, RANK, byref(comm), byref(comm.config))
        return comm

    def wait(self):
        nccl.cudaStreamSynchronize(self.stream)

    def forward(self):
        time.sleep(0.002)  # the loader
        for _ in range(4):  # samples, labels, masks, weights
            nccl.cudaMemcpyAsync(self.memory, self.host, 4, nccl.cudaMemcpyHostToDevice, self.stream)

    def backward(self, buckets=BUCKETS):
        for count in buckets:
            nccl.ncclAllReduce(self.memory, self.memory, count, F32, SUM, self.world, self.stream)

    def mean_loss(self):
        nccl.ncclAllReduce(self.memory, self.memory, 1, F32, SUM, self.world, self.stream)
        nccl.cudaMemcpyAsync(self.host, self.memory, 4, nccl.cudaMemcpyDeviceToHost, self.stream)
        self.wait()  # loss.item()

    def barrier(self):
        nccl.ncclAllReduce(self.memory, self.memory, 1, F32, SUM, self.world, self.stream)
        self.wait()

    def step(self):
        self.forward()
        self.backward()
        self.mean_loss()


def branch_on_loss(job):
    """A rank whose own loss is too large reduces how often that came - alone."""
    for step in range(STEPS):
        job.step()
        if goes_wrong(step):  # MISTAKE: loss is not the same on all ranks
            nccl.ncclAllReduce(job.memory, job.memory, 2, F32, SUM, job.world, job.stream)
            job.wait()


def uneven_data(job):
    """One rank has fewer batches, leaves the loop, and waits for the others at its end."""
    for step in range(STEPS):
        if RANK == CULPRIT and step == WRONG:
            break  # MISTAKE: no join
        job.step()
    job.barrier()


def uneven_data_exit(job):
    """The same, and the script ends there."""
    for step in range(STEPS):
        if RANK == CULPRIT and step == WRONG:
            return  # MISTAKE
        job.step()


def barrier_on_one(job):
    for step in range(STEPS):
        job.step()
        if goes_wrong(step):
            job.barrier()  # MISTAKE: `if rank == 0: save(); dist.barrier()`


def save_on_one(job):
    """A sharded state has to be gathered by all, layer by layer."""
    for step in range(STEPS):
        job.step()
        if goes_wrong(step):
            for _ in range(4):
                ncclAllGather(job.memory, job.memory, 512, F32, job.world, job.stream)  # MISTAKE: state_dict() inside `if rank == 0`
            job.wait()


def group_order(job):
    """Two groups of the same ranks, one after the other in either order."""
    experts = job.split("experts", 0)
    for step in range(STEPS):
        groups = [job.world, experts]
        if goes_wrong(step):
            groups.reverse()  # MISTAKE
        for group in groups:
            nccl.ncclAllReduce(job.memory, job.memory, 2048, F32, SUM, group, job.stream)
            job.wait()
        job.mean_loss()


def unused_parameters(job):
    """A branch of the model that one rank did not take has no gradients: its bucket is never ready."""
    for step in range(STEPS):
        job.forward()
        job.backward(BUCKETS[:2] if goes_wrong(step) else BUCKETS)  # MISTAKE
        job.mean_loss()


def eval_on_one(job):
    for step in range(STEPS):
        job.step()
        if step == WRONG and (RANK == CULPRIT or CULPRIT == -1):
            for _ in range(3):
                time.sleep(0.002)
                nccl.ncclAllReduce(job.memory, job.memory, 16, F32, SUM, job.world, job.stream)  # MISTAKE: accuracy over all ranks
            job.wait()


def crossing_sends(job):
    """Neighbours send first and receive then."""
    large = 1 << 22
    peer = RANK ^ 1
    pair = job.split("pair", RANK // 2)
    for step in range(STEPS):
        job.mean_loss()
        sends = [RANK % 2 == 0, RANK % 2 == 1]
        if step >= WRONG and CULPRIT != -1:
            sends = [True, False]  # MISTAKE: both send first
        for send in sends:
            if send:
                ncclSend(job.memory, large, F32, peer % 2, pair, job.stream)
            else:
                ncclRecv(job.memory, large, F32, peer % 2, pair, job.stream)
            job.wait()


def caught_exception(job):
    """One batch is broken: the step is given up after its first bucket, and the rank goes on with the next."""
    for step in range(STEPS):
        try:
            job.forward()
            job.backward(BUCKETS[:1])
            if goes_wrong(step):
                raise ValueError("broken sample")
            job.backward(BUCKETS[1:])
            job.mean_loss()
        except ValueError:
            continue  # MISTAKE: the others are in this step's collectives


def oom_skipped(job):
    """Memory runs out on one rank, which skips the batch."""
    for step in range(STEPS):
        block = c_void_p()
        job.forward()
        try:
            nccl.cudaMalloc(byref(block), (1 << 45) if goes_wrong(step) else (1 << 20))
        except RuntimeError:
            continue  # MISTAKE: `except torch.cuda.OutOfMemoryError: continue`
        job.step()
        nccl.cudaFree(block)


def group_of_some(job):
    """`new_group()` has to be called by all ranks, of the group or not."""
    for step in range(STEPS):
        job.step()
        if step == WRONG and RANK != CULPRIT:  # MISTAKE
            job.split("later", 0)


def stuck_loader(job):
    for step in range(STEPS):
        if goes_wrong(step):
            while True:  # MISTAKE: a queue that nobody fills
                time.sleep(0.1)
        job.step()


def uneven_gather(job):
    """Predictions of different lengths, gathered without padding."""
    for step in range(STEPS):
        job.step()
        ncclAllGather(job.memory, job.memory, 300 if goes_wrong(step) else 512, F32, job.world, job.stream)  # MISTAKE
        job.wait()


def killed(job):
    """The kernel's OOM killer takes one rank."""
    for step in range(STEPS):
        if goes_wrong(step):
            os.kill(os.getpid(), 9)  # MISTAKE
        job.step()


def accumulation(job):
    """no_sync() on all ranks but one: one synchronizes a micro-batch too many."""
    for step in range(STEPS):
        for micro in range(4):
            job.forward()
            if micro == 3 or (goes_wrong(step) and micro == 1):  # MISTAKE
                job.backward()
        job.mean_loss()


def main():
    job = Job()
    job.backward()
    job.wait()
    globals()[NAME.replace("-", "_")](job)
    print("done", flush=True)
    os._exit(0)


main()
