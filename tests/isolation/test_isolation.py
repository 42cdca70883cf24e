#!/usr/bin/python3
"""Steps of the analysis that throw or crash: each costs its own result, and is told.   test_isolation.py TRAINTRACE"""
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.join("tests", "flight"))
import generate

TRAINTRACE = sys.argv.pop(1)
MISSING = "tests/scenarios/missing_rank.txt"
HEALTHY = "tests/scenarios/missing_rank_healthy_twin.txt"
THROWS = ["throw", "no-memory"]
CRASHES = ["crash", "abort", "overflow", "kill"]
SANITIZED = b"__asan_init" in open(TRAINTRACE, "rb").read()  # a stack that overflows then ends in a report, not by a signal
if SANITIZED:
    CRASHES.remove("overflow")


def run(*arguments, fail=""):
    environment = dict(os.environ, TT_FAIL_STAGE=fail)
    return subprocess.run([TRAINTRACE, *arguments], capture_output=True, text=True, timeout=120, check=False, env=environment)


def analyze(*arguments, fail=""):
    done = run("analyze", "--format=json", *arguments, fail=fail)
    return done.returncode, json.loads(done.stdout)


def codes(report):
    return [finding["code"] for finding in report["findings"]]


def internal(report):
    errors = [finding for finding in report["findings"] if finding["code"] == "internal.error"]
    return errors[0] if len(errors) == 1 else None


class Detectors(unittest.TestCase):
    def test_one_costs_what_it_finds_and_nothing_else(self):
        status, whole = analyze(MISSING)
        self.assertEqual((status, codes(whole)), (1, ["collective.missing-rank"]))
        for how in THROWS + CRASHES:
            with self.subTest(how):
                status, report = analyze(MISSING, fail=f"detector find_stuck_hosts={how}")
                self.assertEqual(status, 1)
                self.assertEqual(report["verdict"], whole["verdict"])
                self.assertEqual(report["findings"][:-1], whole["findings"])
                error = internal(report)
                self.assertEqual((error["severity"], error["values"]), ("warning", {"error_count": 1}))
                self.assertIn("detector find_stuck_hosts", error["evidence"][0])
                self.assertIn("traintrace --version", error["advice"])

    def test_the_one_that_matters(self):
        """The run is not healthy then: nobody looked."""
        for how in ("throw", "crash"):
            with self.subTest(how):
                status, report = analyze(MISSING, fail=f"detector find_missing_rank={how}")
                self.assertEqual((status, codes(report)), (0, ["internal.error"]))
                self.assertTrue(report["verdict"].startswith("nothing else was found, but traintrace failed in"))

    def test_a_healthy_run_is_not_called_healthy(self):
        self.assertEqual(codes(analyze(HEALTHY)[1]), ["run.healthy"])
        status, report = analyze(HEALTHY, fail="detector find_late_ranks=crash")
        self.assertEqual((status, codes(report)), (0, ["internal.error"]))

    def test_several_at_once(self):
        fail = "detector find_stuck_hosts=crash;detector find_corrupt=throw;detector find_growth_leaks=abort;framework hints=kill"
        status, report = analyze(MISSING, fail=fail)
        self.assertEqual((status, codes(report)), (1, ["collective.missing-rank", "internal.error"]))
        self.assertEqual(internal(report)["values"], {"error_count": 4})

    def test_all_of_them(self):
        """More than attempts are made: then it is said that there is no verdict."""
        with open("analyzer/detectors/detectors.cc", encoding="utf-8") as source:
            names = re.findall(r"TT_DETECTOR\((\w+)\)", source.read())
        self.assertGreater(len(names), 40)
        thrown = analyze(MISSING, fail=";".join(f"detector {name}=throw" for name in names))
        self.assertEqual((thrown[0], internal(thrown[1])["values"]), (0, {"error_count": len(names)}))
        status, report = analyze(MISSING, fail=";".join(f"detector {name}=crash" for name in names))
        self.assertEqual((status, codes(report)), (2, ["internal.error"]))
        self.assertTrue(report["verdict"].startswith("no verdict can be given"))

    def test_only_does_not_hide_it(self):
        self.assertEqual(codes(analyze(MISSING, "--only=host.stuck", fail="detector find_stuck_hosts=crash")[1]), ["internal.error"])


