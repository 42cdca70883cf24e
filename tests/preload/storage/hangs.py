"""A folder of traces on a file system that no longer answers: the job goes on, and ends when it would.

  hangs.py LIBRARY JOB TRAINTRACE [TEST..]"""
import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
import unittest
from pathlib import Path

import storage

SECONDS = 2
PATIENCE = 5  # what the exit of a process waits for at most: docs/interposing.md
SLACK = 5  # of a loaded machine
SILENT = 30  # seconds after which a file that is read has gone: analyzer/isolation/silence.h
BLOCKED = 1  # seconds in a call, or in state D, that are too many: what hangs, hangs to the end
LOCAL, NETWORK = "fuse", "fuse.sshfs"
AFTER = (0, 1, 2, 4, 7, 11, 16, 25, 40, 70)  # requests
SERVER = Path(__file__).with_name("hanging.py")


class Hanging:
    """Answers so many requests."""

    def __init__(self, stack, kind, requests):
        self.folder = stack.enter_context(storage.empty_folder())
        self.server = subprocess.Popen([sys.executable, SERVER, self.folder, kind, str(requests)], stdout=subprocess.PIPE,
                                       stderr=subprocess.PIPE, text=True)
        stack.callback(self.end)
        if self.server.stdout.readline() != "mounted\n":
            raise unittest.SkipTest("FUSE: " + self.server.stderr.read())

    def die(self):
        """Whoever waits gets an error, as others from now on."""
        self.server.kill()
        self.server.communicate()

    def end(self):
        self.die()
        subprocess.run(["umount", "-l", self.folder], check=False)


class Job:
    """Its folder of traces hangs, or with `packs` the one that they are collected into."""

    def __init__(self, stack, kind, requests, packs=False, **settings):
        self.name = f"{kind}, {requests} requests answered"
        counts = storage.Counts(stack.enter_context(storage.empty_folder("/dev/shm")))
        folder = Hanging(stack, kind, requests).folder
        self.trace = folder / "trace"
        if packs:
            self.trace = stack.enter_context(storage.empty_folder()) / "trace"
            settings["TRAINTRACE_COLLECT"] = folder / "packs"
        self.counts = counts
        self.begun = time.monotonic()
        self.job = storage.start(self.trace, "work", counts.path, SECONDS, 2, 500, 7, **settings)
        self.watch = storage.Watch(self.job.pid)
        self.watch.start()

    def wait(self):
        # Never more than this: a test that hangs says less.
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.job.wait(storage.LONG)
        self.took = time.monotonic() - self.begun
        self.job.kill()
        output, errors = self.job.communicate()
        self.said = (output, storage.without_places(errors))
        self.watch.join()


