"""Reads a dump of PyTorch's Flight Recorder and forgives nothing: what torch's own analyzer relies on must be there, of that type."""
import pickle
import pickletools
import re

PLAIN = {"PROTO", "EMPTY_DICT", "EMPTY_LIST", "EMPTY_TUPLE", "MARK", "SETITEM", "SETITEMS", "APPEND", "APPENDS", "BINUNICODE", "BININT", "BININT1",
         "BININT2", "LONG1", "NONE", "NEWTRUE", "NEWFALSE", "BINPUT", "LONG_BINPUT", "BINGET", "LONG_BINGET", "TUPLE", "TUPLE1", "TUPLE2",
         "TUPLE3", "BINFLOAT", "STOP"}
STATUS = {"last_enqueued_collective": int, "last_started_collective": int, "last_completed_collective": int}
ENTRY = {"record_id": int, "pg_id": int, "process_group": tuple, "thread_name": str, "thread_id": str, "collective_seq_id": int, "p2p_seq_id": int,
         "op_id": int, "profiling_name": str, "time_created_ns": int, "input_sizes": list, "input_dtypes": list, "output_sizes": list,
         "output_dtypes": list, "state": str, "time_discovered_started_ns": (int, type(None)),
         "time_discovered_completed_ns": (int, type(None)), "retired": bool, "timeout_ms": int, "is_p2p": bool}
FRAME = {"name": str, "filename": str, "line": int}
NAME = re.compile(r"nccl:(send \d+->\d+|recv \d+<-(\d+|\?)|[_a-zA-Z]+)")


def need(condition, what):
    if not condition:
        raise ValueError(what)


def need_keys(record, keys, optional=()):
    need(set(record) - set(optional) == set(keys), f"keys {sorted(record)}")
    for key, kind in keys.items():
        need(isinstance(record[key], kind) and (kind is not int or not isinstance(record[key], bool)), f"{key} = {record[key]!r}")


def read(path):
    with open(path, "rb") as file:
        data = file.read()
    strange = {opcode.name for opcode, _, _ in pickletools.genops(data)} - PLAIN
    need(not strange, f"opcodes {strange}")
    dump = pickle.loads(data)
    need_keys(dump, {"version": str, "pg_config": dict, "nccl_version": str, "pg_status": dict, "entries": list})
    for name, group in dump["pg_config"].items():
        need_keys(group, {"name": str, "desc": str, "ranks": str})
        need(group["name"] == name and re.fullmatch(r"\[\d+(, \d+)*\]", group["ranks"]), f"group {group}")
    for status in dump["pg_status"].values():
        need_keys(status, STATUS)
    for number, entry in enumerate(dump["entries"]):
        read_entry(dump, number, entry)
    return dump


def read_entry(dump, number, entry):
    need_keys(entry, ENTRY, ["frames"])
    for frame in entry.get("frames", []):
        need_keys(frame, FRAME)
    need(entry["record_id"] == dump["entries"][0]["record_id"] + number, f"record {number} is called {entry['record_id']}")
    need(entry["process_group"][0] in dump["pg_config"] and str(entry["pg_id"]) in dump["pg_status"], f"group {entry['process_group']}")
    need(NAME.fullmatch(entry["profiling_name"]), entry["profiling_name"])
    need(entry["state"] in ("scheduled", "started", "completed"), entry["state"])
    need(entry["is_p2p"] == entry["profiling_name"].startswith(("nccl:send", "nccl:recv")), entry["profiling_name"])
    for side in ("input", "output"):
        sizes, types = entry[f"{side}_sizes"], entry[f"{side}_dtypes"]
        need(len(sizes) == len(types) and all(isinstance(size, int) for tensor in sizes for size in tensor), f"{sizes} {types}")
