#!/usr/bin/python3
"""Compares traces with what PyTorch's Flight Recorder dumped in the same run, record by record.

  compare_flight.py TRACEDUMP FLIGHT..

TRACEDUMP is the output of `traintrace dump`, FLIGHT one dump of Flight Recorder per rank, named flight.RANK; memory.RANK and
allocator.RANK beside it are compared too.  For every record of Flight Recorder the trace must have the NCCL calls that it stands for, in
the same order, with the same element count and type, on the communicator of the same process group, from the same lines of Python; and
no others.
Ends with 1 where something differs, and names the first differences of each rank.
"""
import collections
import json
import os
import pickle
import re
import sys

from compare_memory import Reports

TYPES = {"Float": "float32", "Double": "float64", "Half": "float16", "BFloat16": "bfloat16", "Long": "int64", "Int": "int32",
         "Byte": "uint8", "Bool": "uint8", "Char": "int8"}
# Flight Recorder's name: NCCL's function, and whether its count is that of one input or of one output.
CALLS = {"all_reduce": ("ncclAllReduce", "input"), "all_reduce_barrier": ("ncclAllReduce", "input"),
         "broadcast": ("ncclBcast", "input"), "_broadcast_oop": ("ncclBroadcast", "input"), "reduce": ("ncclReduce", "input"),
         "all_gather": ("ncclAllGather", "input"), "_all_gather_base": ("ncclAllGather", "input"),
         "reduce_scatter": ("ncclReduceScatter", "output"), "_reduce_scatter_base": ("ncclReduceScatter", "output"),
         "allreduce_coalesced": ("ncclAllReduce", "input"), "ALLGATHER_coalesced": ("ncclAllGather", "input"),
         "all_gather_into_tensor_coalesced": ("ncclAllGather", "input"),
         "reduce_scatter_tensor_coalesced": ("ncclReduceScatter", "output")}
OPERATIONS = {name for name, _ in CALLS.values()} | {"ncclSend", "ncclRecv"}
CALL = re.compile(r"\+[\d.]+ (?P<process>\S+)/(?P<thread>\d+) (?P<way>[<>]) (?P<name>\w+) (?P<fields>.*)")
PROCESS = re.compile(r"process (?P<key>\S+) rank=(?P<rank>\d+) .*\bpid=(?P<pid>\d+) parent=(?P<parent>\d+)")
FRAME = re.compile(r"(?P<file>\S+):(?P<line>\d+):(?P<name>\S+)")

Operation = collections.namedtuple("Operation", "name count type group frames")


def product(sizes):
    out = 1
    for size in sizes:
        out *= size
    return out


def expected(entry, rank, ranks):
    """The NCCL operations that one record of Flight Recorder stands for; their group is the process group, or a pair of ranks."""
    name = entry["profiling_name"].removeprefix("nccl:")
    group = (entry["process_group"][0], None)
    frames = [(frame["filename"], frame["line"]) for frame in entry["frames"]]
    peer = re.fullmatch(r"(send|recv) (\d+)(->|<-)(\d+)", name)
    if peer:
        yield Operation("ncclSend" if peer[1] == "send" else "ncclRecv", product(entry["input_sizes"][0]),
                        TYPES[entry["input_dtypes"][0]], group, frames)
    elif name in ("coalesced", ""):  # stands for the records before it
        return
    elif name in ("all_to_all", "gather", "scatter"):
        yield from exchanged(entry, name, group, frames, rank, ranks)
    elif name in CALLS:
        call, side = CALLS[name]
        for sizes, type_name in zip(entry[f"{side}_sizes"], entry[f"{side}_dtypes"]):
            yield Operation(call, product(sizes), TYPES[type_name], group, frames)
    else:
        raise SystemExit(f"compare_flight: what is Flight Recorder's '{name}'?")


def exchanged(entry, name, group, frames, rank, ranks):
    """all_to_all as PyTorch makes it: a send and a receive for every rank."""
    if name != "all_to_all":
        raise SystemExit(f"compare_flight: '{name}' is not known yet")
    for sent, received in zip(entry["input_sizes"], entry["output_sizes"]):
        for call, sizes in (("ncclSend", sent), ("ncclRecv", received)):
            each = product(sizes) // (len(ranks) if len(entry["input_sizes"]) == 1 else 1)
            for _ in range(len(ranks) if len(entry["input_sizes"]) == 1 else 1):
                yield Operation(call, each, TYPES[entry["input_dtypes"][0]], group, frames)


