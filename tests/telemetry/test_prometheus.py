"""The text for node_exporter: always whole, without timestamps, gone at the end; promtool has nothing to say where it is installed."""
import os
import re
import shutil
import stat
import subprocess
import sys
import time
import unittest

from beside import UUID, Beside

NAME = r"[a-zA-Z_:][a-zA-Z0-9_:]*"
SAMPLE = re.compile(rf'({NAME})(\{{({NAME}="(\\.|[^"\\])*",?)*\}})? ([0-9.e+-]+)')  # and nothing behind the value


def samples_of(text):
    """{(name, labels): value}; each name has HELP and TYPE before it."""
    found, kinds, helps = {}, {}, set()
    for line in text.splitlines():
        if line.startswith("# HELP "):
            helps.add(line.split()[2])
        elif line.startswith("# TYPE "):
            kinds[line.split()[2]] = line.split()[3]
        else:
            match = SAMPLE.fullmatch(line)
            assert match, line
            assert match[1] in helps and match[1] in kinds, line
            assert (kinds[match[1]] == "counter") == match[1].endswith("_total"), line
            assert (match[1], match[2]) not in found, line
            found[match[1], match[2]] = float(match[5])
    return found


class Exported(unittest.TestCase):
    def test_while_it_runs(self):
        with Beside(2, nvml="xid@1=79,clock@0=1200") as beside:
            path = f"{beside.folder}/traintrace.prom"
            beside.start(f"--prometheus={path}")
            texts = []
            while not (texts and "xid" in texts[-1] and all(texts[-1].count(f"{name}{{") == 2 for name in ("sm_clock_hertz", "power_limit_watts"))):
                time.sleep(0.02)
                if os.path.exists(path):
                    with open(path, encoding="utf-8") as file:
                        texts.append(file.read())
            self.assertEqual(stat.S_IMODE(os.stat(path).st_mode), 0o644)
            for text in texts:
                self.assertTrue(text.endswith("traintrace_telemetry_hung_queries 0\n"))
            samples = samples_of(texts[-1])
            labels = [f'{{gpu="{device}",uuid="{UUID.format(device)}",pci="0000:0{device + 1}:00.0"}}' for device in range(2)]
            self.assertEqual([samples["traintrace_gpu_sm_clock_hertz", each] for each in labels], [1.2e9, 1.98e9])
            self.assertEqual(samples["traintrace_gpu_power_limit_watts", labels[0]], 700)
            self.assertFalse([name for name, _ in samples if any(unit in name for unit in ("milli", "nano", "mega"))])
            self.assertEqual(samples["traintrace_gpu_xid_errors_total", labels[1].replace("}", ',xid="79"}')], 1)
            promtool = shutil.which("promtool")
            if promtool:
                checked = subprocess.run([promtool, "check", "metrics"], input=texts[-1], capture_output=True, text=True, check=False)
                self.assertEqual((checked.returncode, checked.stdout + checked.stderr), (0, ""))
            self.assertEqual(beside.stop(), 0)
            self.assertEqual(sorted(os.listdir(beside.folder)), ["shared", "traces"])

    def test_that_cannot_be_written_is_told_once(self):
        with Beside(1) as beside:
            beside.start("--prometheus=/proc/none/traintrace.prom")
            self.assertEqual(beside.run_job(steps=120), [0])
            self.assertEqual(beside.end(), 0)
            self.assertEqual(len([line for line in beside.said if "traintrace.prom" in line]), 1)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
