"""Writes dumps as PyTorch's Flight Recorder would, of a job of one group in which a rank may go wrong.

  generate.py FOLDER --ranks=512 --records=1000 --fault=missing --culprit=3

Faults: none, missing (all that it issued is done, and it issues nothing more), stalled (its GPU does not get done what the
others did), count (its last record has another size), skipped (it left out one in the middle, of another size than its neighbours).
With --ahead=N the others have issued N further ones; each dump lists the last --keep=N, as a recorder of that size would.
"""
import argparse
import json
import os
import pickle

SECOND = 1_000_000_000
START = 1_758_580_000 * SECOND


def entry(rank, number, sequence, size, state, version):
    record = {
        "frames": [{"name": "step", "filename": "/job/train.py", "line": 100 + number % 7}, {"name": "main", "filename": "/job/train.py", "line": 7}],
        "record_id": number, "pg_id": 0, "process_group": ("0", "dp"), "collective_seq_id": sequence, "p2p_seq_id": 0, "op_id": sequence,
        "profiling_name": "nccl:all_reduce", "time_created_ns": START + number * 1_000_000 + rank, "input_sizes": [[size, 4]],
        "input_dtypes": ["Float"], "output_sizes": [[size, 4]], "output_dtypes": ["Float"], "state": state, "time_discovered_started_ns": None,
        "time_discovered_completed_ns": START + number * 1_000_000 + 500_000 if state == "completed" else None,
        "retired": state == "completed", "timeout_ms": 180_000, "is_p2p": False}
    if version >= (2, 9):
        record |= {"thread_name": "python3", "thread_id": "23456244340032"}
    return record


def dump(rank, options, version=(2, 9)):
    last = options.records
    wrong = rank == options.culprit and options.fault != "none"
    finished = last if options.fault == "none" else last - 1
    if wrong and options.fault == "stalled":
        finished = last - 3
        last = last - 1
    if wrong and options.fault == "missing":
        last = last - 1
    if not wrong:
        last += options.ahead
    entries = []
    skip = options.records // 2 if wrong and options.fault == "skipped" else 0
    for number in range(1, last + 1 + (1 if skip else 0)):
        if number == skip:
            continue
        sequence = number - 1 if skip and number > skip else number
        size = 64 + 8 * (number % 5)
        if wrong and options.fault == "count" and number == last:
            size += 1
        state = "completed" if sequence <= finished else "scheduled"
        entries.append(entry(rank, len(entries), sequence, size, state, version))
    ranks = "[" + ", ".join(str(other) for other in range(options.ranks)) + "]"
    out = {"version": ".".join(str(part) for part in version), "pg_config": {"0": {"name": "0", "desc": "dp", "ranks": ranks}},
           "comm_lib_version" if version >= (2, 10) else "nccl_version": "2.27.3",
           "pg_status": {"0": {"last_enqueued_collective": entries[-1]["collective_seq_id"], "last_started_collective": -1,
                               "last_completed_collective": min(finished, entries[-1]["collective_seq_id"])}},
           "entries": entries[-options.keep:]}
    if version < (1, 2):
        del out["pg_config"], out["pg_status"]
    return out


