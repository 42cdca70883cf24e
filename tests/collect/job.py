"""What these tests share: a folder, `traintrace`, and a small job that it records."""
import glob
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import unittest

BUILD = os.path.abspath(sys.argv[1])
TRAINTRACE = f"{BUILD}/bin/traintrace"
LIBRARY = f"{BUILD}/lib/libtraintrace.so"
CALLS = 1000
JOB = [f"{BUILD}/tests/storage_job", "calls", "50", str(CALLS), "0"]


def environment(**settings):
    kept = {name: value for name, value in os.environ.items()
            if not name.startswith(("TRAINTRACE_", "SLURM_", "OMPI_", "PMI", "RANK"))}
    return {**kept, "LD_LIBRARY_PATH": f"{BUILD}/simgpu", **settings}


class Case(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="collect.")

    def tearDown(self):
        # A keeper may write its last word meanwhile.
        for _ in range(20):
            shutil.rmtree(self.folder, ignore_errors=True)
            if not os.path.exists(self.folder):
                break
            time.sleep(0.1)

    def traintrace(self, *arguments, **settings):
        """(exit status, stdout, stderr)"""
        done = subprocess.run([TRAINTRACE, *arguments], cwd=self.folder, env=environment(**settings), capture_output=True,
                              text=True, timeout=120, check=False)
        return done.returncode, done.stdout, done.stderr

    def record(self, *options, program=None, **settings):
        """Returns once the keeper, too, has written its last word about each process: what is read later is always the same."""
        recorded = self.traintrace("run", *options, "--", *(program or JOB), **settings)
        folder = next((option[len("--out="):] for option in options if option.startswith("--out=")), "traintrace")
        deadline = time.monotonic() + 60
        while (dumped := self.traintrace("dump", folder)[1]) and dumped.count(" gone=+") < dumped.count("\nprocess "):
            self.assertLess(time.monotonic(), deadline, "the keeper has not noticed the end of the job")
            time.sleep(0.05)
        return recorded

    def on_small_disk(self, size, script, *arguments, **settings):
        """Runs `script`, of sh, with a file system of that size as the folder `small`."""
        os.makedirs(f"{self.folder}/small", exist_ok=True)
        user = [] if os.geteuid() == 0 else ["--map-root-user"]
        mounted = f"mount -t tmpfs -o size={size} tmpfs small || exit 77; "
        done = subprocess.run(["unshare", "--mount", *user, "sh", "-c", mounted + script, "sh", *arguments], cwd=self.folder,
                              env=environment(**settings), capture_output=True, text=True, timeout=120, check=False)
        if done.returncode == 77 or "unshare: " in done.stderr:
            self.skipTest("no file system can be mounted here")
        return done

    def analyze(self, *traces):
        status, out, errors = self.traintrace("analyze", "--format=json", *traces)
        self.assertIn(status, (0, 1), errors)
        return json.loads(out)

    def finding(self, code, *traces):
        return next((finding for finding in self.analyze(*traces)["findings"] if finding["code"] == code), None)

    def files(self, pattern):
        return sorted(glob.glob(os.path.join(self.folder, pattern)))


def main():
    unittest.main(argv=sys.argv[:1])