class Hangs(unittest.TestCase):
    def run_all(self, kind, **settings):
        with contextlib.ExitStack() as stack:
            jobs = [Job(stack, kind, requests, **settings) for requests in AFTER]
            waiting = [threading.Thread(target=job.wait) for job in jobs]
            for thread in waiting:
                thread.start()
            for thread in waiting:
                thread.join()
            yield from jobs
        for job in jobs:  # the file system is gone now
            self.assertTrue(storage.until(lambda job=job: not storage.keepers_of(job.job.pid)), "its keeper stays: " + job.name)
            self.forget(job.job.pid)

    def forget(self, pid):
        """What was put where nobody named a folder, or is left in memory because there is no place for it."""
        for place in ("/tmp", "/var/tmp", storage.SHM):
            for path in Path(place).glob(f"traintrace-{os.geteuid()}/*.{pid}.*"):
                path.unlink()

    def harmless(self, kind, **settings):
        late = 0
        for job in self.run_all(kind, **settings):
            with self.subTest(job.name):
                self.assertEqual((job.job.returncode, job.said), (7, ("done\n", "")))
                self.assertLess(job.took, SECONDS + PATIENCE + SLACK)
                self.assertLess(job.watch.longest, BLOCKED)
                self.assertLess(job.counts.longest_ms(), 1000 * BLOCKED)
                self.assertGreater(job.counts.returned(), 0)
                late = max(late, job.took - SECONDS)
        print(f"{kind} {settings}: at most {late:.2f} s longer than {SECONDS} s", file=sys.stderr)

    def test_a_local_one(self):
        self.harmless(LOCAL)

    def test_one_behind_a_network(self):
        """Only a pointer to the trace lies there."""
        self.harmless(NETWORK)

    def test_with_all_records(self):
        self.harmless(LOCAL, TRAINTRACE_MODE="full")

    def test_a_folder_for_packs(self):
        """A child of the keeper waits for it, and nobody else: the copy is whole when the job has ended."""
        for job in self.run_all(NETWORK, packs=True):
            with self.subTest(job.name):
                self.assertEqual((job.job.returncode, job.said[0]), (7, "done\n"))
                self.assertLess(job.took, SECONDS + PATIENCE + SLACK)
                self.assertLess(job.watch.longest, BLOCKED)
                self.assertLess(job.counts.longest_ms(), 1000 * BLOCKED)
                self.assertIsNotNone(storage.final(job.trace), "the copy waits, too")

    def test_run_ends_when_the_job_does(self):
        """What it says at its end is about a folder that does not answer."""
        for settings in ([], ["--collect"]):
            for requests in (0, 3):
                with self.subTest(settings=settings, requests=requests), contextlib.ExitStack() as stack:
                    folder = Hanging(stack, NETWORK, requests).folder
                    own = stack.enter_context(storage.empty_folder())
                    places = [f"--out={own}", f"--collect={folder}/packs"] if settings else [f"--out={folder}/trace"]
                    begun = time.monotonic()
                    run = subprocess.Popen([storage.TRAINTRACE, "run", *places, "--", storage.JOB, "calls", "10", "100", "7"],
                                           env=storage.environment(own, LD_PRELOAD=""), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
                    said = run.communicate(timeout=storage.LONG)
                    self.assertEqual((run.returncode, said[0]), (7, ""), said)
                    self.assertLess(time.monotonic() - begun, PATIENCE + 6 + SLACK)
                    if settings:
                        self.assertIn(f"recorded 1 process in {own}", said[1])
                    else:
                        self.assertIn(f"{folder}/trace does not answer, so what was recorded is not known", said[1])
                        self.assertEqual(len(storage.without_places(said[1]).splitlines()), 1, said)

    def test_other_jobs_are_read_meanwhile(self):
        """Memory of a job whose folder is gone names that folder: who looks for traces of another one does not wait for it."""
        with contextlib.ExitStack() as stack:
            gone = Job(stack, LOCAL, 0)
            self.assertTrue(storage.until(lambda: storage.memory_of(gone.job.pid)))
            own = stack.enter_context(storage.empty_folder())
            begun = time.monotonic()
            run = subprocess.run([storage.TRAINTRACE, "run", f"--out={own}/t", "--", storage.JOB, "calls", "10", "100", "7"], capture_output=True,
                                 env=storage.environment(own, LD_PRELOAD=""), text=True, timeout=storage.LONG, check=False)
            self.assertIn(f"recorded 1 process in {own}/t", run.stderr)
            for command in (["dump"], ["collect", "--to=" + str(own / "packs")]):
                done = subprocess.run([storage.TRAINTRACE, *command, str(own / "t")], capture_output=True, text=True, timeout=storage.LONG, check=False)
                self.assertEqual(done.returncode, 0, done.stderr)
            self.assertLess(time.monotonic() - begun, 3 * 2 + SLACK)
            gone.wait()

    def traintrace(self, *arguments):
        """(exit status, stdout, stderr) and the seconds it took."""
        begun = time.monotonic()
        done = subprocess.run([storage.TRAINTRACE, *arguments], capture_output=True, text=True, timeout=4 * SILENT + storage.LONG, check=False)
        return (done.returncode, done.stdout, done.stderr), time.monotonic() - begun

    def test_a_job_whose_folder_is_gone_is_looked_at(self):
        """Its memory is there."""
        with contextlib.ExitStack() as stack:
            disk = Hanging(stack, LOCAL, -1)
            job, _ = self.at_work(stack, disk.folder)
            disk.server.send_signal(signal.SIGSTOP)
            stack.callback(disk.server.send_signal, signal.SIGCONT)
            for target in ("--all", str(job.pid)):
                (status, out, errors), took = self.traintrace("attach", target, "--interval=100ms")
                self.assertIn(status, (0, 1), errors)  # other jobs may run here, and hang
                if target != "--all":
                    self.assertIn("main thread waits for another thread to end\n", out)
                self.assertLess(took, 10 + SLACK)

    def test_who_names_a_folder_that_is_gone_is_told(self):
        with contextlib.ExitStack() as stack:
            own = stack.enter_context(storage.empty_folder())
            job = storage.start(own / "t", "calls", 10, 100, 7)
            job.communicate(timeout=storage.LONG)
            self.assertTrue(storage.until(lambda: storage.final(own / "t")))
            gone = Hanging(stack, NETWORK, 0).folder / "t"
            said = f"traintrace: {gone}: does not answer within 10 s: is its file server gone?\n"
            attach = "traintrace: what runs can be looked at all the same: attach --all, or PIDs\n"
            commands = (["analyze", gone], ["report", gone], ["dump", gone], ["collect", gone], ["top", "--once", gone], ["attach", gone],
                        ["import", "kineto", gone, "--out=-"], ["collect", own / "t", f"--to={gone}"], ["diff", own / "t", gone])
            begun = time.monotonic()
            asking = [subprocess.Popen([storage.TRAINTRACE, *map(str, command)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
                      for command in commands]
            for command, process in zip(commands, asking):
                out, errors = process.communicate(timeout=storage.LONG)
                self.assertEqual((process.returncode, out, errors), (2, "", said + (attach if command[0] == "attach" else "")), command)
            self.assertLess(time.monotonic() - begun, 10 + 2 * SLACK)
            # The rest is judged, and what is not there is told.
            (status, out, errors), took = self.traintrace("analyze", "--format=json", str(gone), str(own / "t"))
            self.assertEqual((status, errors), (1, ""))  # its job has ended with status 7
            self.assertLess(took, 10 + SLACK)
            unreachable = [finding for finding in json.loads(out)["findings"] if finding["code"] == "trace.unreachable"]
            self.assertIn("does not answer within 10 s", "\n".join(unreachable[0]["evidence"]))
            self.forget(job.pid)

    def test_a_file_that_goes_while_it_is_read(self):
        """The folder answers, a file in it, which lies elsewhere, does not: no command waits for it, it is named, and the rest is read (unreachable.py)."""
        with contextlib.ExitStack() as stack:
            own = stack.enter_context(storage.empty_folder())
            job = storage.start(own / "t", "calls", 10, 100, 7)
            job.communicate(timeout=storage.LONG)
            self.assertTrue(storage.until(lambda: storage.final(own / "t")))
            disk = Hanging(stack, LOCAL, -1)
            (disk.folder / "x.trace").write_bytes(b"whatever")
            (own / "t" / "zz.trace").symlink_to(disk.folder / "x.trace")
            disk.server.send_signal(signal.SIGSTOP)
            stack.callback(disk.server.send_signal, signal.SIGCONT)
            commands = {"analyze": [], "dump": [], "report": ["--by=call"], "collect": [f"--to={own}/packs"], "export": ["csv", "--output=-"]}
            statuses = {"analyze": 1, "collect": 2}  # its job has ended with status 7; one was not collected
            begun = time.monotonic()
            asking = [subprocess.Popen([storage.TRAINTRACE, command, *options, own / "t"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
                      for command, options in commands.items()]
            for command, process in zip(commands, asking):
                out, errors = process.communicate(timeout=4 * SILENT + storage.LONG)
                with self.subTest(command, out=out[-300:], errors=errors):
                    self.assertEqual(process.returncode, statuses.get(command, 0))
                    self.assertIn(f"{own}/t/zz.trace: does not answer within 10 s: is its file server gone?", out if command == "analyze" else errors)
                    self.assertEqual(len(errors.splitlines()), command != "analyze")
            self.assertLess(time.monotonic() - begun, 2 * SILENT + SLACK)
            self.forget(job.pid)

    def test_it_answers(self):
        """What this server does when it does not hang is enough for a trace."""
        for kind in (LOCAL, NETWORK):
            with self.subTest(kind), contextlib.ExitStack() as stack:
                trace = Hanging(stack, kind, -1).folder / "trace"
                job = storage.start(trace, "calls", 10, 100, 7)
                output, errors = job.communicate(timeout=storage.LONG)
                self.assertEqual((output, storage.without_places(errors), job.returncode), ("", "", 7))
                self.assertEqual("it lies on a network file system" in errors, kind == NETWORK)
                there = storage.until(lambda trace=trace: list(trace.glob("*.trace" if kind == LOCAL else "*.pointer")))
                self.assertEqual(len(there), 1)
                self.assertTrue(storage.until(lambda trace=trace: storage.calls_in(storage.dump(trace)[1]) == (100, 100)))
                self.forget(job.pid)

    def test_memory_waits_for_its_folder(self):
        """The disk is gone for now: the trace stays in memory.  Who looks after what was left behind does not take it for removed."""
        with contextlib.ExitStack() as stack:
            outside = stack.enter_context(storage.empty_folder())
            disk = Hanging(stack, LOCAL, -1)
            counts = storage.Counts(outside)
            job = storage.start(disk.folder / "trace", "work", counts.path, SECONDS, 2, 500, 7)
            self.assertTrue(storage.until(lambda: storage.traces(disk.folder / "trace")))
            disk.die()
            self.assertEqual((*job.communicate(timeout=storage.LONG), job.returncode), ("done\n", "", 7))
            self.assertTrue(storage.until(lambda: not storage.keepers_of(job.pid)))
            memory = storage.memory_of(job.pid)
            self.assertIsNotNone(memory)
            os.utime(memory, (time.time() - 60,) * 2)  # younger ones are not looked after
            other = storage.start(outside / "trace", "once")
            self.assertEqual((*other.communicate(timeout=storage.LONG), other.returncode), ("", "", 0))
            self.assertTrue(storage.until(lambda: not storage.keepers()))
            self.assertTrue(memory.exists(), "the only trace is gone")
            self.assertGreaterEqual(storage.calls_in(storage.dump(memory)[1])[1], counts.returned())
            self.forget(job.pid)

    def at_work(self, stack, disk=None):
        """A job that has been copied at least once, to that disk or to a place where one can be mounted; and that place."""
        outside = stack.enter_context(storage.empty_folder())
        place = disk or outside / "place"
        counts = storage.Counts(outside)
        job = storage.start(place / "trace", "work", counts.path, 60, 2, 500, 7)
        stack.callback(lambda: self.end(job))
        self.assertTrue(storage.until(lambda: storage.traces(place / "trace") and self.header(job).copies_made))
        return job, place

    def end(self, job):
        job.kill()
        job.communicate()
        storage.until(lambda: not storage.keepers_of(job.pid))
        self.forget(job.pid)

    def header(self, job):
        return storage.Header(storage.memory_of(job.pid))

    def goes_on(self, job):
        copies = self.header(job).copies_made
        self.assertTrue(storage.until(lambda: self.header(job).copies_made >= copies + 2), "nobody copies any more")

    def test_a_disk_that_fails_for_a_while(self):
        """It opens what it cannot read: that is no other file."""
        with contextlib.ExitStack() as stack:
            disk = Hanging(stack, LOCAL, -1).folder
            job, _ = self.at_work(stack, disk)
            (disk / "fails").touch()
            time.sleep(3)  # rounds, one each second
            (disk / "fails").unlink()
            self.goes_on(job)

    def test_a_keeper_killed_meanwhile(self):
        """Whoever takes its place cannot look at the copy now, and can later."""
        with contextlib.ExitStack() as stack:
            job, place = self.at_work(stack)
            disk = Hanging(stack, LOCAL, -1)
            subprocess.run(["mount", "--bind", disk.folder, place], check=True)
            disk.die()
            storage.kill(self.header(job).keeper_pid)
            self.assertTrue(storage.until(lambda: self.header(job).keeper_pid == job.pid))
            time.sleep(3)
            subprocess.run(["umount", "-l", place], check=True)
            self.goes_on(job)


if __name__ == "__main__":
    storage.in_own_mounts()
    if not os.path.exists("/dev/fuse"):
        storage.skip("no /dev/fuse")
    unittest.main(argv=[sys.argv[0], *sys.argv[4:]])
