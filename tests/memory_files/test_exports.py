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

sys.path.insert(0, os.path.dirname(__file__))
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

    def record(self, seed=1, steps=3000, **settings):
        environment = dict(os.environ, SIMGPU_DEVICES="1", SIMGPU_NODE=self.folder, TRAINTRACE_DIR=self.path("traces"),
                           TRAINTRACE_RING_MB="32", LD_PRELOAD=os.path.join(BUILD, "lib", "libtraintrace.so")) | settings
        done = subprocess.run([os.path.join(BUILD, "tests", "memory_job"), str(seed), str(steps), "2"], env=environment, capture_output=True,
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
        found = {block["address"]: (block["size"], int(block["state"] == "active_allocated")) for segment in of_torch
                 for block in segment["blocks"]}
        self.assertEqual(found, blocks)
        self.assertEqual(sum(segment["allocated_size"] for segment in of_torch), totals["allocated"])
        others = {segment["category"]: segment["total_size"] for segment in snapshot["segments"] if segment["category"] != "PyTorch"}
        self.assertEqual(others, {"the job": totals["own"], "cublas": totals["library"]})
        return snapshot, totals

    def test_torch_snapshot(self):
        for seed in (1, 2):
            snapshot, totals = self.check_snapshot(seed=seed)
            events = snapshot["device_traces"][0]
            self.assertEqual(peak(events), totals["peak"] + totals["own"] + totals["library"])
            shutil.rmtree(self.path("traces"))

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
        self.assertEqual([row["live_bytes"] for row in rows if row["owner"] == ["cublas"]], [totals["library"]])
        text, csv = (run("report", self.path("traces"), "--by=stack", f"--format={form}").stdout for form in ("text", "csv"))
        for output in (text, csv):
            self.assertRegex(output.splitlines()[0], r"live_bytes\W+peak_bytes\W+exit_bytes\W+growth_bytes_per_step\W+owner")

    def test_collapsed(self):
        _, _, totals = self.record()
        for which, blocks in (("live", totals["allocated"]), ("peak", totals["peak"])):
            with open(self.export("collapsed", f"--bytes={which}"), encoding="utf-8") as file:
                lines = [line.rsplit(" ", 1) for line in file.read().splitlines()]
            self.assertEqual(sum(int(count) for _, count in lines), blocks + totals["own"] + totals["library"] + totals["pinned"])
            self.assertTrue(any(";cublas;" in stack and ";main (job.cc:" in stack for stack, _ in lines), lines)

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

    def test_several_processes(self):
        with open(self.path("two"), "w", encoding="utf-8") as file:
            for rank in (0, 1):
                file.write(f"process {rank} rank={rank} world=2\nallocation 0x1000 bytes=512 device={rank} call=cudaMalloc @a.py:1:f\n")
        prefix = self.path("out.")
        self.assertEqual(run("export", "torch-snapshot", self.path("two"), f"--output={prefix}").returncode, 0)
        self.assertEqual([len(strict_snapshot.read(prefix + str(rank))["segments"]) for rank in (0, 1)], [1, 1])
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