def message_dump(rank, options, fault="none", first=0):
    """Of a job in which each rank but the last sends to the next; rank `culprit` may leave the last send out, or send less.

    `grouped`: what a rank sends and receives is called as one, and only the entry that closes it says that it is done; `newer`: as
    PyTorch since 2.7 marks that entry.
    """
    entries = []
    for step in range(options.records):
        last = step == options.records - 1
        state = "completed" if not last or fault == "none" else "scheduled"
        calls = [(f"nccl:recv {rank}<-{rank - 1}", 64)] if rank > 0 else []
        if rank + 1 < options.ranks and not (fault == "unsent" and last and rank == options.culprit):
            calls.append((f"nccl:send {rank}->{rank + 1}", 32 if "short" in fault and last and rank == options.culprit else 64))
        grouped = fault.startswith("grouped")
        for name, size in calls:
            number = len(entries)
            # What the culprit does not send holds up nothing before it.
            arrives = fault == "unsent" and name in (f"nccl:recv {options.culprit}<-{options.culprit - 1}", f"nccl:send {options.culprit - 1}->{options.culprit}")
            one = entry(rank, number, step + 1, size, "scheduled" if grouped else "completed" if arrives else state, (2, 9))
            entries.append(one | {"record_id": first + number, "profiling_name": name, "p2p_seq_id": step + 1, "collective_seq_id": 0,
                                  "is_p2p": True})
        if grouped and calls:
            number = len(entries)
            closing = entry(rank, number, step + 1, 0, "completed", (2, 9))
            entries.append(closing | {"record_id": first + number, "profiling_name": "nccl:coalesced", "p2p_seq_id": step + 1, "collective_seq_id": 0,
                                      "is_p2p": "newer" in fault})
    ranks = "[" + ", ".join(str(other) for other in range(options.ranks)) + "]"
    return {"version": "2.9", "pg_config": {"0": {"name": "0", "desc": "pp", "ranks": ranks}}, "nccl_version": "2.27.3",
            "pg_status": {"0": {"last_enqueued_collective": -1, "last_started_collective": -1, "last_completed_collective": -1}},
            "entries": entries}


def coalesced_dump(rank, options, closing="coalesced", lost=0, apart=200):
    """Each collective as three parts, never done, and the entry that closes them.  Steps are 200 s apart: more than the time limit.

    Faults: none, missing (the last is not called), stalled (nobody gets done with the last).  The first `lost` records are not there.
    """
    entries = []
    steps = options.records - (1 if options.fault == "missing" and rank == options.culprit else 0)
    for step in range(steps):
        done = step < options.records - 1 or options.fault == "none"
        for name in ("_broadcast_oop", "_broadcast_oop", "_broadcast_oop", closing):
            one = entry(rank, len(entries), step + 1, 64 if name != closing else 0, "completed" if name == closing and done else "scheduled", (2, 9))
            one["time_created_ns"] = START + step * apart * SECOND + len(entries)
            one["time_discovered_completed_ns"] = one["time_created_ns"] + 500_000 if one["state"] == "completed" else None
            if name == closing:
                one |= {"input_sizes": [], "input_dtypes": [], "output_sizes": [], "output_dtypes": []}
            entries.append(one | {"profiling_name": "nccl:" + name})
    done = options.records if options.fault == "none" else options.records - 1
    return {"version": "2.9", "nccl_version": "2.27.3", "entries": entries[lost:],
            "pg_config": {"0": {"name": "0", "desc": "dp", "ranks": str(list(range(options.ranks)))}},
            "pg_status": {"0": {"last_enqueued_collective": steps, "last_started_collective": -1, "last_completed_collective": done}}}


def as_json(dumped):
    """What the JSON form has otherwise."""
    for record in dumped["entries"]:
        record.pop("frames")
        record["process_group"] = list(record["process_group"])
        for key in ("time_discovered_started_ns", "time_discovered_completed_ns"):
            record[key] = record[key] or 0
    for status in dumped.get("pg_status", {}).values():
        for key in status:
            status[key] = str(status[key])
    return json.dumps(dumped).encode()


def write(folder, options, name="_dump_{}", version=(2, 9), form="pickle"):
    os.makedirs(folder, exist_ok=True)
    for rank in range(options.ranks):
        dumped = dump(rank, options, version)
        with open(os.path.join(folder, name.format(rank)), "wb") as file:
            file.write(as_json(dumped) if form == "json" else pickle.dumps(dumped, protocol=2))


def options_of(arguments):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder")
    parser.add_argument("--ranks", type=int, default=4)
    parser.add_argument("--records", type=int, default=40)
    parser.add_argument("--ahead", type=int, default=0)
    parser.add_argument("--keep", type=int, default=2000)
    parser.add_argument("--culprit", type=int, default=2)
    parser.add_argument("--fault", default="none", choices=["none", "missing", "stalled", "count", "skipped"])
    return parser.parse_args(arguments)


if __name__ == "__main__":
    chosen = options_of(None)
    write(chosen.folder, chosen)
