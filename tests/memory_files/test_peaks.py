#!/usr/bin/python3
"""The most memory of each rank and device, against what the program said; where that cannot be known, nothing.   test_peaks.py BUILD"""
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

BUILD = sys.argv.pop(1)
TRAINTRACE = os.path.join(BUILD, "bin", "traintrace")
MADE = """start 1700000000
process 0 rank=0
fact traintrace-version 1
thread 1 tid=1 events=6
+1 0/1 > cudaMalloc bytes=100 on-device=0
+1.1 0/1 < cudaMalloc =0 address=0x1000
+2 0/1 > cudaMalloc bytes=30 on-device=0
+2.1 0/1 < cudaMalloc =0 address=0x2000
+3 0/1 > cudaFree address=0x1000
+3.1 0/1 < cudaFree =0
allocation 0x2000 bytes=30 device=0 call=cudaMalloc at=+2.1
"""
REPORTED = """start 1700000000
process 0 rank=0
fact traintrace-version 1
tensor-device 0 at=+3 allocated=512 reserved=4096 peak-allocated=1024 peak-reserved=8192 peak-at=+2 allocations=2 frees=1 change=512
"""


class Peaks(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="memory-files.")
        self.addCleanup(shutil.rmtree, self.folder)

    def record(self, program, *arguments, **settings):
        environment = dict(os.environ, SIMGPU_DEVICES="2", SIMGPU_NODE=self.folder, TRAINTRACE_DIR=self.path("traces"),
                           TRAINTRACE_RING_MB="32", LD_PRELOAD=os.path.join(BUILD, "lib", "libtraintrace.so")) | settings
        return subprocess.run([os.path.join(BUILD, "tests", program), *arguments], env=environment, capture_output=True, text=True,
                              timeout=300, check=True).stdout

    def path(self, name):
        return os.path.join(self.folder, name)

    def peaks(self, trace):
        """By rank and device; then what was said on stderr."""
        done = subprocess.run([TRAINTRACE, "report", trace, "--by=rank", "--format=json"], capture_output=True, text=True, timeout=300, check=True)
        return {(row["rank"], row["device"]): (row["peak_allocated_bytes"], row["peak_reserved_bytes"])
                for row in json.loads(done.stdout)["rows"]}, done.stderr

    def peaks_of_text(self, text):
        with open(self.path("text"), "w", encoding="utf-8") as file:
            file.write(text)
        return self.peaks(self.path("text"))

    def test_of_pytorchs_allocator(self):
        """From the tables, whatever the ring has lost."""
        for settings in ({}, {"TRAINTRACE_MODE": "full"}, {"TRAINTRACE_RING_MB": "1"}, {"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"}):
            said = dict(re.findall(r"total (\S+) (\d+)", self.record("memory_job", "3", "20000", "2", **settings)))
            found, _ = self.peaks(self.path("traces"))
            self.assertEqual(found, {(0, 0): (int(said["peak"]), int(said["peak_reserved"]))}, settings)
            shutil.rmtree(self.path("traces"))

    def test_of_calls(self):
        for mode in ("ring", "full"):
            said = {int(device): int(count) for device, count in re.findall(r"(\d) (\d+)", self.record("memory_cases", "peaks", "exit", TRAINTRACE_MODE=mode))}
            found, stderr = self.peaks(self.path("traces"))
            self.assertEqual(found, {(0, 0): (said[0], None), (0, 1): (said[1], said[1])})  # what a pool holds is not known
            self.assertNotIn("at most is not known", stderr)
            shutil.rmtree(self.path("traces"))

    def test_as_text(self):
        self.record("memory_cases", "peaks", "exit")
        for options, known in (([], True), (["--limit=10"], False), (["--call=cudaMalloc"], False)):
            dump = subprocess.run([TRAINTRACE, "dump", self.path("traces"), *options], capture_output=True, text=True, timeout=300, check=True)
            found, stderr = self.peaks_of_text(dump.stdout)
            self.assertEqual([peaks[0] is not None for peaks in found.values()], [known] * len(found), options)
            self.assertEqual("not all calls were recorded" in stderr, not known)

    def test_not_all_of_the_calls(self):
        self.record("memory_cases", "peaks", "exit", TRAINTRACE_CALLS="cudaMalloc")
        found, stderr = self.peaks(self.path("traces"))
        self.assertEqual(set(found.values()), {(None, None)})
        self.assertIn("not all calls were recorded", stderr)

    def test_lost_records(self):
        self.record("memory_cases", "pinned-behind-what-is-lost", "exit", TRAINTRACE_RING_MB="1")
        found, stderr = self.peaks(self.path("traces"))
        self.assertEqual(set(found.values()), {(None, None)})
        self.assertIn("how much memory rank 0 had at most is not known: ring-overwritten", stderr)

    def test_what_is_known_of_calls(self):
        self.assertEqual(self.peaks_of_text(MADE)[0], {(0, 0): (130, 130)})
        for line in ("fact setting.TRAINTRACE_CALLS nccl*", "loss unknown-free 1 severity=info", "loss ring-overwritten 5 severity=info",
                     "loss no-chunk 1 severity=warning", "error \"a hole\" offset=1", "thread 2 tid=2 events=1",
                     "+4 0/1 > cudaDeviceReset\n+4.1 0/1 < cudaDeviceReset =0",
                     "allocation 0x9000 bytes=10 device=0 call=cudaMalloc at=+0.5",
                     "+4 0/1 > cudaMalloc bytes=10\n+4.1 0/1 < cudaMalloc =0 address=0x3000\n"
                     "+5 0/1 > cudaMalloc bytes=10 on-device=1\n+5.1 0/1 < cudaMalloc =0 address=0x4000\n"
                     "allocation 0x4000 bytes=10 device=1 call=cudaMalloc at=+5.1\nallocation 0x3000 bytes=10 call=cudaMalloc at=+4.1"):
            found, stderr = self.peaks_of_text(MADE + line + "\n")
            self.assertEqual(set(found.values()), {(None, None)}, line)
            self.assertIn("at most is not known", stderr, line)
        for line in ("loss stack-truncated 5 severity=info", "fact setting.TRAINTRACE_CALLS *"):
            self.assertEqual(self.peaks_of_text(MADE + line + "\n")[0], {(0, 0): (130, 130)}, line)
        self.assertEqual(set(self.peaks_of_text(MADE.replace("fact traintrace-version 1\n", ""))[0].values()), {(None, None)})

    def test_what_is_known_of_reports(self):
        self.assertEqual(self.peaks_of_text(REPORTED)[0], {(0, 0): (1024, 8192)})
        unknown = {(0, 0): (None, None)}
        for old, new in (("change=512", "change=1024"), ("change=512", "change=0 before=512"), ("peak-allocated=1024", ""),
                         ("fact traintrace-version 1\n", ""), ("rank=0\n", "rank=0\nloss nested-in-signal 1 severity=warning\n")):
            self.assertEqual(self.peaks_of_text(REPORTED.replace(old, new))[0], unknown, new)
        self.assertEqual(self.peaks_of_text(REPORTED + "loss ring-overwritten 5 severity=info\n")[0], {(0, 0): (1024, 8192)})


if __name__ == "__main__":
    unittest.main()
