"""test_analysis.py BUILD: what the package of Python says of traces is what the program says."""
import csv
import importlib.util
import io
import json
import os
import re
import subprocess
import unittest

import case
import traintrace


class Analysis(case.Case):
    def test_of_a_job_that_hangs(self):
        self.run_job(3, "107")
        result = traintrace.analyze(self.traces, hang_after="0.5s")
        said = json.loads(self.traintrace("analyze", "--format=json", "--hang-after=0.5s"))
        self.assertEqual(result.verdict, said["verdict"])
        self.assertEqual(result.json.keys(), said.keys())
        self.assertEqual([finding.title for finding in result.findings], [finding["title"] for finding in said["findings"]])
        first = result.errors[0]
        self.assertEqual((first.code, first.severity, first.certainty, first.culprits, first.victims), ("collective.early-exit", "error", "proof", [2], [0, 1]))
        self.assertEqual((first.communicator.name, first.communicator.size, first.operation), ("dp", 3, "ncclAllReduce"))
        self.assertTrue(any(place.file.endswith("job.py") and place.function == "main" for place in first.where), first.where)
        self.assertIn("rank 2 noted: samples 10336-10367", first.evidence)
        self.assertEqual((result.run.ranks, result.run.world_size), ([0, 1, 2], 3))
        self.assertIn("verdict: ", str(result))
        self.check_page(result)
        self.assertEqual(traintrace.analyze(self.traces, only=["memory.growth-leak"]).errors, [])

    def check_page(self, result):
        page = result._repr_html_()  # pylint: disable=protected-access
        self.assertIn("collective.early-exit", page)
        self.assertIn("rank 2 was in: step 107 &gt; evaluate", page)
        for tag in ("table", "tr", "td", "th", "ul", "li", "details"):
            self.assertEqual(len(re.findall(f"<{tag}[ >]", page)), page.count(f"</{tag}>"), tag)
        odd = traintrace.Finding(code="a<b", severity="error", certainty="proof", title="<script>alert(1)</script>", evidence=["a & b"])
        page = traintrace.Analysis("<b>", [odd], result.run, [], {}, [])._repr_html_()  # pylint: disable=protected-access
        self.assertNotIn("<script>", page)
        self.assertIn("a &amp; b", page)

    def test_reports_are_tables(self):
        self.run_job(2)
        result = traintrace.analyze(self.traces)
        self.assertEqual(result.errors, [])
        table = result.report(by="range")
        said = list(csv.DictReader(io.StringIO(self.traintrace("report", "--by=range", "--format=csv"))))
        self.assertEqual([(row["range"], row["rank"], row["count"]) for row in table],
                         [(row["range"], int(row["rank"]), int(row["count"])) for row in said])
        self.assertEqual({row["range"] for row in table}, {"forward", "backward", "evaluate"})
        self.assertEqual(table._repr_html_().count("<tr>"), len(table) + 1)  # pylint: disable=protected-access
        self.assertEqual(traintrace.report(self.traces)[0].keys(), result.report()[0].keys())

    @unittest.skipIf(importlib.util.find_spec("pandas") is None, "no pandas here")
    def test_frames(self):
        self.run_job(2)
        result = traintrace.analyze(self.traces)
        self.assertEqual(list(result.to_pandas().code), [finding.code for finding in result.findings])
        self.assertEqual(sorted(result.report(by="range").to_pandas().columns), sorted(result.report(by="range").columns))

    def test_what_cannot_be_read_is_an_error_that_says_why(self):
        with self.assertRaisesRegex(traintrace.Error, "nowhere"):
            traintrace.analyze(os.path.join(self.folder, "nowhere"))
        with self.assertRaisesRegex(traintrace.Error, "nothing"):
            traintrace.report(self.folder, by="nothing")

    def test_the_program_may_be_missing(self):
        code = "import traintrace\ntry: traintrace.analyze()\nexcept traintrace.Error as error: print(error)"
        self.assertIn("no program traintrace in", self.run_python(code, recorded=False, PATH="/nowhere"))

    def test_without_pandas_it_says_so(self):
        code = ("import sys, traintrace; sys.modules['pandas'] = None\ntry: traintrace.Table([{'a': 1}]).to_pandas()\n"
                "except traintrace.Error as error: print(error)")
        self.assertIn("needs pandas", self.run_python(code, recorded=False))

    def test_names_that_are_not_there(self):
        done = subprocess.run(["/usr/bin/python3", "-c", "import traintrace; traintrace.nothing"], env=self.environment(recorded=False),
                              capture_output=True, text=True, check=False)
        self.assertIn("module 'traintrace' has no attribute 'nothing'", done.stderr)


if __name__ == "__main__":
    case.main()
