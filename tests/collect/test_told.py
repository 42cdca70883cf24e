"""Nothing is ignored without a word: what stderr, `run` and `analyze` say of settings that are not in force."""
import os
import subprocess

import job


NOTHING = ("traintrace: nothing recorded in traintrace: no process used CUDA or NCCL, or those that did were not recorded (linked "
           "statically, or started without LD_PRELOAD)\n")


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

    def test_a_switch_is_no_folder_for_packs(self):
        for word in ("OFF", "no", "0", "1", "on"):
            for options, variables in ([f"--collect={word}"], {}), ([], {"TRAINTRACE_COLLECT": word}):
                _, _, errors = self.record(*options, **variables)
                told = [line for line in errors.splitlines() if "COLLECT" in line]
                means_on = word in ("1", "on")
                self.assertEqual(told, [f"traintrace: TRAINTRACE_COLLECT={word} is no folder (folder): off is used"] if means_on else [])
                self.assertEqual(os.listdir(self.folder), ["traintrace"])
        self.assertIn("TRAINTRACE_COLLECT=on is no folder", self.finding("trace.settings", self.newest_trace())["title"])

    def test_one_rank_speaks_for_all(self):
        for rank, lines in (("0", 1), ("3", 0)):
            _, _, errors = self.record(TRAINTRACE_MODEE="x", RANK=rank, WORLD_SIZE="4")
            self.assertEqual(errors.count("TRAINTRACE_MODEE"), lines, errors)
        # .. and it is in the traces of all.
        self.assertIn("rank 3: TRAINTRACE_MODEE", self.finding("trace.settings", self.newest_trace())["title"])

    def test_patterns_that_match_no_call(self):
        calls = "cudaMemset,ncclAllRedcue,x*"
        _, _, errors = self.record(TRAINTRACE_CALLS=calls)
        told = f"TRAINTRACE_CALLS={calls}: no call has such a name: ncclAllRedcue,x*"
        self.assertEqual(errors.splitlines()[0], f"traintrace: {told} (traintrace calls lists them)")
        self.assertEqual(self.finding("trace.settings")["title"], f"rank 0: {told}")

    def test_a_ring_for_which_there_is_no_room(self):
        limited = ["prlimit", f"--fsize={200 << 20}", *job.JOB]
        # A simulated GPU's memory is a file, too: one that is larger ends the job by SIGXFSZ, perhaps before anything is said.
        status, _, errors = self.record(program=limited, TRAINTRACE_RING_MB="256", SIMGPU_MEMORY="64M", SIMGPU_NODE=f"{self.folder}/gpus")
        self.assertEqual(status, 0, errors)
        self.assertRegex(errors.splitlines()[0], r"^traintrace: TRAINTRACE_RING_MB=256: only 64 MiB are used: files may not be that large$")
        self.assertEqual(self.finding("trace.settings")["title"], "rank 0: TRAINTRACE_RING_MB=64: the ring is smaller than asked for: "
                         "files may not be that large (256 MiB were asked for)")

    def test_what_is_in_a_value_stays_in_its_line(self):
        _, _, errors = self.record(TRAINTRACE_MODE="fu\x1b[31m\nll\u009b7m", TRAINTRACE_DIR="/proc/\x07\nx")
        self.assertIn(r"TRAINTRACE_MODE=fu\x1b[31m\x0all\x9b7m is not a known value", errors.splitlines()[0])
        self.assertEqual(len(errors.splitlines()), 3, errors)
        self.assertFalse([c for c in errors if c != "\n" and not c.isprintable()], errors)

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
        folder = f"/proc/x{os.getpid()}"  # others record there that are tested beside this
        status, _, errors = self.record(TRAINTRACE_DIR=folder)
        self.assertEqual(status, 0)
        place = f"/tmp/traintrace-{os.geteuid()}"
        self.assertIn(f"traces are kept in {place} of each host, not in {folder}: the folder cannot be opened", errors)
        # Others may record there at the same time.
        self.assertRegex(errors, rf"recorded \d+ process(es)? in {place} ")
        self.assertIn(f"next: traintrace analyze {place}", errors)
        # What it says to type then.
        self.assertIn(f"`traintrace collect {folder} --to=FOLDER`", errors)
        status, out, errors = self.traintrace("collect", folder, "--to=packs")
        self.assertEqual((status, errors), (0, ""))
        self.assertRegex(out, r"collected \d+ process(es)? into packs ")
        self.assertEqual(self.analyze("packs")["run"]["ranks"], [0])
        status, _, errors = self.traintrace("collect", folder)
        self.assertEqual((status, errors), (2, f"traintrace: packs cannot be written to {folder}: No such file or directory; name another "
                                            "folder: --to=FOLDER\n"))


    def test_a_folder_that_gets_pointers(self):
        """Too small for traces: what to type next leads to them from there, also on other hosts."""
        script = '"$@"; rm -f /tmp/traintrace-$(id -u)/$(basename small/traces/*.pointer .pointer).trace'
        done = self.on_small_disk("40k", script, job.TRAINTRACE, "run", "--out=small/traces", "--", *job.JOB)
        self.assertRegex(done.stderr.splitlines()[-1], r"^traintrace: recorded 1 process in /tmp/traintrace-\d+ \(\d+ KB\), where small/traces points to; next: "
                         "traintrace analyze small/traces; with other hosts, first on each of them: traintrace collect small/traces$")


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


