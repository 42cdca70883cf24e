"""The recipes of docs/alerts.md, run as they stand there, with stand-ins for what is not here: srun, scancel, curl, kubectl's cluster."""
import json
import os
import re
import shutil
import stat
import subprocess
import sys
import unittest

from beside import BUILD, TRAINTRACE, Beside

DOCS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "docs")
TRAIN = """
import ctypes, time
cuda = ctypes.CDLL("libcudart.so.13")
memory = ctypes.c_void_p()
for _ in range(20):
    cuda.cudaMalloc(ctypes.byref(memory), ctypes.c_size_t(1 << 20))
    cuda.cudaFree(memory)
    time.sleep(0.1)
print("trained")
"""


def read(*path):
    with open(os.path.join(DOCS, *path), encoding="utf-8") as file:
        return file.read()


def block_of(page, word):
    """The indented block in which it stands."""
    return next(block for block in re.findall(r"(?:^    .*\n|^\n(?=    ))+", page, re.MULTILINE) if word in block)


class Stage(unittest.TestCase):
    def setUp(self):
        self.beside = Beside(1)
        self.beside.__enter__()
        self.addCleanup(self.beside.__exit__)
        self.bin = f"{self.beside.folder}/bin"
        os.mkdir(self.bin)

    def stand_in(self, name, text):
        with open(f"{self.bin}/{name}", "w", encoding="utf-8") as file:
            file.write("#!/bin/bash\n" + text)
        os.chmod(f"{self.bin}/{name}", stat.S_IRWXU)

    def run_shell(self, command, **settings):
        environment = dict(self.beside.environment(), PATH=f"{self.bin}:{os.path.abspath(BUILD)}/bin:{os.environ['PATH']}", **settings)
        return subprocess.run(["bash", "-c", command], cwd=self.beside.folder, env=environment, capture_output=True, text=True, timeout=120, check=False)


class Recipes(Stage):
    @unittest.skipIf(shutil.which("shellcheck") is None, "no shellcheck here")
    def test_the_epilog_is_plain(self):
        done = subprocess.run(["shellcheck", os.path.join(DOCS, "alerts", "epilog.sh")], capture_output=True, text=True, check=False)
        self.assertEqual((done.returncode, done.stdout), (0, ""))

    def test_the_epilog_drains_for_no_failure_of_its_own(self):
        """Only status 1 of analyze says that the hardware failed."""
        os.makedirs(f"{self.beside.folder}/7")
        with open(f"{self.beside.folder}/7/{os.uname().nodename}.1.1.trace", "w", encoding="utf-8"):
            pass
        for status, expected in ((0, 0), (1, 1), (2, 0), (124, 0), (127, 0), (139, 0)):
            self.stand_in("traintrace", f"exit {status}\n")
            done = self.run_shell(os.path.join(DOCS, "alerts", "epilog.sh"), TRAINTRACE_JOBS=self.beside.folder, SLURM_JOB_ID="7")
            self.assertEqual(done.returncode, expected, status)

    @unittest.skipIf(shutil.which("jq") is None, "no jq here")
    def test_slack(self):
        """Whatever the verdict has in it, one JSON object goes to the address."""
        command = re.search(r"--on='[^:]*:(.*)'$", block_of(read("alerts.md"), "SLACK_WEBHOOK").rstrip(), re.DOTALL)[1]
        self.stand_in("curl", "cat > sent; printf '%s\\n' \"$@\" > arguments\n")
        verdict = """rank 2 is at "train.py":197 in f'x' $(touch owned) \\ `id`"""
        done = self.run_shell(command, TRAINTRACE_VERDICT=verdict, TRAINTRACE_CULPRITS="2", TRAINTRACE_ARTIFACT="/a b.tar", SLACK_WEBHOOK="https://hooks.example/x")
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "", ""))
        with open(f"{self.beside.folder}/sent", encoding="utf-8") as file:
            self.assertEqual(json.load(file), {"text": f"{verdict} (ranks 2, /a b.tar)"})
        with open(f"{self.beside.folder}/arguments", encoding="utf-8") as file:
            self.assertEqual(file.read().splitlines()[-1], "https://hooks.example/x")
        self.assertFalse(os.path.exists(f"{self.beside.folder}/owned"))

    def test_the_batch_script(self):
        """A healthy job: both sidecars end by themselves, nothing is cancelled, and the status is the job's."""
        script = block_of(read("alerts.md"), "scancel")
        self.stand_in("srun", 'while [[ $1 == -* ]]; do shift; done\nexec "$@"\n')
        self.stand_in("scancel", "touch cancelled\n")
        self.stand_in("python", 'exec /usr/bin/python3 "$@"\n')
        with open(f"{self.beside.folder}/train.py", "w", encoding="utf-8") as file:
            file.write(TRAIN)
        script = script.replace(" &\n", " & telemetry=$!\n", 1).replace(" &\n", " & watch=$!\n", 1)
        done = self.run_shell(script + "status=$?\nwait $telemetry; echo telemetry $?\nwait $watch; echo watch $?\nexit $status\n", SLURM_JOB_ID="7",
                              LD_LIBRARY_PATH=f"{os.path.abspath(BUILD)}/simgpu/nvml:{os.path.abspath(BUILD)}/simgpu")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("trained\n", done.stdout)
        self.assertIn("telemetry 0\n", done.stdout)
        self.assertIn("watch 0\n", done.stdout)
        self.assertFalse(os.path.exists(f"{self.beside.folder}/cancelled"))
        self.assertTrue([name for name in os.listdir(f"{self.beside.folder}/traces") if name.startswith("telemetry.")])


class Kubernetes(Stage):
    def pod(self):
        try:
            import yaml  # pylint: disable=import-outside-toplevel
        except ImportError:
            self.skipTest("no yaml here (Debian: python3-yaml)")
        job = yaml.safe_load(read("alerts", "kubernetes.yaml"))
        self.assertEqual((job["apiVersion"], job["kind"]), ("batch/v1", "Job"))
        return job["spec"]["template"]["spec"]

    def test_all_that_is_used_is_mounted(self):
        pod = self.pod()
        volumes = {volume["name"] for volume in pod["volumes"]}
        for container in pod["containers"]:
            mounts = {mount["mountPath"]: mount["name"] for mount in container["volumeMounts"]}
            self.assertLessEqual(set(mounts.values()), volumes)
            for path in re.findall(r"[= ](/\w+)", " ".join(container["command"])):
                self.assertIn(path, mounts, container["name"])

    def test_no_sidecar_decides_how_the_job_ends(self):
        """Whether NVML can be used, or anything was recorded, says nothing about the job."""
        for container in self.pod()["containers"]:
            if container["name"] == "train":
                continue
            for status in (0, 1, 2, 139):
                self.stand_in("traintrace", f"exit {status}\n")
                environment = dict(os.environ, PATH=f"{self.bin}:{os.environ['PATH']}")
                self.assertEqual(subprocess.run(container["command"], env=environment, check=False).returncode, 0, (container["name"], status))

    def test_their_options_are_there(self):
        """As the program reads them, with folders of ours."""
        for container in self.pod()["containers"]:
            line = " ".join(container["command"])
            for words in re.findall(r"traintrace ((?:telemetry|attach) [^|\"]*)", line):
                done = subprocess.run([TRAINTRACE, *words.split(), "--help"], capture_output=True, text=True, check=False)
                self.assertEqual(done.returncode, 0, done.stderr)
                for option in re.findall(r"(--[\w-]+)", words):
                    self.assertIn(option, done.stdout)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
