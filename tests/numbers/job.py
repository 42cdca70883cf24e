"""job.py CASE: a rank that fetches numbers from its GPU in each step, as judge.py knows them."""
import array
import ctypes
import importlib.util
import math
import os
import random
import struct
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, f"{HERE}/site-packages")
from gpu import HOST_TO_DEVICE, Communicator, Tensor, allocate, call, send
from amp.grad_scaler import GradScaler

# PyTorch itself may be installed, and is not meant.
spec = importlib.util.spec_from_file_location("distributed", f"{HERE}/site-packages/torch/nn/parallel/distributed.py")
distributed = importlib.util.module_from_spec(spec)
spec.loader.exec_module(distributed)

rank = int(os.environ["RANK"])
NAN, INF = math.nan, math.inf
CHANGED = int(os.environ.get("CHANGED", "99"))  # from that step on, the run is another one


def loss_of(step):
    return 4.0 / (1 + step) + 0.01 * rank


def log_losses(losses, form="<f"):
    loss = Tensor()
    for each in losses:
        loss.set(form, each)
        loss.item()  # LOSS


def raise_at_nan(losses, on, goes_on=False):
    """Each rank of `on` raises at its first loss that is NaN, maybe only after it has sent another batch."""
    memory = allocate(4096)
    for step, loss in enumerate(losses):
        send(batch(step, rank), memory)
        log_losses([loss])
        if loss != loss and rank in on:
            if goes_on:
                send(batch(step + 1, rank), memory)
            raise FloatingPointError(f"the loss is {loss}")


def fail(of):
    if rank == of:
        raise OSError("no space left")


def skip_and_exchange(skipped, steps, spoil):
    """Scaled gradients that are Inf in these steps: of the ranks of `spoil` before they are summed."""
    flags = iter([step in skipped for step in range(steps)])
    scaler = GradScaler(Tensor())

    def gradients(step):
        if step:
            scaler.found_inf.set("<f", 1.0 if next(flags) else 0.0)
            scaler.step()  # SKIP
        return gradients_of(step, INF if step in skipped and rank in spoil else None)

    exchange(gradients, steps)


def finite(count):
    return [loss_of(step) for step in range(count)]


def nan_on_one():
    log_losses(finite(30) + ([NAN] if rank == 1 else [loss_of(30)]) + [NAN] * 19)


def skip_steps(skipped, steps):
    found_inf = Tensor()
    scaler = GradScaler(found_inf)
    for step in range(steps):
        found_inf.set("<f", 1.0 if step in skipped else 0.0)
        scaler.step()  # STEP


def batch(*seed):
    return random.Random(repr(seed)).randbytes(4096)


MASK = bytes(range(256)) * 16


def train(batches, groups=None, weights=(), steps_per_update=1):
    """A step for each batch; of 4 ranks or more, those that share `groups` have a communicator of their own."""
    world = Communicator.of_all(rank, int(os.environ["WORLD_SIZE"]), os.environ["NUMBERS_DIR"])
    group = world.split(groups(rank), rank) if groups else None
    memory = allocate(4096)
    for each in weights:
        send(each, memory)
    for step, each in enumerate(batches):
        send(each, memory)  # BATCH
        if group:
            group.all_reduce()
        if step % steps_per_update == 0:
            world.all_reduce()


def train_in_replicas(batches, beside=lambda world: None, at_last=lambda world: None):
    """DistributedDataParallel of all ranks, and maybe another exchange in each step."""
    world = Communicator.of_all(rank, int(os.environ["WORLD_SIZE"]), os.environ["NUMBERS_DIR"])
    memory = allocate(4096)
    for each in batches:
        send(each, memory)  # COPY
        beside(world)
        distributed.sum_gradients(world)
    at_last(world)


def evaluate_between(steps, evaluated, rounds=10):
    """DistributedDataParallel on data of the ranks' own; between some steps all of them evaluate the same batches."""
    world = Communicator.of_all(rank, int(os.environ["WORLD_SIZE"]), os.environ["NUMBERS_DIR"])
    memory = allocate(4096)
    for number in range(rounds):
        for step in range(steps):
            send(batch(number, step, rank), memory)
            distributed.sum_gradients(world)
        for each in range(evaluated):
            send(batch("evaluation", number, each), memory)  # EVALUATION


