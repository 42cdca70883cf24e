"""Which runs are removed from a folder of traces that grew too large, and what never is.

  folder.py LIBRARY JOB TRAINTRACE [TEST..]"""
import os
import re
import signal
import struct
import subprocess
import sys
import time
import unittest

import disks
import storage

MIB = 1 << 20
COPIED = storage.FIELDS["copied_realtime_ns"][0]
HOUR_NS = 3600 * 10**9


def enlarge(path, mebibytes):
    """As if it held that much."""
    with open(path, "r+b") as file:
        os.posix_fallocate(file.fileno(), 0, mebibytes * MIB)


class Folder(unittest.TestCase):
    def setUp(self):
        folder = storage.empty_folder()
        self.folder = folder.__enter__()
        self.addCleanup(folder.__exit__, None, None, None)
        self.traces = self.folder / "traintrace"  # the default of a job that is started in self.folder

    def ended(self, job):
        job.communicate(timeout=storage.LONG)
        return job.returncode

    def run_job(self, how=0, mebibytes=10, named=None, **settings):
        """A process that has ended; its trace, which takes so much."""
        job = storage.start(named, "calls", 1, 1, how, cwd=self.folder, **settings)
        self.assertEqual(self.ended(job), how)
        path = storage.until(lambda: self.trace_of(job, named, storage.FINAL))
        self.assertTrue(path, "no trace")
        enlarge(path, mebibytes)
        return path

    def trace_of(self, job, named=None, state=None):
        found = next((named or self.traces).glob(f"*.{job.pid}.*.trace"), None)
        return found if found and (state is None or getattr(storage.Header(found), "copy_state", 0) == state) else None

    def running(self, *before, **settings):
        job = storage.start(None, "once", 60, before=before, cwd=self.folder, **settings)
        self.addCleanup(lambda: (job.kill(), job.communicate()))
        return job

    def left_of(self, *paths):
        return [path.exists() for path in paths]

    def removed(self, path):
        """What the trace says of it."""
        said = re.search(r"^loss runs-removed (\d+) severity=info$", storage.dump(path)[1], re.MULTILINE)
        return int(said[1]) if said else 0

    def test_the_oldest_goes(self):
        old = [self.run_job() for _ in range(4)]
        # No more than has to, and none for the new one's sake, whose size nobody knows yet.
        new = self.run_job(TRAINTRACE_FOLDER_MB=35)
        self.assertEqual(self.left_of(*old), [False, True, True, True])
        self.assertEqual(self.removed(new), 1)
        self.assertEqual(self.removed(old[1]), 0)

    def test_below_the_limit_all_stay(self):
        old = [self.run_job() for _ in range(2)]
        new = self.run_job(TRAINTRACE_FOLDER_MB=21)
        self.assertEqual((self.left_of(*old), self.removed(new)), ([True, True], 0))

    def test_what_failed_goes_last(self):
        failed = [self.run_job(how) for how in (7, -signal.SIGKILL, -signal.SIGABRT)]
        well = [self.run_job() for _ in range(2)]
        new = self.run_job(TRAINTRACE_FOLDER_MB=35)
        self.assertEqual(self.left_of(*failed, *well), [True, True, True, False, False])
        self.assertEqual(self.removed(new), 2)
        new = self.run_job(TRAINTRACE_FOLDER_MB=35)  # that ended well just now
        self.assertEqual(self.left_of(*failed), [True, True, True])
        new = self.run_job(TRAINTRACE_FOLDER_MB=25)
        self.assertEqual(self.left_of(*failed), [False, True, True])
        self.assertEqual(self.removed(new), 2)

    def launch(self, *hows, **settings):
        """Ranks of one run, one after the other's end, all of them there when the first begins."""
        jobs = [storage.start(None, "once", 0.5, cwd=self.folder, **settings) for _ in hows]
        paths = [storage.until(lambda job=job: self.trace_of(job)) for job in jobs]
        self.assertTrue(all(paths))
        for job, how in zip(jobs, hows):
            if how < 0:
                job.send_signal(-how)
        self.assertEqual([self.ended(job) for job in jobs], list(hows))
        self.assertTrue(storage.until(lambda: all(self.trace_of(job, state=storage.FINAL) for job in jobs)))
        for path in paths:
            enlarge(path, 10)
        return paths

    def test_whole_runs(self):
        """One rank failed: it is a run that failed, and all that the ranks know of it belongs together."""
        bad = self.launch(0, -signal.SIGKILL, TORCHELASTIC_RUN_ID="bad")
        good = self.launch(0, 0, TORCHELASTIC_RUN_ID="good")
        new = self.run_job(TRAINTRACE_FOLDER_MB=35)
        self.assertEqual(self.left_of(*bad, *good), [True, True, False, False])
        self.assertEqual(self.removed(new), 1)

    def test_the_environment_of_all_runs_is_the_same(self):
        """MASTER_PORT=29500: two runs all the same, and the job's own run is another one."""
        same = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29500", "TORCHELASTIC_RUN_ID": "none"}
        old = []
        for _ in range(2):
            old.append(self.launch(0, 0, **same))
            time.sleep(2.5)  # else they might be one
        new = self.run_job(TRAINTRACE_FOLDER_MB=35, **same)
        self.assertEqual([self.left_of(*run) for run in old], [[False, False], [True, True]])
        self.assertEqual(self.removed(new), 1)

    def test_what_runs_stays(self):
        """With all of its ranks; here, and in another container."""
        job = self.running(TORCHELASTIC_RUN_ID="a")
        other = self.running("unshare", "--kill-child", "-p", "-f", "-u", "--mount-proc", "sh", "-c", 'hostname elsewhere && exec "$@"', "sh")
        live = [storage.until(lambda: self.trace_of(job)), storage.until(lambda: next(self.traces.glob("elsewhere.*.trace"), None))]
        self.assertTrue(all(live))
        rank = self.run_job(TORCHELASTIC_RUN_ID="a")
        ended = self.run_job()
        new = self.run_job(TRAINTRACE_FOLDER_MB=1)
        self.assertEqual(self.left_of(*live, rank, ended), [True, True, True, False])
        self.assertEqual(self.removed(new), 1)
        self.assertEqual((job.poll(), other.poll()), (None, None))

    def test_what_was_stopped_for_hours_stays(self):
        job = self.running()
        path = storage.until(lambda: self.trace_of(job))
        keeper = storage.until(lambda: getattr(storage.Header(path), "keeper_pid", 0))
        self.assertNotIn(keeper, (0, job.pid))
        for pid in (job.pid, keeper):
            os.kill(pid, signal.SIGSTOP)
        self.addCleanup(os.kill, keeper, signal.SIGCONT)
        with open(path, "r+b") as file:  # as if in the morning
            file.seek(COPIED)
            copied = struct.unpack("Q", file.read(8))[0]
            self.assertLess(abs(copied / 1e9 - time.time()), storage.LONG)
            file.seek(COPIED)
            file.write(struct.pack("Q", copied - 3 * HOUR_NS))
        enlarge(path, 10)
        new = self.run_job(TRAINTRACE_FOLDER_MB=1)
        self.assertEqual((self.left_of(path), self.removed(new)), ([True], 0))

    def test_what_is_no_trace_stays(self):
        """Nor does its size cost a trace."""
        outside = self.folder / "outside.trace"
        inner = self.run_job()
        inner.rename(outside)
        texts = [self.traces / name for name in ("notes.txt", "host.1.2.trace", "host.1.2.segments", "host.1.2.pointer", ".trace")]
        for path in texts:
            path.write_text("precious\n")
            enlarge(path, 20)
        empty, folder, linked = (self.traces / name for name in ("host.3.3.trace", "host.4.4.trace", "host.5.5.trace"))
        empty.touch()
        folder.mkdir()
        os.link(outside, folder / "host.6.6.trace")
        linked.symlink_to(outside)
        (self.traces / "host.7.7.trace").symlink_to(self.folder, target_is_directory=True)
        os.mkfifo(self.traces / "host.8.8.trace")
        before = set(self.traces.rglob("*"))
        fits = self.run_job(mebibytes=2)
        new = self.run_job(TRAINTRACE_FOLDER_MB=3, mebibytes=2)
        self.assertEqual((self.left_of(fits), self.removed(new)), ([True], 0))
        last = self.run_job(TRAINTRACE_FOLDER_MB=1)
        self.assertEqual(set(self.traces.rglob("*")) - {last}, before)
        self.assertEqual(self.removed(last), 2)
        self.assertTrue(outside.exists())

    def test_its_segments_go_with_it(self):
        old = self.run_job(TRAINTRACE_MODE="full", how=0)
        segments = old.with_suffix(".segments")
        self.assertTrue(segments.exists())
        keeps = self.run_job(TRAINTRACE_FOLDER_MB=1)
        self.assertEqual(self.left_of(old, segments, keeps), [False, False, True])

    def test_a_named_folder(self):
        """Even of the name that is the default.  Asked for, the limit holds there as well."""
        for named in (self.folder / "named", self.traces):
            with self.subTest(named):
                old = self.run_job(named=named)
                self.run_job(named=named, TRAINTRACE_FOLDER_MB=11)
                self.assertEqual(self.left_of(old), [True])
                self.run_job(named=named, TRAINTRACE_FOLDER_MB=1)
                self.assertEqual(self.left_of(old), [False])

    def test_unless_asked(self):
        """8 GiB where nobody named the folder, and no limit where somebody did."""
        with disks.disk("ext4", 20480) as self.folder:
            self.traces = self.folder / "traintrace"
            old = self.run_job(mebibytes=6000), self.run_job(mebibytes=4000)
            self.run_job(named=self.traces)
            self.assertEqual(self.left_of(*old), [True, True])
            by_command = subprocess.run([storage.TRAINTRACE, "run", "--out=traintrace", "--", storage.JOB, "once"], cwd=self.folder, check=False)
            self.assertEqual((by_command.returncode, self.left_of(*old)), (0, [True, True]))
            new = self.run_job()
            self.assertEqual((self.left_of(*old), self.removed(new)), ([False, True], 1))


if __name__ == "__main__":
    storage.in_own_mounts()
    unittest.main(argv=[sys.argv[0], *sys.argv[4:]])
