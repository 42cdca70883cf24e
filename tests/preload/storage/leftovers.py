"""What a recorded process leaves behind: its trace, and nothing else.

  leftovers.py LIBRARY JOB TRAINTRACE"""
import contextlib
import os
import re
import resource
import signal
import subprocess
import sys
import time
import unittest
from pathlib import Path

import storage

KEEPER_GONE = 20  # seconds; within five on an idle machine
HASTY = 5  # times that a process may be too hasty for its copy
SMALL = 8 << 20  # what a trace of one call may take on disk


def on_disk(folder):
    return sum(path.stat().st_blocks * 512 for path in folder.rglob("*"))


class Leftovers(unittest.TestCase):
    def nothing_left(self, pid):
        self.assertTrue(storage.until(lambda: storage.memory_of(pid) is None), "named memory stays")
        self.assertTrue(storage.until(lambda: not storage.keepers_of(pid), KEEPER_GONE), "the keeper stays")

    def test_a_normal_end(self):
        with storage.empty_folder() as folder:
            for status in (0, 5):
                job = storage.start(folder / str(status), "work", storage.Counts(folder).path, 0.3, 2, 1000, status)
                output, errors = job.communicate(timeout=storage.LONG)
                self.assertEqual((job.returncode, output, errors), (status, "done\n", ""))
                self.nothing_left(job.pid)
                self.assertIsNotNone(storage.final(folder / str(status)))

    def test_a_kill(self):
        with storage.empty_folder() as folder:
            counts = storage.Counts(folder)
            job = storage.start(folder / "trace", "work", counts.path, 60, 2, 1000, 0)
            self.assertTrue(storage.until(counts.returned))
            self.assertTrue(storage.until(lambda: storage.keepers_of(job.pid) or storage.memory_of(job.pid) is None))
            job.kill()
            job.communicate(timeout=storage.LONG)
            self.assertIsNotNone(storage.final(folder / "trace"))
            self.nothing_left(job.pid)

    def test_signals_that_end_the_job_do_not_end_the_keeper(self):
        """As timeout(1) and launchers send them: to the whole process group."""
        for ends in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            with storage.empty_folder() as folder:
                counts = storage.Counts(folder)
                job = storage.start(folder / "trace", "work", counts.path, 60, 2, 1000, 0, preexec=os.setpgrp)
                self.assertTrue(storage.until(counts.returned))
                os.killpg(job.pid, ends)
                job.communicate(timeout=storage.LONG)
                self.assertEqual(job.returncode, -ends)
                self.assertIsNotNone(storage.final(folder / "trace"))
                left = storage.calls_in(storage.dump(folder / "trace")[1])[1]
                self.assertGreaterEqual(left, counts.returned())
                self.nothing_left(job.pid)

    def test_many_runs(self):
        with storage.empty_folder() as folder:
            before = set(storage.MEMORY.glob("*.trace"))
            for _ in range(20):
                job = storage.start(folder / "trace", "once")
                job.communicate(timeout=storage.LONG)
                self.assertEqual(job.returncode, 0)
            self.assertIsNotNone(storage.final(folder / "trace", 20))
            self.assertTrue(storage.until(lambda: set(storage.MEMORY.glob("*.trace")) <= before))
            self.assertTrue(storage.until(lambda: not storage.keepers(), KEEPER_GONE), storage.keepers())

    def kill_with_keeper(self, job, counts):
        """Its named memory, which nobody copies any more, as if it had been so for long enough to be looked after."""
        self.assertTrue(storage.until(counts.returned))
        memory = storage.memory_of(job.pid)
        self.assertTrue(storage.until(lambda: storage.Header(memory).keeper_pid))
        keeper = storage.Header(memory).keeper_pid
        for pid in (keeper, job.pid):
            os.kill(pid, signal.SIGKILL)
        job.communicate(timeout=storage.LONG)
        self.assertTrue(storage.until(lambda: not storage.alive(keeper)))
        os.utime(memory, (time.time() - 60,) * 2)
        return memory

    def test_of_another_mount_namespace(self):
        """Containers that share /dev/shm do not share their folders: a job outside can neither copy what was left within one, nor tell that
        its folder was removed, and leaves it to the next job within."""
        with contextlib.ExitStack() as stack:
            folder = stack.enter_context(storage.empty_folder())
            (folder / "within").mkdir()
            container = subprocess.Popen(["unshare", "-m", "--propagation=private", "sh", "-c", 'mount -t tmpfs tmpfs "$0" && echo mounted && exec sleep 1000',
                                          str(folder / "within")], stdout=subprocess.PIPE, text=True)
            stack.callback(container.communicate)
            stack.callback(container.kill)
            self.assertEqual(container.stdout.readline(), "mounted\n")
            enter = ("nsenter", "-m", "-t", str(container.pid))
            counts = storage.Counts(folder)
            job = storage.start(folder / "within/job/trace", "work", counts.path, 60, 2, 1000, 0, before=enter)
            memory = self.kill_with_keeper(job, counts)
            for elsewhere in ("other", "one more"):
                other = storage.start(folder / elsewhere, "once")
                self.assertEqual((*other.communicate(timeout=storage.LONG), other.returncode), ("", "", 0))
                self.nothing_left(other.pid)
                self.assertTrue(memory.exists(), "removed by a job that cannot see its folder")
            self.assertEqual(list((folder / "within").iterdir()), [])
            other = storage.start(folder / "within/next", "once", before=enter)
            self.assertEqual((*other.communicate(timeout=storage.LONG), other.returncode), ("", "", 0))
            self.nothing_left(job.pid)
            within = Path(f"/proc/{container.pid}/root{folder}/within/job/trace")
            self.assertEqual(len(list(within.glob(f"*.{job.pid}.*.trace"))), 1)

    @staticmethod
    def is_cut_short(trace):
        """Of a process that was PID 1, and has ended with all that was in its namespace: it waits a quarter of a second for a thread of its own that
        copies and does not get on, which may be too short for a busy machine.  The memory that stays then goes with the next one that looks."""
        if all(storage.Header(path).copy_state == storage.FINAL for path in storage.traces(trace)):
            return False
        for path in storage.MEMORY.glob("*.trace"):
            path.unlink()
        return True

    def test_waiting_for_all_children(self):
        """No child, no signal of ours.  As PID 1 it gets orphans: the keeper of each child, and what started that, if the
        child has ended before it.  It sees no other sign of them."""
        with storage.empty_folder() as folder:
            for name, before in (("usual", ()), *((f"init {i}", ("unshare", "-p", "-f")) for i in range(HASTY))):
                with self.subTest(name):
                    job = storage.start(folder / name, "reap", before=before)
                    output, errors = job.communicate(timeout=storage.LONG)
                    said = r"reaped 3 foreign 0 strange-signals 0\n" if name == "usual" else r"reaped \d+ foreign [0-6] strange-signals \d+\n"
                    self.assertEqual((job.returncode, errors), (0, ""))
                    self.assertRegex(output, said)
                    text = storage.dump(folder / name)[1]
                    self.assertIn("fact keeper " + ("thread" if before else "process"), text)
                    if before and self.is_cut_short(folder / name):
                        continue
                    self.assertIsNotNone(storage.final(folder / name, 4))
                    self.assertTrue(storage.until(lambda: not list(storage.MEMORY.glob("*.trace"))), "named memory stays")
                    if before:
                        break
            else:
                self.fail("the copies stay partial")

    def test_a_thread_that_copies(self):
        """Of PID 1: it leaves what a keeper would."""
        with storage.empty_folder() as folder:
            for number in range(HASTY):
                job = storage.start(folder / str(number), "once", before=("unshare", "-p", "-f", "--mount-proc"))
                job.communicate(timeout=storage.LONG)
                self.assertEqual(job.returncode, 0)
                if not self.is_cut_short(folder / str(number)):
                    break
            else:
                self.fail("the copies stay partial")
            self.assertTrue(storage.until(lambda: not list(storage.MEMORY.glob("*.trace"))), "named memory stays")

    def test_too_little_address_space(self):
        """For part of what recording takes, or for all of it: the job ends as ever, and nothing stays."""
        for mebibytes in range(40, 120, 4):
            with storage.empty_folder() as folder, self.subTest(mebibytes):
                def limit(mebibytes=mebibytes):
                    resource.setrlimit(resource.RLIMIT_AS, (mebibytes << 20, mebibytes << 20))
                plain = subprocess.run([storage.JOB, "once"], preexec_fn=limit, capture_output=True, check=False)
                job = storage.start(folder / "trace", "once", preexec=limit)
                _, errors = job.communicate(timeout=storage.LONG)
                self.assertEqual(job.returncode, plain.returncode, errors)
                self.nothing_left(job.pid)

    def test_pipes_close_with_the_job(self):
        with storage.empty_folder() as folder:
            begun = time.monotonic()
            job = storage.start(folder / "trace", "once", 0.5)
            job.stdout.read()
            job.stderr.read()
            self.assertLess(time.monotonic() - begun, storage.LONG)
            self.assertEqual(job.wait(storage.LONG), 0)
            kept = [files for files in storage.keepers().values() if f".{job.pid}." in files]  # none: it has ended, too
            self.assertEqual([files for files in kept if "pipe:" in files], [])

    def test_the_keeper_holds_nothing_of_the_job(self):
        """Descriptors, working folder, process group, session."""
        with storage.empty_folder() as folder:
            with subprocess.Popen(["sleep", "60"], stdout=subprocess.PIPE) as other:
                job = storage.start(folder / "trace", "once", 30, cwd=folder)
                try:
                    found = storage.until(lambda: storage.keepers_of(job.pid) and storage.traces(folder / "trace"))
                    self.assertTrue(found)
                    keeper = storage.keepers_of(job.pid)[0]
                    open_files = [os.readlink(f"/proc/{keeper}/fd/{fd}") for fd in os.listdir(f"/proc/{keeper}/fd")]
                    self.assertEqual([name for name in open_files if "pipe:" in name or "socket:" in name], [])
                    self.assertNotEqual(os.getsid(keeper), os.getsid(job.pid))
                    self.assertNotEqual(os.readlink(f"/proc/{keeper}/cwd"), str(folder))
                finally:
                    other.kill()
                    job.kill()
                    job.communicate()

    def test_the_newest_of_a_long_ring(self):
        """Of a process that ended well; what was left out is counted, in the file."""
        with storage.empty_folder() as folder:
            counts = storage.Counts(folder)
            job = storage.start(folder / "trace", "work", counts.path, 2, 2, 0, 0, TRAINTRACE_FINISHED_RING_MB=1, TRAINTRACE_STACKS="off")
            job.communicate(timeout=storage.LONG)
            self.assertIsNotNone(storage.final(folder / "trace"))
            status, text = storage.dump(folder / "trace")
            self.assertEqual((status, re.findall("expected .*", text)), (0, []))
            left_out = int(re.search(r"(?m)^loss ring-shortened (\d+)", text)[1])
            overwritten = re.search(r"(?m)^loss ring-overwritten (\d+)", text)
            kept = sum(storage.calls_in(text))
            self.assertGreater(kept, 0)
            self.assertGreaterEqual(kept + left_out + int(overwritten[1] if overwritten else 0), 2 * counts.returned())

    def test_disk_use(self):
        with storage.empty_folder() as folder:
            job = storage.start(folder / "trace", "once", 4)
            try:
                self.assertTrue(storage.until(lambda: storage.traces(folder / "trace")))
                time.sleep(2.5)
                running = on_disk(folder)
            finally:
                job.communicate(timeout=storage.LONG)
            self.assertIsNotNone(storage.final(folder / "trace"))
            ended = on_disk(folder)
            print(f"one cudaMalloc: {running >> 10} KiB while it runs, {ended >> 10} KiB after its end", file=sys.stderr)
            self.assertLess(running, SMALL)
            self.assertLess(ended, SMALL)


storage.in_own_mounts()
unittest.main(argv=[sys.argv[0], *sys.argv[4:]])
