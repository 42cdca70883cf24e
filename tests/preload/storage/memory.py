"""Little memory: in a control group, in /dev/shm.  The job does not notice; the trace is whole, or says what is missing.

  memory.py LIBRARY JOB TRAINTRACE [TEST..]"""
import contextlib
import os
import subprocess
import sys
import time
import unittest
from pathlib import Path

import disks
import storage

MIB = 1 << 20
CALLS = 1_000_000  # 61 MiB of records
REFUSED = "traintrace: not recording: not enough memory\n"
GROUPS = Path("/sys/fs/cgroup")


class ControlGroup:
    """Of version 2 where memory is its business, else of version 1; below our own if possible."""

    def __init__(self):
        for parent, self.limit, self.usage, self.events in self.candidates():
            self.path = parent / f"traintrace-test.{os.getpid()}"
            with contextlib.suppress(OSError):
                self.path.mkdir()
                if (self.path / self.limit).exists():
                    return
                self.path.rmdir()
        raise unittest.SkipTest("no control group with a limit of memory can be made here")

    @staticmethod
    def candidates():
        own = {line.split(":")[1]: line.split(":")[2].lstrip("/") for line in Path("/proc/self/cgroup").read_text().splitlines()}
        unified = "memory.max", "memory.current", "memory.events"
        if "" in own:
            yield GROUPS / own[""], *unified
            yield GROUPS, *unified
        if "memory" in own:
            yield GROUPS / "memory" / own["memory"], "memory.limit_in_bytes", "memory.usage_in_bytes", "memory.oom_control"

    def set_limit(self, mebibytes):
        (self.path / self.limit).write_text(str(mebibytes * MIB))

    def used(self):
        return int((self.path / self.usage).read_text()) / MIB

    def killed(self):
        """Processes of it, for want of memory."""
        return int(dict(line.split() for line in (self.path / self.events).read_text().splitlines()).get("oom_kill", 0))

    def enter(self):
        (self.path / "cgroup.procs").write_text(str(os.getpid()))

    def remove(self):
        def removed():
            with contextlib.suppress(OSError):
                self.path.rmdir()
            return not self.path.exists()
        storage.until(removed)


class LittleMemory(unittest.TestCase):
    def setUp(self):
        folder = storage.empty_folder()
        self.folder = folder.__enter__()
        self.addCleanup(folder.__exit__, None, None, None)

    def ends_as_without_us(self, *arguments, **keywords):
        """What both wrote on stdout and their status; what the traced one said on stderr."""
        ends = []
        for library in ("", storage.LIBRARY):
            job = storage.start(self.folder / "trace", *arguments, LD_PRELOAD=library, **keywords)
            output, errors = job.communicate(timeout=storage.LONG)
            ends.append((job.returncode, output))
        self.assertEqual(ends[1], ends[0])
        self.assertGreaterEqual(ends[0][0], 0, "cannot even run without us")
        return errors

    def nothing_unsaid(self):
        trace = storage.Trace(self.folder / "trace")
        self.assertEqual(trace.status, 0)
        self.assertEqual(trace.kept + trace.overwritten, trace.written)
        return trace


class Groups(LittleMemory):
    def setUp(self):
        super().setUp()
        self.group = ControlGroup()
        self.addCleanup(self.group.remove)

    def hog(self, limit, takes):
        self.group.set_limit(limit)
        errors = self.ends_as_without_us("hog", takes, CALLS, preexec=self.group.enter)
        self.assertEqual(self.group.killed(), 0)
        return errors

    def test_hardly_any(self):
        """It is said that nothing is recorded, and why."""
        self.assertEqual(self.hog(16, 4), REFUSED)
        self.assertFalse((self.folder / "trace").exists())

    def test_the_job_takes_most_of_it(self):
        """After we looked how much there was."""
        for limit, takes in ((128, 100), (512, 440)):
            with self.subTest(limit):
                self.assertEqual(self.hog(limit, takes), "")
                trace = self.nothing_unsaid()
                storage.skip_if_late(self, trace.written, 2 * (1 + CALLS))
                self.assertGreater(trace.overwritten, 0)
                trace.path.unlink()

    def test_as_little_as_said(self):
        """About 16 MiB, of which a job has to leave so much in its group."""
        self.group.set_limit(2048)
        used = {}
        for library in ("", storage.LIBRARY):
            with subprocess.Popen([storage.JOB, "once", "60"], env=storage.environment(self.folder / "trace", LD_PRELOAD=library),
                                  preexec_fn=self.group.enter) as job:
                if library:
                    self.assertTrue(storage.until(lambda: storage.traces(self.folder / "trace")))
                time.sleep(1)
                used[library] = self.group.used()
                job.kill()
        takes = used[storage.LIBRARY] - used[""]
        print(f"an idle job takes {used['']:.1f} MiB, {takes:.1f} MiB more with us", file=sys.stderr)
        self.assertGreater(takes, 1, "it is charged elsewhere?")
        self.assertLess(takes, 32)


