"""Programs of data-parallel jobs: DDP with buckets, FSDP, and HSDP (shards in a group, replicas across)."""
from model import COLLECTIVE, COMPUTE, HOST, MARK, NOTHING, STREAM, WAIT, Job, Spec

TRAIN, FSDP, DDP = "/workspace/train.py", "/workspace/model/fsdp_wrap.py", "/workspace/model/ddp_wrap.py"


class Writer:
    """Writes the one program that all ranks share."""

    def __init__(self):
        self.program, self.tags, self.specs = [], 0, {}

    def collective(self, comm, kind, inputs, outputs, dtype, line, function, wait=STREAM, seconds=1e-3, file=FSDP, root=-1):
        key = (kind, str(inputs), str(outputs), dtype, line, root)
        spec = self.specs.get(key)
        if spec is None:
            spec = self.specs[key] = Spec(kind, inputs, outputs, dtype, (file, line, function), seconds, root)
        tag = None
        if wait == NOTHING:
            self.tags += 1
            tag = self.tags
        self.program.append((COLLECTIVE, comm, spec, wait, tag))
        return tag


def ddp(random, job, extras, budget):
    """torch.nn.parallel.DistributedDataParallel: an all-reduce per bucket while the backward pass goes on, waited for at its end;
    buffers are broadcast before each forward pass; no_sync() for all but the last microbatch."""
    job.add_groups("default_pg", [range(job.size)])
    own_group = random.random() < 0.3
    if own_group:  # a second group of the same members
        job.add_groups("dp", [range(job.size)])
    group = "dp" if own_group else "default_pg"
    buckets, accumulate = [random.choice([262144, 6553600, 6553600, 3100000]) for _ in range(random.randint(3, 12))], random.choice([1, 1, 2, 4])
    buffers, kernel = random.random() < 0.5, random.uniform(1e-3, 1e-2)
    steps = max(4, min(60, budget // (len(buckets) + 2)))
    job.notes.update({"framework": "ddp", "buckets": len(buckets), "accumulate": accumulate, "steps": steps})
    writer = Writer()
    program = writer.program
    for step in range(steps):
        program.append((MARK, "step", step))
        for micro in range(accumulate):
            extras.before(program, step)
            synced = micro == accumulate - 1
            if buffers and synced:
                writer.collective(group, "broadcast", [[2048]], [[2048]], "Float", 77, "sync_buffers", STREAM, 1e-4, DDP, root=0)
            program += [(COMPUTE, kernel)] * 4
            program.append((HOST, 1e-3))
            tags = []
            for bucket in buckets:
                program.append((COMPUTE, kernel))
                if synced:
                    tags.append(writer.collective(group, "all_reduce", [[bucket]], [[bucket]], "Float", 142, "backward", NOTHING, bucket * 1e-9, TRAIN))
            program += [(WAIT, tag) for tag in tags]
        program.append((COMPUTE, kernel))
        extras.after(writer, step)
    return writer


def fsdp(random, job, extras, budget):
    """All-gather before each layer, one ahead of it; again in the backward pass, and once more where activations are computed again;
    reduce-scatter of its gradients; HSDP then all-reduces the shards across replicas. Without reshard_after_forward the backward pass gathers nothing."""
    size = job.size
    job.add_groups("default_pg", [range(size)])
    shards = random.choice([n for n in (2, 4, 8, 16, size) if size % n == 0])
    hybrid = 1 < shards < size
    if hybrid:
        job.add_groups("shard", [range(start, start + shards) for start in range(0, size, shards)])
        job.add_groups("replicate", [range(start, size, shards) for start in range(shards)])
    group = "shard" if hybrid else "default_pg"
    if not hybrid:
        shards = size
    layers, keep = random.randint(3, 10), random.random() < 0.2
    recompute, accumulate, kernel = random.random() < 0.4, random.choice([1, 1, 2]), random.uniform(1e-3, 8e-3)
    sizes = [shards * random.choice([1 << 18, 1 << 20, 3 << 18])] * layers
    sizes[0] = sizes[0] * 2
    steps = max(4, min(40, budget // (accumulate * layers * (4 if recompute else 3))))
    job.notes.update({"framework": "hsdp" if hybrid else "fsdp", "shards": shards, "layers": layers, "recompute": recompute, "steps": steps})
    writer = Writer()
    program = writer.program

    def gather(layer, line):
        return writer.collective(group, "all_gather", [[sizes[layer] // shards]], [[sizes[layer]]], "BFloat16", line, "unshard", NOTHING, sizes[layer] * 4e-10)

    def walk(order, line):
        """Gathers one layer ahead (prefetch) and yields each once its parameters are there."""
        ahead = gather(order[0], line)
        for position, layer in enumerate(order):
            here = ahead
            if position + 1 < len(order):
                ahead = gather(order[position + 1], line)
            program.append((WAIT, here))
            yield layer

    for step in range(steps):
        program.append((MARK, "step", step))
        for _ in range(accumulate):
            extras.before(program, step)
            for _ in walk(list(range(layers)), 52):
                program.append((COMPUTE, kernel))
            tags = []
            backward = list(reversed(range(layers)))
            for layer in backward if keep else walk(backward, 64):
                if recompute:
                    program.append((COMPUTE, kernel))
                program.append((COMPUTE, kernel * 2))
                tags.append(writer.collective(group, "reduce_scatter", [[sizes[layer]]], [[sizes[layer] // shards]], "BFloat16", 71, "post_backward",
                                              NOTHING, sizes[layer] * 4e-10))
                if hybrid:
                    tags.append(writer.collective("replicate", "all_reduce", [[sizes[layer] // shards]], [[sizes[layer] // shards]], "Float", 74,
                                                  "post_backward", NOTHING, 1e-3))
            program += [(WAIT, tag) for tag in tags]
        writer.collective("default_pg", "all_reduce", [[1]], [[1]], "Float", 155, "clip_grad_norm", STREAM, 1e-4, TRAIN)
        program.append((COMPUTE, kernel))
        extras.after(writer, step)
    return writer


def build(random, ranks, budget, extras):
    job = Job(ranks)
    writer = (ddp if random.random() < 0.4 else fsdp)(random, job, extras, budget)
    for rank in range(ranks):
        job.programs[rank] = writer.program
    return job
