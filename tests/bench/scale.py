"""How long it takes to judge large jobs: dumps of Flight Recorder, native traces.   scale.py BUILD

Traces are made in a temporary folder (0.2 GB).  Best of three, with the files in the page cache; memory is the largest resident set.
"""
import os
import resource
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "flight"))
import generate


def judged(traintrace, folder):
    best, verdict = None, ""
    for _ in range(3):
        before = time.monotonic()
        done = subprocess.run([traintrace, "analyze", folder], capture_output=True, text=True, check=False)
        taken = time.monotonic() - before
        best = taken if best is None else min(best, taken)
        verdict = done.stdout.splitlines()[0] if done.stdout else done.stderr
    return best, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024, verdict


def main():
    build = sys.argv[1]
    traintrace = os.path.join(build, "bin", "traintrace")
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        native = os.path.join(folder, "native")
        subprocess.run([os.path.join(build, "bench", "peers", "many_ranks"), native], check=True)
        rows.append(("1,024 native traces of 100,000 collectives, one left out", *judged(traintrace, native)))
        dumps = os.path.join(folder, "dumps")
        generate.write(dumps, generate.options_of([dumps, "--ranks=512", "--records=1000", "--fault=missing", "--culprit=300"]))
        rows.append(("512 dumps of Flight Recorder of 1,000 records", *judged(traintrace, dumps)))
    print(f"| judged, on {os.cpu_count()} cores | s | MiB, the largest so far |\n|---|---|---|")
    for what, seconds, mebibytes, verdict in rows:
        print(f"| {what} | {seconds:.2f} | {mebibytes:.0f} |")
        print(f"    {verdict}", file=sys.stderr)


if __name__ == "__main__":
    main()