def train_before_metrics(batches):
    """At last so many numbers are summed up that the newest operations are none of the training."""
    train_in_replicas(batches, at_last=lambda world: [sum_one_number(world) for _ in range(80)])


def sum_one_number(world):
    world.call("ncclAllReduce", world.data, world.data, 1, Communicator.FLOAT, Communicator.SUM)


def of_first_two(step):
    """Ranks 0 and 1 have the same batches."""
    return batch(step, rank if rank >= 2 else 0)


ELEMENTS = 1000


def gradients_of(step, spoiled=None):
    generator = random.Random(repr((step, rank)))
    values = [generator.gauss(0, 1) for _ in range(ELEMENTS)]
    if spoiled is not None:
        values[::100] = [spoiled] * len(values[::100])
    return values


def put(values, memory):
    """As if a kernel had computed them: pieces below 512 bytes are not taken for a batch."""
    data = array.array("f", values).tobytes()
    for at in range(0, len(data), 500):
        piece = data[at:at + 500]
        call("cudaMemcpy", ctypes.c_void_p(memory.value + at), piece, len(piece), HOST_TO_DEVICE)


def exchange(gradients, steps=30, stops=False):
    """Each step sums the gradients, and gathers what each rank has made of its part; maybe it ends where the sum is not finite."""
    world = Communicator.of_all(rank, int(os.environ["WORLD_SIZE"]), os.environ["NUMBERS_DIR"])
    own, total, everybody = allocate(4 * ELEMENTS), allocate(4 * ELEMENTS), allocate(4 * ELEMENTS * 8)
    for step in range(steps):
        values = gradients(step)
        if values is None:
            call("cudaMemset", own, 0, 4 * ELEMENTS)
        else:
            put(values, own)
        world.call("ncclAllReduce", own, total, ELEMENTS, Communicator.FLOAT, Communicator.SUM)  # SUM
        world.call("ncclAllGather", own, everybody, ELEMENTS, Communicator.FLOAT)  # GATHER
        call("cudaStreamSynchronize", None)
        if stops:
            assert math.isfinite(struct.unpack("<f", Tensor(total, 4).item())[0])  # ASSERT


def exchange_into_nan(steps=30):
    """As with torch.use_deterministic_algorithms, which fills new tensors with NaN: what is only received into holds them until it is there."""
    ranks = int(os.environ["WORLD_SIZE"])
    world = Communicator.of_all(rank, ranks, os.environ["NUMBERS_DIR"])
    own, got, everybody = allocate(4 * ELEMENTS), allocate(4 * ELEMENTS), allocate(4 * ELEMENTS * ranks)
    mine = ctypes.c_void_p(everybody.value + 4 * ELEMENTS * rank)
    for step in range(steps):
        def fresh(memory, size=4 * ELEMENTS):
            call("cudaMemset", memory, 0xFF, size)
            return memory
        put(gradients_of(step), own)
        world.call("ncclAllReduce", own, fresh(got), ELEMENTS, Communicator.FLOAT, Communicator.SUM)
        world.call("ncclReduce", own, fresh(got), ELEMENTS, Communicator.FLOAT, Communicator.SUM, 0)
        put(gradients_of(step), fresh(everybody, 4 * ELEMENTS * ranks) and mine)
        world.call("ncclAllGather", mine, everybody, ELEMENTS, Communicator.FLOAT)
        world.call("ncclBroadcast", own if rank == 0 else fresh(own), own, ELEMENTS, Communicator.FLOAT, 0)
        call("cudaStreamSynchronize", None)