class Surroundings(job.Case):
    """What no setting says, and what makes figures mean something else."""

    def test_a_gpu_that_others_use(self):
        for rank, lines in (("0", 1), ("3", 0)):
            _, _, errors = self.record(SIMGPU_MPS="1", SIMGPU_NODE=f"{self.folder}/gpus", RANK=rank, WORLD_SIZE="4")
            told = [line for line in errors.splitlines() if "MPS" in line]
            self.assertEqual(told, ["traintrace: GPU 0 is shared through MPS: what other processes do there is not recorded, and takes time and memory "
                                    "from this one"][:lines])
        _, _, errors = self.record(SIMGPU_NODE=f"{self.folder}/gpus")
        self.assertNotIn("MPS", errors)


class Run(job.Case):
    def test_what_was_recorded_and_the_next_command(self):
        _, _, errors = self.record()
        self.assertRegex(errors, r"^traintrace: recorded 1 process in traintrace \(\d+ KB\); next: traintrace analyze\n$")
        self.assertEqual(self.traintrace("analyze")[0], 0)
        _, _, errors = self.record("--out=other/place")
        self.assertRegex(errors, r"recorded 1 process in other/place \(\d+ KB\); next: traintrace analyze other/place\n$")

    def test_a_program_that_used_no_gpu(self):
        status, _, errors = self.record(program=["sh", "-c", "exit 3"])
        self.assertEqual((status, errors), (3, NOTHING))

    def test_a_program_without_the_tracer_may_have_used_one(self):
        """What is said of it is true, too."""
        for without in (["env", "-i", f"LD_LIBRARY_PATH={job.BUILD}/simgpu"], ["sh", "-c", 'unset LD_PRELOAD; exec "$@"', "sh"]):
            status, _, errors = self.record(program=[*without, *job.JOB])
            self.assertEqual((status, errors), (0, NOTHING))

    def test_a_program_that_is_linked_statically(self):
        with open(f"{self.folder}/main.c", "w", encoding="utf-8") as source:
            source.write("int main(void) { return 5; }")
        for option in ("-static", "-static-pie"):
            if subprocess.run(["cc", option, "-o", "program", "main.c"], cwd=self.folder, capture_output=True, check=False).returncode != 0:
                self.skipTest(f"no {option} here")
            status, _, errors = self.record(program=["./program"])
            self.assertEqual((status, errors), (5, "traintrace: nothing recorded in traintrace: ./program is linked statically, so no library can be "
                                                   "preloaded into it\n"))

    def test_a_run_within_a_run(self):
        """What the inner one records is not the outer one's."""
        _, _, errors = self.record("--out=outer", program=[job.TRAINTRACE, "run", "--out=inner", "--", *job.JOB])
        inner, outer = errors.splitlines()
        self.assertRegex(inner, r"^traintrace: recorded 1 process in inner \(\d+ KB\)")
        self.assertTrue(outer.startswith("traintrace: nothing recorded in outer: "), outer)

    def test_an_empty_folder_name_is_none(self):
        status, _, errors = self.record(TRAINTRACE_DIR="")
        self.assertEqual(status, 0, errors)
        self.assertRegex(errors, r"^traintrace: recorded 1 process in traintrace \(\d+ KB\); next: traintrace analyze\n$")

    def test_older_traces_of_the_folder_do_not_count(self):
        self.record()
        _, _, errors = self.record(program=["true"])
        self.assertIn("nothing recorded", errors)

    def test_recording_that_was_switched_off(self):
        _, _, errors = self.record("--disable=1")
        self.assertEqual(errors, "traintrace: nothing recorded: TRAINTRACE_DISABLE=1\n")


