"""A folder of traces of which some lie on a server that no longer answers: which, is told, and the rest is judged.

  unreachable.py LIBRARY JOB TRAINTRACE [TEST..]"""
import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import time
import unittest
from pathlib import Path

import storage

BUILD = Path(storage.LIBRARY).parent.parent
SERVER = Path(__file__).with_name("hanging.py")
RANKS, CULPRIT = 5, 1
SILENT, ASKED = 30, 10  # seconds: analyzer/isolation/silence.h, analyzer/reader/silent_inputs.cc
SLACK = 20  # of a loaded machine
TOLD = "does not answer within 10 s: is its file server gone?"


def record(folder):
    """A job of five ranks, one of which passes another count: they wait in a collective until they are killed."""
    (folder / "rendezvous").mkdir()
    ranks = []
    for rank in range(RANKS):
        settings = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": RANKS, "WORKLOAD_DIR": folder / "rendezvous", "SIMGPU_NODE": folder / "gpus",
                    "LD_LIBRARY_PATH": BUILD / "simgpu"}
        ranks.append(subprocess.Popen([BUILD / "tests/mistakes", "count", str(CULPRIT)], env=storage.environment(folder / "t", **settings),
                                      stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))
    try:
        if not storage.until(lambda: len(storage.traces(folder / "t")) == RANKS):
            raise AssertionError("not all ranks are recorded")
        time.sleep(8)  # for which they must wait to be called stuck
    finally:
        for rank in ranks:
            rank.kill()
            rank.wait()
    if not storage.final(folder / "t", RANKS):
        raise AssertionError("no final traces")
    return [next((folder / "t").glob(f"*.{rank.pid}.*.trace")) for rank in ranks]


class Unreachable(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        stack = contextlib.ExitStack()
        cls.addClassCleanup(stack.close)
        cls.folder = stack.enter_context(storage.empty_folder())
        cls.traces = record(cls.folder)
        gone = stack.enter_context(storage.empty_folder())
        server = subprocess.Popen([sys.executable, SERVER, gone, "fuse", "-1"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        stack.callback(subprocess.run, ["umount", "-l", gone], check=False)
        stack.callback(server.communicate)
        stack.callback(server.kill)
        if server.stdout.readline() != "mounted\n":
            raise unittest.SkipTest("FUSE: " + server.stderr.read())
        cls.server = server
        (gone / "file").write_bytes(b"whatever")
        cls.gone = gone / "file"
        cls.stop(server, stack)

    @staticmethod
    def stop(server, stack):
        server.send_signal(signal.SIGSTOP)
        stack.callback(server.send_signal, signal.SIGCONT)

    def beside(self, stack, *left_out):
        """A folder of the traces, of which some lie on the server."""
        folder = stack.enter_context(storage.empty_folder()) / "traces"
        folder.mkdir()
        for rank, trace in enumerate(self.traces):
            (folder / trace.name).symlink_to(self.gone if rank in left_out else trace)
        return folder

    def start(self, *command):
        return subprocess.Popen([storage.TRAINTRACE, *map(str, command)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def end(self, process):
        out, errors = process.communicate(timeout=4 * SILENT + storage.LONG)
        return process.returncode, out, errors

    def findings(self, process):
        status, out, errors = self.end(process)
        self.assertEqual((status, errors), (1, ""))
        report = json.loads(out)
        return report, {finding["code"]: finding for finding in report["findings"]}

    def analysis(self, folder):
        return self.start("analyze", "--format=json", "--hang-after=2s", folder)

    def test_the_rest_is_judged(self):
        with contextlib.ExitStack() as stack:
            folders = [self.beside(stack), self.beside(stack, 3), self.beside(stack, CULPRIT), self.beside(stack, 2, 3)]
            (folders[0] / "zz.json").symlink_to(self.traces[0].parent / "nowhere")
            (folders[1] / "job.log").symlink_to(self.gone)
            begun = time.monotonic()
            running = [self.analysis(folder) for folder in folders]
            whole, without_victim, without_culprit, without_two = map(self.findings, running)
            self.assertLess(time.monotonic() - begun, SILENT + ASKED + SLACK)

            report, found = whole
            self.assertEqual((report["run"]["missing_ranks"], found["collective.count-mismatch"]["culprits"]), ([], [CULPRIT]))
            self.assertNotIn("trace.unreachable", found)

            report, found = without_victim
            self.assertEqual((report["run"]["missing_ranks"], found["collective.count-mismatch"]["culprits"]), ([3], [CULPRIT]))
            unreachable = found["trace.unreachable"]
            self.assertEqual(unreachable["title"], "2 inputs were not read: their file server does not answer")
            self.assertEqual(unreachable["evidence"], sorted(f"{folders[1] / name}: {TOLD}" for name in ("job.log", self.traces[3].name)))
            self.assertNotIn("trace.corrupt", found)
            self.assertIn(f"a file that does not answer, {self.traces[3].name}, may be of one of them", found["trace.missing-rank"]["evidence"])

            for report, found in (without_culprit, without_two):
                accused = {rank for finding in report["findings"] for rank in finding.get("culprits", [])}
                self.assertLessEqual(accused, {CULPRIT}, report)
                self.assertNotIn("trace.corrupt", found)
            self.assertIn("left no trace that can be read", without_culprit[0]["verdict"])

    def test_other_commands(self):
        with contextlib.ExitStack() as stack:
            folder = self.beside(stack, 3)
            packs = stack.enter_context(storage.empty_folder())
            begun = time.monotonic()
            commands = (["dump"], ["report", "--by=call"], ["export", "csv", "--output=-"], ["collect", f"--to={packs}"])
            running = [self.start(*command, folder) for command in commands]
            for command, process in zip(commands, running):
                status, out, errors = self.end(process)
                with self.subTest(command[0], out=out[-300:]):
                    self.assertEqual(errors, f"traintrace: {folder / self.traces[3].name}: {TOLD}\n")
                    self.assertEqual(status, 2 if command[0] == "collect" else 0)
                    self.assertIn("collected 4 processes" if command[0] == "collect" else "ncclAllReduce", out)
            self.assertLess(time.monotonic() - begun, SILENT + ASKED + SLACK)

    def test_a_server_that_answers_again_is_no_finding(self):
        """It was slow, or away for less than 30 s."""
        with contextlib.ExitStack() as stack:
            folder = self.beside(stack)
            (folder / "job.log").symlink_to(self.gone)
            process = self.analysis(folder)
            time.sleep(5)
            self.server.send_signal(signal.SIGCONT)
            try:
                report, found = self.findings(process)
            finally:
                self.server.send_signal(signal.SIGSTOP)
            self.assertEqual(report["run"]["missing_ranks"], [])
            self.assertNotIn("trace.unreachable", found)

    def test_nothing_answers(self):
        with contextlib.ExitStack() as stack:
            folder = self.beside(stack, *range(RANKS))
            status, out, errors = self.end(self.analysis(folder))
            self.assertEqual((status, out), (2, ""))
            self.assertRegex(errors, re.escape(TOLD))


if __name__ == "__main__":
    storage.in_own_mounts()
    if not os.path.exists("/dev/fuse"):
        storage.skip("no /dev/fuse")
    unittest.main(argv=[sys.argv[0], *sys.argv[4:]])
