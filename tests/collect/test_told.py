"""Nothing is ignored without a word: what stderr, `run` and `analyze` say of settings that are not in force."""
import os
import subprocess

import job


class Settings(job.Case):
    def test_a_bad_value_and_an_unknown_name(self):
        status, _, errors = self.record(TRAINTRACE_MODE="fulll", TRAINTRACE_RING_MB="abc", TRAINTRACE_MODEE="full")
        self.assertEqual(status, 0)
        told = [line for line in errors.splitlines() if "TRAINTRACE_MODE" in line]
        self.assertEqual(len(told), 1, errors)
        self.assertIn("TRAINTRACE_MODE=fulll is not a known value (ring|full): ring is used", told[0])
        self.assertIn("TRAINTRACE_RING_MB=abc is not a number from 1 to 65536", told[0])
        self.assertIn("TRAINTRACE_MODEE is no setting and is ignored", told[0])
        finding = self.finding("trace.settings")
        self.assertEqual((finding["severity"], finding["values"]), ("info", {"setting_count": 3}))
        evidence = "\n".join(finding["evidence"])
        self.assertIn("rank 0: TRAINTRACE_MODEE is no setting and was ignored; did you mean TRAINTRACE_MODE?", evidence)
        self.assertIn("rank 0: TRAINTRACE_MODE=fulll is not a known value (ring|full): ring was used", evidence)

    def test_nothing_is_told_of_settings_that_are_in_force(self):
        _, _, errors = self.record("--mode=full", TRAINTRACE_STACKS="native")
        self.assertEqual(len(errors.splitlines()), 1, errors)  # what `run` has recorded
        self.assertIsNone(self.finding("trace.settings"))

    def test_one_rank_speaks_for_all(self):
        for rank, lines in (("0", 1), ("3", 0)):
            _, _, errors = self.record(TRAINTRACE_MODEE="x", RANK=rank, WORLD_SIZE="4")
            self.assertEqual(errors.count("TRAINTRACE_MODEE"), lines, errors)
        # .. and it is in the traces of all.
        self.assertIn("rank 3: TRAINTRACE_MODEE", self.finding("trace.settings", self.newest_trace())["title"])

    def newest_trace(self):
        return max(self.files("traintrace/*.trace"), key=os.path.getmtime)

    def test_a_job_whose_stderr_nobody_reads_goes_on(self):
        read, write = os.pipe()
        os.close(read)
        settings = job.environment(LD_PRELOAD=job.LIBRARY, TRAINTRACE_DIR=f"{self.folder}/t", TRAINTRACE_MODEE="x")
        done = subprocess.run(job.JOB, env=settings, stdout=subprocess.DEVNULL, stderr=write, timeout=120, check=False)
        os.close(write)
        self.assertEqual(done.returncode, 0)

    def test_a_folder_that_cannot_be_written_to(self):
        status, _, errors = self.record(TRAINTRACE_DIR="/proc/x")
        self.assertEqual(status, 0)
        place = f"/tmp/traintrace-{os.geteuid()}"
        self.assertIn(f"traces are kept in {place} of each host, not in /proc/x: the folder cannot be opened", errors)
        # Others may record there at the same time.
        self.assertRegex(errors, rf"recorded \d+ process(es)? in {place} ")
        self.assertIn(f"next: traintrace analyze {place}", errors)


class Refusals(job.Case):
    """What is set as it should be, and refused by what it needs: one line at that moment, a fact, a finding with the reason."""

    def refused(self, setting, reason, program, **settings):
        status, _, errors = self.record(program=program, SIMGPU_DEVICES="2", SIMGPU_NODE=f"{self.folder}/gpus", **settings)
        self.assertEqual(status, 0, errors)
        told = [line for line in errors.splitlines() if setting in line]
        self.assertEqual(len(told), 1, errors)
        self.assertRegex(told[0], f"^traintrace: {setting}: .*{reason}$")
        finding = self.finding("trace.settings")
        self.assertEqual((finding["severity"], finding["values"]), ("info", {"setting_count": 1}))
        self.assertRegex(finding["title"], f"^rank 0: {setting}: .*{reason}$")

    def test_cupti_refuses(self):
        """As it does while another tool profiles the process."""
        self.refused("TRAINTRACE_GPU_TIMELINE=cupti", "another profiler has CUPTI", job.JOB, TRAINTRACE_GPU_TIMELINE="cupti",
                     SIMGPU_FAIL="cuptiSubscribe@1+=39,cuptiSubscribe_v2@1+=39")

    def test_marks_are_refused(self):
        self.refused("TRAINTRACE_GPU_PROGRESS=marks", "CUDA_DEVICE_MAX_CONNECTIONS is 1", [f"{job.BUILD}/tests/mistakes", "none", "5"],
                     TRAINTRACE_GPU_PROGRESS="marks", CUDA_DEVICE_MAX_CONNECTIONS="1", RANK="0", LOCAL_RANK="0", WORLD_SIZE="1",
                     WORKLOAD_DIR=f"{self.folder}/rendezvous")

    def test_what_is_not_refused_is_not_told(self):
        _, _, errors = self.record(TRAINTRACE_GPU_TIMELINE="cupti", SIMGPU_NODE=f"{self.folder}/gpus")
        self.assertNotIn("TRAINTRACE_GPU_TIMELINE", errors)
        self.assertIsNone(self.finding("trace.settings"))


class Run(job.Case):
    def test_what_was_recorded_and_the_next_command(self):
        _, _, errors = self.record()
        self.assertRegex(errors, r"^traintrace: recorded 1 process in traintrace \(\d+ KB\); next: traintrace analyze\n$")
        self.assertEqual(self.traintrace("analyze")[0], 0)
        _, _, errors = self.record("--out=other/place")
        self.assertRegex(errors, r"recorded 1 process in other/place \(\d+ KB\); next: traintrace analyze other/place\n$")

    def test_a_program_that_used_no_gpu(self):
        status, _, errors = self.record(program=["sh", "-c", "exit 3"])
        self.assertEqual((status, errors), (3, "traintrace: nothing recorded: no process used CUDA or NCCL\n"))

    def test_older_traces_of_the_folder_do_not_count(self):
        self.record()
        _, _, errors = self.record(program=["true"])
        self.assertIn("nothing recorded", errors)

    def test_recording_that_was_switched_off(self):
        _, _, errors = self.record("--disable=1")
        self.assertEqual(errors, "traintrace: nothing recorded: TRAINTRACE_DISABLE=1\n")


class Analyze(job.Case):
    def test_no_default_folder(self):
        status, _, errors = self.traintrace("analyze")
        self.assertEqual(status, 2)
        self.assertTrue(errors.startswith("traintrace: no traces in ./traintrace, the default. Record some: traintrace run"), errors)

    def test_a_trace_of_which_only_the_beginning_is_left(self):
        self.record()
        path = self.files("traintrace/*.trace")[0]
        os.truncate(path, 8192)
        status, out, errors = self.traintrace("analyze")
        self.assertEqual((status, out), (2, ""))
        self.assertRegex(errors, r"the trace is truncated to 8.2 KB of \S+ [KM]B: nothing can be said about its process")
        self.assertEqual(len(errors.splitlines()), 1)

    def test_beside_a_good_trace_it_is_one_file_and_a_warning(self):
        self.record()
        os.truncate(self.files("traintrace/*.trace")[0], 8192)
        self.record()
        finding = self.finding("trace.truncated")
        self.assertEqual((finding["severity"], finding["values"]), ("warning", {"file_count": 1}))


if __name__ == "__main__":
    job.main()
