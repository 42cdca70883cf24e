#!/usr/bin/python3
"""Exports about memory through the whole command: what they say is what the program said that was recorded.   test_exports.py BUILD"""
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
import strict_snapshot

BUILD = sys.argv.pop(1)
TRAINTRACE = os.path.join(BUILD, "bin", "traintrace")
EXPANDABLE = {"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"}
HOSTILE = """start 1700000000
process 0 rank=0 world=1 armed=+0 alive=+9
stack 1 "a;b.py:1:f\\xff\\n;" "b\\xc3.py:2:g"
allocation 0x1000 bytes=0xffffffffffffffff device=200 call=cudaMalloc at=+1 @1
allocation 0x2000 bytes=512 device=0 call=cudaMalloc at=+1 @1
allocation 0x2100 bytes=512 device=0 call=cudaMalloc at=+1 @1
allocation 0xfffffffffffffff0 bytes=32 device=0 call=cuMemMap at=+1 @7
tensor-block 0x2000 bytes=1024 device=0 at=+1 @1
tensor-block 0xffffffffffffff00 bytes=0xffffffffffffff00 device=9 at=+1 @9
tensor-block 0x9000 bytes=0 device=0 at=+1
out-of-memory 1 at=+3 call=cudaMalloc bytes=0xffffffffffffffff free=0xffffffffffffffff device=255 @1
+2 0/1 * reportMemoryUsageToProfiler address=0x2000 change=-9223372036854775808 @1
+1 0/1 * reportMemoryUsageToProfiler address=0x2000 change=9223372036854775807 @1
+4 0/1 > cuMemUnmap address=0x0 bytes=0xffffffffffffffff
+4 0/1 < cuMemUnmap =0
"""


def run(*arguments):
    return subprocess.run([TRAINTRACE, *arguments], capture_output=True, text=True, errors="replace", timeout=300, check=False)


def said(output):
    """What the program printed: segments, blocks by state, totals."""
    segments, blocks, totals = {}, {}, {}
    for line in output.splitlines():
        words = line.split()
        if words[0] == "segment":
            segments[int(words[1])] = int(words[2])
        elif words[0] == "block":
            blocks[int(words[1])] = (int(words[2]), int(words[3]))
        elif words[0] == "total":
            totals[words[1]] = int(words[2])
    return segments, blocks, totals


