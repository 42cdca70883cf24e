"""TRAINTRACE_COLLECT: packs come into the shared folder by themselves, and the job never waits for it."""
import os
import signal
import subprocess
import time

import job

QUIET = 30  # seconds without a record after which the keeper packs a process that still runs
LONG = 60
LONG_JOB = [f"{job.BUILD}/tests/storage_job", "once", "4"]  # long enough for what is told beside it, on a busy machine, too


def until(condition, seconds=LONG):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        value = condition()
        if value:
            return value
        time.sleep(0.1)
    return condition()


class Collected(job.Case):
    def start(self, *arguments, **settings):
        settings = job.environment(LD_PRELOAD=job.LIBRARY, TRAINTRACE_DIR=f"{self.folder}/local",
                                   TRAINTRACE_COLLECT=f"{self.folder}/shared", **settings)
        return subprocess.Popen([f"{job.BUILD}/tests/storage_job", *arguments], env=settings, stdout=subprocess.DEVNULL,
                                stderr=subprocess.PIPE, text=True, cwd=self.folder)

    def packs(self):
        return self.files("shared/*.ttz")

    def keepers(self):
        """Of traces of this folder."""
        found = []
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open(f"/proc/{pid}/comm", encoding="utf-8") as comm:
                    is_keeper = comm.read().strip() == "traintrace-keep"
                memory = os.readlink(f"/proc/{pid}/fd/3") if is_keeper else ""
            except OSError:
                continue
            if any(f".{process}." in memory for process in self.running):
                found.append(int(pid))
        return found

    def check_pack(self, calls=job.CALLS):
        status, text, errors = self.traintrace("dump", "shared")
        self.assertEqual((status, errors, text.count("< cudaMemset")), (0, "", calls))
        self.assertEqual([name for name in os.listdir(f"{self.folder}/shared") if not name.endswith(".ttz")], [])

    def test_at_the_end(self):
        process = self.start(*job.JOB[1:])
        self.assertEqual((process.communicate(timeout=LONG)[1], process.returncode), ("", 0))
        self.assertTrue(until(self.packs))
        self.check_pack()
        self.assertEqual(self.analyze("shared")["findings"], self.analyze("local")["findings"])

    def test_where_another_process_has_the_name(self):
        """As containers may have the same host name and PIDs."""
        self.assertEqual(self.start(*job.JOB[1:]).communicate(timeout=LONG)[1], "")
        self.assertTrue(until(self.packs))
        other = self.packs()[0]
        settings = job.environment(TRAINTRACE_DIR=f"{self.folder}/local", TRAINTRACE_COLLECT=f"{self.folder}/shared")
        # exec keeps PID and start time.
        script = 'mv "$1" shared/$(uname -n).$$.$(sed "s/.*) //" /proc/$$/stat | cut -d" " -f20).ttz; shift; exec env LD_PRELOAD="$0" "$@"'
        subprocess.run(["sh", "-c", script, job.LIBRARY, other, *job.JOB], env=settings, cwd=self.folder, check=True, timeout=LONG)
        self.assertTrue(until(lambda: len(self.packs()) == 2), self.packs())
        self.assertTrue(until(lambda: self.traintrace("dump", "shared")[1].count("\nprocess ") == 2))
        self.check_pack(2 * job.CALLS)

    def test_of_a_process_that_is_killed(self):
        process = self.start("calls", "50", "1000", "-9")
        process.communicate(timeout=LONG)
        self.assertEqual(process.returncode, -signal.SIGKILL)
        self.assertTrue(until(self.packs))
        self.check_pack()

    def test_of_a_container_that_is_killed_while_its_job_hangs(self):
        process = self.start("once", "1000")
        self.assertTrue(until(lambda: self.files("local/*.trace")))
        self.assertEqual(self.packs(), [])
        self.assertTrue(until(self.packs, QUIET + LONG), "what has recorded nothing for 30 s is packed")
        self.running = [process.pid]
        # What packs is a process of the keeper's own, and may be there yet.
        self.assertTrue(until(lambda: len(self.keepers()) == 1))
        keepers = self.keepers()
        for pid in (process.pid, *keepers):
            os.kill(pid, signal.SIGKILL)
        process.communicate(timeout=LONG)
        run = self.analyze("shared")["run"]
        self.assertEqual((run["ranks"], run["live"]), ([0], False))

    def test_a_folder_that_cannot_be_written_to(self):
        settings = job.environment(LD_PRELOAD=job.LIBRARY, TRAINTRACE_DIR=f"{self.folder}/local", TRAINTRACE_COLLECT="/proc/x")
        done = subprocess.run([f"{job.BUILD}/tests/storage_job", "once", "3"], env=settings, capture_output=True, text=True,
                              timeout=LONG, check=False)
        self.assertEqual(done.returncode, 0)
        self.assertEqual(done.stderr, "traintrace: TRAINTRACE_COLLECT=/proc/x: traces cannot be collected there: No such file or directory\n")
        self.assertIn("TRAINTRACE_COLLECT=/proc/x: the trace was not collected", self.finding("trace.settings", "local")["title"])

    def test_a_file_in_the_place_of_the_folder(self):
        open(f"{self.folder}/shared", "w", encoding="utf-8").close()
        os.chmod(f"{self.folder}/shared", 0o700)
        status, _, errors = self.record("--collect=shared")
        place = f"{self.folder}/shared"
        # What is told beside the job may come before this, after it, or, if the job was over by then, not at all.
        last = f"traintrace: 1 of 1 traces not packed into {place}: Not a directory; next: traintrace collect traintrace --to=FOLDER"
        self.assertEqual(status, 0)
        self.assertIn(last, errors.splitlines())
        self.assertEqual(self.finding("trace.settings")["title"],
                         f"rank 0: TRAINTRACE_COLLECT={place}: the trace was not collected: Not a directory")

    def check_not_packed(self, done):
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(self.finding("trace.settings")["title"],
                         f"rank 0: TRAINTRACE_COLLECT={self.folder}/small: the trace was not collected: No space left on device")
        told = done.stderr.splitlines()
        self.assertEqual(len(told), len(set(told)), "each is said once")
        self.assertEqual(told[-1], f"traintrace: 1 of 1 traces not packed into {self.folder}/small: No space left on device; next: "
                                   "traintrace collect traintrace --to=FOLDER")
        return told[:-2]

    def test_a_full_disk(self):
        done = self.on_small_disk("16k", '"$@"', job.TRAINTRACE, "run", "--collect=small", "--", *job.JOB)
        told = f"traintrace: TRAINTRACE_COLLECT={self.folder}/small: traces cannot be collected there: No space left on device"
        # On a busy machine a job that is this short ends before that is said; the last line has it all the same.
        self.assertIn(self.check_not_packed(done), ([told], []))

    def test_a_disk_that_is_read_only(self):
        done = self.on_small_disk("400k", 'mount -o remount,ro small; "$@"', job.TRAINTRACE, "run", "--collect=small/packs", "--", *LONG_JOB)
        self.assertEqual(done.returncode, 0, done.stderr)
        # Told by a process of its own, before or after what the run ends with.
        self.assertIn(f"traintrace: TRAINTRACE_COLLECT={self.folder}/small/packs: traces cannot be collected there: Read-only file system",
                      done.stderr.splitlines())

    def test_a_disk_that_fills_up_before_the_end(self):
        fill = '"$@" & sleep 1.5; cat /dev/zero >small/rest 2>/dev/null; wait $!'
        done = self.on_small_disk("400k", '"$@"', job.TRAINTRACE, "run", "--collect=small", "--", "sh", "-c", fill, "sh",
                                  f"{job.BUILD}/tests/storage_job", "once", "4")
        self.assertEqual(self.check_not_packed(done), [])

    def test_through_run(self):
        status, _, errors = self.record("--collect=shared")
        self.assertEqual((status, len(errors.splitlines())), (0, 1), errors)
        self.assertTrue(until(self.packs))

    def test_through_run_as_the_first_process_of_a_container(self):
        """Which ends with it: the pack is whole before."""
        if os.geteuid() != 0:
            self.skipTest("needs a PID namespace")
        done = subprocess.run(["unshare", "--pid", "--fork", "--mount-proc", job.TRAINTRACE, "run", "--collect=shared", "--", *job.JOB],
                              cwd=self.folder, env=job.environment(), capture_output=True, text=True, timeout=LONG, check=False)
        self.assertEqual((done.returncode, len(done.stderr.splitlines())), (0, 1), done.stderr)
        self.assertEqual(len(self.packs()), 1)
        self.check_pack()
        self.assertFalse(self.analyze("shared")["run"]["live"])


if __name__ == "__main__":
    job.main()