class Model(unittest.TestCase):
    def test_what_rests_on_it_is_no_more_than_possible(self):
        for how in ("throw", "crash"):
            with self.subTest(how):
                report = analyze(MISSING, fail=f"model clocks={how}")[1]
                self.assertEqual(codes(report), ["collective.missing-rank", "internal.error"])
                self.assertEqual(report["findings"][0]["certainty"], "possible")

    def test_of_nothing_a_verdict(self):
        for how in ("throw", "crash"):
            for form in ("text", "json", "html"):
                with self.subTest(how=how, form=form):
                    done = run("analyze", f"--format={form}", MISSING, fail=f"the analysis as a whole={how}")
                    self.assertEqual(done.returncode, 2)
                    self.assertIn("no verdict can be given: traintrace failed in the analysis as a whole", done.stdout)


class Files(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def test_a_trace(self):
        other = shutil.copy(HEALTHY, os.path.join(self.folder, "other.txt"))
        for how in ("throw", "crash"):
            with self.subTest(how):
                status, report = analyze(MISSING, other, fail=f"read {other}={how}")
                self.assertEqual((status, codes(report)), (1, ["collective.missing-rank", "internal.error"]))
                self.assertIn(f"read {other}", internal(report)["evidence"][0])
                status, report = analyze(other, fail=f"read {other}={how}")
                self.assertEqual((status, codes(report)), (2, ["internal.error"]))
                self.assertTrue(report["verdict"].startswith("no verdict can be given"))

    def test_a_dump_among_many(self):
        """They are read by several threads: which of them died is not known at first."""
        job = os.path.join(self.folder, "job")
        options = generate.options_of([job, "--ranks=16", "--fault=missing", "--culprit=2"])
        generate.write(job, options, "_dump_{}", (2, 9), "pickle")
        dump = os.path.join(job, "_dump_5")
        for how in ("throw", "crash"):
            with self.subTest(how):
                report = analyze(job, fail=f"read {dump}={how}")[1]
                self.assertEqual(internal(report)["evidence"], [f"step: read {dump}: " + {"throw": "injected", "crash": "SIGSEGV"}[how]])
                self.assertEqual(report["run"]["missing_ranks"], [5])

    def test_an_export(self):
        for how in ("throw", "crash"):
            with self.subTest(how):
                prefix = os.path.join(self.folder, how)
                done = run("export", "flight-recorder", MISSING, f"--output={prefix}", fail=f"export of rank 1={how}")
                self.assertEqual(sorted(name[-1] for name in os.listdir(self.folder) if name.startswith(how)), ["0", "2", "3"])
                self.assertIn("internal error in export of rank 1", done.stderr)
                self.assertIn("not whole", done.stderr)
                self.assertEqual(done.returncode, 2)

    def test_a_finding_in_a_report(self):
        for form in ("text", "json", "html"):
            with self.subTest(form):
                done = run("analyze", f"--format={form}", MISSING, fail="report of collective.missing-rank=crash")
                self.assertEqual(done.returncode, 1)
                self.assertIn("rank 2 never entered ncclAllReduce #812", done.stdout)
                self.assertIn("internal.error", done.stdout)
                # The card of the page is a step of its own, and has what it says from the finding.
                whole = done.stdout.split("<script")[0] if form == "html" else done.stdout
                self.assertNotIn("look at what the missing rank", whole)

    def test_what_was_printed_is_not_printed_again(self):
        """A crash halfway through a dump: the lines before it are there once."""
        done = run("dump", MISSING, fail=f"dump of {MISSING}:2=crash")
        self.assertEqual(done.returncode, 2)
        self.assertIn(f"internal error: SIGSEGV in step: dump of {MISSING}:2", done.stderr)
        self.assertEqual([line for line in done.stdout.splitlines() if line.startswith("start ")], ["start 1700000000.000000000"])
        self.assertEqual(sum(line.startswith("process ") for line in done.stdout.splitlines()), 2)


class Signals(unittest.TestCase):
    def test_who_ends_it_ends_it(self):
        """A signal from outside is none of our crashes; and nothing of it is left behind."""
        for number in (signal.SIGTERM, signal.SIGKILL):
            for everybody in (True, False):  # the parent alone, too
                process = subprocess.Popen([TRAINTRACE, "dump", MISSING], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                                           env=dict(os.environ, TT_FAIL_STAGE=f"dump of {MISSING}:2=wait"), start_new_session=True)
                process.stdout.readline()
                os.killpg(process.pid, number) if everybody else process.send_signal(number)
                process.communicate(timeout=60)  # until nobody holds its stdout
                self.assertEqual(process.returncode, -number)


if __name__ == "__main__":
    unittest.main()
