"""What the sidecar writes, and that nothing keeps it, or the job, from ending."""
import glob
import os
import signal
import stat
import sys
import time
import unittest

from beside import BUILD, UUID, Beside

HUNG = "has not returned for 1 s"


def children_of(pid):
    """Processes whose parent it is."""
    found = []
    for path in glob.glob("/proc/[0-9]*/stat"):
        try:
            with open(path, encoding="utf-8", errors="replace") as file:
                fields = file.read().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[1]) == pid and fields[0] != "Z":
            found.append(int(path.split("/")[2]))
    return found


def is_there(pid):
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8") as file:
            return file.read().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


class Recorded(unittest.TestCase):
    def test_from_the_start_to_the_end_of_the_job(self):
        with Beside(2, nvml="ecc@1=3,xid@0=79,foreign@1=1024") as beside:
            beside.start()
            self.assertEqual(beside.run_job(), [0, 0])
            self.assertEqual(beside.end(), 0)
            path = beside.path()
            self.assertEqual(stat.S_IMODE(os.stat(path).st_mode), 0o600)
            lines = beside.lines()
            self.assertEqual(lines[0], "traintrace-telemetry 1\n")
            self.assertEqual(lines[-1].split(maxsplit=2)[2], '"the job has ended"\n')
            for device in range(2):
                self.assertEqual(len([line for line in lines if line.startswith(f"device {device} uuid={UUID.format(device)} ")]), 1)
                self.assertGreater(len(beside.values(device, "energy_mj")), 2)
            self.assertEqual(beside.values(0, "ecc_uncorrected"), [0])
            self.assertEqual(beside.values(1, "ecc_uncorrected"), [3])
            self.assertEqual([line.split()[3] for line in beside.lines("xid 0")], ["79"])
            foreign = beside.values(1, "memory_used_bytes")[0] - beside.values(0, "memory_used_bytes")[0]
            self.assertEqual(foreign, 1024 << 20)

    def test_what_begins_later_is_in_the_last_reading(self):
        with Beside(1, nvml="replay@0=1000", in_job=True) as beside:
            beside.start()
            self.assertEqual(beside.run_job(steps=120), [0])
            self.assertEqual(beside.end(), 0)
            self.assertEqual(beside.values(0, "pcie_replays"), [0, 1000])

    def test_nvlinks_are_read_if_asked_for(self):
        for option, expected in (("--nvlink", [7]), ("--limit-mb=1", [])):
            with Beside(1, nvml="nvlink=7") as beside:
                beside.start(option)
                self.assertEqual(beside.run_job(), [0])
                self.assertEqual(beside.end(), 0)
                self.assertEqual(beside.values(0, "nvlink_replays"), expected)
                self.assertEqual(beside.values(0, "nvlink_crc_data"), expected)

    def test_jobs_before_it_count_for_nothing(self):
        with Beside(1) as beside:
            self.assertEqual(beside.run_job(), [0])
            beside.start()
            self.assertIsNone(beside.sidecar.poll())
            self.assertEqual(beside.run_job(), [0])
            self.assertEqual(beside.end(), 0)
            self.assertEqual(len(beside.lines("end ")), 1)


class Ended(unittest.TestCase):
    def test_by_a_signal(self):
        for number in (signal.SIGTERM, signal.SIGINT):
            with Beside(2) as beside:
                beside.start()
                self.assertEqual(beside.stop(number), 0)
                self.assertTrue(beside.lines()[-1].startswith("end "))

    def test_by_sigkill_with_all_that_was_written(self):
        with Beside(2) as beside:
            beside.start()
            asking = children_of(beside.sidecar.pid)
            self.assertEqual(len(asking), 1)
            while not (os.path.exists(beside.path()) and beside.values(1, "energy_mj")):
                time.sleep(0.05)
            beside.stop(signal.SIGKILL)
            self.assertTrue(all(line.endswith("\n") for line in beside.lines()))
            self.assertEqual(beside.lines("end "), [])
            while is_there(asking[0]):  # else the test's time limit says so
                time.sleep(0.05)

    def test_where_the_job_is_killed(self):
        with Beside(2) as beside:
            beside.start()
            job = beside.begin_job(steps=100_000)
            while len(glob.glob(f"{beside.traces}/*.trace")) < 2:
                time.sleep(0.05)
            for process in job:
                process.kill()
                process.wait()
            self.assertEqual(beside.end(), 0)


class Hung(unittest.TestCase):
    def test_query_of_one_device(self):
        for function, missing in (("nvmlDeviceGetRemappedRows", "pcie_width"), ("nvmlDeviceGetViolationStatus", "energy_mj")):
            with Beside(2, nvml=f"hang@1={function}") as beside:
                beside.start()
                self.assertEqual(beside.run_job(steps=120), [0, 0])
                self.assertEqual(beside.end(), 0)
                notes = [line for line in beside.lines("note ") if HUNG in line]
                self.assertEqual(len(notes), 1, notes)
                self.assertIn(f"{function} of device 1 ", notes[0])
                self.assertEqual(beside.values(1, missing), [])
                self.assertNotEqual(beside.values(0, missing), [])
                self.assertTrue(beside.lines()[-1].startswith("end "))

    def test_start_of_nvml(self):
        with Beside(1, nvml="hang=nvmlInit_v2") as beside:
            beside.start()  # returns with the note
            self.assertEqual(beside.run_job(), [0])
            self.assertEqual(beside.end(), 0)
            self.assertIn("nvmlInit_v2 " + HUNG, "".join(beside.lines("note ")))

    def test_ends_by_a_signal(self):
        with Beside(1, nvml="hang=nvmlDeviceGetUUID") as beside:
            beside.start()
            self.assertEqual(beside.stop(), 0)


class Unusable(unittest.TestCase):
    def check(self, beside, message, **options):
        beside.start(**options)
        self.assertEqual(beside.end(), 2)
        self.assertIn(message, "".join(beside.said))
        self.assertEqual(len(beside.said), 1)
        self.assertFalse(os.path.exists(beside.traces))

    def test_without_nvml(self):
        with Beside(1) as beside:
            self.check(beside, "NVML cannot be used on this machine: libnvidia-ml.so.1", libraries=f"{BUILD}/simgpu")

    def test_without_a_driver(self):
        with Beside(1, nvml="init=9") as beside:
            self.check(beside, "nvmlInit_v2: Driver Not Loaded")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
