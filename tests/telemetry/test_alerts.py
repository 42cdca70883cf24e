"""Rules and recipes of docs/alerts with Prometheus' own tools, and with a Prometheus and a node_exporter that run."""
import json
import os
import shutil
import socket
import subprocess
import sys
import time
import unittest
import urllib.error
import urllib.request

from beside import BUILD, Beside

RECIPES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "docs", "alerts")
TOOLS = ("promtool", "amtool", "prometheus", "prometheus-node-exporter")
missing = [tool for tool in TOOLS if shutil.which(tool) is None]
if missing:
    print("skipped:", ", ".join(missing), "missing (Debian: prometheus, prometheus-alertmanager, prometheus-node-exporter)")
    sys.exit(77)


def free_port():
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


class Rules(unittest.TestCase):
    def check(self, *command):
        done = subprocess.run(command, cwd=RECIPES, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stdout)

    def test_rules(self):
        self.check("promtool", "check", "rules", "--lint-fatal", "traintrace.rules.yml")
        self.check("promtool", "test", "rules", "traintrace.test.yml")

    def test_alertmanager(self):
        self.check("amtool", "check-config", "alertmanager.yml")


class Scraped(unittest.TestCase):
    """A sidecar writes, node_exporter reads, Prometheus scrapes: the alert fires for the GPU with the Xid, and for no other."""

    def start(self, *command):
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.addCleanup(lambda: (process.kill(), process.wait()))

    def alerts(self, port):
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/api/v1/alerts", timeout=5) as answer:
                return json.load(answer)["data"]["alerts"]
        except (urllib.error.URLError, ConnectionError):
            return []

    def test_an_xid(self):
        with Beside(2, nvml="xid@1=79") as beside:
            os.mkdir(f"{beside.folder}/prom")
            exporter, server = free_port(), free_port()
            self.start("prometheus-node-exporter", "--collector.disable-defaults", "--collector.textfile",
                       f"--collector.textfile.directory={beside.folder}/prom", f"--web.listen-address=127.0.0.1:{exporter}")
            with open(f"{beside.folder}/prometheus.yml", "w", encoding="utf-8") as file:
                json.dump({"global": {"scrape_interval": "500ms", "evaluation_interval": "500ms"},
                           "rule_files": [os.path.abspath(f"{RECIPES}/traintrace.rules.yml")],
                           "scrape_configs": [{"job_name": "node", "static_configs": [{"targets": [f"127.0.0.1:{exporter}"]}]}]}, file)
            self.start("prometheus", f"--config.file={beside.folder}/prometheus.yml", f"--storage.tsdb.path={beside.folder}/tsdb",
                       f"--web.listen-address=127.0.0.1:{server}")
            beside.start(f"--prometheus={beside.folder}/prom/traintrace-gpu.prom")
            found = []
            for _ in range(240):
                found = [alert for alert in self.alerts(server) if alert["state"] == "firing"]
                if found:
                    break
                time.sleep(0.25)
            self.assertEqual([(alert["labels"]["alertname"], alert["labels"]["gpu"], alert["labels"]["xid"]) for alert in found], [("GpuXid", "1", "79")])
            self.assertEqual(beside.stop(), 0)


class Epilog(unittest.TestCase):
    """The status that drains a node, or does not."""

    def epilog(self, beside):
        environment = dict(os.environ, PATH=f"{os.path.abspath(BUILD)}/bin:{os.environ['PATH']}", TRAINTRACE_JOBS=beside.folder, SLURM_JOB_ID="traces")
        return subprocess.run([f"{RECIPES}/epilog.sh"], env=environment, check=False).returncode

    def test_a_node_that_failed(self):
        with Beside(2, nvml="xid@1=79", in_job=True) as beside:
            beside.start()
            self.assertEqual(beside.run_job(steps=120), [0, 0])
            self.assertEqual(beside.end(), 0)
            self.assertEqual(self.epilog(beside), 1)

    def test_a_node_that_is_well(self):
        with Beside(2) as beside:
            self.assertEqual(self.epilog(beside), 0)  # nothing was recorded
            beside.start()
            self.assertEqual(beside.run_job(), [0, 0])
            self.assertEqual(beside.end(), 0)
            self.assertEqual(self.epilog(beside), 0)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
