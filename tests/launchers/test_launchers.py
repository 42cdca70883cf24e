"""test_launchers.py BUILD: however processes come about, traces are grouped right and ranks are right."""
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
BUILD = os.path.abspath(sys.argv[1])
LAUNCHERS = ("TRAINTRACE_", "LD_PRELOAD", "RANK", "WORLD_SIZE", "LOCAL_", "SLURM_", "OMPI_", "PMI", "TORCHELASTIC")


class Launchers(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="launchers.")
        self.processes = []

    def tearDown(self):
        for process in self.processes:
            if process.poll() is None:
                process.send_signal(signal.SIGKILL)
            process.wait()
        while os.path.exists(self.folder):  # the keepers of killed processes may still write to it
            shutil.rmtree(self.folder, ignore_errors=True)
            time.sleep(0.1)

    def start(self, script, *arguments, **settings):
        kept = {name: value for name, value in os.environ.items() if not name.startswith(LAUNCHERS)}
        environment = {**kept, "LD_LIBRARY_PATH": f"{BUILD}/simgpu", "LD_PRELOAD": f"{BUILD}/lib/libtraintrace.so",
                       "TRAINTRACE_DIR": f"{self.folder}/traces", "PYTHONDONTWRITEBYTECODE": "1", "SIMGPU_DEVICES": "4",
                       "SIMGPU_NODE": f"{self.folder}/node", **settings}
        self.processes.append(subprocess.Popen(["/usr/bin/python3", f"{HERE}/{script}", self.folder, *map(str, arguments)], env=environment))
        return self.processes[-1]

    def start_ranks(self, ranks, *arguments, **settings):
        """As torchrun does."""
        return [self.start("rank.py", *arguments, RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(ranks), LOCAL_WORLD_SIZE=str(ranks),
                           MASTER_ADDR="127.0.0.1", MASTER_PORT="29500", **settings) for rank in range(ranks)]

    def run_ranks(self, ranks, *arguments, **settings):
        self.assertEqual([process.wait(timeout=90) for process in self.start_ranks(ranks, *arguments, **settings)], [0] * ranks)

    def analyze(self, *options):
        done = subprocess.run([f"{BUILD}/bin/traintrace", "analyze", f"{self.folder}/traces", "--format=json", *options], capture_output=True,
                              text=True, timeout=60, check=False)
        self.assertIn(done.returncode, (0, 1), done.stderr)
        return json.loads(done.stdout)

    def traces(self):
        return [name for name in os.listdir(f"{self.folder}/traces") if name.endswith(".trace")]

    def expect_healthy(self, ranks):
        """Soon: the keeper of a process copies what is left once that has ended."""
        said, until = self.analyze(), time.monotonic() + 30
        while ("nothing is wrong" not in said["verdict"] or len(said["run"]["ranks"]) != ranks) and time.monotonic() < until:
            time.sleep(0.2)
            said = self.analyze()
        self.assertEqual((said["run"]["ranks"], said["run"]["missing_ranks"], said["run"]["world_size"]), (list(range(ranks)), [], ranks), said)
        self.assertEqual([finding["code"] for finding in said["findings"] if finding["severity"] != "info"], [], said)
        self.assertIn("nothing is wrong", said["verdict"])
        return said

    # Elastic restarts.

    def restart(self, again=3, **settings):
        """The first generation, of three ranks, fails and is stopped; the second one, of `again` ranks, is started into the same folder."""
        elastic = {"TORCHELASTIC_RUN_ID": "job-7", "TORCHELASTIC_MAX_RESTARTS": "3", **settings}
        first = self.start_ranks(3, "die-in-first", TORCHELASTIC_RESTART_COUNT="0", **elastic)
        self.assertEqual(first[1].wait(timeout=90), 7)
        time.sleep(2.5)  # each process notes once a second that it is there
        for process in (first[0], first[2]):
            process.send_signal(signal.SIGTERM)
            process.wait(timeout=90)
        self.run_ranks(again, "die-in-first", TORCHELASTIC_RESTART_COUNT="1", **elastic)
        self.assertEqual(len(self.traces()), 3 + again)

    def check_generations(self, again=3):
        said = self.expect_healthy(again)
        text = subprocess.run([f"{BUILD}/bin/traintrace", "analyze", f"{self.folder}/traces"], capture_output=True, text=True, check=False)
        return said, text.stdout + text.stderr

    def test_a_restart_is_a_run_of_its_own(self):
        self.restart()
        _, text = self.check_generations()
        self.assertIn("job-7-restart1", text)
        first = self.analyze("--run=job-7", "--hang-after=0.5s")
        self.assertEqual(first["run"]["ranks"], [0, 1, 2])
        self.assertEqual(first["findings"][0]["code"], "collective.early-exit", first["verdict"])
        self.assertEqual(first["findings"][0]["culprits"], [1], first["verdict"])

    def test_a_restart_with_another_number_of_ranks(self):
        """A host was lost, or has come: what is not there in the one generation is missing in neither."""
        for again in (2, 4):
            with self.subTest(again):
                self.restart(again=again)
                _, text = self.check_generations(again)
                self.assertIn("job-7-restart1", text)
                first = self.analyze("--run=job-7", "--hang-after=0.5s")
                self.assertEqual((first["run"]["ranks"], first["run"]["world_size"]), ([0, 1, 2], 3))
                self.assertEqual((first["findings"][0]["code"], first["findings"][0]["culprits"]), ("collective.early-exit", [1]), first["verdict"])
            self.tearDown()
            self.setUp()

    def test_a_restart_with_the_id_none(self):
        """As torchrun calls a job that nobody named."""
        self.restart(TORCHELASTIC_RUN_ID="none")
        self.check_generations()

    # Processes without an environment that says who they are.

    def test_spawn(self):
        self.assertEqual(self.start("starts.py", 3, "spawn").wait(timeout=90), 0)
        self.expect_healthy(3)
        self.assertEqual(len(self.traces()), 3, "whoever starts them uses no GPU")

    def test_forkserver(self):
        self.assertEqual(self.start("starts.py", 3, "forkserver").wait(timeout=90), 0)
        self.expect_healthy(3)
        self.assertEqual(len(self.traces()), 3)

    def test_fork(self):
        self.assertEqual(self.start("starts.py", 3, "fork").wait(timeout=90), 0)
        self.expect_healthy(3)

    def test_ranks_that_others_start(self):
        self.assertEqual(self.start("starts.py", 2, "spawn", "nested").wait(timeout=90), 0)
        self.expect_healthy(2)
        self.assertEqual(len(self.traces()), 2)

    def test_a_first_rank_that_starts_the_others(self):
        self.assertEqual(self.start("starts.py", 3, "first").wait(timeout=90), 0)
        self.assertEqual(self.expect_healthy(3)["run"]["other_runs"], [])
        self.assertEqual(len(self.traces()), 3)

    def test_workers_of_ranks_that_nobody_launched(self):
        for method in ("spawn", "forkserver"):
            with self.subTest(method):
                self.assertEqual(self.start("starts.py", 2, "spawn", "loader", method).wait(timeout=90), 0)
                self.assertEqual(self.expect_healthy(2)["run"]["other_runs"], [])
                self.assertEqual(len(self.traces()), 4)
            self.tearDown()
            self.setUp()

    def test_a_kernel_of_ipython(self):
        """Each start of the kernel is a run of its own, whichever process started it."""
        project = os.path.dirname(os.path.dirname(HERE))
        status = self.start("kernel.py", f"{project}/examples/common", f"{project}/python").wait(timeout=200)
        if status == 77:
            self.skipTest("no ipykernel here")
        self.assertEqual(status, 0)
        self.assertEqual(len(self.traces()), 2)
        said = self.expect_healthy(1)
        self.assertEqual([other["ranks"] for other in said["run"]["other_runs"]], [1])
        rows = subprocess.run([f"{BUILD}/bin/traintrace", "report", f"{self.folder}/traces", "--by=range", "--format=csv", "--columns=range,count"],
                              capture_output=True, text=True, check=True).stdout.split()
        self.assertEqual(rows, ["range,count", "cell,3"], "of the run that the report leads with")

    # Workers of loaders have the environment of their rank, and are none.

    def check_loader(self, method, uses):
        self.run_ranks(2, "loader", method, uses)
        said = self.expect_healthy(2)
        self.assertEqual(len(self.traces()), 4 if uses == "cuda" else 2)
        return said

    def test_workers_that_use_no_gpu(self):
        for method in ("fork", "spawn", "forkserver"):
            with self.subTest(method):
                self.check_loader(method, "none")
            self.tearDown()
            self.setUp()

    def test_workers_that_use_a_gpu(self):
        for method in ("fork", "spawn", "forkserver"):
            with self.subTest(method):
                self.check_loader(method, "cuda")
            self.tearDown()
            self.setUp()


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
