"""A workload under the preload: it does what it does without, leaves sound traces, and nobody is accused of anything.

  workload.py LIBRARY CHECK ANALYZER LAUNCHER [launcher's settings ..] -- PROGRAM [ARGUMENT ..]"""
import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

library, check, analyzer, launcher = sys.argv[1:5]
end = sys.argv.index("--")
settings, program = sys.argv[5:end], sys.argv[end + 1:]


# These use no GPU, so they leave no trace.
ONLY_ASKS = ("runtime_version",)
# What these do wrong on purpose.
FAULTS = {"driver_interop": {"memory.double-free"}}


def fail(message):
    print(message)
    sys.exit(1)


def launch(folder):
    preload = [f"LD_PRELOAD={library}", f"TRAINTRACE_DIR={folder}", "TRAINTRACE_RING_MB=8"]
    done = subprocess.run([launcher, *settings, *preload, "--", *program], capture_output=True, text=True)
    if done.returncode:
        fail(f"under the preload:\n{done.stdout}{done.stderr}")


def number(key, standard):
    found = [setting for setting in settings if setting.startswith(key + "=")]
    return int(found[0].split("=")[1]) if found else standard


def check_traces(folder):
    traces = sorted(Path(folder).glob("*.trace"))
    done = subprocess.run([check, *traces], capture_output=True, text=True)
    print(done.stdout)
    if done.returncode or "missing-original" in done.stdout or "unhooked-symbol" in done.stdout:
        fail("the traces are not sound")
    uses_cuda = Path(program[0]).name not in ONLY_ASKS
    if len(traces) < number("ranks", 1) * uses_cuda:
        fail(f"{len(traces)} traces")


def check_verdict(folder):
    if Path(program[0]).name in ONLY_ASKS:
        return
    done = subprocess.run([analyzer, "analyze", folder, "--format=json"], capture_output=True, text=True)
    killed = any(setting.startswith("killed=") for setting in settings)
    expected = {"run.rank-failed"} if killed else FAULTS.get(Path(program[0]).name)
    if done.returncode != (1 if expected else 0):
        fail(f"analyze: exit {done.returncode}: {done.stdout}{done.stderr}")
    codes = {finding["code"] for finding in json.loads(done.stdout)["findings"] if finding["severity"] != "info"
             or finding["code"].startswith("run.")}
    if codes != (expected or {"run.healthy"}):
        fail(f"analyze: {done.stdout}")


def output(extra):
    environment = dict(os.environ, **extra, **{word.split("=")[0]: word.split("=", 1)[1] for word in settings
                                               if re.match(r"[A-Z_]+=", word)})
    if number("devices", 0):
        environment["SIMGPU_DEVICES"] = str(number("devices", 0))
    done = subprocess.run(program, env=environment, capture_output=True, stdin=subprocess.DEVNULL)
    # Times and addresses differ each time.
    return done.returncode, *(re.sub(rb" *(0x[0-9a-f]+|[0-9.]+)", b" #", text) for text in (done.stdout, done.stderr))


def compare_outputs(folder):
    if any(setting.startswith(("hang=", "killed=")) for setting in settings) or number("ranks", 1) > 1:
        return
    plain = output({})
    traced = output({"LD_PRELOAD": library, "TRAINTRACE_DIR": folder})
    if plain != traced:
        fail(f"without {plain}, with {traced}")


with tempfile.TemporaryDirectory() as folder:
    launch(folder)
    check_traces(folder)
    check_verdict(folder)
    compare_outputs(folder)
