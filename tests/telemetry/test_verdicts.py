"""What is said of jobs whose GPUs have faults, and of their healthy twins."""
import json
import signal
import subprocess
import sys
import time
import unittest

from beside import TRAINTRACE, UUID, Beside

RANKS = 3
SLOW = {"SIMGPU_KERNEL_US": "forward_*=460,backward_*=1150,update_*=1150"}  # 15 % more than KERNELS
OWN = ("device.throttled", "device.xid", "device.ecc", "device.link-degraded")
ATTEMPTS = 12  # of jobs whose times are judged, on a machine that others use


def analyze(beside):
    done = subprocess.run([TRAINTRACE, "analyze", beside.traces, "--format=json", "--hang-after=1s"], capture_output=True, text=True, check=False)
    assert done.returncode in (0, 1), done.stderr
    return json.loads(done.stdout)


def of_hardware(report):
    """{code: (severity, culprits)} of what telemetry found."""
    return {finding["code"]: (finding["severity"], finding.get("culprits", [])) for finding in report["findings"] if finding["code"] in OWN}


def finding(report, code):
    return next((each for each in report["findings"] if each["code"] == code), None)


def judged(nvml, in_job=False, ranks=RANKS, steps=None, settings_of=lambda rank: {}, options=(), **settings):
    """A job, with telemetry beside it that ends with it; one second of it, if something is to happen in it."""
    steps = steps or (400 if in_job else 40)
    with Beside(ranks, nvml=nvml, in_job=in_job) as beside:
        beside.start(*options)
        statuses = beside.run_job(steps=steps, settings_of=settings_of, **settings)
        assert statuses == [0] * ranks, statuses
        assert beside.end() == 0
        return analyze(beside)


class Alone(unittest.TestCase):
    """Nothing is wrong with the job; what its GPUs say is a finding, or not."""

    def check(self, nvml, expected, **more):
        report = judged(nvml, **more)
        self.assertEqual(of_hardware(report), expected, nvml)
        alarms = [each["code"] for each in report["findings"] if each["severity"] != "info" and each["code"] not in OWN]
        self.assertEqual(alarms, [])
        if all(severity == "info" for severity, _ in expected.values()):
            summary = finding(report, "run.healthy")
            self.assertIsNotNone(summary)
            self.assertIn(f"telemetry of {RANKS} GPUs shows no fault", summary["evidence"])
        return report

    def test_held_by_heat(self):
        report = self.check("thermal@1", {"device.throttled": ("warning", [1])})
        throttled = finding(report, "device.throttled")
        self.assertEqual(throttled["certainty"], "proof")
        self.assertRegex(throttled["title"], "^the clock of the GPU of rank 1 was held down by thermal slowdown for [45][0-9] % of the time$")
        self.assertIn(UUID.format(1) + " (0000:02:00.0) on ", throttled["evidence"][0])

    def test_heat_of_another_gpu_with_the_same_number(self):
        """Rank 0 is on the last GPU, and so on: what counts is the UUID, neither the rank nor its number on the host."""
        def other_way_round(rank):
            return {"LOCAL_RANK": str(RANKS - 1 - rank)}
        self.check("thermal@0", {"device.throttled": ("warning", [2])}, settings_of=other_way_round)
        self.check("xid@2=79", {"device.xid": ("error", [0])}, in_job=True, settings_of=other_way_round)

    def test_heat_that_went(self):
        """It was hot for a moment of the job; and for most of it."""
        self.check("thermal@1=300", {}, steps=400)
        self.check("thermal@1=100000", {"device.throttled": ("warning", [1])}, steps=400)

    def test_held_by_the_power_supply(self):
        self.check("power-brake@2", {"device.throttled": ("warning", [2])})
        self.check("low-power-cap@0", {"device.throttled": ("warning", [0])})

    def test_all_alike(self):
        report = self.check("thermal", {"device.throttled": ("warning", [])})
        self.assertIn("most GPUs alike: no culprit among them", finding(report, "device.throttled")["evidence"])

    def test_power_cap_is_none(self):
        self.check("power-cap", {})
        self.check("power-cap@1", {})

    def test_healthy(self):
        self.check("", {})
        self.check("clock@1=1200,foreign@2=4096", {})

    def test_xid(self):
        report = self.check("xid@2=79", {"device.xid": ("error", [2])}, in_job=True)
        self.assertEqual(finding(report, "device.xid")["title"], "the driver reported Xid 79 (GPU has fallen off the bus) on the GPU of rank 2")
        self.check("xid@2=13", {"device.xid": ("info", [])}, in_job=True)
        self.check("xid@1=63", {"device.xid": ("warning", [1])}, in_job=True)

    def test_xid_before_the_job_or_of_another_gpu(self):
        with Beside(2, nvml="xid@0=79") as beside:
            beside.start()
            while not beside.lines("xid "):
                time.sleep(0.05)
            self.assertEqual(beside.run_job(), [0, 0])
            self.assertEqual(beside.end(), 0)
            self.assertEqual(of_hardware(analyze(beside)), {})
        with Beside(2, nvml="xid@1=79", in_job=True) as beside:
            beside.start()
            beside.ranks = 1  # the other GPU is not the job's
            self.assertEqual(beside.run_job(SIMGPU_DEVICES="2"), [0])
            self.assertEqual(beside.end(), 0)
            self.assertEqual(len(beside.lines("xid ")), 1)
            self.assertEqual(of_hardware(analyze(beside)), {})

    def test_memory(self):
        report = self.check("ecc@1=3", {"device.ecc": ("error", [1])}, in_job=True)
        values = finding(report, "device.ecc")["values"]
        self.assertEqual((values["uncorrected_count"], values["remapped_count"]), (3, 1))
        # Counted before: the row that waits is only mentioned.
        self.check("ecc@1=3", {"device.ecc": ("info", [])})

    def test_link(self):
        self.check("width@0=8", {"device.link-degraded": ("warning", [0])})
        self.check("replay@1=1000", {"device.link-degraded": ("warning", [1])}, in_job=True)
        self.check("nvlink@1=5", {"device.link-degraded": ("warning", [1])}, in_job=True, options=["--nvlink"])
        # All machines are built like that; few replays; counted before the job.
        self.check("width=8", {})
        self.check("replay@1=50", {}, in_job=True)
        self.check("replay@1=1000,nvlink@1=5", {}, options=["--nvlink"])

    def test_nvml_that_hangs(self):
        self.check("hang@1=nvmlDeviceGetTotalEccErrors,thermal@2", {"device.throttled": ("warning", [2])})


