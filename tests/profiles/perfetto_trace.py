"""Reads a trace for Perfetto by protoc and a schema of our own, and takes nothing that Perfetto would have to guess."""
import ast
import collections
import os
import re
import subprocess

SCHEMA = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "memory_files")
# begins: arrows that lead from it; ends: those that lead to it; end None: it did not end.
Slice = collections.namedtuple("Slice", "track name start end begins ends notes")
Instant = collections.namedtuple("Instant", "track name time notes")


def text_of(token):
    return ast.literal_eval("b" + token).decode("utf-8", "replace") if token.startswith('"') else token


def packets_of(path):
    """Of each packet a dictionary of lists; messages are dictionaries in turn."""
    with open(path, "rb") as file:
        done = subprocess.run(["protoc", "--decode=Trace", "--proto_path", SCHEMA, "perfetto.proto"], stdin=file, capture_output=True,
                              timeout=240, check=False)
    assert (done.returncode, done.stderr) == (0, b""), done.stderr
    top = collections.defaultdict(list)
    open_messages = [top]
    for line in done.stdout.decode().splitlines():
        line = line.strip()
        if line == "}":
            open_messages.pop()
        elif line.endswith(" {"):
            message = collections.defaultdict(list)
            open_messages[-1][line[:-2]].append(message)
            open_messages.append(message)
        else:
            key, value = line.split(": ", 1)
            open_messages[-1][key].append(text_of(value))
        assert not re.match(r"\d", line), f"the schema has no such field: {line}"
    return top["packet"]


class Reader:
    def __init__(self, path):
        self.tracks, self.parents, self.processes = {0: ""}, {}, {}
        self.names = {}
        self.slices, self.instants, self.counters = [], [], collections.defaultdict(list)
        self.open = collections.defaultdict(list)
        self.times = collections.defaultdict(int)
        packets = packets_of(path)
        assert dict(packets[0]) == {"trusted_packet_sequence_id": ["1"], "sequence_flags": ["1"]}, "nothing interned is still valid"
        for packet in packets[1:]:
            assert packet["trusted_packet_sequence_id"] == ["1"]
            for track in packet["track_descriptor"]:
                self.describe(track)
            for interned in packet["interned_data"]:
                self.intern(interned)
            for event in packet["track_event"]:
                assert packet["sequence_flags"] == ["2"], "names are interned"
                self.add(event, int(packet["timestamp"][0]))
        for track, slices in self.open.items():
            self.slices += [Slice(track, *entry[:2], None, *entry[2:]) for entry in slices]

    def describe(self, track):
        number, parent = int(track["uuid"][0]), int(track["parent_uuid"][0]) if track["parent_uuid"] else 0
        assert number not in self.tracks and parent in self.tracks
        self.tracks[number], self.parents[number] = track["name"][0], parent
        for process in track["process"]:
            pid = process["pid"][0]
            assert pid not in self.processes.values(), "two processes would be one"
            self.processes[number] = pid

    def intern(self, interned):
        for name in interned["event_names"]:
            number, text = name["iid"][0], (name["name"] or [""])[0]
            assert number not in self.names and text not in self.names.values()
            self.names[number] = text

    def add(self, event, time):
        track, kind = int(event["track_uuid"][0]), event["type"][0]
        assert track in self.tracks
        assert self.times[track] <= time, "out of order"
        self.times[track] = time
        name = self.names[event["name_iid"][0]] if event["name_iid"] else (event["name"] or [""])[0]
        notes = [((note["name"])[0], (note["string_value"] or [""])[0]) for note in event["debug_annotations"]]
        begins, ends = ([int(each, 0) for each in event[key]] for key in ("flow_ids", "terminating_flow_ids"))
        if kind == "TYPE_SLICE_BEGIN":
            self.open[track].append((name, time, begins, ends, notes))
        elif kind == "TYPE_SLICE_END":
            name, start, *rest = self.open[track].pop()
            self.slices.append(Slice(track, name, start, time, *rest))
        elif kind == "TYPE_INSTANT":
            self.instants.append(Instant(track, name, time, notes))
        else:
            value = float(event["double_counter_value"][0]) if event["double_counter_value"] else int(event["counter_value"][0])
            self.counters[track].append((time, value))

    def process_of(self, track):
        while self.parents[track] != 0:
            track = self.parents[track]
        return self.tracks[track]

    def on(self, process, start):
        """Slices of tracks of a process that are called so, and those beside them."""
        return [each for each in self.slices if self.process_of(each.track) == process and self.tracks[each.track].startswith(start)]

    def arrows(self):
        """Pairs of slices; each arrow has one beginning and one end."""
        begins, ends = {}, {}
        for each in self.slices:
            for numbers, side in ((each.begins, begins), (each.ends, ends)):
                for number in numbers:
                    assert number not in side, f"arrow {number} twice"
                    side[number] = each
        assert begins.keys() == ends.keys()
        return [(begins[number], ends[number]) for number in begins]
