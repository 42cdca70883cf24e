"""two_million.py BUILD: two million reports of PyTorch's allocator in full mode, with a ring that is far too small.

None is missing, and after each of them the sum of what was seen is what the allocator said.  Prints what the analyzer's memory
was at its peak, by report and by live block."""
import json
import os
import subprocess
import sys
import tempfile

build = sys.argv[1]


def analyze(traces):
    with tempfile.TemporaryFile() as output:
        analyzer = subprocess.Popen([f"{build}/bin/traintrace", "analyze", traces, "--format=json"], stdout=output)
        usage = os.wait4(analyzer.pid, 0)[2]
        output.seek(0)
        return json.load(output), usage.ru_maxrss * 1024


def count_reports(traces):
    with subprocess.Popen([f"{build}/bin/traintrace", "dump", traces, "--call=reportMemoryUsageToProfiler"],
                          stdout=subprocess.PIPE) as dump:
        return sum(b" * reportMemoryUsageToProfiler " in line for line in dump.stdout)


def main():
    with tempfile.TemporaryDirectory(prefix="memory.") as folder:
        environment = dict(os.environ, LD_PRELOAD=f"{build}/lib/libtraintrace.so", TRAINTRACE_DIR=f"{folder}/traces", TRAINTRACE_MODE="full",
                           TRAINTRACE_RING_MB="4", SIMGPU_DEVICES="1", SIMGPU_NODE=folder)
        done = subprocess.run([f"{build}/tests/tensor_cases", "tensors-two-million", "_exit"], env=environment, check=True,
                              stdout=subprocess.PIPE, text=True)
        printed = {key: int(value) for key, value in (line.split() for line in done.stdout.splitlines())}
        report, peak = analyze(f"{folder}/traces")
        seen = count_reports(f"{folder}/traces")
    problems = [finding["title"] for finding in report["findings"] if finding["code"] == "memory.unaccounted" or finding["severity"] != "info"]
    problems += [f"{loss['count']} {loss['stat']}" for loss in report["losses"]]
    if seen != printed["reports"]:
        problems.append(f"{seen} reports of {printed['reports']}")
    print(f"analyzer: {peak >> 20} MiB, {peak / printed['reports']:.0f} bytes per report, {peak / printed['live']:.0f} per live block at the peak")
    print("\n".join(problems) or f"ok: {seen} reports, {printed['live']} blocks live at the peak")
    return 1 if problems else 0


sys.exit(main())
