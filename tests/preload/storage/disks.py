"""Folders of traces that are full, frozen, taken away or never there: the job does not notice.

  disks.py LIBRARY JOB TRAINTRACE [TEST..]"""
import contextlib
import os
import resource
import shutil
import subprocess
import sys
import time
import unittest

import storage

TOO_LONG = 10  # seconds that nothing may take; what hangs, hangs for ever
FROZEN = 5
BLOCKED = 1  # seconds in a call, or in state D, that are too many: what blocks, does so for the length of the freeze


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


@contextlib.contextmanager
def frozen(mount):
    if not tool("fsfreeze"):
        raise unittest.SkipTest("no fsfreeze")
    subprocess.run([tool("fsfreeze"), "-f", mount], check=True)
    try:
        yield
    finally:
        subprocess.run([tool("fsfreeze"), "-u", mount], check=True)


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


class Disks(unittest.TestCase):
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
        self.assertEqual((job.returncode, output, errors), (status, "done\n", ""))
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

    def test_roomy_disk_frozen(self):
        """Large enough for traces to be put there: 4 GiB must stay free."""
        with disk("ext4", 8192) as mount:
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
        with disk("ext4", 8192) as mount:
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
                self.assertLess(watch.longest, BLOCKED)

    def test_frozen_at_the_end(self):
        with disk("ext4", 8192) as mount:
            job, counts = self.work(mount / "trace", 3)
            self.assertTrue(storage.until(lambda: storage.traces(mount / "trace")))
            with frozen(mount):
                job.communicate(timeout=storage.LONG)
                self.assertEqual(job.returncode, 7)
                time.sleep(1)
                self.all_is_there(mount / "trace", counts)
            self.assertLess(counts.longest_ms(), 1000 * BLOCKED)
            self.assertIsNotNone(storage.final(mount / "trace"), "not completed after the thaw")
            self.all_is_there(mount / "trace", counts)

    def test_frozen_from_the_start(self):
        with disk("ext4", 8192) as mount:
            with frozen(mount):
                counts = storage.Counts(self.outside)
                job = storage.start(mount / "trace", "work", counts.path, 2, 2, 500, 7)
                begun = time.monotonic()
                job.communicate(timeout=storage.LONG)
                print(f"frozen from the start: {time.monotonic() - begun:.2f} s for 2 s of work", file=sys.stderr)
                self.assertEqual(job.returncode, 7)
            self.assertIsNotNone(storage.final(mount / "trace"), "not completed after the thaw")
            self.all_is_there(mount / "trace", counts)

    def tampered(self, how):
        with storage.empty_folder() as folder:
            job, counts = self.work(folder / "trace", 5)
            path = storage.until(lambda: storage.traces(folder / "trace"))[0]
            time.sleep(1)
            how(path)
            self.ends_well(job, counts, within=storage.LONG)
            self.assertTrue(storage.until(lambda: storage.memory_of(job.pid) is None), "its memory stays")
            return folder, counts, [(p.name, storage.Header(p)) for p in storage.traces(folder / "trace")], storage.dump(folder / "trace")

    def test_truncated(self):
        _, counts, _, (status, text) = self.tampered(lambda path: os.truncate(path, 0))
        self.assertEqual(status, 0, text[:500])
        self.assertGreaterEqual(storage.calls_in(text)[1], counts.returned())

    def test_truncated_in_the_middle(self):
        _, counts, _, (status, text) = self.tampered(lambda path: os.truncate(path, 100_000))
        self.assertEqual(status, 0, text[:500])
        self.assertGreaterEqual(storage.calls_in(text)[1], counts.returned())

    def test_no_second_file(self):
        """The final copy needs a file of its own before it takes the place of the other: here it cannot have one."""
        with storage.empty_folder() as folder:
            job, counts = self.work(folder / "trace", 3)
            path = storage.until(lambda: storage.traces(folder / "trace"))[0]
            path.with_name(path.name + ".new").mkdir()
            self.ends_well(job, counts, within=storage.LONG)
            self.assertIsNotNone(storage.final(folder / "trace"))
            self.all_is_there(folder / "trace", counts)

    def test_writes_are_refused_for_a_while(self):
        """As by a quota, which the size of the disk does not show: what was refused is copied later."""
        with storage.empty_folder() as folder:
            runs = folder / "runs"
            job = storage.start(folder / "trace", "later", runs)
            self.addCleanup(lambda: (job.kill(), job.communicate()))
            path = storage.until(lambda: storage.traces(folder / "trace"))[0]
            memory = storage.memory_of(job.pid)

            def rounds(count):
                made = storage.Header(path).copied_realtime_ns
                for _ in range(count):
                    self.assertTrue(storage.until(lambda: storage.Header(path).copied_realtime_ns > made))
                    made = storage.Header(path).copied_realtime_ns
            rounds(1)
            keeper = storage.Header(memory).keeper_pid
            before = resource.prlimit(keeper, resource.RLIMIT_FSIZE, (4096, resource.RLIM_INFINITY))
            runs.touch()
            rounds(2)
            resource.prlimit(keeper, resource.RLIMIT_FSIZE, before)
            rounds(3)
            for pid in (keeper, job.pid):
                storage.kill(pid)
            job.communicate(timeout=storage.LONG)
            memory.unlink()
            status, text = storage.dump(folder / "trace")
            self.assertEqual(status, 0, text[:1000])
            self.assertEqual(storage.calls_in(text, "cudaMalloc"), (1, 1))
            self.assertRegex(text, r"(?m)^allocation \S+ bytes=1048576 ")

    # What somebody removes while the job runs is not made again, and nothing of it stays in memory.
    # (`tampered` checks that the job is unharmed.)
    def test_removed(self):
        _, _, files, _ = self.tampered(lambda path: path.unlink())
        self.assertEqual(files, [])

    def test_folder_removed(self):
        _, _, files, _ = self.tampered(lambda path: shutil.rmtree(path.parent))
        self.assertEqual(files, [])

    def test_replaced_by_a_text(self):
        """It is somebody's now: what they wrote is not lost without need."""
        def replace(path):
            path.unlink()
            path.write_text("a note\n")
        _, _, files, _ = self.tampered(replace)
        self.assertEqual([bool(header.ready) for _, header in files], [False])

    def test_replaced_by_a_link(self):
        with storage.empty_folder() as elsewhere:
            victim = elsewhere / "victim"
            victim.write_text("precious\n" * 1000)

            def replace(path):
                path.unlink()
                path.symlink_to(victim)
            self.tampered(replace)
            self.assertEqual(victim.read_text(), "precious\n" * 1000)

    def unusable(self, make, **arguments):
        """A folder that cannot be: the job runs as ever, its trace is found elsewhere or it has none."""
        with storage.empty_folder() as folder:
            path = make(folder)
            counts = storage.Counts(self.outside)
            job = storage.start(path, "work", counts.path, 1, 2, 500, 7, **arguments)
            output, errors = job.communicate(timeout=storage.LONG)
            self.assertEqual((job.returncode, output, errors), (7, "done\n", ""))
            self.assertGreater(counts.returned(), 0)
            storage.until(lambda: storage.memory_of(job.pid) is None, 3)
            elsewhere = [p for p in storage.Path("/tmp").glob(f"traintrace-{os.geteuid()}/*.{job.pid}.*")]
            print(path, "->", elsewhere, storage.memory_of(job.pid), file=sys.stderr)
            for p in elsewhere:
                p.unlink()
            self.assertTrue(elsewhere)
            self.assertEqual([p.name for p in path.iterdir() if p.suffix != ".pointer"] if path.is_dir() else [], [])

    def test_parent_is_a_file(self):
        def make(folder):
            (folder / "file").write_text("")
            return folder / "file" / "trace"
        self.unusable(make)

    def test_is_a_file(self):
        def make(folder):
            (folder / "file").write_text("")
            return folder / "file"
        self.unusable(make)

    def test_a_path_too_long_for_names_in_it(self):
        def make(folder):
            while len(str(folder)) < 1010:
                folder = folder / ("x" * min(200, 1014 - len(str(folder))))
            folder.mkdir(parents=True)
            return folder
        self.unusable(make)

    def test_read_only(self):
        def make(folder):
            subprocess.run(["mount", "-t", "tmpfs", "-o", "ro", "tmpfs", folder], check=True)
            self.addCleanup(lambda: subprocess.run(["umount", folder], check=False))
            return folder
        self.unusable(make)

    def test_size_limit(self):
        """RLIMIT_FSIZE: no SIGXFSZ for the job, nor for its keeper."""
        def limit(bytes_):
            return lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (bytes_, bytes_))
        for bytes_ in (1 << 20,):  # below, the simulated libraries cannot make their own files
            with self.subTest(bytes_), storage.empty_folder() as folder:
                counts = storage.Counts(self.outside)
                job = storage.start(folder / "trace", "work", counts.path, 2, 2, 500, 7, preexec=limit(bytes_))
                output, errors = job.communicate(timeout=storage.LONG)
                print("RLIMIT_FSIZE", bytes_, job.returncode, errors, [(p.name, p.stat().st_size) for p in storage.traces(folder / "trace")]
                      if (folder / "trace").exists() else None, storage.memory_of(job.pid), storage.calls_in(storage.dump(folder / "trace")[1]),
                      counts.returned(), file=sys.stderr)
                # Its own counts are a file that it may not make larger; it is as large already.
                self.assertEqual((job.returncode, errors), (7, "traintrace: not recording: files may not be that large\n"))


if __name__ == "__main__":
    storage.in_own_mounts()
    unittest.main(argv=[sys.argv[0], *sys.argv[4:]])
