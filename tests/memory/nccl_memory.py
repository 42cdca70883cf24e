"""nccl_memory.py BUILD: whose the memory is that NCCL takes, since when, and inside which call."""
import collections
import glob
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

BUILD = sys.argv.pop(1)
BYTES = 16 << 20
LINE = re.compile(r"rank 0: (\d+) bytes held by (NCCL\S*(?: \w+)?), since \+[\d.]+ s(?:, inside (\w+))?, allocated at (.*)")


class NcclMemory(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="memory.")
        self.addCleanup(shutil.rmtree, self.folder)

    def found(self, calls=0, **settings):
        """memory.library of one of two ranks; what its communicators hold, by the call inside which they took it."""
        environment = dict(os.environ, SIMGPU_DEVICES="2", SIMGPU_MEMORY="256M", SIMGPU_NODE=self.folder, TRAINTRACE_DIR=self.folder + "/traces",
                           WORKLOAD_DIR=self.folder, WORLD_SIZE="2", TRAINTRACE_RING_MB="32", TRAINTRACE_MODE="ring", MASTER_ADDR="localhost",
                           MASTER_PORT="1", LD_PRELOAD=f"{BUILD}/lib/libtraintrace.so") | settings
        ranks = [subprocess.Popen([f"{BUILD}/tests/nccl_memory", str(calls)], env=dict(environment, RANK=str(rank), LOCAL_RANK=str(rank)))
                 for rank in range(2)]
        self.assertEqual([rank.wait(timeout=200) for rank in ranks], [0, 0])
        done = subprocess.run([f"{BUILD}/bin/traintrace", "analyze", *glob.glob(f"{self.folder}/traces/*.{ranks[0].pid}.*.trace"), "--format=json"], stdout=subprocess.PIPE,
                              text=True, timeout=200, check=False)
        findings = [finding for finding in json.loads(done.stdout)["findings"] if finding["code"] == "memory.library"]
        if not findings:
            return None, {}
        held, evidence = collections.Counter(), [each if isinstance(each, str) else each["text"] for each in findings[0]["evidence"]]
        for count, name, call, place in (LINE.fullmatch(line).groups() for line in evidence):
            held[name, call] += int(count)
            self.assertIn("nccl_memory.cc:", place)
        return findings[0], held

    def test_by_communicator_and_call(self):
        finding, held = self.found(SIMGPU_NCCL_BUFFERS=str(BYTES))
        # For two of them in one group nobody says which of them it is for.
        wanted = {("NCCL dp", "ncclCommInitRankConfig"): BYTES, ("NCCL tp", "ncclCommInitRankConfig"): BYTES, ("NCCL dp", "ncclAllReduce"): BYTES,
                  ("NCCL tp", "ncclGroupEnd"): BYTES, ("NCCL", "ncclGroupEnd"): 2 * BYTES}
        self.assertEqual(held, wanted)
        self.assertEqual((finding["severity"], finding["values"]["bytes"], finding["values"]["block_count"]), ("warning", 6 * BYTES, 6))

    def test_by_the_tables_alone(self):
        """Of what was done at the end of a group they do not say for whom."""
        _, held = self.found(calls=60_000, SIMGPU_NCCL_BUFFERS=str(BYTES), TRAINTRACE_RING_MB="1")
        wanted = {("NCCL dp", None): BYTES, ("NCCL tp", None): BYTES, ("NCCL dp", "ncclAllReduce"): BYTES, ("NCCL", None): 3 * BYTES}
        self.assertEqual(held, wanted)

    def test_little(self):
        self.assertIsNone(self.found(SIMGPU_NCCL_BUFFERS=str(BYTES // 2))[0])


if __name__ == "__main__":
    unittest.main()
