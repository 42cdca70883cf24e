"""What the ranks of a training job do: a transformer, data parallel or with tensor, pipeline or expert parallelism, or sharded (FSDP).

A Job says how it is built, how its hosts behave and what its profile shows of that; a Program is one rank of it. What a cause (causes.py) changes
is asked for where it would happen.
"""
import random
from dataclasses import dataclass

import kernels
from engine import MICROSECOND

MODELS = ("data", "tensor", "pipeline", "experts", "sharded")
LOADER = "torch/utils/data/dataloader.py(701): __next__"
LOADER_ANNOTATION = "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__"
MAIN = "/home/u/train.py(210): main"
STEP = "/home/u/train.py(140): train_step"
LOG = "/home/u/train.py(77): log_metrics"
CHECKPOINT = "/home/u/train.py(55): save_checkpoint"
OPTIMIZER = "/home/u/train.py(121): optimizer_step"
ROUTE = "/home/u/model.py(33): route"
FORWARD = "/home/u/model.py(88): forward"
GRADIENTS, TENSOR, SHARDS, EXPERTS, MESSAGES = 16, 20, 18, 24, 30  # streams; of messages the first of four
BUCKET = 25_000_000 // 4


@dataclass
class Job:
    # What it is.
    seed: int = 0
    model: str = "data"
    ranks: int = 8
    layers: int = 4
    steps: int = 8
    tensor: int = 1  # ranks that share a layer
    stages: int = 1
    batches: int = 16  # micro-batches of a pipeline
    # How long things take.
    work_scale: float = 1.0  # of the kernels
    operator_us: float = 8
    loader_us: float = 80
    all_reduce_us: float = 400
    all_gather_us: float = 250
    tensor_us: float = 10
    all_to_all_us: float = 60
    message_us: float = 40
    contention: float = 0.0  # by which kernels take longer beside those of NCCL
    unequal_gpus: bool = False  # by up to 2 %
    # How the hosts behave.
    reads_each_step: bool = True  # a value of the GPU; if not, they run ahead
    overlapped: bool = True  # all-reduces begin while the backward pass goes on
    loads_modules: bool = False  # when a kernel is first launched
    # What the profile shows.
    ranks_per_host: int = 8
    clock_offsets_ns: tuple = ()  # of each rank's host
    sequence_numbers: bool = True
    group_metadata: bool = True
    with_stacks: bool = False
    with_marks: bool = True  # of the steps
    with_arrows: bool = False
    lost_share: float = 0.0  # of the rows of GPU work
    recording_begins_ns: int = 0
    not_recorded: tuple = ()  # ranks


