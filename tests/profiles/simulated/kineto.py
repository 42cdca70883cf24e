"""Writes a simulated job as PyTorch's profiler does: a file per rank, in the clock of its host."""
import json
import os
import random

BASE_NS = 1_732_000_000_000_000_000
FIRST_NS = 7_000_300_000_000  # of the job's time 0, after the base
GPUS_OF_A_HOST = 8


def devices(model):
    return [{"id": i, "name": model, "totalGlobalMem": 85029158912, "computeMajor": 8, "computeMinor": 0, "maxThreadsPerBlock": 1024,
             "maxThreadsPerMultiprocessor": 2048, "regsPerBlock": 65536, "warpSize": 32, "sharedMemPerBlock": 49152, "numSms": 108}
            for i in range(GPUS_OF_A_HOST)]


def head(job, rank):
    result = {"schemaVersion": 1, "deviceProperties": devices("NVIDIA A100-SXM4-80GB"), "with_stack": int(job.with_stacks),
              "traceName": f"/tmp/rank{rank.number}.json", "displayTimeUnit": "ms", "baseTimeNanoseconds": BASE_NS}
    if job.ranks > 1:
        everyone = {"pg_name": "0", "pg_desc": "default_pg", "backend_config": "cuda:nccl", "pg_size": job.ranks, "ranks": list(range(job.ranks))}
        result["distributedInfo"] = {"backend": "nccl", "rank": rank.number, "world_size": job.ranks, "pg_count": 1, "pg_config": [everyone],
                                     "nccl_version": "2.21.5"}
    return result


def work_event(work, device, show):
    arguments = {"External id": work.correlation, "device": device, "context": 1, "stream": work.stream, "correlation": work.correlation}
    if work.grid:
        arguments.update({"queued": 0, "registers per thread": 96, "shared memory": 0, "blocks per SM": 4.74, "warps per SM": 18.9,
                          "grid": work.grid, "block": work.block, "est. achieved occupancy %": 50})
    arguments.update(work.arguments)
    return {"ph": "X", "cat": work.category, "name": work.name, "pid": device, "tid": work.stream, "ts": show(work.start),
            "dur": (work.end - work.start) / 1000, "args": arguments}


def events(simulation, rank):
    job = simulation.job
    device = rank.number % job.ranks_per_host
    offset = FIRST_NS + (job.clock_offsets_ns[rank.number] if job.clock_offsets_ns else 0)
    lost = random.Random(job.seed + rank.number)

    def show(at):
        return (at + offset) / 1000  # exact to the nanosecond: there are 53 bits for it

    for category, name, thread, begin, end, arguments in rank.rows:
        if begin >= job.recording_begins_ns:
            yield {"ph": "X", "cat": category, "name": name, "pid": rank.process, "tid": thread, "ts": show(begin), "dur": (end - begin) / 1000,
                   "args": arguments}
    for work in simulation.recorded(rank):
        if job.lost_share and lost.random() < job.lost_share:
            continue
        yield work_event(work, device, show)
        if job.with_arrows:
            yield {"ph": "f", "id": work.correlation, "pid": device, "tid": work.stream, "ts": show(work.start), "cat": "ac2g", "name": "ac2g",
                   "bp": "e"}
    yield {"name": "process_name", "ph": "M", "ts": show(0), "pid": rank.process, "tid": 0, "args": {"name": "python3"}}
    yield {"name": "process_labels", "ph": "M", "ts": show(0), "pid": device, "tid": 0, "args": {"labels": f"GPU {device}"}}
    last = max(rank.now, max(work.end for work in rank.works)) + 1000
    yield {"ph": "i", "s": "g", "name": "Record Window End", "pid": "", "tid": "", "ts": show(last)}


def write(simulation, folder):
    os.makedirs(folder, exist_ok=True)
    job = simulation.job
    for rank in simulation.ranks:
        if rank.number in job.not_recorded:
            continue
        name = f"node{rank.number // job.ranks_per_host}_{rank.process}.{BASE_NS // 1_000_000 + rank.number}.pt.trace.json"
        with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
            file.write(json.dumps({**head(job, rank), "traceEvents": list(events(simulation, rank))}))
