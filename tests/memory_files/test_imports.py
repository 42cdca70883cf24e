#!/usr/bin/python3
"""Snapshots of PyTorch's memory and logs of RMM through the whole command: read, judged, imported, exported.   test_imports.py BUILD"""
import json
import os
import pickle
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.dirname(__file__))
import strict_snapshot

TRAINTRACE = os.path.join(sys.argv.pop(1), "bin", "traintrace")
MIB = 1 << 20
START_US = 1_700_000_000_000_000
TRAIN = [{"filename": "/job/train.py", "line": 12, "name": "forward"}, {"filename": "/job/train.py", "line": 40, "name": "main"}]
NATIVE = [{"filename": "??", "line": 0, "name": "malloc"}, {"filename": "/pytorch/aten/src/ATen/x.cpp", "line": 7, "name": "at::empty"}]


def run(*arguments):
    return subprocess.run([TRAINTRACE, *arguments], capture_output=True, text=True, timeout=120, check=False)


def block(size, state="inactive", frames=(), requested=None):
    return {"size": size, "requested_size": size if requested is None else requested, "state": state, "frames": list(frames)}


class Snapshot:
    """One device's, written down as torch does."""

    def __init__(self):
        self.segments, self.events, self.now = [], [], START_US

    def event(self, action, address, size, frames=TRAIN, **more):
        self.now += 10
        place = {"device_free": address} if action == "oom" else {"addr": address}
        self.events.append({"action": action, **place, "size": size, "stream": 0, "time_us": self.now, "frames": frames, **more})

    def segment(self, address, blocks, frames=TRAIN, **more):
        at = address
        for each in blocks:
            each["address"] = at
            at += each["size"]
        used = sum(each["size"] for each in blocks if each["state"] == "active_allocated")
        self.segments.append({"device": 0, "address": address, "total_size": at - address, "allocated_size": used, "active_size": used,
                              "requested_size": used, "stream": 0, "segment_type": "large", "segment_pool_id": (0, 0), "is_expandable": False,
                              "frames": frames, "blocks": blocks, **more})

    def all(self):
        return {"segments": self.segments, "device_traces": [self.events], "external_annotations": [],
                "allocator_settings": {"PYTORCH_CUDA_ALLOC_CONF": "", "expandable_segments": False, "max_split_size": -1}}


def two_tensors():
    """One of 1000 bytes and one of 3 MiB, in a segment of 20 MiB; a third came and went."""
    made = Snapshot()
    made.event("segment_alloc", 0x7000000, 20 * MIB)
    made.event("alloc", 0x7000000, 1000, NATIVE + TRAIN)
    made.event("alloc", 0x7000400, 3 * MIB, NATIVE + TRAIN)
    made.event("alloc", 0x7400000, 700)
    made.event("free_requested", 0x7400000, 700)
    made.event("free_completed", 0x7400000, 700)
    made.event("snapshot", 0, 3 * MIB + 1024)
    made.segment(0x7000000, [block(1024, "active_allocated", NATIVE + TRAIN, 1000), block(3 * MIB, "active_allocated", NATIVE + TRAIN),
                             block(17 * MIB - 1024)])
    return made


def out_of_memory(wanted=6 * MIB, device_free=100_000):
    """8 MiB are free, in holes of 4."""
    made = Snapshot()
    parts = [block(4 * MIB, "active_allocated" if i % 2 else "inactive", TRAIN) for i in range(4)]
    made.segment(0x7000000, parts)
    made.event("oom", device_free, wanted)
    return made