def exchange_with_experts(spoiled, used, steps=30):
    """Tokens go to experts on all ranks, in buffers with room for more; gradients come of them."""
    ranks = int(os.environ["WORLD_SIZE"])
    world = Communicator.of_all(rank, ranks, os.environ["NUMBERS_DIR"])
    tokens, got, own = allocate(4 * ELEMENTS * ranks), allocate(4 * ELEMENTS * ranks), allocate(4 * ELEMENTS)
    for step in range(steps):
        for other in range(ranks):
            put(gradients_of(step, NAN if rank in spoiled and step >= 20 else None), ctypes.c_void_p(tokens.value + 4 * ELEMENTS * other))
        world.call("ncclAlltoAll", tokens, got, ELEMENTS, Communicator.FLOAT)  # EXPERT
        put(gradients_of(step, NAN if used and step >= 20 else None), own)
        world.call("ncclAllReduce", own, own, ELEMENTS, Communicator.FLOAT, Communicator.SUM)
        call("cudaStreamSynchronize", None)


def receive_into_one(steps=30):
    """Messages that only say that somebody is there: nobody reads the buffer that they all arrive in."""
    ranks = int(os.environ["WORLD_SIZE"])
    world = Communicator.of_all(rank, ranks, os.environ["NUMBERS_DIR"])
    own, unread = allocate(4 * ELEMENTS), allocate(4 * ELEMENTS)
    for step in range(steps):
        put(gradients_of(step), own)
        world.check(world.nccl.ncclGroupStart())
        for other in range(1, ranks) if rank == 0 else [0]:
            world.call(*(("ncclRecv", unread) if rank == 0 else ("ncclSend", own)), ELEMENTS, Communicator.FLOAT, other)
        world.check(world.nccl.ncclGroupEnd())
        world.call("ncclAllReduce", own, own, ELEMENTS, Communicator.FLOAT, Communicator.SUM)
        call("cudaStreamSynchronize", None)


def exchange_beside_a_metric():
    """That of rank 1 is a mean over nothing at last."""
    metric = Tensor()

    def gradients(step):
        metric.set("<f", NAN if rank == 1 and step >= 15 else loss_of(step))
        metric.item()  # METRIC
        return gradients_of(step)

    exchange(gradients)


def exchange_with_padding(since, harms=False):
    """A flat buffer of all gradients, whose last elements are none; the loss is what it would be without them, or not."""
    loss = Tensor()

    def gradients(step):
        loss.set("<f", NAN if harms and step > since else loss_of(step))
        loss.item()
        values = gradients_of(step)
        return values[:-8] + [NAN] * 8 if step >= since else values

    exchange(gradients)


def train_beside(batches, further=lambda step: None, exchange_messages=None):
    """A step for each batch; what is `further` sent comes from another line."""
    world = Communicator.of_all(rank, int(os.environ["WORLD_SIZE"]), os.environ["NUMBERS_DIR"])
    memory = allocate(8192)
    for step, each in enumerate(batches):
        send(each, memory)  # DATA
        more = further(step)
        if more:
            send(more, memory)
        if exchange_messages:
            exchange_messages(world, memory)
        world.all_reduce()


def exchange_with(peer):
    def exchange_messages(world, memory):
        world.check(world.nccl.ncclGroupStart())
        world.call("ncclSend", memory, 256, Communicator.FLOAT, peer)
        world.call("ncclRecv", world.data, 256, Communicator.FLOAT, peer)
        world.check(world.nccl.ncclGroupEnd())
    return exchange_messages


def reduce_in_buckets(gradients, data=lambda step: None, steps=30, groups=None):
    """As DDP does: the first step has one bucket, all others have two."""
    world = Communicator.of_all(rank, int(os.environ["WORLD_SIZE"]), os.environ["NUMBERS_DIR"])
    group = world.split(groups(rank), rank) if groups else world
    own, total, memory = allocate(4 * ELEMENTS), allocate(4 * ELEMENTS), allocate(4096)
    for step in range(steps):
        each = data(step)
        if each:
            send(each, memory)
        put(gradients(step), own)
        for first, count in [(0, ELEMENTS)] if step == 0 else [(0, 400), (400, 600)]:
            group.call("ncclAllReduce", ctypes.c_void_p(own.value + 4 * first), total, count, Communicator.FLOAT, Communicator.SUM)  # BUCKET
        call("cudaStreamSynchronize", None)


