"""Folders that cannot be used, files that somebody tampers with, writes that are refused.

  tampered.py LIBRARY JOB TRAINTRACE [TEST..]"""
import os
import resource
import shutil
import subprocess
import sys
import time
import unittest
from pathlib import Path

import disks
import storage


class Tampered(disks.Jobs):
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
            self.assertEqual((job.returncode, output, storage.without_places(errors)), (7, "done\n", ""))
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
