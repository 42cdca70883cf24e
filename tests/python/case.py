"""What the tests of the package share: a folder, the job of job.py, programs in Python under the preload."""
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
BUILD = os.path.abspath(sys.argv[1])
PACKAGE = os.path.join(HERE, "..", "..", "python")
PATH = f"{BUILD}/bin:/usr/bin:/bin"
sys.path.insert(0, PACKAGE)
os.environ["PATH"] = PATH


class Case(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="python.")
        self.traces = os.path.join(self.folder, "traintrace")
        self.processes = []

    def tearDown(self):
        for process in self.processes:
            if process.poll() is None:
                process.send_signal(signal.SIGKILL)
                process.wait()
            process.stdout.close()
            process.stderr.close()
        while os.path.exists(self.folder):  # the keepers of killed processes may still write to it
            shutil.rmtree(self.folder, ignore_errors=True)
            time.sleep(0.1)

    def environment(self, recorded=True, **settings):
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("TRAINTRACE_", "LD_PRELOAD"))}
        preload = {"LD_PRELOAD": f"{BUILD}/lib/libtraintrace.so", "TRAINTRACE_DIR": self.traces} if recorded else {}
        return {**kept, "LD_LIBRARY_PATH": f"{BUILD}/simgpu", "PYTHONPATH": PACKAGE, "PYTHONDONTWRITEBYTECODE": "1", **preload, **settings}

    def start(self, *command, **settings):
        process = subprocess.Popen(["/usr/bin/python3", *command], cwd=self.folder, env=self.environment(**settings),
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.processes.append(process)
        return process

    def run_python(self, code, **settings):
        process = self.start("-c", code, **settings)
        out, errors = process.communicate(timeout=60)
        self.assertEqual((process.returncode, errors), (0, ""))
        return out

    def run_job(self, ranks, *arguments, **settings):
        """How they ended.  With a defect the others hang once the last rank is gone: until `analyze` says so."""
        started = [self.start(os.path.join(HERE, "job.py"), self.folder, str(rank), str(ranks), *arguments, RANK=str(rank), WORLD_SIZE=str(ranks),
                              LOCAL_RANK=str(rank), SIMGPU_DEVICES=str(ranks), SIMGPU_NODE=f"{self.folder}/node", **settings)
                   for rank in range(ranks)]
        for process in started[-1:] if arguments else started:
            process.wait(timeout=90)
        until = time.monotonic() + 60
        while arguments and " proof culprits=" not in self.traintrace("analyze", "--hang-after=0.5s") and time.monotonic() < until:
            time.sleep(0.1)
        return [process.poll() for process in started]

    def traintrace(self, *arguments):
        done = subprocess.run([f"{BUILD}/bin/traintrace", *arguments], cwd=self.folder, capture_output=True, text=True, timeout=60, check=False)
        self.assertIn(done.returncode, (0, 1), done.stderr)
        return done.stdout


def moments(dump):
    """What the job marked, without the ids of names: not where the tracer saw it while it called nothing."""
    lines = [line.split(" * ", 1)[1] for line in dump.splitlines() if re.match(r"\+\S+ \S+ \* (?!hostSample )", line)]
    return [re.sub(r"(range|text\d)=\w+=", "", line).replace('"', "") for line in lines]


def main():
    unittest.main(argv=sys.argv[:1])
