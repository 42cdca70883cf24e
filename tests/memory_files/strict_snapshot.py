"""Reads a snapshot of PyTorch's memory and forgives nothing: what torch's viewers rely on must be there, of that type, and fit together."""
import pickle
import pickletools

# What the viewer in the browser understands.
OPCODES = {"PROTO", "FRAME", "MARK", "STOP", "MEMOIZE", "BINPUT", "LONG_BINPUT", "BINGET", "LONG_BINGET", "EMPTY_DICT", "EMPTY_LIST",
           "EMPTY_TUPLE", "TUPLE", "TUPLE1", "TUPLE2", "TUPLE3", "LIST", "DICT", "APPEND", "APPENDS", "SETITEM", "SETITEMS", "NONE",
           "NEWTRUE", "NEWFALSE", "BININT", "BININT1", "BININT2", "LONG1", "BINFLOAT", "BINUNICODE", "SHORT_BINUNICODE"}
SEGMENT = {"device": int, "address": int, "total_size": int, "allocated_size": int, "active_size": int, "requested_size": int, "stream": int,
           "segment_type": str, "segment_pool_id": tuple, "is_expandable": bool, "frames": list, "blocks": list, "category": str}
BLOCK = {"address": int, "size": int, "requested_size": int, "state": str, "frames": list}
EVENT = {"action": str, "addr": int, "size": int, "stream": int, "time_us": int, "frames": list, "category": str}
OOM = {key: kind for key, kind in EVENT.items() if key != "addr"} | {"device_free": int}
SETTINGS = {"PYTORCH_CUDA_ALLOC_CONF": str, "max_split_size": int, "garbage_collection_threshold": float, "expandable_segments": bool,
            "pinned_num_register_threads": int, "release_lock_on_cudamalloc": bool, "pinned_use_cuda_host_register": bool,
            "roundup_power2_divisions": dict}
ACTIONS = {"alloc", "free_requested", "free_completed", "segment_alloc", "segment_free", "segment_map", "segment_unmap", "snapshot", "oom"}


def need(condition, what):
    if not condition:
        raise ValueError(what)


def need_keys(record, keys, optional=()):
    need(set(record) - set(optional) == set(keys), f"keys {sorted(record)}")
    for key, kind in keys.items():
        need(type(record[key]) is kind, f"{key} = {record[key]!r}")
        need(kind is not int or -1 <= record[key] < 1 << 53, f"{key} = {record[key]}")


def read(path):
    with open(path, "rb") as file:
        data = file.read()
    need(data[:2] == b"\x80\x04", "protocol 4")
    strange = {opcode.name for opcode, _, _ in pickletools.genops(data)} - OPCODES
    need(not strange, f"opcodes {strange}")
    snapshot = pickle.loads(data)
    need_keys(snapshot, {"segments": list, "device_traces": list, "allocator_settings": dict, "external_annotations": list})
    need_keys(snapshot["allocator_settings"], SETTINGS)
    end = {}
    for segment in snapshot["segments"]:
        read_segment(segment)
        device = segment["device"]
        need(segment["address"] >= end.get(device, 0), "segments in order, apart")
        end[device] = segment["address"] + segment["total_size"]
        need(device < len(snapshot["device_traces"]), f"a history of device {device}")
    for device, events in enumerate(snapshot["device_traces"]):
        read_history([segment for segment in snapshot["segments"] if segment["device"] == device], events)
    return snapshot


def read_frames(frames):
    for frame in frames:
        need_keys(frame, {"filename": str, "line": int, "name": str})


def read_segment(segment):
    need_keys(segment, SEGMENT)
    need(segment["segment_type"] in ("small", "large"), segment["segment_type"])
    read_frames(segment["frames"])
    at, used, active = segment["address"], 0, 0
    for block in segment["blocks"]:
        need_keys(block, BLOCK, ["category"])
        read_frames(block["frames"])
        need(block["address"] == at and block["size"] > 0, "blocks fill the segment")
        need(block["state"] in ("active_allocated", "active_pending_free", "inactive"), block["state"])
        need("category" in block or block["state"] == "inactive", "whose it is")
        used += block["size"] if block["state"] == "active_allocated" else 0
        active += block["size"] if block["state"] != "inactive" else 0
        at += block["size"]
    need(at == segment["address"] + segment["total_size"], "blocks fill the segment")
    need(used == segment["allocated_size"], "the sum of the blocks")
    need(active == segment["active_size"] == segment["requested_size"], "the sum of the active blocks")


def covered(segments, address, size):
    while size > 0:
        found = next(((start, length) for start, length in segments.items() if start <= address < start + length), None)
        if found is None:
            return False
        step = min(size, found[0] + found[1] - address)
        address, size = address + step, size - step
    return True


def read_history(segments, events):
    """From the end to the beginning, as viewers go: each event must fit to what there is."""
    blocks = {block["address"]: block["size"] for segment in segments for block in segment["blocks"] if block["state"] != "inactive"}
    pending = {block["address"] for segment in segments for block in segment["blocks"] if block["state"] == "active_pending_free"}
    mapped = {segment["address"]: segment["total_size"] for segment in segments}
    categories = set()
    previous = None
    for event in reversed(events):
        need_keys(event, OOM if event["action"] == "oom" else EVENT)
        read_frames(event["frames"])
        need(event["action"] in ACTIONS, event["action"])
        categories.add(event["category"])
        need(previous is None or event["action"] in ("oom", "snapshot") or previous["time_us"] >= event["time_us"], "in the order of time")
        undo(event, pending, blocks, mapped)
        previous = event if event["action"] not in ("oom", "snapshot") else previous
    need(not pending, "frees that were requested")
    need("unknown" in categories, "viewers want a category of this name")


def undo(event, pending, blocks, mapped):
    action, address, size = event["action"], event.get("addr"), event["size"]
    if action == "alloc":
        need(blocks.pop(address, None) == size and address not in pending, f"block {address:x} was in use")
    elif action == "free_requested":
        need(blocks.get(address) == size and address in pending, f"an end of the free of block {address:x}")
        pending.remove(address)
    elif action == "free_completed":
        need(address not in blocks and covered(mapped, address, size), f"room for block {address:x}")
        blocks[address] = size
        pending.add(address)
    elif action == "segment_alloc":
        need(mapped.pop(address, None) == size, f"segment {address:x} was there")
    elif action in ("segment_free", "segment_unmap"):
        need(not covered(mapped, address, 1), f"room for segment {address:x}")
        mapped[address] = size
    elif action == "segment_map":
        unmap(address, size, mapped)
    if action in ("segment_alloc", "segment_map"):
        need(not any(start < address + size and start + length > address for start, length in blocks.items()), "an empty segment")


def unmap(address, size, mapped):
    need(covered(mapped, address, size), f"memory mapped at {address:x}")
    while size > 0:
        start = next(start for start, length in mapped.items() if start <= address < start + length)
        length = mapped.pop(start)
        taken = min(size, start + length - address)
        if address > start:
            mapped[start] = address - start
        if address + taken < start + length:
            mapped[address + taken] = start + length - address - taken
        address, size = address + taken, size - taken
