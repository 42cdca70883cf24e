"""What is missing of a run, or lies beside it and is none of it, changes nothing that does not rest on it."""
import json
import os
import struct
import subprocess

import job

GENERATOR = f"{job.BUILD}/bench/peers/parallel_job"
RANKS = 16
PER_HOST = 8
CULPRIT = 11
HEAD = 104  # of a pack
BLOCK = 40  # head of a block


class Parts(job.Case):
    def make(self, folder, *options, ranks=RANKS, fault="stuck"):
        subprocess.run([GENERATOR, f"{self.folder}/{folder}", f"--ranks={ranks}", "--collectives=600", f"--culprit={min(CULPRIT, ranks - 1)}",
                        f"--fault={fault}", *options], check=True, timeout=60)

    def lose(self, folder, host):
        for path in self.files(f"{folder}/{host}.*"):
            os.remove(path)

    def diff(self, *traces):
        status, out, errors = self.traintrace("diff", "--format=json", *traces)
        self.assertEqual((status, errors), (0, ""))
        return json.loads(out)


class Diff(Parts):
    NOT_COMPARED = "; of ranks 0-7 only A has traces"

    def test_a_host_whose_traces_are_lost(self):
        self.make("good", fault="none")
        self.make("bad", fault="none")
        self.assertEqual(self.diff("good", "bad")["verdict"], "no difference in the collectives of the two runs")
        self.lose("bad", "node0")
        report = self.diff("good", "bad")
        self.assertEqual(report["verdict"], "no difference in the collectives of the ranks of which both runs have traces" + self.NOT_COMPARED)
        self.assertEqual((report["ranks_only_in_a"], report["only_in_a"], report["only_in_b"]), (list(range(PER_HOST)), [], []))
        compared = {rank for one in report["sequences"] for rank in one["ranks"]}
        self.assertEqual(compared, set(range(PER_HOST, RANKS)))
        self.assertEqual(len({one["communicator"] for one in report["sequences"]}), len({one["communicator"] for one in self.diff("bad", "bad")["sequences"]}))
        self.assertIn("; of ranks 0-7 only B has traces", self.diff("bad", "good")["verdict"])

    def test_the_first_difference_is_found_all_the_same(self):
        self.make("good", fault="none")
        self.make("bad", fault="skip")
        whole = self.diff("good", "bad")
        self.lose("bad", "node0")
        report = self.diff("good", "bad")
        self.assertEqual(report["verdict"], whole["verdict"] + self.NOT_COMPARED)
        self.assertEqual(report["sequences"][0]["ranks"], [CULPRIT])

    def test_a_job_of_fewer_ranks_has_other_communicators(self):
        """Nobody's traces are lost: the same ranks are in smaller ones."""
        self.make("good", fault="none")
        self.make("small", ranks=PER_HOST, fault="none")
        self.assertTrue(self.diff("good", "small")["only_in_a"])


class Beside(Parts):
    def error(self, *traces):
        report = self.analyze(*traces)
        return report, next(finding for finding in report["findings"] if finding["severity"] == "error")

    def setUp(self):
        super().setUp()
        self.make("traces", fault="count")
        self.before = self.error("traces")[1]
        self.assertEqual((self.before["certainty"], self.before["culprits"]), ("proof", [CULPRIT]))

    def test_a_log_without_anything_about_communicators(self):
        log = f"{self.folder}/traces/run.err"
        with open(log, "w", encoding="utf-8") as file:
            file.write("node0:17:17 [0] NCCL INFO cudaDriverVersion 13000\nTraceback (most recent call last):\n")
        report, error = self.error("traces")
        self.assertEqual(error, self.before)
        self.assertNotIn("trace.corrupt", {finding["code"] for finding in report["findings"]})
        status, _, errors = self.traintrace("analyze", "traces")
        self.assertEqual((status, errors), (1, "traintrace: traces/run.err: expected warnings, or lines about communicators: NCCL_DEBUG=INFO and "
                                               "NCCL_DEBUG_SUBSYS=INIT,COLL write them\n"))

    def test_a_file_that_is_no_trace(self):
        with open(f"{self.folder}/run.log", "w", encoding="utf-8") as file:
            file.write("step 1\n")
        report, error = self.error("traces", "run.log")
        self.assertEqual(error, self.before)
        told = next(finding for finding in report["findings"] if finding["code"] == "trace.corrupt")
        self.assertEqual(told["severity"], "info")

    def test_a_trace_of_a_rank_that_is_not_known_otherwise(self):
        """The near miss: with a rank missing what cannot be read may be of it."""
        path = self.files("traces/node0.*.trace")[0]
        with open(path, "r+b") as file:
            file.write(b"something else")
        report, error = self.error("traces")
        self.assertEqual((error["culprits"], error["certainty"]), ([CULPRIT], self.before["certainty"]))
        self.assertIn("trace.corrupt", {finding["code"] for finding in report["findings"]})

    def test_damage_where_only_memory_is_told(self):
        """In the culprit's own pack, block by block: what says which calls it made is needed, what says which memory it held is not."""
        self.assertEqual(self.traintrace("collect", "traces", "--to=packs")[0], 0)
        pack = self.files(f"packs/node{CULPRIT // PER_HOST}.{1000 + CULPRIT % PER_HOST}.*")[0]
        with open(pack, "rb") as file:
            data = bytearray(file.read())
        said, at = [], HEAD
        while (block := struct.unpack_from("<IQII", data, at + 4))[0] != 0:
            middle = at + BLOCK + block[3] // 2
            with open(pack, "wb") as file:
                file.write(data[:middle] + bytes([data[middle] ^ 1]) + data[middle + 1:])
            report, error = self.error("packs")
            told = next((finding["severity"] for finding in report["findings"] if finding["code"] == "trace.corrupt"), None)
            said.append((error["code"], error["certainty"], told))
            at += BLOCK + block[3]
        code = self.before["code"]
        self.assertIn((code, "proof", "info"), said)
        self.assertIn((code, "likely", "warning"), said)
        self.assertFalse([one for one in said if one[1] == "proof" and one[2] == "warning"], said)


if __name__ == "__main__":
    job.main()
