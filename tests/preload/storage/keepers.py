"""Who copies: one at a time, and somebody always.

  keepers.py LIBRARY JOB TRAINTRACE [TEST..]"""
import contextlib
import ctypes
import os
import pathlib
import shutil
import struct
import subprocess
import sys
import unittest

import storage

PR_SET_CHILD_SUBREAPER = 36
NOWHERE = """mount -t tmpfs -o size={shm} tmpfs /dev/shm
for folder in /tmp /var/tmp; do
  mkdir -p -m 700 $folder/traintrace-0 && mount -t tmpfs -o ro,mode=700 tmpfs $folder/traintrace-0 || exit 77
done
exec "$@"
"""


def mappings(pid):
    with contextlib.suppress(OSError):
        with open(f"/proc/{pid}/maps", encoding="utf-8") as file:
            return {line.split(maxsplit=5)[5].strip() for line in file if len(line.split()) > 5}
    return set()


def loader_of(pid):
    return next(path for path in mappings(pid) if os.path.basename(path).startswith("ld-"))


class Keepers(unittest.TestCase):
    def setUp(self):
        stack = contextlib.ExitStack()
        self.addCleanup(stack.close)
        self.folder = stack.enter_context(storage.empty_folder())
        self.trace = self.folder / "trace"
        self.runs = self.folder / "runs"  # as long as this file is there, from its first call on

    def start(self, **settings):
        job = storage.start(self.trace, "between", self.runs, **settings)
        self.addCleanup(lambda: (job.kill(), job.communicate()))
        return job

    def header(self, job):
        return storage.Header(storage.memory_of(job.pid) or os.devnull)

    def keeper_of(self, job):
        """Once it has made a copy."""
        self.assertTrue(storage.until(lambda: storage.traces(self.trace)))
        return self.header(job).keeper_pid

    def begin(self, **settings):
        self.runs.touch()
        job = self.start(**settings)
        return job, self.keeper_of(job)

    def second_keeper(self, job):
        command = 'exec "$0" "$1" 3<>"$2"'
        keeper = subprocess.Popen(["sh", "-c", command, loader_of(job.pid), storage.LIBRARY, storage.memory_of(job.pid)])
        self.addCleanup(lambda: (keeper.kill(), keeper.wait()))
        self.assertTrue(storage.until(lambda: storage.comm(keeper.pid) == storage.KEEPER))
        return keeper

    def ends(self, job, errors=""):
        self.runs.unlink()
        self.assertEqual(job.communicate(timeout=storage.LONG), ("", errors))
        self.assertEqual(job.returncode, 0)

    def test_one_that_never_begins(self):
        """The loader begins, and finds no library: it was replaced since the job loaded it."""
        library = self.folder / "libtraintrace.so"
        shutil.copy(storage.LIBRARY, library)
        job = self.start(LD_PRELOAD=library)
        self.assertTrue(storage.until(lambda: str(library) in mappings(job.pid)))
        library.unlink()
        library.write_text("none\n")
        self.runs.touch()
        self.assertEqual(self.keeper_of(job), job.pid)
        self.ends(job)
        self.assertIsNotNone(storage.final(self.trace))
        self.assertIn(" < cudaMalloc", storage.dump(self.trace)[1])

    def test_of_a_forked_child(self):
        """It begins small, and the keeper looks at no more of its memory than was used: most children make few calls."""
        self.runs.touch()
        job = storage.start(self.trace, "child", self.runs)
        self.addCleanup(lambda: (self.runs.unlink(missing_ok=True), job.communicate()))
        child = int(job.stdout.readline())
        self.assertTrue(storage.until(lambda: getattr(storage.Header(storage.memory_of(child) or os.devnull), "copies_made", 0)))
        memory = storage.memory_of(child)
        self.assertLess(memory.stat().st_blocks * 512, 12 << 20)
        status = pathlib.Path(f"/proc/{storage.Header(memory).keeper_pid}/status").read_text(encoding="utf-8")
        shared_kb = int(dict(line.split(":\t") for line in status.splitlines())["RssShmem"].split()[0])
        self.assertLess(shared_kb, 4 << 10)
        self.ends(job)

    def test_one_that_is_killed(self):
        job, keeper = self.begin()
        self.assertNotEqual(keeper, job.pid)
        storage.kill(keeper)
        self.assertTrue(storage.until(lambda: self.header(job).keeper_pid == job.pid))
        self.ends(job)
        self.assertIsNotNone(storage.final(self.trace))

    def test_one_that_nobody_waits_for(self):
        """In a container whose first process takes in orphans and forgets them, it stays as a zombie."""
        self.assertEqual(ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0), 0)
        self.addCleanup(lambda: ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0))
        job, keeper = self.begin()
        storage.kill(keeper)
        self.assertTrue(storage.until(lambda: not storage.alive(keeper)))
        self.assertTrue(os.path.exists(f"/proc/{keeper}"), "it is no zombie")
        self.assertTrue(storage.until(lambda: self.header(job).keeper_pid == job.pid))
        self.ends(job)
        self.assertIsNotNone(storage.final(self.trace))
        os.waitpid(keeper, 0)

    def test_a_late_one_waits(self):
        """First for the keeper that is there, then for the thread that took that one's place."""
        job, keeper = self.begin()
        late = self.second_keeper(job)
        copies = self.header(job).copies_made
        self.assertTrue(storage.until(lambda: self.header(job).copies_made >= copies + 3))
        self.assertEqual(self.header(job).keeper_pid, keeper)
        storage.kill(keeper)
        self.assertTrue(storage.until(lambda: self.header(job).keeper_pid != keeper))
        copies = self.header(job).copies_made
        self.assertTrue(storage.until(lambda: self.header(job).copies_made >= copies + 3))
        owner = self.header(job).keeper_pid
        self.assertIn(owner, (job.pid, late.pid))
        self.assertIsNone(late.poll())
        job.kill()
        job.communicate()
        found = storage.final(self.trace)
        self.assertIsNotNone(found)
        self.assertEqual(late.wait(storage.LONG), 0)
        self.assertEqual(storage.Header(found[0]).keeper_pid, late.pid)
        self.assertNotEqual(storage.Header(found[0]).gone_how, 0)
        self.assertIsNone(storage.memory_of(job.pid))

    def test_a_process_that_is_gone_before_it_looks(self):
        """/proc, which is of another PID namespace, has a process of that number and of that age: it is not waited for."""
        job, keeper = self.begin()
        loader, memory = loader_of(job.pid), storage.memory_of(job.pid)
        storage.kill(keeper)
        job.kill()
        job.communicate()
        other = subprocess.Popen(["sleep", "600"])
        self.addCleanup(lambda: (other.kill(), other.wait()))
        with open(f"/proc/{other.pid}/stat", encoding="utf-8") as stat:
            age = int(stat.read().rpartition(")")[2].split()[19])
        with open(memory, "r+b") as file:
            for field, value in (("pid", other.pid), ("start_time", age), ("keeper_pid", 0)):
                place, form = storage.FIELDS[field]
                file.seek(place)
                file.write(struct.pack(form, value))
        late = subprocess.Popen(["unshare", "-p", "-f", "sh", "-c", 'exec "$0" "$1" 3<>"$2"', loader, storage.LIBRARY, memory])
        self.addCleanup(lambda: (late.kill(), late.wait()))
        self.assertEqual(late.wait(storage.LONG), 0)

    def test_segments_are_gone_on_with(self):
        """TRAINTRACE_MODE=full: after the keeper was killed, too, what the ring loses goes to its file."""
        counts = storage.Counts(self.folder)
        job = storage.start(self.trace, "work", counts.path, 60, 4, 100, 0, TRAINTRACE_MODE="full", TRAINTRACE_RING_MB=1)
        self.addCleanup(lambda: (job.kill(), job.communicate()))
        keeper = self.keeper_of(job)

        def segments():
            return sum(path.stat().st_size for path in self.trace.glob("*.segments"))
        self.assertTrue(storage.until(segments))
        storage.kill(keeper)
        self.assertTrue(storage.until(lambda: self.header(job).keeper_pid == job.pid))
        before = segments()
        self.assertTrue(storage.until(lambda: segments() > before + 10_000))
        job.kill()
        job.communicate()
        status, text = storage.dump(self.trace)
        self.assertEqual((status, [line for line in text.splitlines() if "expected" in line]), (0, []))

    def test_threads_that_record_at_the_exit(self):
        """A thread of the process, PID 1, has the last word while others still write: all of it can be read.  Where it does not come to that within
        the quarter of a second that it is waited for, on a busy machine, what it copied before can be read."""
        finished = 0
        for number in range(20):
            trace = self.folder / str(number)
            job = storage.start(trace, "leave", 6, before=("unshare", "-p", "-f", "--mount-proc"), TRAINTRACE_STACKS="off", TRAINTRACE_RING_MB=1)
            self.assertEqual(job.communicate(timeout=storage.LONG), ("", ""))
            self.assertEqual(job.returncode, 0)
            finished += [storage.Header(path).copy_state for path in storage.traces(trace)] == [storage.FINAL]
            status, text = storage.dump(trace)
            self.assertEqual((status, [line for line in text.splitlines() if "expected" in line]), (0, []))
        self.assertGreater(finished, 0)

    def nowhere(self, shm, errors):
        """A folder below a file cannot be made; and the other two are read-only."""
        (self.folder / "file").touch()
        place = self.folder / "file" / "trace"
        for what in (("once",), ("once", 4)):
            job = storage.start(place, *what, before=("unshare", "-m", "sh", "-c", NOWHERE.format(shm=shm), "sh"))
            output = job.communicate(timeout=storage.LONG)
            if job.returncode == 77:
                self.skipTest("these folders cannot be covered")
            self.assertEqual((job.returncode, *output), (0, "", errors.format(place)))

    def test_a_folder_that_cannot_be_used(self):
        """What is wrong with it is said, in one line of ordinary length."""
        circle = self.folder / "circle"
        circle.symlink_to(circle)
        for place, why in ((circle, "its symbolic links lead in a circle"), (self.folder / "/".join(["x" * 220] * 4), "its path is too long"),
                           (self.folder / ("x" * 2000), "its path is too long, or the working directory was removed")):
            with self.subTest(why):
                job = storage.start(place, "once")
                errors = job.communicate(timeout=storage.LONG)[1]
                for trace in pathlib.Path(f"/tmp/traintrace-{os.geteuid()}").glob(f"*.{job.pid}.*"):
                    trace.unlink()
                self.assertEqual(job.returncode, 0)
                self.assertRegex(errors, f"^traintrace: traces are kept in .*: {why}; .{{,200}}\n$")

    def test_no_place_and_no_name(self):
        """Of a memory that nobody can find nothing is left: that is said, once."""
        self.nowhere("64m", "traintrace: no trace is kept: there is no place for it in {}, /tmp or /var/tmp\n")

    def test_no_place_but_a_name(self):
        self.nowhere("50%", "")


storage.in_own_mounts()
unittest.main(argv=[sys.argv[0], *sys.argv[4:]])
