#!/usr/bin/env python3
"""Writes the traces that a simulated training job leaves, and beside them what is true of it: README.md says more.

    python3 generate.py --seed N [--form flight|text] [--fault KIND|none|any] [--ranks N] OUT_FOLDER
"""
import argparse
import json
import os
import sys

import faults
import scenario
from flight import Bases, RankDump, file_time, write_json
from flight_pickle import write_pickle

# In native traces an all-to-all of PyTorch is a group of sends and receives.
AS_MESSAGES = ["p2p.against-collective", "p2p.missing-send", "p2p.missing-recv", "p2p.count-mismatch", "p2p.order", "collective.alltoall-mismatch"]
# A message that was left out, where only what is in flight is kept: later ones took its place, and two ranks wait for each other, or an exchange of
# two messages is not answered.
AFTER_A_LOST_MESSAGE = ["p2p.cycle", "p2p.missing-send", "p2p.missing-recv"]
# What shows in operations that are still open, without those that completed before.
UNFINISHED = ("device-stalled", "stream-blocked", "transport", "wrong-count", "wrong-dtype", "wrong-kind", "cycle", "swapped")


def write_flight(drawn, folder):
    """One file per rank, named as by DebugInfoWriter: a prefix and the rank. Returns the dumps."""
    settings, simulation = drawn.settings, drawn.simulation
    dumps = {}
    for number, time in sorted(drawn.dumps.items()):
        rank = simulation.ranks[number]
        pg_ids = {comm: index for index, comm in enumerate(rank.comms.values())}
        dumps[number] = RankDump(rank, settings, time, pg_ids)
    shortest = min(len(dump.entries) for dump in dumps.values())
    if settings.long_running and shortest >= 20:
        settings.ring = min(settings.ring, shortest)
    else:
        settings.long_running = False
    bases = Bases(settings, settings.long_running)
    for number, dump in dumps.items():
        dump.keep(bases)
        path = os.path.join(folder, settings.prefix + str(number))
        (write_json if settings.json else write_pickle)(path, dump)
        if not drawn.copied:
            file_time(path, settings, dump.time)
    return dumps


def stands_in_ring(drawn, dump):
    """Whether the ring still holds what its rank stands in: its oldest operation that is not complete. Where nothing is open, it does."""
    first = next((operation.created for operation in drawn.simulation.ranks[dump.rank.number].operations
                  if operation.created <= dump.time and (operation.end is None or operation.end > dump.time)), None)
    return first is None or bool(dump.kept) and dump.kept[0].created <= first


def waits_with(drawn, dump, rank):
    """Whether that other rank has a part in what the rank of this dump stands in."""
    first = next((operation for operation in drawn.simulation.ranks[dump.rank.number].operations
                  if operation.created <= dump.time and (operation.end is None or operation.end > dump.time)), None)
    return dump.rank.number != rank and first is not None and rank in first.comm.ranks


def visible(drawn, dumps):
    """Whether the rings still hold the place of the fault, on its rank and on most others of its communicator. Of a rank that made no
    call there, or left no dump: whether most others still hold where they stand, and so do most of those that wait for it and not for others."""
    fault = drawn.fault
    if fault is None or not dumps:
        return True
    if fault.rank is None or fault.rank not in dumps or fault.comm is None:
        direct = [dump for dump in dumps.values() if waits_with(drawn, dump, fault.rank)]
        return all(2 * sum(stands_in_ring(drawn, dump) for dump in group) > len(group) for group in (dumps.values(), direct) if group)
    later = [operation.created for operation in drawn.simulation.ranks[fault.rank].operations if operation.instruction >= fault.instruction]
    if not later:
        return True
    ranks = [rank for rank in fault.comm.ranks if rank in dumps]
    if drawn.settings.only_active and fault.kind not in UNFINISHED:
        return False
    held = [rank for rank in ranks if dumps[rank].kept and dumps[rank].kept[0].created <= min(later)]
    return fault.rank in held and 2 * len(held) > len(ranks)


def time_evidence(drawn, dumps):
    """What says when the dumps were made, which no field of them does: the files' own times unless they were copied, or an entry that only
    the dump itself saw started or completed."""
    if not dumps:
        return "recorded"
    if not drawn.copied:
        return "files"
    for dump in dumps.values():
        for entry in dump.kept:
            state, _, _, retired, _ = dump.state(entry)
            if state == "started" or (state == "completed" and not retired):
                return "entries"
    return "none"


def truth(drawn, dumps):
    fault, result = drawn.fault, {"seed": drawn.seed, "form": drawn.form, "fault": "none", "culprits": [], "cause": "nothing is wrong"}
    result["acceptable_codes"] = ["run.in-progress", "run.healthy"]
    if fault is not None:
        seen = visible(drawn, dumps)
        codes = fault.codes + AS_MESSAGES * (drawn.form == "text" and fault.comm is not None and (fault.comm.name == "ep" or fault.kind == "wrong-kind"))
        if not seen and fault.kind in ("missing-send", "missing-recv"):
            codes = codes + [code for code in AFTER_A_LOST_MESSAGE if code not in codes]
        result.update({"fault": fault.kind, "culprits": fault.culprits, "cause": fault.cause, "acceptable_codes": codes, "tie": fault.tie or not seen,
                       "evidence_in_ring": seen, "instruction": fault.instruction})
        if fault.comm is not None:
            result["communicator"] = {"uid": str(fault.comm.uid), "name": fault.comm.name, "ranks": fault.comm.ranks}
        if fault.site is not None:
            result["line"] = {"file": fault.site[0], "line": fault.site[1], "function": fault.site[2]}
    settings = drawn.settings
    result.update({"victims": drawn.victims, "ranks": drawn.job.size, "stop": drawn.stop, "time_evidence": time_evidence(drawn, dumps),
                   "missing_dumps": sorted(set(range(drawn.job.size)) - set(drawn.dumps)),
                   "copied": drawn.copied, "version": settings.version, "torch_before_26": settings.before_26, "timing": settings.timing, "stacks": settings.stacks, "ring": settings.ring,
                   "json": settings.json, "only_active": settings.only_active, "timeout_ms": settings.timeout_ms,
                   "launch_queue": drawn.depth, "job": drawn.notes})
    return result


def generate(seed, form, kind, ranks, folder):
    drawn = scenario.draw(seed, form, kind, ranks)
    traces = os.path.join(folder, "traces")
    os.makedirs(traces, exist_ok=True)
    if form == "flight":
        dumps = write_flight(drawn, traces)
    else:
        import text
        dumps = {}
        text.write(drawn, os.path.join(traces, "job.txt"))
    told = truth(drawn, dumps)
    with open(os.path.join(folder, "truth.json"), "w") as file:
        json.dump(told, file, indent=1)
        file.write("\n")
    return told


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--form", choices=["flight", "text"], default="flight")
    parser.add_argument("--fault", default="any", choices=["any", "none"] + faults.TEXT)
    parser.add_argument("--ranks", type=int)
    parser.add_argument("folder")
    arguments = parser.parse_args()
    if arguments.form == "flight" and arguments.fault in set(faults.TEXT) - set(faults.FLIGHT):
        sys.exit("the Flight Recorder does not show the fault %s" % arguments.fault)
    generate(arguments.seed, arguments.form, arguments.fault, arguments.ranks, arguments.folder)


if __name__ == "__main__":
    main()
