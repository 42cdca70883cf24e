"""Folders of traces on disks that are frozen for a while: the job does not notice, and what it did is copied after the thaw.

  frozen.py LIBRARY JOB TRAINTRACE [TEST..]"""
import contextlib
import subprocess
import sys
import time
import unittest

import disks
import storage

FROZEN = 5  # seconds; what blocks, does so for that long


@contextlib.contextmanager
def frozen(mount):
    if not disks.tool("fsfreeze"):
        raise unittest.SkipTest("no fsfreeze")
    subprocess.run([disks.tool("fsfreeze"), "-f", mount], check=True)
    try:
        yield
    finally:
        subprocess.run([disks.tool("fsfreeze"), "-u", mount], check=True)


class Frozen(disks.Jobs):
    def test_roomy_disk_frozen(self):
        """Large enough for traces to be put there: 4 GiB must stay free."""
        with disks.disk("ext4", 8192) as mount:
            job, counts = self.work(mount / "trace", 9)
            self.assertTrue(storage.until(lambda: storage.traces(mount / "trace")))
            with frozen(mount):
                time.sleep(FROZEN)
                before = counts.returned()
                self.assertTrue(storage.until(lambda: counts.returned() > before))
            self.ends_well(job, counts, within=storage.LONG)
            self.assertIsNotNone(storage.final(mount / "trace"))
            self.all_is_there(mount / "trace", counts)

    def test_frozen_while_memory_grows(self):
        """8 MiB of records are there from the start, and these are more; or they are packed, and there is no room for that."""
        with disks.disk("ext4", 8192) as mount:
            jobs = {mode: self.work(mount / mode, FROZEN + 3, threads=4, pause_us=50, TRAINTRACE_MODE=mode) for mode in ("ring", "full")}
            self.assertTrue(storage.until(lambda: all(storage.traces(mount / mode) for mode in jobs)))
            watches = [storage.Watch(job.pid) for job, _ in jobs.values()]
            for watch in watches:
                watch.start()
            with frozen(mount):
                time.sleep(FROZEN)
            for mode, (job, counts) in jobs.items():
                with self.subTest(mode):
                    self.ends_well(job, counts, within=storage.LONG)
                    trace = storage.Trace(mount / mode)
                    storage.skip_if_late(self, trace.written, 2 * counts.returned())
                    self.assertEqual(trace.kept + trace.overwritten, trace.written)
            for watch in watches:
                watch.join()
                self.assertLess(watch.longest, disks.BLOCKED)

    def test_frozen_at_the_end(self):
        with disks.disk("ext4", 8192) as mount:
            job, counts = self.work(mount / "trace", 3)
            self.assertTrue(storage.until(lambda: storage.traces(mount / "trace")))
            with frozen(mount):
                job.communicate(timeout=storage.LONG)
                self.assertEqual(job.returncode, 7)
                time.sleep(1)
                self.all_is_there(mount / "trace", counts)
            self.assertLess(counts.longest_ms(), 1000 * disks.BLOCKED)
            self.assertIsNotNone(storage.final(mount / "trace"), "not completed after the thaw")
            self.all_is_there(mount / "trace", counts)

    def test_frozen_from_the_start(self):
        with disks.disk("ext4", 8192) as mount:
            with frozen(mount):
                counts = storage.Counts(self.outside)
                job = storage.start(mount / "trace", "work", counts.path, 2, 2, 500, 7)
                begun = time.monotonic()
                job.communicate(timeout=storage.LONG)
                print(f"frozen from the start: {time.monotonic() - begun:.2f} s for 2 s of work", file=sys.stderr)
                self.assertEqual(job.returncode, 7)
            self.assertIsNotNone(storage.final(mount / "trace"), "not completed after the thaw")
            self.all_is_there(mount / "trace", counts)


if __name__ == "__main__":
    storage.in_own_mounts()
    unittest.main(argv=[sys.argv[0], *sys.argv[4:]])
