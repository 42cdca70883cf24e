"""The pickled form of a dump, fast enough for hundreds of ranks with full rings: what two entries have in common is encoded once."""
import struct

from flight import library_version, optional_fields
from torch_pickle import FALSE, NONE, TRUE, Pickler


def write_pickle(path, dump):
    pickler = Pickler()
    top = [("version", dump.settings.version), ("pg_config", dump.config())] + list(library_version(dump.settings).items())
    head = pickler.document(top + [("pg_status", dump.status())])[:-2]
    name = pickler.text("entries")
    entries = [encode(pickler, dump, entry) for entry in dump.kept]
    with open(path, "wb") as file:
        file.write(head + name + b"](" + b"".join(entries) + b"eu.")


def long(value):
    return b"\x8a\x08" + struct.pack("<q", value)


def encode(pickler, dump, entry):
    text, integer = pickler.text, pickler.integer
    operation = entry.operation
    coll, p2p = dump.bases.of(dump.rank.number, entry.comm)
    state, started, completed, retired, duration = dump.state(entry)
    uneven = operation.spec is not None and operation.spec.kind == "all_to_all"
    shape = dump.uneven(entry) if uneven else 0
    kind = (operation.spec or (operation.site, entry.name), entry.comm)
    parts = [b"}("]
    if dump.settings.stacks:
        parts.append(pickler.block(("frames",) + kind, lambda: [("frames", dump.frames(entry))]))
    parts += [text("record_id"), integer(entry.record + dump.bases.records(dump.rank.number)),
              pickler.block(("group", entry.comm), lambda: [("pg_id", dump.pg_ids[entry.comm]), ("process_group", dump.groups(entry))])]
    optional = optional_fields(dump, entry)
    if "thread_name" in optional:
        parts.append(pickler.block(("thread",) + kind, lambda: [(name, optional[name]) for name in ("thread_name", "thread_id")]))
    parts += [text("collective_seq_id"), integer(entry.coll + coll), text("p2p_seq_id"), integer(entry.p2p + p2p), text("op_id"),
              integer(entry.op + coll + p2p), text("profiling_name"), text(entry.name), text("time_created_ns"), long(dump.nanoseconds(entry.created))]
    if duration is not None:
        parts += [text("duration_ms"), b"G" + struct.pack(">d", duration)]

    def sizes():
        values = dump.sizes(entry)
        return zip(("input_sizes", "input_dtypes", "output_sizes", "output_dtypes"), values)

    parts.append(pickler.block(("sizes", shape, entry.name, entry.part and tuple(entry.part[2])) + kind, sizes))
    parts += [text("state"), text(state), text("time_discovered_started_ns"), NONE if started is None else long(started),
              text("time_discovered_completed_ns"), NONE if completed is None else long(completed), text("retired"), TRUE if retired else FALSE]
    parts.append(pickler.block(("end", entry.is_p2p), lambda: [(name, optional[name]) for name in ("timeout_ms", "is_p2p") if name in optional]))
    parts.append(b"u")
    return b"".join(parts)
