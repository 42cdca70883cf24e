"""test_mpi.py BUILD: `traintrace analyze --mpi` says what one process says that has all traces in one folder, byte by byte.

Hosts with disks of their own are pretended by working folders: each process reads traces/ of its own.  Exit 77: Open MPI is not here."""
import json
import os
import re
import shutil
import subprocess
import sys

import job

GENERATOR = f"{job.BUILD}/bench/peers/parallel_job"
RANKS = 16
CULPRIT = 11
HANG = ["analyze", "--format=json"]
PATIENCE = ["--patience=8"]  # for what never answers; 30 s where it is not said


class Mpi(job.Case):
    def make(self, folder="traces", *options):
        subprocess.run([GENERATOR, f"{self.folder}/{folder}", f"--ranks={RANKS}", "--collectives=600", f"--culprit={CULPRIT}", *options],
                       check=True, timeout=60)

    def alone(self, *arguments):
        """What one process says: (status, report, stderr)."""
        status, _, errors = self.traintrace(*(arguments or HANG), "traces", "--output=alone")
        with open(f"{self.folder}/alone", encoding="utf-8") as file:
            return status, file.read(), errors

    def together(self, folders, *arguments, traces="traces"):
        """The same of processes in these working folders."""
        command = ["mpirun", "--allow-run-as-root", "--oversubscribe"]
        for number, folder in enumerate(folders):
            command += ([":"] if number else []) + ["-n", "1", "--wdir", f"{self.folder}/{folder}", job.TRAINTRACE, *(arguments or HANG),
                                                    "--mpi", traces, f"--output={self.folder}/together"]
        done = subprocess.run(command, env=job.environment(), capture_output=True, text=True, timeout=120, check=False)
        with open(f"{self.folder}/together", encoding="utf-8") as file:
            return done.returncode, file.read(), done.stderr

    def spread(self, hosts):
        """The traces of traces/ on that many pretended hosts, as the ranks' own hosts have them."""
        for host in range(hosts):
            os.makedirs(f"{self.folder}/host{host}/traces")
        for path in self.files("traces/*"):
            number = int(re.match(r"node(\d+)\.", os.path.basename(path)).group(1))
            shutil.copy(path, f"{self.folder}/host{number % hosts}/traces/")
        return [f"host{host}" for host in range(hosts)]

    def test_a_shared_folder(self):
        self.make()
        expected = self.alone()
        self.assertEqual(json.loads(expected[1])["findings"][0]["culprits"], [CULPRIT])
        for processes in (1, 2, 4, 8):
            status, report, errors = self.together(["."] * processes)
            self.assertEqual((status, report), expected[:2], errors)
            if processes > 1:
                self.assertRegex(errors, rf"traintrace: {processes} processes; the others sent .* of \d+ traces, [\d.]+ KB each")

    def test_the_text_and_the_page_are_the_same(self):
        self.make()
        for form in ("text", "html"):
            arguments = ("analyze", f"--format={form}")
            self.assertEqual(self.together([".", "."], *arguments)[1], self.alone(*arguments)[1])

    def test_disks_of_their_own(self):
        self.make()
        expected = self.alone()
        hosts = self.spread(2)
        self.assertEqual(self.together(hosts)[:2], expected[:2])
        # Whoever judges has nothing itself; another one has no folder.
        os.makedirs(f"{self.folder}/empty/traces")
        os.makedirs(f"{self.folder}/bare")
        self.assertEqual(self.together(["empty", *hosts, "bare"])[:2], expected[:2])

    def test_event_records_are_asked_for_where_they_are_needed(self):
        self.make("traces", "--fault=skip")
        expected = self.alone()
        finding = json.loads(expected[1])["findings"][0]
        self.assertEqual((finding["code"], finding["culprits"]), ("collective.skipped-call", [CULPRIT]))
        os.makedirs(f"{self.folder}/empty/traces")
        status, report, errors = self.together(["empty", *self.spread(2)])
        self.assertEqual((status, report), expected[:2])
        self.assertIn("of event records where they were needed", errors)

    def test_packs(self):
        self.make()
        self.assertEqual(self.traintrace("collect", "traces", "--to=packs")[0], 0)
        shutil.rmtree(f"{self.folder}/traces")
        os.rename(f"{self.folder}/packs", f"{self.folder}/traces")
        self.assertEqual(self.together(["."] * 2)[:2], self.alone()[:2])

    def test_damaged_traces_are_told_as_by_one_process(self):
        self.make()
        first, second = self.files("traces/*")[3:5]
        with open(first, "r+b") as file:
            file.write(b"something else")
        os.truncate(second, 20000)
        self.assertEqual(self.together(["."] * 2)[:2], self.alone()[:2])
        self.assertEqual(self.together(self.spread(2))[:2], self.alone()[:2])

    def test_damaged_packs_are_told_as_by_one_process(self):
        self.make("traces", "--fault=skip")
        self.assertEqual(self.traintrace("collect", "traces", "--to=packs")[0], 0)
        shutil.rmtree(f"{self.folder}/traces")
        os.rename(f"{self.folder}/packs", f"{self.folder}/traces")
        for number, path in enumerate(self.files("traces/*")[3:9]):  # from the head to the last block
            with open(path, "r+b") as file:
                file.seek(99 + (os.path.getsize(path) - 150) * number // 5)
                byte = file.read(1)[0]
                file.seek(-1, os.SEEK_CUR)
                file.write(bytes([byte ^ 16]))
        expected = self.alone()
        self.assertIn("trace.corrupt", expected[1])
        for folders in ([".", "."], self.spread(2)):
            self.assertEqual(self.together(folders)[:2], expected[:2])

    def test_a_healthy_run(self):
        self.make("traces", "--fault=none")
        expected = self.alone()
        self.assertEqual(expected[0], 0, expected)
        self.assertEqual(self.together(["."] * 3)[:2], expected[:2])

    def test_a_folder_that_cannot_be_listed(self):
        self.make()
        hosts = self.spread(2)
        os.makedirs(f"{self.folder}/loop")
        os.symlink("traces", f"{self.folder}/loop/traces")
        status, report, errors = self.together([*hosts, "loop"])
        self.assertEqual((status, report), self.alone()[:2])
        self.assertIn("traces: cannot be listed: Too many levels of symbolic links", errors)

    def test_a_host_on_which_nothing_may_be_read(self):
        """Its traces belong to somebody else: it is told, and the rest is judged."""
        self.make()
        hosts = self.spread(2)
        for path in self.files("host1/traces/*"):
            os.chmod(path, 0o000)
        powers = "-dac_override,-dac_read_search"  # which root may read everything by
        bound = ["setpriv", f"--bounding-set={powers}", f"--inh-caps={powers}"] if os.geteuid() == 0 else []
        command = ["mpirun", "--allow-run-as-root", "--oversubscribe"]
        for number, folder in enumerate(hosts):
            command += ([":"] if number else []) + ["-n", "1", "--wdir", f"{self.folder}/{folder}", *bound, job.TRAINTRACE, *HANG, "--mpi", "traces",
                                                    f"--output={self.folder}/together"]
        done = subprocess.run(command, env=job.environment(), capture_output=True, text=True, timeout=120, check=False)
        with open(f"{self.folder}/together", encoding="utf-8") as file:
            report = json.load(file)
        findings = {finding["code"]: finding for finding in report["findings"]}
        self.assertIn("trace.forbidden", findings, done.stderr)
        self.assertTrue(findings["trace.forbidden"]["title"].startswith("you may not read the traces of 8 processes"), findings["trace.forbidden"])
        self.assertEqual(report["run"]["ranks"], list(range(8)))
        self.assertEqual(report["run"]["missing_ranks"], list(range(8, RANKS)))
        self.assertNotIn("trace.corrupt", findings)

    def test_a_process_that_stops_in_the_middle(self):
        """Its host may be out of reach: the others' traces are judged, and the rest of its own are silent, not missing."""
        if subprocess.run(["unshare", "--uts", "hostname", "far"], capture_output=True, check=False).returncode != 0:
            self.skipTest("no host can be pretended here")
        self.make()
        hosts = self.spread(2)
        stuck = sorted(os.listdir(f"{self.folder}/{hosts[1]}/traces"))[3]
        os.makedirs(f"{self.folder}/judge/traces")
        command = ["mpirun", "--allow-run-as-root", "--oversubscribe"]
        for number, folder in enumerate(["judge", *hosts]):
            command += ([":"] if number else []) + ["-n", "1", "--wdir", f"{self.folder}/{folder}"]
            command += ["unshare", "--uts", "sh", "-c", 'hostname far; export TT_FAIL_STAGE="$0"; exec "$@"', f"bring traces/{stuck}=wait"] if folder == hosts[1] else []
            command += [job.TRAINTRACE, *HANG, *PATIENCE, "--mpi", "traces", f"--output={self.folder}/together"]
        done = subprocess.run(command, env=job.environment(), capture_output=True, text=True, timeout=300, check=False)
        self.assertRegex(done.stderr, r"traintrace: process 2 on far has not answered for 8 s: judged without 5 of its 8 files")
        with open(f"{self.folder}/together", encoding="utf-8") as file:
            findings = {finding["code"]: finding for finding in json.load(file)["findings"]}
        self.assertEqual(findings["trace.elsewhere"]["values"]["host_count"], 1)
        self.assertFalse({"trace.missing-rank", "trace.corrupt"} & set(findings), findings)

    def kill_one(self, *options):
        """The second of three processes, as soon as it has something to send."""
        self.make()
        hosts = self.spread(2)
        stages = ";".join(f"bring traces/{name}=wait" for name in os.listdir(f"{self.folder}/{hosts[1]}/traces"))
        os.makedirs(f"{self.folder}/judge/traces")
        command = ["mpirun", "--allow-run-as-root", "--oversubscribe", *options]
        for number, folder in enumerate(["judge", *hosts]):
            command += ([":"] if number else []) + ["-n", "1", "--wdir", f"{self.folder}/{folder}"]
            command += ["sh", "-c", '(sleep 3; kill -9 $$) & export TT_FAIL_STAGE="$0"; exec "$@"', stages] if folder == hosts[1] else []
            command += [job.TRAINTRACE, *HANG, *PATIENCE, "--mpi", "traces", f"--output={self.folder}/together"]
        return subprocess.run(command, env=job.environment(), capture_output=True, text=True, timeout=120, check=False)

    def test_a_process_that_is_killed_ends_all(self):
        self.assertIn("traintrace: ended by the launcher, as when another process of this job was killed; to go on without that one: mpirun "
                      "--enable-recovery", self.kill_one().stderr)

    def test_a_process_that_is_killed_with_recovery(self):
        self.assertRegex(self.kill_one("--enable-recovery").stderr, "has not answered for 8 s: judged without 8 of its 8 files")
        with open(f"{self.folder}/together", encoding="utf-8") as file:
            codes = {finding["code"] for finding in json.load(file)["findings"]}
        self.assertIn("trace.elsewhere", codes)
        self.assertFalse({"trace.missing-rank", "trace.corrupt"} & codes, codes)

    def test_what_goes_to_a_file_is_no_card(self):
        """Open MPI gives each process a terminal, whatever the launcher's own output is."""
        self.make()
        command = ["mpirun", "--allow-run-as-root", "--oversubscribe", "-n", "2", job.TRAINTRACE, "analyze", "--mpi", "traces"]
        done = subprocess.run(command, env=job.environment(TERM="xterm"), cwd=self.folder, capture_output=True, text=True, timeout=120, check=False)
        self.assertEqual(done.stdout, self.traintrace("analyze", "traces")[1])

    def test_without_a_launcher_it_is_one_process(self):
        self.make()
        expected = self.alone()
        status, out, errors = self.traintrace(*HANG, "--mpi", "traces")
        self.assertEqual((status, out, errors), expected)


if __name__ == "__main__":
    if shutil.which("mpirun") is None:
        print("SKIPPED: there is no mpirun; Debian's openmpi-bin has it")
        sys.exit(77)
    job.main()
