"""Programs of a Megatron-style job: tensor, pipeline, data, and optionally context and expert parallel.

Rank order is Megatron's default, tp-cp-ep-dp-pp: tensor-parallel ranks are neighbours, pipeline stages are farthest apart. Schedules are those of
megatron/core/pipeline_parallel/schedules.py: GPipe, 1F1B, interleaved 1F1B; their messages are batch_isend_irecv groups, or, in the
unbatched variant of 1F1B, single messages in an order that alternates between even and odd stages.
"""
from model import COLLECTIVE, COMPUTE, HOST, MARK, MESSAGES, NOTHING, STREAM, WAIT, Job, Spec

TRAIN, COMMS, PIPE = "/workspace/train.py", "/workspace/model/layers.py", "/workspace/model/pipeline.py"


def draw_layout(random, ranks):
    """Factors of `ranks`: tp x cp x dp x pp, and ep as a part of dp."""
    while True:
        tp = random.choice([1, 2, 2, 4, 4, 8])
        pp = random.choice([1, 2, 2, 4, 4, 8])
        cp = random.choice([1, 1, 1, 2])
        if ranks % (tp * pp * cp) == 0 and tp * pp * cp > 1:
            break
    dp = ranks // (tp * pp * cp)
    experts = [n for n in (2, 4, 8) if dp % n == 0]
    ep = random.choice(experts) if experts and random.random() < 0.4 else 1
    return {"tp": tp, "cp": cp, "dp": dp, "pp": pp, "ep": ep}