class SlowDevice(unittest.TestCase):
    """Rank 1's kernels take 15 % longer; the cause is what its counters say, or none."""

    def check(self, nvml, cause, throttled=False):
        report = wrong = None
        for _ in range(ATTEMPTS):
            report = judged(nvml, settings_of=lambda rank: SLOW if rank == 1 else {}, TRAINTRACE_GPU_TIMELINE="cupti")
            slow = finding(report, "latency.slow-device")
            wrong = slow is None or slow["culprits"] != [1]
            if not wrong:
                break
        self.assertFalse(wrong, report)
        self.assertEqual(len([line for line in slow["evidence"] if cause in line]), 1, slow)
        self.assertEqual(cause in slow["title"], "no reason" not in cause, slow)
        self.assertEqual("device.throttled" in of_hardware(report), throttled)
        if throttled:
            evidence = "".join(finding(report, "device.throttled")["evidence"])
            self.assertEqual("explains latency.slow-device" in evidence, cause in slow["title"])

    def test_held_down(self):
        self.check("thermal@1", "its clock was held down by thermal slowdown for ", throttled=True)
        self.check("power-cap@1", "its clock was held down by its power limit for ")

    def test_configured(self):
        self.check("clock@1=1200", "its application clock is 1200 MHz, the others' 1980")

    def test_another_process(self):
        self.check("foreign@1=4096", "another process is on it: 4.3 GB more of its memory was in use")

    def test_no_reason(self):
        self.check("", "its counters show no reason (clock 1980 MHz, the others' 1980)")
        self.check("power-cap", "its counters show no reason")  # of all alike
        self.check("thermal@0,foreign@2=4096", "its counters show no reason", throttled=True)  # of others


def collectives(beside):
    """So many have been called so far."""
    done = subprocess.run([TRAINTRACE, "report", beside.traces, "--by=call", "--format=csv"], capture_output=True, text=True, check=False)
    return sum(int(line.split(",")[3]) for line in done.stdout.splitlines() if line.startswith("ncclAllReduce,"))


class Died(unittest.TestCase):
    """Rank 1 is killed while the others wait for it."""

    def killed(self, nvml):
        with Beside(RANKS, nvml=nvml, in_job=True) as beside:
            beside.start()
            job = beside.begin_job("in-time", 100_000, SIMGPU_NCCL_US="2000")
            while "xid@1" in nvml and not beside.lines("xid 1 "):
                time.sleep(0.05)
            for _ in range(60):  # until all of them are at work
                if collectives(beside) >= 10 * RANKS:
                    break
                time.sleep(1)
            job[1].send_signal(signal.SIGKILL)
            job[1].wait()
            time.sleep(5)
            for _ in range(30):  # on a machine that others use
                if finding(analyze(beside), "collective.dead-rank"):
                    break
                time.sleep(2)
            for process in job:
                process.kill()
                process.wait()
            self.assertEqual(beside.end(), 0)
            return analyze(beside)

    def test_with_an_xid(self):
        report = self.killed("xid@1=79")
        dead = finding(report, "collective.dead-rank")
        self.assertEqual(dead["culprits"], [1])
        self.assertEqual(len([line for line in dead["evidence"] if "Xid 79 (GPU has fallen off the bus)" in line]), 1)
        self.assertEqual(of_hardware(report), {"device.xid": ("error", [1])})
        self.assertEqual(report["findings"][0]["code"], "collective.dead-rank")

    def test_with_an_xid_of_another(self):
        report = self.killed("xid@0=13")
        dead = finding(report, "collective.dead-rank")
        self.assertEqual(dead["culprits"], [1])
        self.assertEqual([line for line in dead["evidence"] if "Xid" in line], [])


class Damaged(unittest.TestCase):
    def test_file(self):
        with Beside(RANKS, nvml="thermal@1") as beside:
            beside.start()
            self.assertEqual(beside.run_job(), [0] * RANKS)
            self.assertEqual(beside.end(), 0)
            path = beside.path()
            lines = beside.lines()
            with open(path, "w", encoding="utf-8") as file:
                file.write("".join(lines[:-1]) + "read 0 12")  # torn
            done = subprocess.run([TRAINTRACE, "analyze", beside.traces], capture_output=True, text=True, check=False)
            self.assertEqual(done.stderr, "")
            self.assertIn("warning device.throttled proof culprits=1", done.stdout)
            with open(path, "w", encoding="utf-8") as file:
                file.write("".join(lines[:4] + ["read 0 tomorrow\n"] + lines[4:]))
            done = subprocess.run([TRAINTRACE, "analyze", beside.traces], capture_output=True, text=True, check=False)
            self.assertEqual(done.stderr, f"traintrace: {path}: at 5: expected read DEVICE TIME READING=NUMBER ..\n")
            self.assertIn("warning device.throttled proof culprits=1", done.stdout)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
