"""trace.elsewhere: what a folder says whose traces are on hosts that cannot be reached from here."""
import json
import os
import subprocess

import job

UNKNOWN = ", so whether all ranks ended normally is unknown; 1 did"
HOSTS = 128
PER_HOST = 8


class Elsewhere(job.Case):
    def pointer(self, name, rank, host, *more):
        lines = ["traintrace-pointer 1", f"/nowhere/{name}.trace", host, *more] + ([] if rank is None else [f"rank {rank}"])
        with open(f"{self.folder}/traintrace/{name}.pointer", "w", encoding="utf-8") as file:
            file.write("\n".join(lines) + "\n")

    def many(self, first_rank):
        for rank in range(first_rank, HOSTS * PER_HOST):
            self.pointer(f"node{rank // PER_HOST:03}.{rank}.7", rank, f"node{rank // PER_HOST:03}", "world 1024")

    def test_1023_ranks_are_one_finding_of_a_few_lines(self):
        self.record(RANK="0", WORLD_SIZE="1024")
        self.many(1)
        status, text, errors = self.traintrace("analyze")
        self.assertEqual((status, errors), (0, ""))
        finding = self.finding("trace.elsewhere")
        self.assertEqual(finding["title"], "the traces of ranks 1-1023 are not here but on 128 hosts (node000, .., node127)" + UNKNOWN)
        self.assertEqual(finding["values"], {"trace_count": 1023, "host_count": 128})
        self.assertIn(f"srun --nodes=128 --ntasks-per-node=1 traintrace collect {self.folder}/traintrace (or ssh HOST", finding["advice"])
        self.assertIn("ranks 1-7 are on node000 in /nowhere", finding["evidence"])
        self.assertLess(len(text.splitlines()), 40)
        codes = {found["code"] for found in self.analyze()["findings"]}
        self.assertFalse(codes & {"trace.corrupt", "trace.missing-rank"}, codes)

    def test_a_rank_that_is_nowhere_is_missing_all_the_same(self):
        self.record(RANK="0", WORLD_SIZE="3")
        self.pointer("node1.1.7", 1, "node1")
        self.assertIn("rank 2 of 3 left no trace", self.finding("trace.missing-rank")["title"])

    def test_pointers_of_another_job_are_not_of_this_run(self):
        self.record(RANK="0", WORLD_SIZE="2", MASTER_ADDR="node0", MASTER_PORT="1234")
        self.pointer("node1.1.7", 1, "node1", "run 0x1")
        self.assertIsNone(self.finding("trace.elsewhere"))
        self.pointer("node1.1.7", 1, "node1")
        self.assertEqual(self.finding("trace.elsewhere")["title"], "the trace of rank 1 is not here but on node1" + UNKNOWN)

    def test_names_of_hosts_are_words_of_a_shell(self):
        """The line is there to be typed."""
        self.record(RANK="0", WORLD_SIZE="2")
        self.pointer("x.1.7", 1, "n;$(touch x)")
        self.assertIn("--nodelist='n;$(touch x)' traintrace collect", self.finding("trace.elsewhere")["advice"])

    def test_nothing_but_pointers(self):
        os.mkdir(f"{self.folder}/traintrace")
        self.many(0)
        for command in (["analyze"], ["report"], ["dump"], ["export", "csv", "--output=-"]):
            status, out, errors = self.traintrace(*command)
            self.assertEqual((status, out), (2, ""))
            self.assertEqual(len(errors.splitlines()), 1, errors)
            self.assertIn("1024 traces are on the disks of 128 hosts (node000, .., node127): collect them", errors)

    def test_damaged_pointers(self):
        self.record(RANK="0", WORLD_SIZE="2")
        for number, more in enumerate((["rank x"], ["rank 99999999999999999999"], ["run"], [""], ["world -1"])):
            self.pointer(f"node1.{number}.7", None, "node1", *more)
        finding = self.finding("trace.elsewhere")
        self.assertEqual(finding["values"]["trace_count"], 5)

    def test_another_host_of_this_name(self):
        self.record(RANK="0", WORLD_SIZE="2")
        self.pointer("node1.1.7", 1, os.uname().nodename)
        finding = self.finding("trace.elsewhere")
        self.assertEqual(finding["title"], f"the trace of rank 1 is not here but on {os.uname().nodename}" + UNKNOWN)
        self.assertIsNone(self.finding("trace.corrupt"))

    def test_a_pack_that_says_nothing_does_not_stand_for_its_trace(self):
        """It was cut before what says which rank it is of: the trace itself is still on its host."""
        self.record(RANK="0", WORLD_SIZE="2")
        self.record("--out=other", RANK="1", WORLD_SIZE="2")
        self.assertEqual(self.traintrace("collect", "other", "--to=traintrace")[0], 0)
        pack = self.files("traintrace/*.ttz")[0]
        name = os.path.basename(pack)[:-len(".ttz")]
        self.pointer(name, 1, name.split(".", maxsplit=1)[0], "world 2")
        codes = {finding["code"] for finding in self.analyze()["findings"]}
        self.assertNotIn("trace.elsewhere", codes)
        os.truncate(pack, os.path.getsize(pack) // 2)
        with open(f"{self.folder}/traintrace/{name}.pointer", encoding="utf-8") as file:
            lines = file.read().split("\n")
        with open(f"{self.folder}/traintrace/{name}.pointer", "w", encoding="utf-8") as file:
            file.write("\n".join([*lines[:2], "node1", *lines[3:]]))
        self.assertEqual(self.finding("trace.elsewhere")["title"], "the trace of rank 1 is not here but on node1")
        self.assertEqual(self.finding("trace.truncated")["title"], "1 trace is truncated; it cannot be used")
        self.assertIsNone(self.finding("trace.missing-rank"))


class Forbidden(job.Case):
    def test_traces_of_another_user_are_not_corrupt(self):
        self.record(RANK="0", WORLD_SIZE="2")
        self.record("--out=other", RANK="1", WORLD_SIZE="2")
        self.assertEqual(self.traintrace("collect", "other", "--to=traintrace")[0], 0)
        for path in (self.folder, f"{self.folder}/traintrace"):
            os.chmod(path, 0o755)
        for path in self.files("traintrace/*"):
            os.chmod(path, 0o000 if path.endswith(".ttz") else 0o644)
        other = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"] if os.geteuid() == 0 else []
        done = subprocess.run([*other, job.TRAINTRACE, "analyze", "--format=json", f"{self.folder}/traintrace"], env=job.environment(),
                              capture_output=True, text=True, timeout=120, check=False)
        findings = {finding["code"]: finding for finding in json.loads(done.stdout)["findings"]}
        self.assertEqual(findings["trace.forbidden"]["title"], "you may not read the traces of 1 process" + UNKNOWN)
        self.assertEqual(findings["trace.missing-rank"]["title"], "rank 1 of 2 left no trace that can be read")
        self.assertNotIn("trace.corrupt", findings)

    def test_all_of_them_are_one_line(self):
        if os.geteuid() != 0:
            self.skipTest("needs another user")
        for rank in range(3):
            self.record(RANK=str(rank), WORLD_SIZE="3")
        for path in (self.folder, f"{self.folder}/traintrace"):
            os.chmod(path, 0o755)
        for command in (["analyze"], ["report"], ["dump"], ["export", "csv", "--output=-"]):
            done = subprocess.run(["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", job.TRAINTRACE, *command,
                                   f"{self.folder}/traintrace"], env=job.environment(), capture_output=True, text=True, timeout=120, check=False)
            self.assertEqual((done.returncode, done.stdout), (2, ""))
            self.assertEqual(done.stderr, f"traintrace: {self.folder}/traintrace: you may not read 3 traces (cannot be opened: Permission denied): analyze as the user who "
                                          "ran the job, or as root\n")


if __name__ == "__main__":
    job.main()