def make_groups(job, layout):
    tp, cp, dp, pp, ep = (layout[name] for name in ("tp", "cp", "dp", "pp", "ep"))

    def rank(t, c, d, p):
        return t + tp * (c + cp * (d + dp * p))

    everyone = [(t, c, d, p) for p in range(pp) for d in range(dp) for c in range(cp) for t in range(tp)]

    def split(name, size, key, order):
        if size < 2:
            return
        lists = {}
        for place in everyone:
            lists.setdefault(key(*place), []).append(place)
        job.add_groups(name, [[rank(*place) for place in sorted(members, key=order)] for _, members in sorted(lists.items())])

    job.add_groups("default_pg", [range(job.size)])
    split("dp", dp * cp, lambda t, c, d, p: (t, p), lambda place: (place[2], place[1]))
    split("model", tp * pp, lambda t, c, d, p: (c, d), lambda place: (place[3], place[0]))
    split("tp", tp, lambda t, c, d, p: (c, d, p), lambda place: place[0])
    split("pp", pp, lambda t, c, d, p: (t, c, d), lambda place: place[3])
    split("cp", cp, lambda t, c, d, p: (t, d, p), lambda place: place[1])
    split("ep", ep, lambda t, c, d, p: (t, c, d // ep, p), lambda place: place[2])
    if pp > 1:
        job.add_groups("embedding", [[rank(t, c, d, 0), rank(t, c, d, pp - 1)] for t in range(tp) for c in range(cp) for d in range(dp)])
    return [[rank(t, c, d, p) for t in range(tp) for c in range(cp) for d in range(dp)] for p in range(pp)]


class Stage:
    """Writes the program of one pipeline stage, the same for all its ranks."""

    def __init__(self, random, layout, stage, shape):
        self.layout, self.stage, self.shape, self.random = layout, stage, shape, random
        self.program, self.tags, self.specs = [], 0, {}
        self.pending = []

    def collective(self, comm, kind, inputs, outputs, dtype, line, function, wait=STREAM, seconds=4e-4, file=COMMS, root=-1):
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

    def compute(self, seconds):
        self.program.append((COMPUTE, seconds))

    def wait_all(self):
        for tag in self.pending:
            self.program.append((WAIT, tag))
        self.pending = []

    # ---- one microbatch through the layers of this stage

    def layer(self, backward):
        layout, shape, width = self.layout, self.shape, self.shape["hidden"]
        tokens, tp = shape["tokens"], layout["tp"]
        full, part = [[tokens, 1, width]], [[tokens // tp, 1, width]]
        where = ("backward", 40) if backward else ("forward", 0)
        if tp > 1 and shape["sequence_parallel"]:
            self.collective("tp", "all_gather", part, full, "BFloat16", 118 + where[1], "gather_sequence")
        self.compute(shape["kernel"] * (2 if backward else 1))
        if layout["cp"] > 1:
            self.ring(backward)
        if tp > 1 and shape["sequence_parallel"]:
            self.collective("tp", "reduce_scatter", full, part, "BFloat16", 131 + where[1], "reduce_scatter_sequence")
        elif tp > 1:
            self.collective("tp", "all_reduce", full, full, "BFloat16", 142 + where[1], "reduce_from_tensor_parallel")
        if layout["ep"] > 1:
            self.experts(where, width, tokens // tp)
        self.compute(shape["kernel"] * (2 if backward else 1))
        if tp > 1 and not shape["sequence_parallel"]:
            self.collective("tp", "all_reduce", full, full, "BFloat16", 142 + where[1], "reduce_from_tensor_parallel")

    def experts(self, where, width, tokens):
        counts = [[self.layout["ep"] * 8]]
        self.collective("ep", "all_gather", [[8]], counts, "Long", 210 + where[1], "exchange_token_counts")
        for line in (221, 233):
            self.collective("ep", "all_to_all", [[tokens, width]], [[tokens, width]], "BFloat16", line + where[1], "dispatch_tokens",
                            seconds=8e-4)
            self.compute(self.shape["kernel"] * 0.5)

    def ring(self, backward):
        """Context parallel attention: keys and values go around, receiving and sending in one batch."""
        size, shape = self.layout["cp"], [self.shape["tokens"] // self.layout["tp"], 2, self.shape["hidden"]]
        for _ in range(size - 1):
            self.program.append((MESSAGES, "cp", ("ring", shape, "BFloat16"), True, STREAM, None,
                                 (COMMS, 310 + (25 if backward else 0), "ring_attention")))
            self.compute(self.shape["kernel"] * 0.3)

    def microbatch(self, backward):
        for _ in range(self.shape["layers"]):
            if backward and self.shape["recompute"]:
                self.layer(False)
            self.layer(backward)

    # ---- messages between stages

    def exchange(self, parts, line, function):
        """parts: (direction, "next"|"previous"). Peers around the ring of stages."""
        if not parts:
            return
        size = self.layout["pp"]
        shape = [self.shape["tokens"] // (self.layout["tp"] if self.shape["sequence_parallel"] else 1), 1, self.shape["hidden"]]
        resolved = [(d, (self.stage + (1 if to == "next" else -1)) % size, shape, "BFloat16") for d, to in parts]
        site = (PIPE, line, function)
        if self.shape["batched"]:
            self.program.append((MESSAGES, "pp", resolved, True, STREAM, None, site))
            return
        # Megatron's _p2p_ops: an even stage sends first, an odd one receives first, so single messages to a neighbour never cross.
        order = [("send", "next"), ("recv", "previous"), ("send", "previous"), ("recv", "next")]
        if self.stage % 2:
            order = [("recv", "previous"), ("send", "next"), ("recv", "next"), ("send", "previous")]
        tags = []
        for part in order:
            if part in parts:
                self.tags += 1
                tags.append(self.tags)
                self.program.append((MESSAGES, "pp", [resolved[parts.index(part)]], False, NOTHING, self.tags, site))
        for tag in tags:
            self.program.append((WAIT, tag))

    def pipeline(self, microbatches, schedule):
        size, stage = self.layout["pp"], self.stage
        if size == 1:
            for _ in range(microbatches):
                self.forward()
                self.backward()
        elif schedule == "gpipe":
            for _ in range(microbatches):
                self.exchange([("recv", "previous")] if stage else [], 61, "recv_forward")
                self.forward()
                self.exchange([("send", "next")] if stage < size - 1 else [], 66, "send_forward")
            for _ in range(microbatches):
                self.exchange([("recv", "next")] if stage < size - 1 else [], 71, "recv_backward")
                self.backward()
                self.exchange([("send", "previous")] if stage else [], 76, "send_backward")
        elif schedule == "interleaved":
            interleaved(self, microbatches)
        else:
            self.one_forward_one_backward(microbatches)

    def one_forward_one_backward(self, microbatches):
        size, stage = self.layout["pp"], self.stage
        first, last = stage == 0, stage == size - 1
        warm = min(size - stage - 1, microbatches)
        steady = microbatches - warm
        for _ in range(warm):
            self.exchange([] if first else [("recv", "previous")], 61, "recv_forward")
            self.forward()
            self.exchange([] if last else [("send", "next")], 66, "send_forward")
        if steady:
            self.exchange([] if first else [("recv", "previous")], 61, "recv_forward")
        for number in range(steady):
            self.forward()
            self.exchange([] if last else [("send", "next"), ("recv", "next")], 81, "send_forward_recv_backward")
            self.backward()
            final = number == steady - 1
            parts = [] if first else [("send", "previous")] + ([] if final else [("recv", "previous")])
            self.exchange(parts, 76 if final else 86, "send_backward" if final else "send_backward_recv_forward")
        for _ in range(warm):
            self.exchange([] if last else [("recv", "next")], 71, "recv_backward")
            self.backward()
            self.exchange([] if first else [("send", "previous")], 76, "send_backward")

    def forward(self):
        self.program.append((HOST, self.shape["host"]))
        self.microbatch(False)

    def backward(self):
        self.program.append((HOST, self.shape["host"]))
        self.microbatch(True)

    # ---- around the microbatches

    def data(self):
        if self.layout["tp"] > 1:  # rank 0 of the tensor-parallel group loads and hands on
            tokens = [[self.shape["tokens"] * 2 + 1]]
            self.collective("tp", "broadcast", tokens, tokens, "Long", 95, "broadcast_batch", seconds=1e-4, file=TRAIN, root=0)

    def update(self):
        layout, shape = self.layout, self.shape
        buckets = shape["buckets"]
        members = layout["dp"] * layout["cp"]
        coalesced = members > 1 and shape["distributed_optimizer"] and shape["coalesced"] and buckets > 1
        sizes = [shape["bucket"] * (1 + bucket % 2) for bucket in range(buckets)]
        if coalesced:  # torch.distributed._coalescing_manager: one call for all buckets
            self.collective("dp", "reduce_scatter", [[size * members] for size in sizes], [[size] for size in sizes], "Float", 264, "finish_grad_sync",
                            STREAM, 8e-3, TRAIN)
        elif members > 1:
            for size in sizes:
                if shape["distributed_optimizer"]:
                    tag = self.collective("dp", "reduce_scatter", [[size * members]], [[size]], "Float", 260, "finish_grad_sync", NOTHING, 3e-3, TRAIN)
                else:
                    tag = self.collective("dp", "all_reduce", [[size * members]], [[size * members]], "Float", 262, "finish_grad_sync", NOTHING,
                                          4e-3, TRAIN)
                self.pending.append(tag)
            self.wait_all()
        if layout["pp"] > 1 and self.stage in (0, layout["pp"] - 1):
            word = [[shape["hidden"], 512]]
            self.collective("embedding", "all_reduce", word, word, "BFloat16", 270, "sync_embedding_grads", file=TRAIN)
        if layout["tp"] * layout["pp"] > 1:
            self.collective("model", "all_reduce", [[1]], [[1]], "Float", 281, "clip_grad_norm", seconds=1e-4, file=TRAIN)
        self.compute(shape["kernel"] * 3)
        if coalesced:
            self.collective("dp", "all_gather", [[size // 2] for size in sizes], [[size // 2 * members] for size in sizes], "BFloat16", 292, "gather_params",
                            STREAM, 6e-3, TRAIN)
        elif members > 1 and shape["distributed_optimizer"]:
            for size in sizes:
                self.collective("dp", "all_gather", [[size // 2]], [[size // 2 * members]], "BFloat16", 290, "gather_params", STREAM, 2e-3, TRAIN)


def interleaved(self, microbatches):
    """forward_backward_pipelining_with_interleaving without overlap. `chunks` model chunks per rank; stages form a ring."""
    size, stage, chunks = self.layout["pp"], self.stage, self.shape["chunks"]
    first, last, total = stage == 0, stage == size - 1, microbatches * chunks
    everything_warm = microbatches == size
    warm = total if everything_warm else min((size - stage - 1) * 2 + (chunks - 1) * size, total)

    def chunk(number, forward=True):
        place = (number % (size * chunks)) // size
        return place if forward else chunks - 1 - place

    def trade(send_forward, send_backward, receive_forward, receive_backward):
        parts = [("send", "next")] * send_forward + [("recv", "previous")] * receive_forward
        parts += [("send", "previous")] * send_backward + [("recv", "next")] * receive_backward
        self.exchange(parts, 91, "exchange_chunks")

    trade(False, False, not first, False)
    for number in range(warm):
        self.forward()
        receive = number != total - 1 and not (first and chunk(number + 1) == 0)
        send = not (last and chunk(number) == chunks - 1)
        trade(send, False, receive, number == warm - 1 and not everything_warm and not last)
    for number in range(total - warm):
        ahead = number + warm
        self.forward()
        self.backward()
        send_forward = not (last and chunk(ahead) == chunks - 1)
        send_backward = not (first and chunk(number, False) == 0)
        receive_forward = not (first and chunk(ahead - (size - 1)) == chunks - 1) and number != total - warm - 1
        receive_backward = not (last and chunk(number - (size - 1), False) == 0)
        trade(send_forward, send_backward, receive_forward, receive_backward)
    if everything_warm:
        trade(False, False, False, not last)
    for number in range(total - warm, total):
        self.backward()
        receive = number != total - 1 and not (last and chunk(number + 1, False) == chunks - 1)
        trade(False, not (first and chunk(number, False) == 0), False, receive)


def resolve_rings(job):
    """Ring attention is written once for a stage; who is next in the ring differs between its ranks."""
    cache = {}
    for rank in range(job.size):
        comm = job.comms[rank].get("cp")
        if comm is None:
            continue
        own, size, program = comm.position[rank], len(comm.ranks), job.programs[rank]
        key = (id(program), own)
        if key not in cache:
            cache[key] = [resolve_ring(step, own, size) for step in program], program
        job.programs[rank] = cache[key][0]


def resolve_ring(step, own, size):
    if step[0] != MESSAGES or step[2][0] != "ring":
        return step
    _, shape, dtype = step[2]
    parts = [("send", (own + 1) % size, shape, dtype), ("recv", (own - 1) % size, shape, dtype)]
    return step[:2] + (parts,) + step[3:]


def draw_shape(random, layout, budget):
    """Sizes, and how many steps and layers give about `budget` operations per rank."""
    shape = {"hidden": random.choice([2048, 4096, 5120]), "tokens": random.choice([2048, 4096, 8192]),
             "sequence_parallel": random.random() < 0.6, "recompute": random.random() < 0.3, "kernel": random.uniform(0.5e-3, 4e-3),
             "host": random.uniform(2e-4, 3e-3), "batched": random.random() < 0.7, "distributed_optimizer": random.random() < 0.5, "coalesced": random.random() < 0.4,
             "buckets": random.randint(1, 5), "bucket": random.choice([1 << 20, 5 << 20, 12582912]), "layers": random.randint(1, 3),
             "chunks": 2, "schedule": random.choice(["1f1b", "1f1b", "gpipe", "interleaved"])}
    if layout["pp"] % 2 and layout["pp"] > 1:
        shape["batched"] = True
    if shape["schedule"] == "interleaved":
        shape["batched"], shape["layers"] = True, 1
    shape["microbatches"] = layout["pp"] * random.choice([1, 2]) if shape["schedule"] == "interleaved" else random.randint(1, 2) * max(2, layout["pp"])
    per_layer = 2 * (2 if layout["tp"] > 1 else 0) + 3 * (layout["ep"] > 1) * 2 + (layout["cp"] - 1) * 2
    per_step = shape["microbatches"] * (shape["layers"] * max(1, per_layer) * (2 if shape["recompute"] else 1) + 3) + shape["buckets"] * 2
    shape["steps"] = max(4, min(12, budget // max(1, per_step)))
    return shape


def build(random, ranks, budget, extras):
    job = Job(ranks)
    layout = draw_layout(random, ranks)
    shape = draw_shape(random, layout, budget)
    job.notes.update({"layout": layout, "schedule": shape["schedule"] if layout["pp"] > 1 else "none", "framework": "3d",
                      "microbatches": shape["microbatches"], "steps": shape["steps"]})
    stages = make_groups(job, layout)
    for number, members in enumerate(stages):
        writer = Stage(random, layout, number, shape)
        for step in range(shape["steps"]):
            writer.program.append((MARK, "step", step))
            extras.before(writer.program, step)
            writer.data()
            writer.pipeline(shape["microbatches"], shape["schedule"])
            writer.update()
            extras.after(writer, step)
        for rank in members:
            job.programs[rank] = writer.program
    resolve_rings(job)
    return job