def zeros(step, of=range(ELEMENTS), since=20):
    """Rank 1 has only zeros in this part of the gradients."""
    values = gradients_of(step)
    for i in of if rank == 1 and step >= since else []:
        values[i] = 0
    return values


def alike(step, like, of=range(ELEMENTS)):
    """Ranks of one `like` have this part of the gradients in common."""
    values, shared = gradients_of(step), random.Random(repr((step, like)))
    for i in of:
        values[i] = shared.gauss(0, 1)
    return values


def scaled(step, is_larger):
    return [(100 if is_larger else 1) * each for each in gradients_of(step)]


def positions(step, fixed_from=30):
    """0 to n, whose size says what they are; at last rank 1's texts are all cut to the same length."""
    length = 2048 if rank == 1 and step >= fixed_from else random.Random(repr((step, rank))).randrange(1024, 2048, 64)
    return array.array("i", range(length)).tobytes()


def of_any_size(*seed):
    generator = random.Random(repr(seed))
    return generator.randbytes(generator.randrange(1024, 8192))


def with_masks(batches):
    return [part for each in batches for part in (each, MASK)]


def stuck(after):
    return [batch(min(step, after) if rank == 1 else step, rank) for step in range(40)]


EARLY = {0, 1, 2, 3, 4, 5}
CASES = {
    "same-data-of-replicas": lambda: train_in_replicas([batch(step) for step in range(40)], sum_one_number),
    "same-data-of-replicas-and-shards": lambda: train_in_replicas([batch(step) for step in range(40)], lambda world: world.all_reduce()),
    "same-data-before-metrics": lambda: train_before_metrics([batch(step) for step in range(40)]),
    "evaluation-of-all": lambda: evaluate_between(4, 4),
    "own-data-of-replicas": lambda: train_in_replicas([batch(step, rank) for step in range(40)], sum_one_number),
    "healthy": lambda: log_losses(finite(50)),
    "nan-on-one": nan_on_one,
    "nan-on-all": lambda: log_losses(finite(30) + [NAN] * 20),
    "inf-of-doubles": lambda: log_losses(finite(30) + [INF] * 3, "<d"),
    # A mean over nothing, as that over samples that are hard.
    "nan-comes-and-goes": lambda: log_losses(finite(20) + [NAN, 0.25, NAN, 0.125, NAN, 0.5] + [NAN] * 5),
    "nan-then-raise": lambda: raise_at_nan(finite(30) + [NAN] * (rank == 1), on=[1]),
    # Rank 0 raises for something else, or rank 1 after it has begun another step.
    "nan-and-other-raises": lambda: raise_at_nan(finite(30) + [NAN] * (3 * (rank == 1)), on=[]) or fail(0),
    "nan-then-raise-later": lambda: raise_at_nan(finite(30) + [NAN] * (rank == 1), on=[1], goes_on=True),
    # A gradient norm in a step that the loss scaler skips; and at the end, twice.
    "inf-now-and-then": lambda: log_losses(finite(30) + [INF] + finite(10) + [INF, INF]),
    # Nothing shows that these are floats: too few before, or too little change.
    "nan-early": lambda: log_losses(finite(7) + [NAN] * 20),
    "nan-behind-a-constant": lambda: log_losses([0.5] * 30 + [NAN] * 20),
    # The patterns of NaN as integers, behind small ones, and behind a clock of seconds.
    "minus-one": lambda: log_losses([*range(1, 40), -1, -1, -1, -1], "<i"),
    "most-integer": lambda: log_losses([*range(1, 40), 2**31 - 1, 2**31 - 1, 2**31 - 1], "<i"),
    "clock": lambda: log_losses([*range(1764130000, 1764130040), -1, -1, -1, -1], "<i"),
    "minus-one-of-64-bits": lambda: log_losses([*range(1, 40), -1, -1, -1, -1], "<q"),
    "halves": lambda: log_losses([*finite(40), NAN, NAN, NAN, NAN], "<e"),
    # A norm that is reduced, and so the same on all ranks; on rank 1 it is another one from step 30 on.
    "norms": lambda: log_losses(4.0 / (1 + step) for step in range(50)),
    "drift": lambda: log_losses(4.0 / (1 + step) + (0.25 if rank == 1 and step >= 30 else 0) for step in range(50)),
    # Rank 1 has fetched one more than the others when it ends.
    "drift-by-a-step": lambda: log_losses(4.0 / (1 + step) for step in range(51 if rank == 1 else 50)),
    "own-data": lambda: train(batch(step, rank) for step in range(40)),
    "same-data": lambda: train(of_first_two(step) for step in range(40)),
    "same-data-and-masks": lambda: train(with_masks(of_first_two(step) for step in range(40))),
    "same-data-accumulated": lambda: train((of_first_two(step) for step in range(40)), steps_per_update=4),
    "same-data-for-7-steps": lambda: train(of_first_two(step) if step < 7 else batch(step, rank) for step in range(40)),
    # Tensor parallelism: ranks 0 and 1 work on the same batch, and so do 2 and 3.
    "tensor-parallel": lambda: train((batch(step, rank // 2) for step in range(40)), groups=lambda of: of // 2),
    # Rank 2 has no data: it may be another stage of a pipeline.
    "same-data-beside-masks": lambda: train(MASK if rank == 2 else batch(step) for step in range(40)),
    "same-data-of-all": lambda: train(batch(step) for step in range(40)),
    "same-masks": lambda: train(part for step in range(40) for part in (batch(step, rank), MASK)),
    # The same epoch again, and another rank's part of it an epoch later.
    "epochs": lambda: train(batch(step % 20, rank) for step in range(60)),
    "parts-in-turn": lambda: train(batch(step % 20, (rank + step // 20) % 4) for step in range(60)),
    # Rank 0 has loaded its weights, the others have made them alike.
    "weights": lambda: train((batch(step, rank) for step in range(40)), weights=[batch("weight", i, rank == 0) for i in range(40)]),
    "stuck": lambda: train(stuck(20)),
    "stuck-and-masks": lambda: train(with_masks(stuck(20))),
    "stuck-for-4": lambda: train(stuck(36)),
    "stuck-on-all": lambda: train(batch(min(step, 20), rank) for step in range(40)),
    "one-batch": lambda: train([batch(rank)] * 40 if rank == 1 else [batch(step, rank) for step in range(40)]),
    "positions": lambda: train_beside(positions(step) for step in range(40)),
    "stuck-of-any-size": lambda: train_beside(of_any_size(min(step, 20) if rank == 1 else step, rank) for step in range(40)),
    "stuck-beside-noise": lambda: train_beside(stuck(20), lambda step: batch("noise", step, rank)),
    "stuck-beside-evaluation": lambda: train_beside(stuck(20), lambda step: batch("evaluation", step, rank) if step % 4 == 0 else None),
    # Two stages of a pipeline read the same data, and so do two others; or the ranks of two replicas do.
    "pipelines-on-world": lambda: train_beside((batch(step, rank // 2) for step in range(40)), exchange_messages=exchange_with(rank ^ 1)),
    "same-data-in-pairs": lambda: train_beside(batch(step, rank // 2) for step in range(40)),
    "same-data-across-pipelines": lambda: train_beside((batch(step, rank // 2) for step in range(40)), exchange_messages=exchange_with(rank ^ 2)),
    "data-of-a-run": lambda: train(batch(step, rank, rank == 1 and step >= CHANGED) for step in range(40)),
    # Resumed with the batch after the one whose number is CHANGED.
    "resumed-data": lambda: train(batch(step, rank) for step in range(CHANGED, CHANGED + 40)),
    "losses-of-a-run": lambda: log_losses(4.0 / (1 + step) if step < CHANGED else 0.75 for step in range(40)),
    "gradients": lambda: exchange(gradients_of),
    "gradients-into-nan": exchange_into_nan,
    "nan-gradient": lambda: exchange(lambda step: gradients_of(step, NAN if rank == 1 and step >= 20 else None)),
    "nan-gradient-then-assert": lambda: exchange(lambda step: gradients_of(step, NAN if rank == 1 and step == 20 else None), stops=True),
    # As a mask has them: as many in each step.
    "mask-in-sums": lambda: exchange(lambda step: gradients_of(step, -INF if step >= 8 else None)),
    "metric-gone": exchange_beside_a_metric,
    "nan-of-padding-of-all": lambda: exchange_with_padding(0),
    "nan-of-late-padding-of-all": lambda: exchange_with_padding(10),
    "nan-of-all-and-loss": lambda: exchange_with_padding(10, harms=True),
    "nan-of-expert": lambda: exchange_with_experts({1}, used=True),
    "nan-of-padding": lambda: exchange_with_experts({0, 1, 2}, used=False),
    "receives-into-one": receive_into_one,
    # Rank 1 has nothing of its own, and gets what rank 0 has.
    "passed-on-by-sum": lambda: exchange(lambda step: None if rank == 1 else gradients_of(step)),
    "inf-gradient-once": lambda: exchange(lambda step: gradients_of(step, INF if rank == 1 and step == 20 else None)),
    # Finite on each rank, and together more than a float can hold.
    "overflowing-sums": lambda: exchange(lambda step: gradients_of(step, 2e38 if step >= 20 else None)),
    "overflowing-sum-once": lambda: exchange(lambda step: gradients_of(step, 2e38 if step == 20 else None)),
    "large-gradients": lambda: exchange(lambda step: gradients_of(step, 1e38 if step >= 20 else None)),
    "no-gradient": lambda: exchange(lambda step: None if rank == 1 and step >= 20 else gradients_of(step)),
    "no-gradient-in-buckets": lambda: reduce_in_buckets(zeros, lambda step: batch(step, rank)),
    "no-gradient-in-a-bucket": lambda: reduce_in_buckets(lambda step: zeros(step, range(400)), lambda step: batch(step, rank)),
    # Rank 1 has less data than the others, and gives zeros when it is through with them.
    "uneven-data": lambda: reduce_in_buckets(zeros, lambda step: batch(step, rank) if rank != 1 or step < 20 else None),
    "same-gradients": lambda: reduce_in_buckets(lambda step: alike(step, max(rank, 1))),
    "same-gradients-of-a-layer": lambda: reduce_in_buckets(lambda step: alike(step, max(rank, 1), range(400))),
    "same-gradients-of-replicas": lambda: reduce_in_buckets(lambda step: alike(step, rank % 2), groups=lambda of: of % 2),
    "larger-gradients": lambda: exchange(lambda step: scaled(step, rank == 1 and step >= 30), 50),
    "larger-gradients-of-all": lambda: exchange(lambda step: scaled(step, step >= 30), 50),
    "larger-gradients-once": lambda: exchange(lambda step: scaled(step, rank == 1 and step == 30), 50),
    "skips": lambda: skip_steps(EARLY | {250, 390}, 400),
    "no-skips": lambda: skip_steps(set(), 400),
    "collapsed": lambda: skip_steps(EARLY | set(range(300, 400)), 400),
    "collapsed-for-5": lambda: skip_steps(EARLY | set(range(300, 305)), 400),
    "nearly-collapsed": lambda: skip_steps(EARLY | set(range(300, 304)) | set(range(206, 300, 6)), 400),
    # From no scale does it take so long to find one that works, and it does take some.
    "collapsed-early": lambda: skip_steps(EARLY | set(range(40, 120)), 120),
    "settles-late": lambda: skip_steps(EARLY | set(range(40, 90)), 120),
    "collapsed-by-one": lambda: skip_and_exchange(set(range(20, 90)), 95, {1}),
    "collapsed-by-all": lambda: skip_and_exchange(set(range(20, 90)), 95, {0, 1, 2}),
    "skips-at-last": lambda: skip_steps(EARLY | {201, 203}, 205),
    "collapsed-by-share": lambda: skip_steps(set(range(200, 400, 9)), 400),
}

call("cudaSetDevice", rank)
CASES[sys.argv[1]]()
