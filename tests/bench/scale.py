"""How the cost of a verdict grows with the number of ranks.   scale.py BUILD [--native=64,512,..] [--flight=64,512,..] [--fault=stuck]

Jobs with tensor, pipeline and data parallelism (parallel_job.cc), 10,000 collectives per rank, and dumps of Flight Recorder of 2,000
records each; one rank of each goes wrong.  They are made in a temporary folder, one after the other (16,384 ranks: 1.9 GB; 4,096
dumps: 1.7 GB), and are in the page cache.  The better of two; memory is the largest resident set of all processes of `analyze`.
"""
import argparse
import os
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "flight"))
import generate


class Cost:
    """Of one `analyze`, children included."""

    def __init__(self, traintrace, folder):
        before = time.monotonic()
        read, write = os.pipe()
        pid = os.fork()
        if pid == 0:
            os.dup2(write, 1)
            os.close(read)
            os.execv(traintrace, [traintrace, "analyze", folder])
        os.close(write)
        with os.fdopen(read, encoding="utf-8") as out:
            lines = out.read().splitlines()
        _, _, usage = os.wait4(pid, 0)
        self.seconds = time.monotonic() - before
        self.processor = usage.ru_utime + usage.ru_stime
        self.mebibytes = usage.ru_maxrss / 1024
        self.verdict = next((line for line in lines if line.startswith("verdict: ")), lines[0] if lines else "none")


def row(what, ranks, traintrace, folder):
    best = min((Cost(traintrace, folder) for _ in range(2)), key=lambda cost: cost.processor)
    print(f"| {what} | {ranks:,} | {best.seconds:.2f} | {best.processor:.2f} | {1000 * best.processor / ranks:.2f} | {best.mebibytes:.0f} | "
          f"{1024 * best.mebibytes / ranks:.0f} |", flush=True)
    print(f"    {best.verdict[:200]}", file=sys.stderr, flush=True)


def numbers(text):
    return [int(word) for word in text.split(",") if word]


def main():
    options = argparse.ArgumentParser()
    options.add_argument("build")
    options.add_argument("--native", type=numbers, default=[64, 512, 4096, 16384])
    options.add_argument("--flight", type=numbers, default=[64, 512, 4096])
    options.add_argument("--fault", default="stuck")
    options = options.parse_args()
    traintrace = os.path.join(options.build, "bin", "traintrace")
    print(f"| judged, on {os.cpu_count()} cores | ranks | s | CPU s | CPU ms per rank | MiB | KiB per rank |\n|---|---|---|---|---|---|---|")
    for ranks in options.native:
        with tempfile.TemporaryDirectory() as folder:
            subprocess.run([os.path.join(options.build, "bench", "peers", "parallel_job"), folder, f"--ranks={ranks}",
                            f"--fault={options.fault}"], check=True)
            row("native, 10,000 collectives", ranks, traintrace, folder)
    for ranks in options.flight:
        with tempfile.TemporaryDirectory() as folder:
            generate.write(folder, generate.options_of([folder, f"--ranks={ranks}", "--records=2000", "--fault=missing", f"--culprit={ranks // 2}"]))
            row("Flight Recorder, 2,000 records", ranks, traintrace, folder)


if __name__ == "__main__":
    main()