class Exports(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="memory-files.")
        self.addCleanup(shutil.rmtree, self.folder)

    def path(self, name):
        return os.path.join(self.folder, name)

    def record(self, seed=1, steps=3000, streams=2, **settings):
        environment = dict(os.environ, SIMGPU_DEVICES="1", SIMGPU_NODE=self.folder, TRAINTRACE_DIR=self.path("traces"),
                           TRAINTRACE_RING_MB="32", LD_PRELOAD=os.path.join(BUILD, "lib", "libtraintrace.so")) | settings
        done = subprocess.run([os.path.join(BUILD, "tests", "memory_job"), str(seed), str(steps), str(streams)], env=environment, capture_output=True,
                              text=True, timeout=300, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        return said(done.stdout)

    def export(self, kind, *options, trace=None):
        path = self.path("exported")
        done = run("export", kind, trace or self.path("traces"), f"--output={path}", *options)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return path

    def check_snapshot(self, **settings):
        segments, blocks, totals = self.record(**settings)
        snapshot = strict_snapshot.read(self.export("torch-snapshot"))
        of_torch = [segment for segment in snapshot["segments"] if segment["category"] == "PyTorch"]
        self.assertEqual({segment["address"]: segment["total_size"] for segment in of_torch}, segments)
        states = ("inactive", "active_allocated", "active_pending_free")
        found = {block["address"]: (block["size"], states.index(block["state"])) for segment in of_torch for block in segment["blocks"]}
        self.assertEqual(found, blocks)
        self.assertEqual(sum(segment["allocated_size"] for segment in of_torch), totals["allocated"])
        others = {segment["category"]: segment["total_size"] for segment in snapshot["segments"] if segment["category"] != "PyTorch"}
        self.assertEqual(others, {"the job": totals["own"], "cuBLAS": totals["library"]})
        return snapshot, totals

    def test_torch_snapshot(self):
        for seed in (1, 2):
            snapshot, totals = self.check_snapshot(seed=seed)
            events = snapshot["device_traces"][0]
            self.assertEqual(peak(events), totals["peak"] + totals["own"] + totals["library"])
            shutil.rmtree(self.path("traces"))

    def test_torch_snapshot_while_streams_work_on_freed_blocks(self):
        snapshot, _ = self.check_snapshot(seed=4, streams=3)
        states = [block["state"] for segment in snapshot["segments"] for block in segment["blocks"]]
        self.assertGreater(states.count("active_pending_free"), 0)
        events = [event for event in snapshot["device_traces"][0] if event["action"].startswith("free")]
        apart = sum(a["action"] == "free_requested" and b["addr"] != a["addr"] for a, b in zip(events, events[1:]))
        self.assertGreater(apart, 0, "frees that waited")

    def test_torch_snapshot_of_expandable_segments(self):
        snapshot, _ = self.check_snapshot(seed=3, **EXPANDABLE)
        self.assertTrue(all(segment["is_expandable"] for segment in snapshot["segments"] if segment["category"] == "PyTorch"))
        self.assertTrue({"segment_map", "segment_unmap"} <= {event["action"] for event in snapshot["device_traces"][0]})

    def test_torch_snapshot_of_a_ring_that_has_lost_its_beginning(self):
        snapshot, _ = self.check_snapshot(steps=20000, TRAINTRACE_RING_MB="1")
        self.assertIn("ring-overwritten", run("dump", self.path("traces"), "--limit=0").stdout)
        self.assertGreater(len(snapshot["device_traces"][0]), 1000)

    def test_report(self):
        _, _, totals = self.record(TRAINTRACE_MODE="full")
        done = run("report", self.path("traces"), "--by=stack", "--format=json")
        rows = json.loads(done.stdout)["rows"]
        everything = {key: sum(row[key] or 0 for row in rows) for key in ("live_bytes", "peak_bytes", "exit_bytes")}
        others = totals["own"] + totals["library"]
        self.assertEqual(everything, {"live_bytes": totals["allocated"] + others + totals["pinned"],
                                      "exit_bytes": totals["allocated"] + others + totals["pinned"],
                                      "peak_bytes": totals["peak"] + others + totals["pinned"]})
        self.assertEqual([row["live_bytes"] for row in rows if row["owner"] == ["cuBLAS"]], [totals["library"]])
        text, csv = (run("report", self.path("traces"), "--by=stack", f"--format={form}").stdout for form in ("text", "csv"))
        for output in (text, csv):
            self.assertRegex(output.splitlines()[0], r"live_bytes\W+peak_bytes\W+exit_bytes\W+growth_bytes_per_step\W+.*owner")

    def test_all_is_accounted_for(self):
        """Its threads never chose a device."""
        self.record(TRAINTRACE_MODE="full")
        done = run("analyze", self.path("traces"), "--format=json")
        self.assertNotIn("memory.unaccounted", [finding["code"] for finding in json.loads(done.stdout)["findings"]])

    def test_collapsed(self):
        _, _, totals = self.record()
        for which, blocks in (("live", totals["allocated"]), ("peak", totals["peak"])):
            with open(self.export("collapsed", f"--bytes={which}"), encoding="utf-8") as file:
                lines = [line.rsplit(" ", 1) for line in file.read().splitlines()]
            self.assertEqual(sum(int(count) for _, count in lines), blocks + totals["own"] + totals["library"] + totals["pinned"])
            self.assertTrue(any(";cuBLAS;" in stack and ";main (job.cc:" in stack for stack, _ in lines), lines)

    def test_heaptrack(self):
        _, _, totals = self.record()
        path = self.export("heaptrack")
        os.rename(path, path + ".raw")
        if shutil.which("heaptrack_print") is None:
            self.skipTest("no heaptrack_print")
        done = subprocess.run(["heaptrack_print", "-f", path + ".raw", "--flamegraph-cost-type", "leaked", "-F", self.path("leaks")],
                              capture_output=True, text=True, timeout=120, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        with open(self.path("leaks"), encoding="utf-8") as file:
            leaked = sum(int(line.rsplit(" ", 1)[1]) for line in file if line.strip())
        self.assertEqual(leaked, totals["allocated"] + totals["own"] + totals["library"] + totals["pinned"])
        self.assertRegex(done.stdout, r"calls to allocation functions: \d+")
        self.assertIn("job.cc", done.stdout)

    def decoded(self, path):
        """Tracks by number, the last value of each counter, the names of instants; by protoc, as libprotobuf reads it."""
        with open(path, "rb") as file:
            done = subprocess.run(["protoc", "--decode=Trace", "--proto_path", HERE, "perfetto.proto"], stdin=file, capture_output=True,
                                  timeout=120, check=False)
        self.assertEqual((done.returncode, done.stderr), (0, b""))
        text = done.stdout.decode().replace("\\'", "'")
        self.assertIsNone(re.search(r"^ *\d+[: ]", text, re.M), "fields that the schema has not")
        names = {int(number): name for number, name in re.findall(r"uuid: (\d+)\n    name: \"([^\"]*)\"", text)}
        values, times = {}, []
        for time, track, value in re.findall(r"timestamp: (\d+)\n.*\n  track_event {\n    type: TYPE_COUNTER\n    track_uuid: (\d+)\n.*value: (-?\d+)", text):
            values[names[int(track)]] = int(value)
            times.append(int(time))
        self.assertEqual(times, sorted(times))
        return values, re.findall(r"TYPE_INSTANT\n.*\n    name: \"(.*)\"", text)

    @unittest.skipIf(shutil.which("protoc") is None, "no protoc")
    def test_perfetto(self):
        _, _, totals = self.record()
        values, _ = self.decoded(self.export("perfetto"))
        self.assertEqual(values, {"device 0: in use": totals["allocated"] + totals["own"] + totals["library"], "device 0: the job": totals["own"],
                                  "device 0: cuBLAS": totals["library"], "device 0: PyTorch": totals["allocated"],
                                  "device 0: held by PyTorch's allocator": totals["reserved"], "host: in use": totals["pinned"],
                                  "host: the job": totals["pinned"]})
        with open(self.path("oom"), "w", encoding="utf-8") as file:
            file.write("process 0 rank=0\nout-of-memory 1 at=+3 call=cudaMalloc bytes=77 device=0\n")
        values, instants = self.decoded(self.export("perfetto", trace=self.path("oom")))
        self.assertEqual((values, instants[-1]), ({}, "out of memory: 77 bytes wanted by cudaMalloc"))

    def test_owners(self):
        """What NCCL took while a communicator was made is that communicator's."""
        with open(self.path("owners"), "w", encoding="utf-8") as file:
            file.write("""start 1700000000
process 0 rank=0
module 0x1000-0x2000 path=/usr/lib/libnccl.so.2
stack 1 0x1010
stack 2 /job/train.py:7:step /usr/lib/python3/dist-packages/torch/optim/adam.py:9:step
communicator dp id=0x7 name=dp size=2 rank=0 created=+1 ready=+2 flags=ready
communicator tp id=0x8 name=tp size=2 rank=0 created=+3 flags=non-blocking
allocation 0x10000 bytes=100 device=0 at=+1.5 call=cudaMalloc @1
allocation 0x20000 bytes=20 device=0 at=+2.5 call=cudaMalloc @1
allocation 0x30000 bytes=3 device=0 at=+4 call=cudaMalloc @1
tensor-block 0x40000 bytes=512 device=0 at=+4 @2
""")
        snapshot = strict_snapshot.read(self.export("torch-snapshot", trace=self.path("owners")))
        self.assertEqual({segment["blocks"][0]["category"]: segment["total_size"] for segment in snapshot["segments"]},
                         {"NCCL dp": 100, "NCCL": 20, "NCCL tp": 3, "PyTorch optimizer": 512})

    def test_threads_without_a_device(self):
        """Of two devices in use: what lies in a segment says on which it is."""
        with open(self.path("two"), "w", encoding="utf-8") as file:
            file.write("""start 1700000000
process 0 rank=0
allocation 0x10000 bytes=4096 at=+1 call=cudaMalloc @1
allocation 0x20000 bytes=4096 device=0 at=+1 call=cudaMalloc @1
tensor-block 0x10200 bytes=512 device=1 at=+4 @1
""")
        snapshot = strict_snapshot.read(self.export("torch-snapshot", trace=self.path("two")))
        self.assertEqual([(segment["device"], segment["allocated_size"], len(segment["blocks"])) for segment in snapshot["segments"]],
                         [(0, 4096, 1), (1, 512, 3)])

    def test_empty_and_hostile(self):
        for name, content in (("empty", "start 1700000000\nprocess 0 rank=0 armed=+0 alive=+1\n"), ("hostile", HOSTILE)):
            with open(self.path(name), "w", encoding="latin-1") as file:
                file.write(content)
            snapshot = strict_snapshot.read(self.export("torch-snapshot", trace=self.path(name)))
            self.assertEqual(snapshot["device_traces"][0][-1]["action"], "snapshot")
            for kind in ("heaptrack", "collapsed"):
                with open(self.export(kind, trace=self.path(name)), "rb") as file:
                    for line in file.read().splitlines():
                        self.assertRegex(line, rb"^[^\x00-\x1f]+$")
            self.assertEqual(run("report", self.path(name), "--by=stack").returncode, 0)

    def test_names_control_nothing(self):
        """Of functions and files that a program made up for whoever looks at the export."""
        name = b"f\x1b[31m\x07\xc2\x9b\xe2\x80\xae\xff;g"
        with open(self.path("names"), "wb") as file:
            file.write(b"process 0 rank=0 world=1\nallocation 0x1000 bytes=512 device=0 call=cudaMalloc \"@a.py:1:" + name + b"\"\n")
        for kind in ("heaptrack", "collapsed"):
            with open(self.export(kind, trace=self.path("names")), encoding="utf-8") as file:  # an error where it is not UTF-8
                text = file.read()
            self.assertIn("f\\x1b[31m\\x07\\u009b\\u202e\\xff" + (";" if kind == "heaptrack" else ",") + "g", text)
            self.assertNotRegex(text, "[\x00-\x09\x0b-\x1f\x7f-\x9f\u202e]")

    def test_several_processes(self):
        with open(self.path("two"), "w", encoding="utf-8") as file:
            for rank in (0, 1):
                file.write(f"process {rank} rank={rank} world=2\nallocation 0x1000 bytes=512 device={rank} call=cudaMalloc @a.py:1:f\n")
        prefix = self.path("out.")
        self.assertEqual(run("export", "torch-snapshot", self.path("two"), f"--output={prefix}").returncode, 0)
        self.assertEqual([len(strict_snapshot.read(prefix + str(rank))["segments"]) for rank in (0, 1)], [1, 1])
        named = self.path("snap.pickle")
        self.assertEqual(run("export", "torch-snapshot", self.path("two"), f"--output={named}").returncode, 0)
        self.assertEqual(len(strict_snapshot.read(self.path("snap.rank1.pickle"))["segments"]), 1)
        self.assertFalse(os.path.exists(named))
        done = run("export", "heaptrack", self.path("two"), "--output=-")
        self.assertEqual((done.returncode, done.stdout), (2, ""))
        with open(self.export("collapsed", trace=self.path("two")), encoding="utf-8") as file:
            self.assertEqual(file.read(), "rank 0;the job;f (a.py:1) 512\nrank 1;the job;f (a.py:1) 512\n")


def peak(events):
    now = most = 0
    for event in events:
        now += {"alloc": 1, "free_requested": -1}.get(event["action"], 0) * event["size"]
        most = max(most, now)
    return most


if __name__ == "__main__":
    unittest.main()
