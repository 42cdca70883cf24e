"""test_sql.py TRAINTRACE: databases hold what the report says, docs/sql.md names their columns, and its queries run."""
import json
import os
import re
import sqlite3
import subprocess
import sys
import tempfile
import unittest

TRAINTRACE = os.path.abspath(sys.argv[1])


def traintrace(*arguments):
    return subprocess.run([TRAINTRACE, *arguments], capture_output=True, text=True, timeout=120, check=False)


def page():
    with open("docs/sql.md", encoding="utf-8") as file:
        return file.read()


class Sql(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()  # pylint: disable=consider-using-with
        self.trace = "tests/scenarios/missing_rank.txt"

    def tearDown(self):
        self.folder.cleanup()

    def export(self, trace):
        path = f"{self.folder.name}/run.db"
        done = traintrace("export", "sqlite", trace, f"--output={path}")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertEqual(os.stat(path).st_mode & 0o777, 0o600)
        return sqlite3.connect(path)

    def test_the_page_names_all_tables_and_columns(self):
        database = self.export(self.trace)
        tables = [name for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        real = {table: ", ".join(row[1] for row in database.execute(f"PRAGMA table_info({table})")) for table in tables}
        written = dict(re.findall(r"^\| `(\w+)` \|.*\| ([\w, ]+) \|$", page(), re.MULTILINE))
        self.assertEqual(written, real)

    def test_every_query_of_the_page_runs(self):
        database = self.export(self.trace)
        queries = re.findall(r"```sql\n(.*?)```", page(), re.DOTALL)
        self.assertEqual(len(queries), 10)
        for query in queries:
            with self.subTest(query=query):
                database.execute(query).fetchall()
        # The verdict, and who is behind.
        self.assertEqual(database.execute(queries[0]).fetchone()[4], "2")
        self.assertEqual({row[0] for row in database.execute(queries[2])}, {2})
        self.assertEqual(len(database.execute(queries[3]).fetchall()), 4)

    def test_what_the_report_says(self):
        database = self.export(self.trace)
        report = json.loads(traintrace("analyze", "--format=json", self.trace).stdout)
        findings = database.execute("SELECT code, severity, certainty, title, sequence FROM findings ORDER BY finding").fetchall()
        said = [(f["code"], f["severity"], f["certainty"], f["title"], f.get("sequence")) for f in report["findings"]]
        self.assertEqual([row for row in findings if row[1] == "error"], [row for row in said if row[1] == "error"])
        self.assertEqual([rank for (rank,) in database.execute("SELECT rank FROM ranks ORDER BY rank")], report["run"]["ranks"])
        victims = [rank for (rank,) in database.execute("SELECT rank FROM finding_ranks WHERE finding = 1 AND role = 'victim' ORDER BY rank")]
        self.assertEqual(victims, report["findings"][0]["victims"])

    def test_a_file_that_was_there_is_replaced_and_others_are_refused(self):
        self.export(self.trace).close()
        self.export(self.trace).close()
        done = traintrace("export", "sqlite", self.trace, "--output=-")
        self.assertEqual((done.returncode, done.stderr), (2, "traintrace: a database goes to a file: --output=FILE instead of -\n"))
        done = traintrace("export", "sqlite", self.trace, "--output=/proc/x.db")
        self.assertEqual(done.returncode, 2)
        self.assertIn("/proc/x.db: cannot be written", done.stderr)


unittest.main(argv=sys.argv[:1])
