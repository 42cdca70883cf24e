"""What PyTorch's allocator says of itself against the reports in a trace, at the same moment: when as many blocks were taken and freed."""
import json
import os
import re
import subprocess

REPORT = re.compile(r"\+[\d.]+ \S+/\d+ \* reportMemoryUsageToProfiler (?P<fields>.*)")
KEYS = ("allocated", "reserved", "peak", "taken", "freed")


class Reports:
    """The reports of one process, replayed."""

    def __init__(self):
        self.lines, self.live, self.totals = [], {}, dict.fromkeys(KEYS, 0)

    def add(self, line):
        report = REPORT.match(line)
        if report:
            self.lines.append(report["fields"])

    def step(self, fields):
        values = dict(field.split("=", 1) for field in fields.split() if "=" in field and field[0] != "@")
        change, totals = int(values["change"]), self.totals
        totals.update(allocated=int(values.get("allocated", 0)), reserved=int(values.get("reserved", 0)))
        totals["peak"] = max(totals["peak"], totals["allocated"])
        if change > 0:
            totals["taken"] += 1
            self.live[int(values["address"], 16)] = change
        else:
            totals["freed"] += 1
            self.live.pop(int(values["address"], 16), None)

    def differences(self, said):
        """`said`: what rig.dump() wrote."""
        wanted = {key: said[key] for key in KEYS}
        for fields in self.lines:
            if all(self.totals[key] == wanted[key] for key in ("taken", "freed")):
                break
            self.step(fields)
        if self.totals != wanted:
            yield f"PyTorch's allocator says {wanted}, its reports {self.totals} ({len(self.lines)} in the trace)"
        blocks = {int(address): size for address, size in said["blocks"].items()}
        if blocks != self.live:
            yield f"{len(blocks)} blocks in use, {len(self.live)} by the trace: {sorted(blocks.items() ^ self.live.items())[:4]}"


def said_by_torch():
    """For rig.dump(); of the current device."""
    import torch  # pylint: disable=import-outside-toplevel
    stats, blocks = torch.cuda.memory_stats(), {}
    for segment in torch.cuda.memory._snapshot()["segments"]:
        if segment["device"] == torch.cuda.current_device():
            blocks |= {block["address"]: block["size"] for block in segment["blocks"] if block["state"] == "active_allocated"}
    return {"allocated": stats["allocated_bytes.all.current"], "reserved": stats["reserved_bytes.all.current"],
            "peak": stats["allocated_bytes.all.peak"], "taken": stats["allocation.all.allocated"],
            "freed": stats["allocation.all.freed"], "blocks": blocks}


def keep_moment(name):
    """PyTorch's own snapshot, and the trace as it is right now, in a folder of their own."""
    import torch  # pylint: disable=import-outside-toplevel
    torch.cuda.synchronize()
    torch.empty(1, device="cuda")  # the allocator sees that streams have let go
    folder = os.path.join(os.environ["RIG_OUT"], "moments", name)
    os.makedirs(os.path.join(folder, "traces"))
    with open(os.path.join(folder, "said"), "w", encoding="utf-8") as file:
        json.dump([tiling(segment) for segment in torch.cuda.memory._snapshot()["segments"]], file)
    with open(os.path.join(folder, "peaks"), "w", encoding="utf-8") as file:
        json.dump([torch.cuda.max_memory_allocated(), torch.cuda.max_memory_reserved()], file)
    quietly = {key: value for key, value in os.environ.items() if key != "LD_PRELOAD"}
    for trace in memories_of_trace():
        subprocess.run(["cp", "--sparse=always", trace, os.path.join(folder, "traces", "now.trace")], env=quietly, check=True)


def memories_of_trace():
    """The memory that this process records into, as paths: the copy in its folder may be a second old."""
    with open("/proc/self/maps", encoding="utf-8", errors="replace") as file:
        lines = [line.split(None, 5) for line in file]
    found = {fields[5].strip(): fields[0] for fields in lines if len(fields) == 6 and ".trace" in fields[5]}
    # A memory without name has a link for each mapping.
    return [f"/proc/{os.getpid()}/map_files/{place}" if path.startswith("/memfd:") else path for path, place in found.items()]


def tiling(segment):
    """What a segment must be like in both."""
    return [segment["address"], segment["total_size"], segment["allocated_size"], segment["segment_type"], segment["is_expandable"],
            [[block["address"], block["size"], block["state"]] for block in segment["blocks"]]]


def differences_of_moment(folder, exported):
    with open(os.path.join(folder, "said"), encoding="utf-8") as file:
        said = sorted(json.load(file))
    ours = sorted(tiling(segment) for segment in exported["segments"] if segment["category"] == "PyTorch")
    if said != ours:
        first = next((pair for pair in zip(said, ours) if pair[0] != pair[1]), (said[len(ours):][:1], ours[len(said):][:1]))
        yield f"{len(said)} segments, {len(ours)} by the trace; first difference: {str(first)[:600]}"


def differences_of_peaks(folder, rows):
    """`rows`: of `report --by=rank`."""
    with open(os.path.join(folder, "peaks"), encoding="utf-8") as file:
        said = json.load(file)
    ours = [[row["peak_allocated_bytes"], row["peak_reserved_bytes"]] for row in rows]
    if ours != [said]:
        yield f"at most allocated and reserved: {said}, by the report {ours}"
