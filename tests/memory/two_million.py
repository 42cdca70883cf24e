"""two_million.py BUILD: two million reports of PyTorch's allocator in full mode, with a ring that is far too small.

None is missing unless the machine is so busy that the writer falls behind, which is told; and after each of them the sum of what was seen is what the allocator said.  Those that the analyzer leaves in
their file come back in the order of all, from several threads too.  None is missing either where the tracer's own thread,
which makes tables larger, gets no processor.  What the analyzer needs goes with the blocks that are live, not with what was
reported: at most 200 bytes each, beyond what it needs for a program with a single one and, once, for reading reports that were
left in their file.  The time for many live blocks, while
ever more is missed, is printed: it goes with their number, not with its square."""
import json
import os
import subprocess
import sys
import tempfile

build = sys.argv[1]
MOST_PER_BLOCK = 200
MOST_FOR_READING = 2 << 20


def record(case, folder):
    environment = dict(os.environ, LD_PRELOAD=f"{build}/lib/libtraintrace.so", TRAINTRACE_DIR=f"{folder}/{case}", TRAINTRACE_MODE="full",
                       TRAINTRACE_RING_MB="4", SIMGPU_DEVICES="1", SIMGPU_NODE=folder)
    done = subprocess.run([f"{build}/tests/tensor_cases", case, "_exit"], env=environment, check=True, stdout=subprocess.PIPE, text=True)
    return {key: int(value) for key, value in (line.split() for line in done.stdout.splitlines())}


def analyze(traces):
    """The report; the most memory in bytes; the processor's time in seconds."""
    with tempfile.TemporaryFile() as output:
        analyzer = subprocess.Popen([f"{build}/bin/traintrace", "analyze", traces, "--format=json"], stdout=output)
        usage = os.wait4(analyzer.pid, 0)[2]
        output.seek(0)
        return json.load(output), usage.ru_maxrss * 1024, usage.ru_utime


def count_reports(traces):
    with subprocess.Popen([f"{build}/bin/traintrace", "dump", traces, "--call=reportMemoryUsageToProfiler"],
                          stdout=subprocess.PIPE) as dump:
        return sum(b" * reportMemoryUsageToProfiler " in line for line in dump.stdout)


def problems_of_order(traces, fewest):
    done = subprocess.run([f"{build}/tests/memory_stored", traces], stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        return [f"{traces}: reports that were left in their file: {done.stdout}"]
    lost = lost_to_the_writer(analyze(traces)[0])
    return [] if int(done.stdout) + lost >= fewest else [f"{traces}: only {done.stdout.strip()} were left in their file, {lost} were lost"]


def say_times(folder):
    for case in ("tensors-pieces-50k", "tensors-pieces-200k"):
        record(case, folder)
        print(f"{case}: analyzed in {analyze(f'{folder}/{case}')[2]:.2f} s")


def lost_to_the_writer(report):
    """Records that the job overwrote before they were written."""
    return sum(loss["count"] for loss in report["losses"] if loss["stat"] == "ring-overwritten")


def main():
    problems = []
    with tempfile.TemporaryDirectory(prefix="memory.") as folder:
        record("tensors-reported", folder)
        few = analyze(f"{folder}/tensors-reported")[1]
        record("tensors-threads", folder)
        problems += problems_of_order(f"{folder}/tensors-threads", 100_000)
        printed = record("tensors-two-million", folder)
        problems += problems_of_order(f"{folder}/tensors-two-million", 1_500_000)
        report, peak, _ = analyze(f"{folder}/tensors-two-million")
        seen = count_reports(f"{folder}/tensors-two-million")
        large = record("tensors-two-million-large", folder)
        large_peak = analyze(f"{folder}/tensors-two-million-large")[1]
        record("tensors-faster-than-own-thread", folder)
        starved_report = analyze(f"{folder}/tensors-faster-than-own-thread")[0]
        say_times(folder)
    lost = lost_to_the_writer(report)
    problems += [finding["title"] for finding in report["findings"]
                 if finding["severity"] != "info" or (finding["code"] == "memory.unaccounted" and not lost)]
    for each in (report, starved_report):
        problems += [f"{loss['count']} {loss['stat']}" for loss in each["losses"] if each is starved_report or loss["stat"] != "ring-overwritten"]
    if not seen <= printed["reports"] <= seen + lost or lost > printed["reports"] // 10:
        problems.append(f"{seen} reports of {printed['reports']}, and {lost} records told as overwritten")
    print(f"analyzer, with one block: {few >> 10} KiB")
    for live, bytes_used in ((printed["live"], peak), (large["live"], large_peak)):
        each = max(0, bytes_used - few - MOST_FOR_READING) / live
        print(f"{live} blocks live: {bytes_used >> 10} KiB, {bytes_used / live:.0f} bytes each, {each:.0f} beyond that with one")
        if each > MOST_PER_BLOCK:
            problems.append(f"{each:.0f} bytes for each of {live} live blocks")
    print("\n".join(problems) or f"ok: {seen} reports, {lost} records overwritten")
    return 1 if problems else 0


sys.exit(main())
