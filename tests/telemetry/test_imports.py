"""What sites record of their GPUs anyway, imported beside the traces of a job, gives the same findings."""
import datetime
import json
import os
import stat
import subprocess
import sys
import unittest

from beside import TRAINTRACE, UUID, Beside

RANKS = 3


def traintrace(*arguments):
    return subprocess.run([TRAINTRACE, *arguments], capture_output=True, text=True, check=False)


def findings(beside):
    report = json.loads(traintrace("analyze", beside.traces, "--format=json").stdout)
    return report, {each["code"]: each["culprits"] for each in report["findings"] if each["severity"] != "info"}


class Imported(unittest.TestCase):
    def setUp(self):
        self.beside = Beside(RANKS)
        self.beside.__enter__()
        self.addCleanup(self.beside.__exit__)
        self.assertEqual(self.beside.run_job(), [0] * RANKS)
        report, found = findings(self.beside)
        self.assertEqual(found, {})
        self.start, self.end = report["run"]["start_ns"], report["run"]["end_ns"]
        self.host = report["run"]["hosts"][0]

    def bring(self, kind, text, *options):
        path = f"{self.beside.folder}/{kind}"
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        done = traintrace("import", kind, path, f"--out={self.beside.traces}", *options)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertEqual(stat.S_IMODE(os.stat(f"{self.beside.traces}/telemetry.{kind}.0.log").st_mode), 0o600)

    def smi(self, hot):
        """A row for each GPU and tenth of the job's time, with the counter of `hot` growing half of the time."""
        text = "timestamp, uuid, pci.bus_id, clocks.current.sm [MHz], clocks_event_reasons_counters.hw_thermal_slowdown [us]\n"
        for i in range(11):
            ns = self.start + i * (self.end - self.start) // 10
            when = datetime.datetime.fromtimestamp(ns / 1e9).strftime("%Y/%m/%d %H:%M:%S.%f")[:-3]
            for rank in range(RANKS):
                held = (ns - self.start) // 2000 if rank in hot else 0
                text += f"{when}, {UUID.format(rank)}, 00000000:{rank + 1:02X}:00.0, 1980 MHz, {held} us\n"
        return text

    def test_nvidia_smi(self):
        self.bring("nvidia-smi", self.smi([2]))
        self.assertEqual(findings(self.beside)[1], {"device.throttled": [2]})

    def test_nvidia_smi_of_healthy_gpus(self):
        self.bring("nvidia-smi", self.smi([]))
        report, found = findings(self.beside)
        self.assertEqual(found, {})
        summary = next(each for each in report["findings"] if each["code"] == "run.healthy")
        self.assertIn(f"telemetry of {RANKS} GPUs shows no fault", summary["evidence"])

    def dmon(self, hot):
        """As `dcgmi discovery -l; dcgmi dmon -e 100,241,230 | ts '%FT%.T%z'` would say the same; DCGM counts GPUs the other way round."""
        text = f"{RANKS} GPUs found.\n"
        for rank in range(RANKS):
            text += f"| {RANKS - 1 - rank}      | Name: simgpu |\n|        | Device UUID: {UUID.format(rank)} |\n"
        for i in range(11):
            ns = self.start + i * (self.end - self.start) // 10
            when = datetime.datetime.fromtimestamp(ns / 1e9, datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%S.%f+0000")
            text += f"{when} #Entity   SMCLK      TVIOL      XIDER\n{when} ID\n" if i % 5 == 0 else ""
            for rank in range(RANKS):
                held = (ns - self.start) // 2 if rank in hot else 0
                text += f"{when} GPU {RANKS - 1 - rank}     1980       {held}          {'79' if rank in hot and i > 5 else 'N/A'}\n"
        return text

    def test_dcgmi_dmon(self):
        self.bring("dcgmi-dmon", self.dmon([2]))
        self.assertEqual(findings(self.beside)[1], {"device.throttled": [2], "device.xid": [2]})

    def test_dcgmi_dmon_of_healthy_gpus(self):
        self.bring("dcgmi-dmon", self.dmon([]))
        self.assertEqual(findings(self.beside)[1], {})

    def range(self, hot):
        """The answer of Prometheus for dcgm-exporter's metrics; each GPU had an Xid before the job."""
        series = []
        for rank in range(RANKS):
            labels = {"UUID": UUID.format(rank), "gpu": "0", "Hostname": "exporter-x2f", "pci_bus_id": f"00000000:{rank + 1:02X}:00.0"}
            times = [self.start + i * (self.end - self.start) // 10 for i in range(11)]
            values = {"SM_CLOCK": [1980] * 11, "XID_ERRORS": [13] * 11,
                      "THERMAL_VIOLATION": [(ns - self.start) // 2 if rank in hot else 5 for ns in times]}
            series += [{"metric": {"__name__": f"DCGM_FI_DEV_{name}", **labels}, "values": [[ns / 1e9, str(value)] for ns, value in zip(times, each)]}
                       for name, each in values.items()]
        return json.dumps({"status": "success", "data": {"resultType": "matrix", "result": series}})

    def test_prometheus(self):
        self.bring("prometheus", self.range([0]))
        self.assertEqual(findings(self.beside)[1], {"device.throttled": [0]})

    def test_prometheus_of_healthy_gpus(self):
        self.bring("prometheus", self.range([]))
        self.assertEqual(findings(self.beside)[1], {})

    def xid(self, ns, bus):
        when = datetime.datetime.fromtimestamp(ns / 1e9, datetime.timezone.utc).isoformat()
        return f"{when} {self.host} kernel: NVRM: Xid (PCI:0000:{bus:02x}:00): 79, pid=1, GPU has fallen off the bus.\n"

    def test_kernel_log(self):
        self.bring("kernel-log", self.xid(self.start - 10**10, 1) + self.xid((self.start + self.end) // 2, 2))
        self.assertEqual(findings(self.beside)[1], {"device.xid": [1]})
        # With the UUIDs of the same GPUs from elsewhere, and still so.
        self.bring("nvidia-smi", self.smi([1]), f"--host={self.host}")
        self.assertEqual(findings(self.beside)[1], {"device.xid": [1], "device.throttled": [1]})

    def test_kernel_log_of_another_host(self):
        self.bring("kernel-log", self.xid((self.start + self.end) // 2, 2).replace(f" {self.host} ", " elsewhere "))
        self.assertEqual(findings(self.beside)[1], {})

    def test_what_is_damaged_is_refused_by_line(self):
        path = f"{self.beside.folder}/smi.csv"
        with open(path, "w", encoding="utf-8") as file:
            file.write(self.smi([]).replace("1980 MHz", "? MHz", 1))
        done = traintrace("import", "nvidia-smi", path, f"--out={self.beside.traces}")
        self.assertEqual(done.returncode, 2)
        self.assertEqual(done.stderr, f"traintrace: {path}: at 2: expected a number for clocks.current.sm\n")
        self.assertFalse(os.path.exists(f"{self.beside.traces}/telemetry.nvidia-smi.0.log"))

    def test_each_host_by_a_command_of_its_own(self):
        folder = f"{self.beside.folder}/logs"
        log = f"{self.beside.folder}/dmesg"
        for host in ("node17", "node18", "node17"):
            with open(log, "w", encoding="utf-8") as file:
                file.write(self.xid((self.start + self.end) // 2, 2).replace(f" {self.host} ", f" {host} "))
            done = traintrace("import", "kernel-log", log, f"--out={folder}")
            self.assertEqual((done.returncode, done.stderr), (0, ""))
        names = sorted(os.listdir(folder))
        self.assertEqual(names, ["telemetry.kernel-log.0.log", "telemetry.kernel-log.1.log"])
        for name, host in zip(names, ("node17", "node18")):
            with open(f"{folder}/{name}", encoding="utf-8") as file:
                self.assertIn(f"fact host {host}\n", file.read())

    def test_no_file_of_somebody_elses_is_overwritten(self):
        log = f"{self.beside.folder}/dmesg"
        text = self.xid((self.start + self.end) // 2, 2)
        with open(log, "w", encoding="utf-8") as file:
            file.write(text)
        done = traintrace("import", "kernel-log", log, f"--out={log}")
        self.assertEqual((done.returncode, done.stderr),
                         (2, f"traintrace: {log}: is there, and is no telemetry file: not overwritten\n"))
        with open(log, encoding="utf-8") as file:
            self.assertEqual(file.read(), text)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
