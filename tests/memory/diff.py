"""diff.py BUILD: what `diff` says of the memory of two runs: which allocation makes one's peak higher; nothing where it is not."""
import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

BUILD = sys.argv.pop(1)
MIB = 1 << 20


class Diff(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="memory.")
        self.addCleanup(shutil.rmtree, self.folder)

    def record(self, name, case, rank=0, **settings):
        folder = os.path.join(self.folder, name)
        environment = dict(os.environ, SIMGPU_DEVICES="2", SIMGPU_NODE=self.folder, TRAINTRACE_DIR=folder, TRAINTRACE_MODE="ring",
                           TRAINTRACE_RING_MB="32", RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE="2", MASTER_ADDR="localhost", MASTER_PORT="1",
                           LD_PRELOAD=os.path.join(BUILD, "lib", "libtraintrace.so")) | settings
        said = subprocess.run([os.path.join(BUILD, "tests", "tensor_cases"), case, "_exit"], env=environment, stdout=subprocess.PIPE, text=True,
                              timeout=200, check=True).stdout
        return folder, int(said.split()[-1])

    def diff(self, a, b):
        outputs = [subprocess.run([os.path.join(BUILD, "bin", "traintrace"), "diff", a, b, f"--format={form}"], stdout=subprocess.PIPE,
                                  text=True, timeout=200, check=True).stdout for form in ("json", "text")]
        found = json.loads(outputs[0]).get("memory", [])
        self.assertEqual("PyTorch's memory" in outputs[1], bool(found))
        return found, outputs[1]

    def text(self, name, allocations, ended=True, lines=""):
        """One thread; allocations stay: (bytes, place)."""
        path, now = os.path.join(self.folder, name), 0
        events = []
        for i, (count, place) in enumerate(allocations):
            now += count
            events.append(f"+{i + 1} 0/1 * reportMemoryUsageToProfiler address={0x10000 + (i << 32)} change={count} allocated={now} reserved={now}"
                          f" on-device=0 @{place}\n")
        with open(path, "w", encoding="utf-8") as file:
            file.write("start 1700000000\nprocess 0 rank=0 " + ("exit=fast-exit exited=+99" if ended else "alive=+99") + "\nfact traintrace-version 1\n"
                       f"thread 1 tid=1 events={len(events)}\ntensor-device 0 at=+98 allocated={now} reserved={now} peak-allocated={now} peak-reserved={now}"
                       f" peak-at=+98 allocations={len(events)} change={now}\n" + "".join(events) + lines)
        return path

    def test_the_allocation_that_makes_it_higher(self):
        good, low = self.record("good", "tensors-good-run")
        for case in ("tensors-bad-run", "tensors-bad-run-otherwise"):
            bad, high = self.record(case, case)
            for turned in (False, True):
                found, text = self.diff(*((bad, good) if turned else (good, bad)))
                self.assertEqual(len(found), 1)
                of_good, of_bad = (found[0]["b"], found[0]["a"]) if turned else (found[0]["a"], found[0]["b"])
                self.assertEqual((of_good["peak_bytes"], of_bad["peak_bytes"], found[0]["same_count"]), (low, high, 1501))
                self.assertEqual((of_good["bytes"], of_bad["bytes"]), (1024, 80 * MIB))
                self.assertRegex(of_bad["where"], r"^tensors\.cc:\d+ in tensor")
                self.assertEqual((of_good["surplus_bytes"], of_bad["surplus_bytes"]), (low, high))
                self.assertRegex(text, r"verdict: .*; PyTorch's memory of rank 0: \d+ bytes at its peak in A, \d+ in B; the first difference, after 1501 ")

    def test_equal_runs(self):
        """Threads may take turns otherwise."""
        good, _ = self.record("good", "tensors-good-run")
        for case in ("tensors-good-run", "tensors-good-run-otherwise", "tensors-good-run-a-little-more"):
            self.assertEqual(self.diff(good, self.record("other." + case, case)[0])[0], [], case)

    def test_two_ranks(self):
        good, _ = self.record("good", "tensors-good-run")
        bad, _ = self.record("bad", "tensors-bad-run", rank=1)
        found, text = self.diff(good, bad)
        self.assertEqual([(row["a"]["rank"], row["b"]["rank"], row["b"]["device"], row["b"]["bytes"]) for row in found], [(0, 1, 1, 80 * MIB)])
        self.assertIn("rank 0 in A, 1 in B", text)

    def test_what_is_lost(self):
        """Of the peaks the tables know."""
        good, low = self.record("good", "tensors-good-run")
        bad, high = self.record("bad", "tensors-bad-run", TRAINTRACE_RING_MB="1")
        self.assertEqual(self.diff(good, bad)[0], [{"a": {"rank": 0, "device": 0, "peak_bytes": low}, "b": {"rank": 0, "device": 0, "peak_bytes": high}}])

    def test_from_full_recording(self):
        good, _ = self.record("good", "tensors-good-run", TRAINTRACE_MODE="full", TRAINTRACE_RING_MB="4")
        bad, _ = self.record("bad", "tensors-bad-run", TRAINTRACE_MODE="full", TRAINTRACE_RING_MB="4")
        self.assertEqual([row["same_count"] for row in self.diff(good, bad)[0]], [1501])

    def test_an_edited_file(self):
        """Lines have moved, functions have not."""
        good = self.text("good", [(4096, "train.py:10:load"), (4096, "train.py:20:step")])
        bad = self.text("bad", [(4096, "train.py:11:load"), (4096, "train.py:21:step"), (8192, "train.py:22:step")])
        found, _ = self.diff(good, bad)
        self.assertEqual(found[0]["same_count"], 2)
        self.assertEqual((found[0]["a"]["bytes"], found[0]["b"]["bytes"], found[0]["b"]["where"]), (0, 8192, "train.py:22 in step"))
        self.assertEqual((found[0]["surplus_where"], found[0]["a"]["surplus_bytes"], found[0]["b"]["surplus_bytes"]), ("train.py in step", 4096, 12288))

    def test_one_that_goes_on(self):
        """Who has not ended may yet take as much."""
        few = [(4096, "train.py:10:load")]
        many = [*few, (8192, "train.py:20:step")]
        self.assertEqual(self.diff(self.text("a", few, ended=False), self.text("b", many))[0], [])
        self.assertEqual(self.diff(self.text("a", many, ended=False), self.text("b", few))[0][0]["same_count"], 1)

    def test_peaks_that_are_not_known(self):
        few, many = [(4096, "train.py:10:load")], [(8192, "train.py:10:load")]
        for line in ("error \"a hole\" offset=1\n", "loss nested-in-signal 1 severity=warning\n"):
            self.assertEqual(self.diff(self.text("a", few, lines=line), self.text("b", many))[0], [], line)


if __name__ == "__main__":
    unittest.main()
