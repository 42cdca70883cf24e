"""Folders of traces on disks that are full: the job does not notice.

  disks.py LIBRARY JOB TRAINTRACE [TEST..]"""
import contextlib
import os
import shutil
import subprocess
import sys
import time
import unittest

import storage

TOO_LONG = 10  # seconds that nothing may take; what hangs, hangs for ever
BLOCKED = 1  # seconds in a call, or in state D, that are too many


def tool(name):
    return shutil.which(name, path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin")


@contextlib.contextmanager
def disk(kind, mebibytes):
    """A file system of its own; the folder of its mount."""
    with storage.empty_folder() as folder:
        image, mount = folder / "image", folder / "mount"
        with open(image, "wb") as file:
            file.truncate(mebibytes << 20)
        mount.mkdir()
        make = tool(f"mkfs.{kind}")
        if not make or not tool("losetup"):
            raise unittest.SkipTest(f"no mkfs.{kind} or losetup")
        subprocess.run([make, "-q", image], check=True, capture_output=True)
        loop = subprocess.run([tool("losetup"), "--find", "--show", image], capture_output=True, text=True, check=False)
        if loop.returncode != 0:
            raise unittest.SkipTest("no loop device: " + loop.stderr)
        device = loop.stdout.strip()
        try:
            if subprocess.run(["mount", device, mount], check=False, capture_output=True).returncode != 0:
                raise unittest.SkipTest(f"{kind} cannot be mounted")
            try:
                yield mount
            finally:
                # Held by the keeper while it looks at the folder.
                storage.until(lambda: subprocess.run(["umount", mount], check=False, capture_output=True).returncode == 0)
        finally:
            subprocess.run([tool("losetup"), "-d", device], check=False)


def fill(path):
    """To the last byte that this disk gives; synchronous, so that nothing becomes free behind it."""
    written = 0
    with open(path, "wb", buffering=0) as file:
        for size in (1 << 20, 1 << 16, 4096, 512, 1):
            with contextlib.suppress(OSError):
                while True:
                    written += file.write(b"\x5a" * size)
        with contextlib.suppress(OSError):
            os.fsync(file.fileno())
    return written


def reserve(path):
    """All of it again, without as much to write; for images that are as large as real disks."""
    with open(path, "wb") as file:
        at, size = 0, 1 << 30
        while size >= 4096:
            try:
                os.posix_fallocate(file.fileno(), at, size)
                at += size
            except OSError:
                size //= 2
    fill(path.with_suffix(".rest"))


class Jobs(unittest.TestCase):
    def setUp(self):
        stack = contextlib.ExitStack()
        self.addCleanup(stack.close)
        self.outside = stack.enter_context(storage.empty_folder())  # of no disk
        subprocess.run(["mount", "-t", "tmpfs", "tmpfs", self.outside], check=True)
        stack.callback(subprocess.run, ["umount", "-l", self.outside], check=True)

    def work(self, folder, seconds=60, status=7, threads=2, pause_us=500, **settings):
        """A job that records; it ends by itself with that status."""
        outside = self.outside / folder.name
        outside.mkdir()
        counts = storage.Counts(outside)
        job = storage.start(folder, "work", counts.path, seconds, threads, pause_us, status, **settings)
        self.addCleanup(lambda: (job.kill(), job.communicate()))
        self.assertTrue(storage.until(counts.returned))
        return job, counts

    def ends_well(self, job, counts, status=7, within=TOO_LONG):
        begun = time.monotonic()
        output, errors = job.communicate(timeout=within)
        self.assertEqual((job.returncode, output, storage.without_places(errors)), (status, "done\n", ""))
        # The calls are those of a simulated GPU and take no time.
        self.assertLess(counts.longest_ms(), 1000 * BLOCKED)
        return time.monotonic() - begun

    def all_is_there(self, folder, counts):
        status, text = storage.dump(folder)
        self.assertEqual(status, 0, text[:1000])
        self.assertEqual(text.count("\nprocess "), 1, "seen more than once")
        if "> cudaFree" not in text and "loss " not in text:  # the very first call
            storage.skip_if_late(self, storage.calls_in(text)[1], counts.returned())
        self.assertGreaterEqual(storage.calls_in(text)[1], counts.returned())


class Disks(Jobs):
    def fills_up(self, kind, mebibytes):
        with disk(kind, mebibytes) as mount:
            job, counts = self.work(mount / "trace", 6)
            self.assertTrue(storage.until(lambda: storage.memory_of(job.pid)))
            time.sleep(1.5)
            fill(mount / "checkpoint")
            self.ends_well(job, counts, within=storage.LONG)
            self.assertTrue(storage.until(lambda: not storage.alive(job.pid)))
            time.sleep(1)
            self.all_is_there(mount / "trace", counts)

    def test_btrfs_fills_up(self):
        self.fills_up("btrfs", 256)

    def test_ext4_fills_up(self):
        self.fills_up("ext4", 64)

    def reads_back(self, folder):
        """What lies there, alone."""
        status, text = storage.dump(folder)
        self.assertEqual((status, text.count("\nprocess ")), (0, 1), text[:1000])
        self.assertGreater(storage.calls_in(text)[1], 0)
        analyzed = subprocess.run([storage.TRAINTRACE, "analyze", folder], capture_output=True, text=True, check=False)
        self.assertIn(analyzed.returncode, (0, 1), analyzed.stderr)
        self.assertIn("verdict: ", analyzed.stdout)

    def taken_by_somebody(self, kind):
        """Large enough for traces to be put there; then somebody takes all that is left, while two copies lie on it: of memory that has
        a name, and of a process in a container, that has none."""
        with disk(kind, 8192) as mount:
            with storage.small_shm():
                inside, inside_counts = self.work(mount / "container", 6)
                self.assertTrue(storage.until(lambda: storage.traces(mount / "container")))
            job, counts = self.work(mount / "trace", 6)
            self.assertTrue(storage.until(lambda: storage.traces(mount / "trace")))
            self.assertIsNotNone(storage.memory_of(job.pid))
            for name in ("container", "trace"):  # what they did has been copied at least once
                path = storage.traces(mount / name)[0]
                self.assertTrue(storage.until(lambda path=path: storage.Header(path).copies_made >= 1))
            reserve(mount / "checkpoint")
            if job.poll() is not None or inside.poll() is not None:
                self.skipTest("this machine is too slow: they have ended already")
            self.assertLess(os.statvfs(mount).f_bavail * os.statvfs(mount).f_frsize, 64 << 20)
            self.ends_well(job, counts, within=storage.LONG)
            self.ends_well(inside, inside_counts, within=storage.LONG)
            self.assertTrue(storage.until(lambda: not storage.keepers_of(job.pid) and not storage.keepers_of(inside.pid)))
            self.all_is_there(mount / "trace", counts)
            self.reads_back(mount / "container")
            self.copied_once_there_is_room(mount, job, counts)

    def copied_once_there_is_room(self, mount, job, counts):
        """By the next keeper of this user."""
        for name in ("checkpoint", "checkpoint.rest"):
            (mount / name).unlink()
        subprocess.run(["sync", "-f", mount], check=True)  # btrfs: not free before
        os.utime(storage.memory_of(job.pid), (time.time() - 60,) * 2)  # younger ones are not looked after
        other = storage.start(self.outside / "other", "once")
        self.assertEqual((*other.communicate(timeout=storage.LONG), other.returncode), ("", "", 0))
        self.assertTrue(storage.until(lambda: storage.memory_of(job.pid) is None))
        self.assertIsNotNone(storage.final(mount / "trace"))
        self.all_is_there(mount / "trace", counts)

    def test_btrfs_taken_by_somebody(self):
        self.taken_by_somebody("btrfs")

    def test_ext4_taken_by_somebody(self):
        self.taken_by_somebody("ext4")

    def test_full_from_the_start(self):
        with disk("btrfs", 256) as mount:
            fill(mount / "checkpoint")
            job, counts = self.work(mount / "trace", 3)
            self.ends_well(job, counts, within=storage.LONG)
            time.sleep(1)
            found = [path for path in (mount, mount / "trace") if path.exists()]
            print("full from the start, in the folder:", [list(map(str, path.iterdir())) for path in found], file=sys.stderr)


if __name__ == "__main__":
    storage.in_own_mounts()
    unittest.main(argv=[sys.argv[0], *sys.argv[4:]])