class Trace:
    """The NCCL operations and allocations of one process, as `traintrace dump` prints them."""

    def __init__(self, process):
        self.pid, self.parent, self.rank = process["pid"], process["parent"], int(process["rank"])
        self.stacks, self.calls, self.allocated, self.entered = {}, [], [], {}
        self.reports = Reports()

    def read_stack(self, line):
        _, number, *frames = line.split()
        python = [FRAME.fullmatch(frame) for frame in frames if not frame.startswith("0x")]
        self.stacks[number] = [(frame["file"], int(frame["line"])) for frame in python if frame]

    def read_call(self, call):
        fields = dict(field.split("=", 1) for field in call["fields"].split() if "=" in field and field[0] != "@")
        if call["name"] == "cudaMalloc" and call["way"] == ">":
            self.entered[call["thread"]] = int(fields["bytes"])
        elif call["name"] == "cudaMalloc" and "=cudaSuccess" in call["fields"]:
            self.allocated.append(self.entered[call["thread"]])
        # An operation without a sequence number is captured into a graph: Flight Recorder leaves those out.
        elif call["name"] in OPERATIONS and call["way"] == ">" and fields.get("seq") != "0":
            stack = re.search(r"@(\d+)", call["fields"])
            self.calls.append((call["name"], int(fields["count"]), fields["type"], fields["comm"], stack and stack[1]))

    def operations(self):
        return [Operation(*call[:4], self.stacks.get(call[4], [])) for call in self.calls]


def read_traces(path):
    """By rank; a process that another one of the rank started is left out."""
    processes, current = {}, None
    with open(path, encoding="utf-8") as lines:
        for line in lines:
            if process := PROCESS.match(line):
                current = processes[process["key"]] = Trace(process)
            elif line.startswith("stack "):
                current.read_stack(line)
            elif current and " * " in line:
                current.reports.add(line)
            elif (call := CALL.match(line)) and call["process"] in processes:
                processes[call["process"]].read_call(call)
    pids = {trace.pid for trace in processes.values()}
    return {trace.rank: trace for trace in processes.values() if trace.parent not in pids}


def compare(rank, flight, trace):
    """The differences of one rank, as text."""
    wanted = []
    for entry in flight["entries"]:
        ranks = json.loads(flight["pg_config"][entry["process_group"][0]]["ranks"])
        wanted += expected(entry, rank, ranks)
    found, communicator_of = trace.operations(), {}
    if len(wanted) != len(found):
        yield f"Flight Recorder has {len(wanted)} operations, the trace {len(found)}"
    for number, (want, have) in enumerate(zip(wanted, found)):
        if want[:3] != have[:3]:
            yield f"operation {number}: Flight Recorder {want[:3]}, trace {have[:3]}"
        if want.name not in ("ncclSend", "ncclRecv") and communicator_of.setdefault(want.group, have.group) != have.group:
            yield f"operation {number}: process group {want.group} on communicator {have.group}, before {communicator_of[want.group]}"
        if want.frames != have.frames:
            yield f"operation {number} {want.name}: Flight Recorder's frames {want.frames}, the trace's {have.frames}"
    if len(set(communicator_of.values())) != len(communicator_of):
        yield f"two process groups on one communicator: {communicator_of}"


def compare_memory(path, trace):
    if os.path.exists(path):
        with open(path, encoding="utf-8") as file:
            stats = json.load(file)
        have = {"segments": len(trace.allocated), "bytes": sum(trace.allocated)}
        if stats != have:
            yield f"memory_stats {stats}, cudaMalloc in the trace {have}"


def compare_allocator(path, trace):
    if os.path.exists(path):
        with open(path, encoding="utf-8") as file:
            yield from trace.reports.differences(json.load(file))


def main(dump, *flights):
    traces, operations, differences = read_traces(dump), 0, 0
    for path in flights:
        rank = int(path.rsplit(".", 1)[1])
        with open(path, "rb") as file:
            flight = pickle.load(file)
        if rank not in traces:
            raise SystemExit(f"compare_flight: no trace of rank {rank}")
        found = list(compare(rank, flight, traces[rank]))
        found += compare_memory(os.path.join(os.path.dirname(path), f"memory.{rank}"), traces[rank])
        found += compare_allocator(os.path.join(os.path.dirname(path), f"allocator.{rank}"), traces[rank])
        operations += len(traces[rank].calls)
        differences += len(found)
        for text in found[:5]:
            print(f"rank {rank}: {text}")
    print(f"{operations} operations of {len(flights)} ranks: {differences} differences")
    return 1 if differences else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
