"""What docs/nvtx.md shows is so: its program is built and run, its commands print what stands below them.

  nvtx_page.py LIBRARY PROJECT BUILD"""
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

project, build = Path(sys.argv[2]), Path(sys.argv[3]).absolute()
page = (project / "docs/nvtx.md").read_text()


def blocks(language):
    return re.findall(rf"^```{language}\n(.*?)^```$", page, re.M | re.S)


def commands():
    """Pairs of a command and what it prints."""
    for block in blocks("console"):
        for part in re.split(r"^\$ ", block, flags=re.M)[1:]:
            command, _, printed = part.partition("\n")
            yield command, printed


def renumbered(text):
    """Ids of ranges by their first appearance: they depend on a hash."""
    seen = {}
    return re.sub(r"range=(\d+)", lambda found: f"range={seen.setdefault(found[1], len(seen) + 1)}", text)


def cuda_include():
    cache = (build / "CMakeCache.txt").read_text()
    return re.search(r"^TT_CUDA_INCLUDE:\w+=(.*)$", cache, re.M)[1]


def main():
    simgpu = build / "simgpu"
    with tempfile.TemporaryDirectory() as folder:
        (program,) = blocks("cpp")
        (Path(folder) / "program.cc").write_text(program)
        subprocess.run(["g++", "program.cc", "-o", "program", "-I", cuda_include(), simgpu / "libcudart.so.13", "-ldl",
                        f"-Wl,-rpath,{simgpu}"], cwd=folder, check=True)
        environment = dict(os.environ, PATH=f"{build / 'bin'}:{os.environ['PATH']}", LD_LIBRARY_PATH=str(simgpu))
        environment.pop("LD_PRELOAD", None)
        failures = 0
        for command, expected in commands():
            done = subprocess.run(["bash", "-c", command], cwd=folder, env=environment, capture_output=True, text=True)
            if renumbered(done.stdout) != renumbered(expected):
                print(f"$ {command}\n{done.stdout}{done.stderr}instead of\n{expected}")
                failures += 1
    return failures


sys.exit(1 if main() else 0)