class SharedMemory(LittleMemory):
    def shm(self, size):
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"mode=1777,size={size}", "tmpfs", storage.SHM], check=True)
        self.addCleanup(subprocess.run, ["umount", "-l", storage.SHM], check=True)

    def used(self):
        found = os.statvfs(storage.SHM)
        return (found.f_blocks - found.f_bfree) * found.f_frsize

    def whole(self):
        trace = self.nothing_unsaid()
        storage.skip_if_late(self, trace.written, 2 * 4100)
        self.assertEqual((trace.written, trace.overwritten, trace.allocations), (2 * 4100, 0, 100))

    def test_none_of_it_is_ours(self):
        """NCCL and data loaders need what a container has."""
        for size in ("64m", "1m"):
            with self.subTest(size):
                self.shm(size)
                job = storage.start(self.folder / "trace", "once", 60)
                self.addCleanup(lambda job=job: (job.kill(), job.communicate()))
                self.assertTrue(storage.until(lambda: storage.traces(self.folder / "trace")))
                self.assertEqual((self.used(), [path for path in storage.SHM.rglob("*") if path.is_file()]), (0, []))
                job.kill()
                job.communicate()
                storage.final(self.folder / "trace")[0].unlink()
                self.assertEqual(self.ends_as_without_us("calls", 100, 4000, 7), "")
                self.whole()
                storage.traces(self.folder / "trace")[0].unlink()

    def test_full(self):
        self.shm("64m")
        disks.fill(storage.SHM / "tensors")
        self.assertEqual(self.ends_as_without_us("calls", 100, 4000, 7), "")
        self.whole()

    def test_the_job_takes_all_of_it(self):
        self.shm("64m")
        takes = []
        for library in ("", storage.LIBRARY):
            job = storage.start(self.folder / "trace", "hog", 100, 1000, storage.SHM / "tensors", LD_PRELOAD=library)
            self.assertEqual((*job.communicate(timeout=storage.LONG), job.returncode), ("", "", 0))
            takes.append((storage.SHM / "tensors").stat().st_size)
            (storage.SHM / "tensors").unlink()
        self.assertEqual(takes, [64 * MIB] * 2)
        trace = self.nothing_unsaid()
        storage.skip_if_late(self, trace.written, 2 * 1001)
        self.assertEqual(trace.entered, 1000)

    def test_fills_up_while_we_record_there(self):
        """What was set up stays ours; what is to come is not had, and no thread dies of it."""
        self.shm("50%")
        counts = storage.Counts(self.folder)
        job = storage.start(self.folder / "trace", "work", counts.path, 4, 8, 10, 7)
        self.addCleanup(lambda: (job.kill(), job.communicate()))
        self.assertTrue(storage.until(lambda: storage.memory_of(job.pid)), "not recorded there")
        self.assertTrue(storage.until(counts.returned))
        kibibytes = self.used() >> 10
        full = subprocess.run(["mount", "-o", f"remount,size={kibibytes}k", storage.SHM], check=False)
        self.assertEqual((full.returncode, job.poll()), (0, None))
        self.assertEqual((*job.communicate(timeout=storage.LONG), job.returncode), ("done\n", "", 7))
        trace = self.nothing_unsaid()
        storage.skip_if_late(self, trace.written, 2 * counts.returned())
        print(f"/dev/shm of {kibibytes >> 10} MiB: {trace.written} records, {trace.overwritten} of them overwritten", file=sys.stderr)
        self.assertGreater(trace.overwritten, 0, "too few calls to fill what was there")


if __name__ == "__main__":
    storage.in_own_mounts()
    unittest.main(argv=[sys.argv[0], *sys.argv[4:]])