class Analyze(job.Case):
    def test_a_rank_that_no_trace_has(self):
        self.record(RANK="2", WORLD_SIZE="4")
        there = "there are those of rank 2\n"
        self.assertEqual(self.traintrace("dump", "--rank=99"), (2, "", f"traintrace: there is no trace of rank 99 here; {there}"))
        status, out, errors = self.traintrace("dump", "--rank=1-2")
        self.assertEqual((status, errors), (0, f"traintrace: there is no trace of rank 1 here; {there}"))
        self.assertIn("< cudaMemset", out)

    def test_an_archive_of_another_kind(self):
        self.record()
        subprocess.run(["tar", "cjf", "traces.tar.bz2", "traintrace"], cwd=self.folder, check=True)
        told = ("traces.tar.bz2: expected a tar archive, as it is or compressed by gzip or zstd, outside of other archives: unpack it, and name "
                "the folder that comes out")
        self.assertEqual(self.traintrace("analyze", "traces.tar.bz2"), (2, "", f"traintrace: {told}\n"))
        os.rename(f"{self.folder}/traces.tar.bz2", f"{self.folder}/traintrace/traces.tar.bz2")
        self.assertIn("expected a tar archive, as it is", "\n".join(self.finding("trace.corrupt")["evidence"]))

    def test_a_trace_of_which_the_end_is_missing_is_not_whole(self):
        self.record()
        self.assertIn("none lost", self.traintrace("analyze")[1])
        path = self.files("traintrace/*.trace")[0]
        os.truncate(path, os.path.getsize(path) - 4096)
        self.assertIsNotNone(self.finding("trace.truncated"))
        self.assertNotIn("none lost", self.traintrace("analyze")[1])

    def test_no_default_folder(self):
        status, _, errors = self.traintrace("analyze")
        self.assertEqual(status, 2)
        self.assertTrue(errors.startswith("traintrace: no traces in ./traintrace, the default. Record some: traintrace run"), errors)
        _, _, errors = self.traintrace("analyze", TRAINTRACE_DIR="/shared/traces")
        self.assertTrue(errors.endswith("; or name their folder (TRAINTRACE_DIR names /shared/traces)\n"), errors)

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


class Export(job.Case):
    def test_a_full_disk_leaves_what_was_there(self):
        self.record(RANK="0", WORLD_SIZE="1")
        kinds = ["perfetto", "csv", "sqlite", "torch-snapshot", "heaptrack", "flight-recorder"]
        fill = "echo before >small/old; cat /dev/zero >small/rest 2>/dev/null; "
        export = 'for kind in "$@"; do for name in old new; do $TRAINTRACE export $kind traintrace -o small/$name; echo $kind $?; done; done; '
        done = self.on_small_disk("64k", fill + export + "cat small/old; ls -A small", *kinds, TRAINTRACE=job.TRAINTRACE)
        names = ("old", "new")
        self.assertEqual(done.stdout.splitlines(), [f"{kind} 2" for kind in kinds for _ in names] + ["before", "old", "rest"], done.stderr)
        self.assertEqual(len(done.stderr.splitlines()), len(kinds) * len(names), done.stderr)

    def test_a_file_that_is_replaced_by_a_link_to_it(self):
        self.record()
        os.mkdir(f"{self.folder}/there")
        with open(f"{self.folder}/there/real", "w", encoding="utf-8") as real:
            real.write("before")
        os.symlink("there/real", f"{self.folder}/link")
        self.assertEqual(self.traintrace("export", "csv", "traintrace", "-o", "link"), (0, "", ""))
        self.assertEqual(os.readlink(f"{self.folder}/link"), "there/real")
        self.assertEqual(os.listdir(f"{self.folder}/there"), ["real"])
        self.assertEqual(os.stat(f"{self.folder}/there/real").st_mode & 0o777, 0o600)
        with open(f"{self.folder}/there/real", encoding="utf-8") as real:
            self.assertIn("cudaMemset", real.read())

    def test_why_there_is_no_timeline(self):
        self.record(SIMGPU_NODE=f"{self.folder}/gpus")
        told = "traintrace: no rank has a GPU timeline: record with TRAINTRACE_GPU_TIMELINE=cupti\n"
        self.assertEqual(self.traintrace("export", "kineto", "traintrace", "-o", "x.json"), (2, "", told))
        self.record("--out=asked", SIMGPU_NODE=f"{self.folder}/gpus", TRAINTRACE_GPU_TIMELINE="cupti",
                    SIMGPU_FAIL="cuptiSubscribe@1+=39,cuptiSubscribe_v2@1+=39")
        _, _, errors = self.traintrace("export", "kineto", "asked", "-o", "x.json")
        self.assertRegex(errors, "^traintrace: no GPU timeline for rank 0, although one was asked for: .*another profiler has CUPTI\n$")
        self.assertFalse(os.path.exists(f"{self.folder}/x.json"))


if __name__ == "__main__":
    job.main()
