"""Telemetry of several hosts: `analyze --mpi` and `attach` under mpirun have what lies beside the traces of each.  Exit 77: Open MPI is not here."""
import json
import os
import shutil
import subprocess
import sys
import unittest

from beside import TRAINTRACE, Beside

RANKS = 2
if shutil.which("mpirun") is None:
    print("skipped: mpirun is missing (Debian: openmpi-bin)")
    sys.exit(77)


class Mpi(unittest.TestCase):
    def findings(self, beside, *arguments):
        command = ["mpirun", "--allow-run-as-root", "--oversubscribe"]
        for rank in range(RANKS):
            command += ([":"] if rank else []) + ["-n", "1", "--wdir", f"{beside.folder}/host{rank}", os.path.abspath(TRAINTRACE), *arguments, "--format=json"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
        return [(each["code"], each["culprits"]) for each in json.loads(done.stdout)["findings"] if each["code"].startswith("device.")]

    def spread(self, beside):
        """Each rank's trace, and on the second host the telemetry."""
        for rank, path in enumerate(sorted(os.listdir(beside.traces), key=lambda name: name.startswith("telemetry"))):
            os.makedirs(f"{beside.folder}/host{rank % RANKS}/traces", exist_ok=True)
            host = RANKS - 1 if path.startswith("telemetry") else rank
            shutil.copy(f"{beside.traces}/{path}", f"{beside.folder}/host{host}/traces/")

    def run_job(self, nvml):
        beside = Beside(RANKS, nvml=nvml, in_job=True)
        beside.__enter__()
        self.addCleanup(beside.__exit__)
        beside.start()
        self.assertEqual(beside.run_job(steps=120), [0] * RANKS)
        self.assertEqual(beside.end(), 0)
        self.spread(beside)
        return beside

    def test_an_xid(self):
        beside = self.run_job("xid@0=79")
        self.assertEqual(self.findings(beside, "analyze", "--mpi", "traces"), [("device.xid", [0])])
        self.assertEqual(self.findings(beside, "attach", "traces"), [("device.xid", [0])])

    def test_healthy(self):
        beside = self.run_job("")
        self.assertEqual(self.findings(beside, "analyze", "--mpi", "traces"), [])
        self.assertEqual(self.findings(beside, "attach", "traces"), [])


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