class Program:
    def __init__(self, simulation, rank):
        self.job, self.cause, self.rank = simulation.job, simulation.cause, rank
        job, number, tensor, stages = self.job, rank.number, self.job.tensor, self.job.stages
        block = tensor * stages
        self.everyone = list(range(job.ranks))
        self.stage, self.replica = number // tensor % stages, number // block
        self.replicas = job.ranks // block
        self.tensor_members = [number // tensor * tensor + i for i in range(tensor)]
        self.data_members = [i * block + self.stage * tensor + number % tensor for i in range(self.replicas)]
        self.stage_members = [self.replica * block + i * tensor + number % tensor for i in range(stages)]
        self.data_group = (f"{2 + number % block}", "data_parallel") if block > 1 else ("0", "default_pg")
        self.all_reduce_ns = int(job.all_reduce_us * MICROSECOND * self.cause.transfer_factor(rank))
        self.latest, self.gathered, self.gradients = None, {}, []
        self.step, self.pause = 0, (0, -1)

    def run(self):
        rank, job = self.rank, self.job
        rank.enter(MAIN)
        rank.host_factor = self.cause.host_factor(rank)
        for self.step in range(job.steps):
            rank.step, began = self.step, rank.now
            rank.length = self.cause.length(rank)
            rank.steps.append(began)
            self.latest, self.gathered, self.gradients = None, {}, []
            self.load()
            rank.enter(STEP)
            yield from self.prepare()
            if job.stages == 1:
                yield from self.whole_batch()
            else:
                yield from self.pipeline()
            yield from self.finish()
            rank.leave()
            if job.with_marks:
                rank.annotate(f"ProfilerStep#{self.step + 5}", began)
        rank.leave()

    # ---- parts of a step

    def load(self):
        rank = self.rank
        rank.enter(LOADER)
        began = rank.now
        usual = self.job.loader_us * MICROSECOND * (0.8 + 0.4 * rank.jitter.random())
        rank.spend(usual + self.cause.loader_delay(rank))
        rank.annotate(LOADER_ANNOTATION, began)
        rank.leave()

    def prepare(self):
        """Copies the batch, and what else may happen before the forward pass."""
        rank, cause = self.rank, self.cause
        if self.stage == 0:
            yield from rank.copy(**cause.input_copy(rank))
        rank.spend(cause.delay_before_forward(rank))
        rank.spend(30 * MICROSECOND)
        yield from cause.before_forward(rank)
        self.pause = cause.pause(rank)

    def finish(self):
        rank, cause = self.rank, self.cause
        for i in range(cause.small_collectives()):
            reduced = rank.collect("allreduce", ("0", "default_pg"), self.everyone, GRADIENTS, (self.step, i, "m"), 25 * MICROSECOND, 1,
                                   after=[self.latest], dtype="Float")
            yield from self.launch("tiny", after=[reduced])
        rank.enter(OPTIMIZER)
        began = rank.now
        for i in range(4):
            yield from self.launch("adam", after=() if i else self.gradients)
        rank.annotate("Optimizer.step#AdamW.step", began)
        rank.leave()
        reads = self.job.reads_each_step or cause.reads_at_end(rank)
        if reads:
            rank.enter(LOG)
            yield from rank.item()
        rank.spend(cause.delay_at_end(rank))
        if reads:
            rank.leave()
        rank.spend(20 * MICROSECOND)

    def whole_batch(self):
        yield from self.launch("embedding")
        yield from self.forward()
        yield from self.launch("loss")
        yield from self.backward()
        if not self.job.overlapped and self.replicas > 1:
            for i in range(self.job.layers // 2):
                self.reduce_gradients(i)

    # ---- layers

    def launch(self, key, **how):
        self.latest = yield from self.rank.launch(key, **how)

    def forward(self, batch=0):
        rank, cause, job = self.rank, self.cause, self.job
        rank.enter(FORWARD)
        if job.model == "sharded":
            self.gather(0, "f")
        for layer in range(job.layers):
            yield from self.unshard(layer, layer + 1, "f")
            for _ in range(cause.extra_work(rank, layer)):
                yield from self.launch("narrow")
            if layer == self.pause[1]:
                rank.spend(self.pause[0])
                self.pause = (0, -1)
            yield from cause.in_layer(rank, layer)
            for i, key in enumerate(kernels.FORWARD):
                if job.model == "experts" and key in ("wide", "gelu", "narrow"):
                    if key == "wide":
                        yield from self.experts(layer, "f")
                    continue
                yield from self.launch(key)
                if job.tensor > 1 and key in ("projection", "narrow"):
                    yield from self.reduce_tensor((self.step, batch, layer, i, "f"))
            for _ in range(cause.tiny_kernels()):
                yield from self.launch("tiny")
            yield from cause.after_layer(rank)
        rank.leave()

    def backward(self, batch=0):
        rank, job = self.rank, self.job
        rank.thread = rank.backward_thread
        if job.model == "sharded":
            self.gather(job.layers - 1, "b")
        for layer in reversed(range(job.layers)):
            yield from self.unshard(layer, layer - 1, "b")
            for i, key in enumerate(kernels.BACKWARD):
                yield from self.launch(key)
                if job.tensor > 1 and i in (4, 9):
                    yield from self.reduce_tensor((self.step, batch, layer, i, "b"))
            if job.model == "experts":
                yield from self.experts(layer, "b")
            for _ in range(self.cause.tiny_kernels()):
                yield from self.launch("tiny")
            if job.model == "sharded":
                self.gradients.append(rank.collect(
                    "reduce_scatter", ("0", "default_pg"), self.everyone, TENSOR, (self.step, layer, "rs"),
                    job.all_gather_us * MICROSECOND, 6_000_000 * job.ranks, after=[self.latest]))
            elif job.stages == 1 and self.replicas > 1 and job.overlapped and layer % 2 == 0:
                self.reduce_gradients(layer)
        rank.spend(10 * MICROSECOND)
        rank.thread = rank.main_thread

    # ---- communication

    def gather(self, layer, phase):
        if 0 <= layer < self.job.layers:
            self.gathered[layer, phase] = self.rank.collect(
                "_allgather_base", ("0", "default_pg"), self.everyone, SHARDS, (self.step, layer, phase),
                self.job.all_gather_us * MICROSECOND, 6_000_000, after=[self.latest])

    def unshard(self, layer, ahead, phase):
        if self.job.model == "sharded":
            self.gather(ahead, phase)
            yield from self.launch("add", after=[self.gathered[layer, phase]])

    def reduce_gradients(self, part):
        self.gradients.append(self.rank.collect("allreduce", self.data_group, self.data_members, GRADIENTS, (self.step, part, "g"),
                                                self.all_reduce_ns, BUCKET, after=[self.latest]))

    def reduce_tensor(self, key):
        group = (f"{10 + self.rank.number // self.job.tensor}", "tensor_model_parallel")
        reduced = self.rank.collect("allreduce", group, self.tensor_members, TENSOR, key, self.job.tensor_us * MICROSECOND, 4096 * 4096,
                                    after=[self.latest])
        yield from self.launch("add", after=[reduced])

    def exchange(self, layer, phase, part):
        return self.rank.collect("all_to_allv", ("5", "expert_parallel"), self.everyone, EXPERTS, (self.step, layer, phase, part),
                                 self.job.all_to_all_us * MICROSECOND, 4096 * 2048, after=[self.latest])

    def experts(self, layer, phase):
        rank = self.rank
        arrived = self.exchange(layer, phase, 0)
        drawn = random.Random(self.job.seed * 99 + self.step * 1000 + layer * 10 + rank.number * 100000 + (phase == "b"))
        load = max(0.3, (1 + 0.1 * drawn.gauss(0, 1) * 0.3) * self.cause.expert_load(rank))
        scale = load * (2 if phase == "b" else 1)
        yield from self.launch("expert", scale=scale, after=[arrived], grid=(int(216 * load), 1, 1))
        yield from self.launch("expert", scale=scale, grid=(int(216 * load) + 8, 1, 1))
        yield from self.launch("add", after=[self.exchange(layer, phase, 1)])

    # ---- a pipeline, 1F1B

    def pipeline(self):
        batches = self.job.batches
        ahead = min(batches, self.job.stages - 1 - self.stage)
        for batch in range(ahead):
            yield from self.forward_batch(batch)
        for batch in range(batches - ahead):
            yield from self.forward_batch(ahead + batch)
            yield from self.backward_batch(batch)
        for batch in range(batches - ahead, batches):
            yield from self.backward_batch(batch)
        if self.replicas > 1:
            for part in range(2):
                self.reduce_gradients(part)

    def message(self, kind, direction, phase, batch, after=()):
        number = self.rank.number
        peer = number + direction * self.job.tensor
        source, target = (number, peer) if kind == "send" else (peer, number)
        stream = MESSAGES + (2 if phase == "b" else 0) + (kind == "recv")
        group = (f"{60 + self.replica * self.job.tensor + number % self.job.tensor}", "pipeline_model_parallel")
        key = ((self.step, phase, batch, source), tuple(sorted((number, peer))))
        return self.rank.collect(kind, group, self.stage_members, stream, key, self.job.message_us * MICROSECOND, 4096 * 1024, after=after,
                                 extra={"Src Rank": source, "Dst Rank": target})

    def forward_batch(self, batch):
        if self.stage > 0:
            yield from self.launch("add", after=[self.message("recv", -1, "f", batch)])
        else:
            yield from self.launch("embedding")
        yield from self.forward(batch)
        if self.stage < self.job.stages - 1:
            self.message("send", 1, "f", batch, [self.latest])
        else:
            yield from self.launch("loss")

    def backward_batch(self, batch):
        if self.stage < self.job.stages - 1:
            yield from self.launch("add", after=[self.message("recv", 1, "b", batch)])
        yield from self.backward(batch)
        if self.stage > 0:
            self.message("send", -1, "b", batch, [self.latest])


def program(simulation, rank):
    return Program(simulation, rank).run()