class Imports(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def path(self, name):
        return os.path.join(self.folder.name, name)

    def write(self, what, name="snapshot.pickle", protocol=4):
        with open(self.path(name), "wb") as file:
            file.write(what) if isinstance(what, bytes) else pickle.dump(what, file, protocol=protocol)
        return self.path(name)

    def rows(self, path):
        done = run("report", path, "--by=stack", "--format=json")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return json.loads(done.stdout)["rows"]

    def analyzed(self, path):
        done = run("analyze", path, "--format=json")
        self.assertIn(done.returncode, (0, 1), done.stderr)
        return json.loads(done.stdout)

    def test_every_protocol(self):
        for protocol in (2, 3, 4, 5):
            path = self.write(two_tensors().all(), protocol=protocol)
            report = self.analyzed(path)
            self.assertEqual(report["run"]["sources"], ["torch-snapshot"])
            self.assertEqual([one["severity"] for one in report["findings"]], ["info"])
            held = [(row["live_bytes"], row["stack"][0]) for row in self.rows(path) if row["live_bytes"]]
            self.assertEqual(held, [(3 * MIB + 1024, "forward at /job/train.py:12")])
            self.assertEqual(sum(row["peak_bytes"] or 0 for row in self.rows(path)), 3 * MIB + 1024 + 1024)

    def test_older_forms(self):
        made = two_tensors()
        for segment in made.segments:
            del segment["frames"], segment["is_expandable"], segment["segment_pool_id"]
            for each in segment["blocks"]:
                frames = each.pop("frames")
                del each["address"], each["requested_size"]
                each["history"] = [{"addr": 1, "real_size": 1000, "frames": frames}]
                each["state"] = {"inactive": "active_awaiting_free"}.get(each["state"], each["state"])
        path = self.write({"segments": made.segments})
        self.assertEqual([(row["live_bytes"], row["stack"][0]) for row in self.rows(path)], [(3 * MIB + 1024, "forward at /job/train.py:12")])

    def test_other_containers(self):
        """As JSON, with the keys in another order, and the list alone that torch.cuda.memory_snapshot() gives."""
        made = two_tensors().all()
        turned = {key: made[key] for key in reversed(list(made))}
        expected = self.rows(self.write(made))
        for whole in (self.write(json.dumps(made).encode(), "snapshot.json"), self.write(turned), self.write(json.dumps(turned).encode(), "turned.json")):
            self.assertEqual(self.rows(whole), expected)
        held = [(row["live_bytes"], row["stack"]) for row in expected if row["live_bytes"]]
        for alone in (self.write(made["segments"]), self.write(json.dumps(made["segments"]).encode(), "segments.json")):
            self.assertEqual([(row["live_bytes"], row["stack"]) for row in self.rows(alone) if row["live_bytes"]], held)
        for other in (b'[{"address": 1, "total_size": 2', b'[{"total_size": 1, "address": 5}, 7]', b'{"segments": 7}', b'[["address", "total_size"]]'):
            self.assertIn(run("analyze", self.write(other, "other.json")).returncode, (0, 2), other)

    def test_round_trip(self):
        """What is exported of it has the same segments and blocks, and so has what is imported from that."""
        path = self.write(two_tensors().all())
        for name in ("once", "twice"):
            exported = self.path(name)
            self.assertEqual(run("export", "torch-snapshot", path, f"--output={exported}").returncode, 0)
            read = strict_snapshot.read(exported)
            self.assertEqual([(part["address"], part["size"], part["state"]) for part in read["segments"][0]["blocks"]],
                             [(0x7000000, 1024, "active_allocated"), (0x7000400, 3 * MIB, "active_allocated"),
                              (0x7300400, 17 * MIB - 1024, "inactive")])
            self.assertEqual([event["action"] for event in read["device_traces"][0]],
                             ["segment_alloc", "alloc", "alloc", "alloc", "free_requested", "free_completed", "snapshot"])
            path = exported

    def test_import(self):
        path, imported = self.write(out_of_memory().all()), self.path("imported.trace")
        self.assertEqual(run("import", "torch-snapshot", path, f"--out={imported}").returncode, 0)
        self.assertEqual(run("analyze", imported).stdout, run("analyze", path).stdout)
        self.assertEqual(run("report", imported, "--by=stack").stdout, run("report", path, "--by=stack").stdout)
        done = run("import", "rmm-csv", path, "--out=-")
        self.assertEqual((done.returncode, done.stdout), (2, ""))
        self.assertIn("expected a file of rmm-csv", done.stderr)

    def test_frames_of_cpp_survive_as_text(self):
        made = two_tensors()
        for segment in made.segments:
            segment["frames"] = [{"filename": "/a/x.cpp", "line": 7, "name": "at::empty(int)"}]
            for each in segment["blocks"]:
                each["frames"] = segment["frames"]
        path, imported = self.write(made.all()), self.path("imported.trace")
        self.assertEqual(run("import", "torch-snapshot", path, f"--out={imported}").returncode, 0)
        self.assertIn("at::empty(int) at /a/x.cpp:7", [row["stack"][0] for row in self.rows(imported)])

    def test_out_of_memory(self):
        report = self.analyzed(self.write(out_of_memory().all()))
        first = report["findings"][0]
        self.assertEqual(first["code"], "memory.fragmentation-oom")
        self.assertEqual(first["values"]["requested_bytes"], 6 * MIB)
        self.assertEqual((first["where"][0]["file"], first["where"][0]["line"]), ("/job/train.py", 12))
        self.assertEqual(first["values"]["free_bytes"], 100_000)

    def test_what_the_device_had_counts(self):
        for device_free, code, certainty in ((2 * MIB, "fragmentation-oom", "likely"), (2 * MIB - 512, "capacity-oom", "possible")):
            path = self.write(out_of_memory(10 * MIB, device_free).all())
            first = self.analyzed(path)["findings"][0]
            self.assertEqual((first["code"], first["certainty"]), ("memory." + code, certainty))
            self.assertEqual((first["values"]["free_bytes"], first["values"]["idle_bytes"]), (device_free, 8 * MIB))
        self.assertIn("unused in PyTorch's allocator, 8388608 bytes; 8388608 bytes of them where large requests are served, the largest piece 4194304 bytes; "
                      "joined, and with what the device has free: still 512 bytes short", first["evidence"])

    def test_ranks_are_in_the_names(self):
        for rank in (0, 1):
            self.write(two_tensors().all(), f"mem_rank{rank}.pickle")
        report = self.analyzed(self.folder.name)
        self.assertEqual(report["run"]["ranks"], [0, 1])

    def test_damaged_and_hostile(self):
        class Evil:
            def __reduce__(self):
                return os.system, ("touch " + self.target,)

        Evil.target = self.path("executed")
        whole = pickle.dumps(two_tensors().all(), protocol=4)
        for name, content, says in (("evil", pickle.dumps({"segments": [Evil()]}), "expected numbers, text, lists"), ("cut", whole[:-200], "cut off"),
                                    ("none", pickle.dumps({"segments": 3}), "expected a snapshot")):
            done = run("analyze", self.write(content, name))
            self.assertEqual((done.returncode, done.stdout), (2, ""), name)
            self.assertIn(says, done.stderr)
        self.assertFalse(os.path.exists(Evil.target))
        odd = two_tensors()
        odd.segment(-5, [block(-3, "active_allocated")])
        odd.segment(0x9000000, [block(1 << 61, "active_allocated"), block(1 << 61, "active_allocated")], device=1 << 40)
        odd.segment(0x7000000, [block(512, "active_allocated")], total_size=(1 << 63) - 1)
        odd.events += [3, {}, {"action": "alloc"}, {"action": "free_requested", "addr": (1 << 63) - 1, "size": (1 << 63) - 1, "time_us": 1 << 62}]
        path = self.write(odd.all())
        self.assertEqual(run("analyze", path).returncode, 0)
        self.assertEqual(run("export", "torch-snapshot", path, f"--output={self.path('odd')}").returncode, 0)
        strict_snapshot.read(self.path("odd"))

    def test_rmm(self):
        rows = ["Thread,Time,Action,Pointer,Size,Stream", "1,23:59:59:999000,allocate,0x7f0000000000,1024,0x0",
                "1,00:00:00:000100,allocate,0x7f0000000400,512,(nil)", "2,00:00:01.000000,free,0x7f0000000000,1024,0x0",
                "2,00:00:01:500000,free,0x7f0000900000,64,0x0", "1,00:00:02:000000,allocate failure,(nil),4096,0x0"]
        path = self.write("\n".join(rows).encode() + b"\n", "rmm.csv")
        report = self.analyzed(path)
        self.assertEqual((report["run"]["sources"], report["run"]["end_ns"] - report["run"]["start_ns"]), (["rmm-csv"], 2_001_000_000))
        self.assertEqual([(row["live_bytes"], row["peak_bytes"]) for row in self.rows(path)], [(512, 1536)])
        dumped = run("dump", path).stdout
        for text in ("out-of-memory 1 ", "allocation 0x7f0000000400 bytes=512", "loss unknown-free 1"):
            self.assertIn(text, dumped)
        broken = self.write(b"Thread,Time,Action,Pointer,Size,Stream\r\n1,x,allocate,0x1,2,0x0\r\n1,00:00:00:000001,allocate,0x1000,2,0x0\r\n", "b.csv")
        self.assertIn("expected thread, time, action", run("analyze", broken).stdout)
        self.assertEqual(sum(row["live_bytes"] for row in self.rows(broken)), 2)

    def test_rmm_lines_that_are_none(self):
        """Eight are named, all are counted; where no line is one, there is nothing to import."""
        header, bad, good = b"Thread,Time,Action,Pointer,Size,Stream\n", b"1,x,allocate,0x1,2,0x0\n", b"1,00:00:00:000001,allocate,0x1000,2,0x0\n"
        some = self.write(header + 2000 * bad + good, "some.csv")
        self.assertIn("1992 more lines up to this one are like that", run("analyze", some).stdout)
        done = run("import", "rmm-csv", some, "--out=-")
        self.assertEqual((done.returncode, done.stderr.count("\n")), (0, 9))
        done = run("import", "rmm-csv", self.write(header + 2000 * bad, "none.csv"), "--out=-")
        self.assertEqual((done.returncode, done.stdout), (2, ""))
        self.assertIn("no line is such", done.stderr)


if __name__ == "__main__":
    unittest.main()
