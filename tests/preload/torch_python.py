"""A program in Python that uses PyTorch's allocator (simgpu's, loaded as Python loads PyTorch): each report has its line.

  torch_python.py LIBRARY PROJECT BUILD"""
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

library, project, build = Path(sys.argv[1]), Path(sys.argv[2]), Path(sys.argv[3])

PROGRAM = """
import ctypes, os, threading
c10 = ctypes.CDLL(os.environ['C10'])
c10.c10sim_malloc.restype = ctypes.c_void_p
c10.c10sim_malloc.argtypes = [ctypes.c_size_t, ctypes.c_void_p]
c10.c10sim_free.argtypes = [ctypes.c_void_p]
def activations():
    return c10.c10sim_malloc(1000, None)
def step():
    return [activations() for _ in range(3)]
kept = step()
c10.c10sim_free(kept.pop())
thread = threading.Thread(target=step)
thread.start()
thread.join()
"""


def lines_of(dump, word):
    return [line for line in dump.splitlines() if line.startswith(word)]


def check(dump):
    stacks = dict(re.findall(r"^stack (\d+) (\S+)", dump, re.M))
    reports = [line for line in dump.splitlines() if " * reportMemoryUsageToProfiler " in line]
    blocks = lines_of(dump, "tensor-block ")
    problems = []
    if len(reports) != 7:
        problems.append(f"{len(reports)} reports instead of 7")
    if len(blocks) != 5 or not all("bytes=1024" in block for block in blocks):
        problems.append(f"not five blocks of 1024 bytes: {blocks}")
    places = [stacks.get(re.search(r"@(\d+)", block)[1], "none") for block in blocks if "@" in block]
    if len(places) != 5 or not all(place.endswith("train.py:8:activations") for place in places):
        problems.append(f"allocated at {places}")
    devices = lines_of(dump, "tensor-device ")
    if len(devices) != 1 or "allocated=5120 " not in devices[0] or "reserved=2097152 " not in devices[0]:
        problems.append(f"totals {devices}")
    return problems


with tempfile.TemporaryDirectory() as name:
    script = Path(name) / "train.py"
    script.write_text(PROGRAM)
    environment = dict(os.environ, LD_PRELOAD=str(library), TRAINTRACE_DIR=name + "/traces", TRAINTRACE_RING_MB="1",
                       LD_LIBRARY_PATH=str(build / "simgpu"), C10=str(build / "simgpu/c10/libc10_cuda.so"))
    subprocess.run(["/usr/bin/python3", script], env=environment, check=True)
    dump = subprocess.run([build / "bin/traintrace", "dump", name + "/traces"], check=True, capture_output=True,
                          text=True).stdout
problems = check(dump)
print("\n".join(problems + [dump]) if problems else "ok")
sys.exit(1 if problems else 0)
