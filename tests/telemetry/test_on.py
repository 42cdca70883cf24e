"""Commands that telemetry runs while a job goes on: for what its GPUs say, once for each time, and not for what they do not say."""
import json
import os
import subprocess
import sys
import time
import unittest

from beside import TRAINTRACE, Beside

RANKS = 2


class On(unittest.TestCase):
    def begin(self, nvml, code, in_job=True):
        beside = Beside(RANKS, nvml=nvml, in_job=in_job)
        beside.__enter__()
        self.addCleanup(beside.__exit__)
        told = f"{beside.folder}/told"
        beside.start(f"--on={code}:cat > {told}.json; echo \"$TRAINTRACE_CODE $TRAINTRACE_CULPRITS\" >> {told}")
        return beside, told

    def read(self, path):
        if not os.path.exists(path):
            return None
        with open(path, encoding="utf-8") as file:
            return file.read()

    def test_an_xid_while_the_job_runs(self):
        beside, told = self.begin("xid@1=79", "device.xid,device.ecc")
        job = beside.begin_job(steps=4000)
        until = time.monotonic() + 60  # a machine that others use; as a rule it takes a second
        while time.monotonic() < until and not self.read(told) and None in [process.poll() for process in job]:
            time.sleep(0.05)
        running = [process.poll() for process in job]
        for process in job:
            process.kill()
            process.wait()
        self.assertEqual(beside.end(), 0)
        self.assertEqual(running, [None] * RANKS, "it was told before the job ended")
        self.assertEqual(self.read(told), "device.xid 1\n")
        report = json.loads(self.read(f"{told}.json"))
        self.assertEqual([each["code"] for each in report["findings"]], ["device.xid"])

    def told_while_it_runs(self, nvml, seconds):
        """What is told until the job is killed, after so long or once something was; and what then is told of all of its time."""
        beside, told = self.begin(nvml, "device.*", in_job=False)
        job = beside.begin_job(steps=1_000_000)
        until = time.monotonic() + seconds
        while time.monotonic() < until and not self.read(told):
            time.sleep(0.1)
        time.sleep(2 if self.read(told) else 0)  # and not again
        running, during = [process.poll() for process in job], self.read(told) or ""
        attached = subprocess.run([TRAINTRACE, "attach", beside.traces, "--interval=100ms"], capture_output=True, text=True, check=False).stdout
        for process in job:
            process.kill()
            process.wait()
        self.assertEqual(beside.end(), 0)
        self.assertEqual(running, [None] * RANKS)
        return during, (self.read(told) or "")[len(during):], attached

    def test_heat_while_the_job_runs(self):
        during, after, attached = self.told_while_it_runs("thermal@0", 150)
        self.assertEqual(during, "device.throttled 0\n")
        self.assertEqual(after, "device.throttled 0\n")
        self.assertIn("warning device.throttled proof culprits=0: the clock of the GPU of rank 0 was held down by thermal slowdown", attached)

    def test_a_power_cap_while_the_job_runs(self):
        self.assertEqual(self.told_while_it_runs("power-cap", 20)[:2], ("", ""))

    def test_heat_once_the_job_is_over(self):
        beside, told = self.begin("thermal@0", "device.*", in_job=False)
        self.assertEqual(beside.run_job(steps=120), [0] * RANKS)
        self.assertEqual(beside.end(), 0)
        self.assertEqual(self.read(told), "device.throttled 0\n")

    def test_healthy_gpus(self):
        beside, told = self.begin("", "device.*")
        self.assertEqual(beside.run_job(), [0] * RANKS)
        self.assertEqual(beside.end(), 0)
        self.assertIsNone(self.read(told))

    def test_an_xid_of_nobody(self):
        """A GPU that no rank uses."""
        beside, told = self.begin("xid@1=79", "device.xid")
        beside.ranks = 1
        beside.begin_job(steps=120)[0].wait()
        self.assertEqual(beside.end(), 0)
        self.assertIsNone(self.read(told))

    def test_a_command_that_hangs_holds_up_no_reading(self):
        beside = Beside(RANKS, nvml="xid@1=79", in_job=True)
        with beside:
            beside.start(f"--on=device.xid:touch {beside.folder}/began; sleep 4")
            job = beside.begin_job(steps=4000)
            until = time.monotonic() + 60
            while not os.path.exists(f"{beside.folder}/began"):
                self.assertLess(time.monotonic(), until, "nothing was told")
                time.sleep(0.05)
            before = len(beside.lines("read"))
            for _ in range(200):
                if len(beside.lines("read")) > before + 5:
                    break
                time.sleep(0.05)
            self.assertGreater(len(beside.lines("read")), before + 5)
            for process in job:
                process.kill()
                process.wait()

    def test_what_it_does_not_find_is_refused(self):
        for wrong in ("host.stuck:true", "device.xid", "device.xit:true"):
            done = subprocess.run([TRAINTRACE, "telemetry", f"--on={wrong}"], capture_output=True, text=True, check=False)
            self.assertEqual(done.returncode, 2)
            self.assertIn("--on", done.stderr)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
