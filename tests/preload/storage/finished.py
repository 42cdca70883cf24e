"""How much of its ring a process keeps that has ended, and that it says what it did not keep.

  finished.py LIBRARY JOB TRAINTRACE"""
import signal
import sys
import unittest

import storage

ALLOCATIONS = 50
MANY = 300_000  # calls of cudaMemset: 19 MiB of records
SOME = 50_000
MIB = 1 << 20


class Finished(unittest.TestCase):
    def trace(self, *arguments, ends=0, **settings):
        with storage.empty_folder() as folder:
            job = storage.start(folder / "trace", *arguments, **settings)
            _, errors = job.communicate(timeout=storage.LONG)
            self.assertEqual((job.returncode, errors), (ends, ""))
            trace = storage.Trace(folder / "trace")
            self.assertEqual(trace.status, 0)
            self.assertEqual(trace.kept + trace.overwritten, trace.written, "records that nobody speaks of")
            return trace

    def calls(self, how=0, calls=SOME, **settings):
        trace = self.trace("calls", ALLOCATIONS, calls, how, ends=how, **settings)
        storage.skip_if_late(self, trace.written, 2 * (ALLOCATIONS + calls))
        self.assertEqual(trace.written, 2 * (ALLOCATIONS + calls))
        self.assertEqual(trace.allocations, ALLOCATIONS, "the tables are kept in any case")
        return trace

    def all_of_it(self, trace):
        self.assertEqual((trace.entered, trace.left, trace.shortened), (SOME, SOME, 0))

    def newest(self, trace, mebibytes):
        """So many, and those."""
        self.assertEqual(trace.shortened, trace.written - trace.kept)
        self.assertGreater(trace.shortened, 0)
        self.assertGreater(trace.kept, 0)
        self.assertEqual(trace.last_kept, trace.last_call)
        self.assertLess(trace.disk, (mebibytes + 3) * MIB)

    def test_ended_well(self):
        self.newest(self.calls(calls=MANY), 16)

    def test_one_mebibyte(self):
        trace = self.calls(TRAINTRACE_FINISHED_RING_MB=1)
        self.newest(trace, 1)
        self.assertGreater(trace.kept, 10_000)

    def test_nothing(self):
        trace = self.calls(TRAINTRACE_FINISHED_RING_MB=0)
        self.assertEqual((trace.kept, trace.shortened), (0, trace.written))

    def test_nothing_of_threads_that_go_on(self):
        """Each ends with the process, in the middle of a chunk."""
        with storage.empty_folder() as folder:
            counts = storage.Counts(folder)
            trace = self.trace("work", counts.path, 1, 4, 500, 0, TRAINTRACE_FINISHED_RING_MB=0)
            self.assertEqual((trace.kept, trace.shortened), (0, trace.written))
            storage.skip_if_late(self, trace.written, 2 * counts.returned())

    def test_all(self):
        self.all_of_it(self.calls(TRAINTRACE_FINISHED_RING_MB=65536))

    def test_short_enough(self):
        self.all_of_it(self.calls(TRAINTRACE_FINISHED_RING_MB=8))

    def test_a_ring_that_was_asked_for(self):
        """With TRAINTRACE_RING_MB alone all of it is kept; with both, the setting made for this decides."""
        self.all_of_it(self.calls(TRAINTRACE_RING_MB=32))
        self.newest(self.calls(TRAINTRACE_RING_MB=32, TRAINTRACE_FINISHED_RING_MB=1), 1)

    def test_ended_badly(self):
        """What the process did just before is what one wants to see."""
        for how in (7, -signal.SIGKILL, -signal.SIGTERM, -signal.SIGABRT):
            with self.subTest(how):
                self.all_of_it(self.calls(how, TRAINTRACE_FINISHED_RING_MB=1))


storage.in_own_mounts()
unittest.main(argv=[sys.argv[0], *sys.argv[4:]])
