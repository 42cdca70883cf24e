"""hosts.py BUILD: the same recording of three ranks, its last two once more as if they came from a host whose clock is wrong by a known offset
and drift, which their headers are made to say.  What is found must be what was found before."""
import json
import os
import shutil
import struct
import subprocess
import sys
import tempfile

build = sys.argv[1]
STEPS = 60
ATTEMPTS = 12
MONOTONIC = 2  # such ticks are ns and cannot drift
ANCHOR = struct.Struct("<3Q")  # ticks, monotonic, realtime


def record(folder, case):
    os.makedirs(f"{folder}/shared")
    environment = dict(os.environ, SIMGPU_KERNEL_US="forward_*=400,backward_*=1000,update_*=1000", SIMGPU_DEVICES="3", SIMGPU_NCCL_US="2000",
                       TRAINTRACE_GPU_TIMELINE="cupti", TRAINTRACE_RING_MB="8", TRAINTRACE_DIR=f"{folder}/traces", SIMGPU_NODE=folder, WORKLOAD_DIR=f"{folder}/shared",
                       LD_PRELOAD=f"{build}/lib/libtraintrace.so", WORLD_SIZE="3")
    running = [subprocess.Popen([f"{build}/tests/latency_cases", case, str(STEPS)], stdout=subprocess.DEVNULL,
                                env=dict(environment, RANK=str(rank), LOCAL_RANK=str(rank))) for rank in range(3)]
    assert [each.wait(120) for each in running] == [0] * 3
    return f"{folder}/traces"


def report(folder, *arguments):
    done = subprocess.run([f"{build}/bin/traintrace", *arguments, folder, "--format=json"], capture_output=True, text=True, timeout=120,
                          check=False)
    return json.loads(done.stdout)


def rank_of(path):
    return report(path, "report", "--by=rank")["rows"][0]["rank"]


def move(path, offset_ns, drift_ppm):
    """False: this file's clock cannot drift."""
    with open(path, "r+b") as file:
        head = file.read(4096)
        host = head.index(os.uname().nodename.encode() + b"\0")
        clock, newest = struct.unpack_from("<2I", head, host + 64)
        if drift_ppm and clock == MONOTONIC:
            return False
        first, last = host + 72, host + 72 + ANCHOR.size * (1 + newest)
        _, first_monotonic, _ = ANCHOR.unpack_from(head, first)
        ticks, monotonic, realtime = ANCHOR.unpack_from(head, last)
        grown = (monotonic - first_monotonic) * drift_ppm // 1_000_000
        file.seek(last)
        file.write(ANCHOR.pack(ticks, monotonic + grown, realtime + grown + offset_ns))
        boottime = host + 192 + 8 * (1 + newest)  # anchor_boottime_ns
        file.seek(boottime)
        file.write(struct.pack("<Q", struct.unpack_from("<Q", head, boottime)[0] + grown))
        file.seek(host - 24)
        file.write(b"another machine.")  # its boot_id: by that alone two names may be one machine
        file.seek(host)
        file.write(b"other".ljust(64, b"\0"))
    return True


def moved(traces, folder, offset_ns, drift_ppm=0):
    """What is found with ranks 1 and 2 on another host; None: drift is not to be had here."""
    os.mkdir(folder)
    try:
        for name in os.listdir(traces):
            if rank_of(f"{traces}/{name}") == 0:
                os.link(f"{traces}/{name}", f"{folder}/{name}")
            else:
                shutil.copy(f"{traces}/{name}", folder)
                if not move(f"{folder}/{name}", offset_ns, drift_ppm):
                    return None
        return found_in(folder)
    finally:
        shutil.rmtree(folder)


def found_in(folder):
    return {finding["code"]: finding for finding in report(folder, "analyze")["findings"]}


def check_straggler(here, there, offset_ns, drift_ppm):
    assert there is None or "latency.straggler" in there, there
    if there is None:
        print(f"no drift of {drift_ppm} ppm: ticks are ns on this machine")
        return
    before, after = here["latency.straggler"], there["latency.straggler"]
    assert after["culprits"] == before["culprits"] == [1]
    late, still = before["values"]["late_ns"], after["values"]["late_ns"]
    assert abs(still - late) < 0.05 * late, (late, still)
    gain, gain_still = before["values"]["gain_ns"], after["values"]["gain_ns"]
    assert abs(gain_still - gain) < 0.05 * gain, (gain, gain_still)
    line = next(each for each in after["evidence"] if each.startswith("the clock of other was"))
    ahead, drift = float(line.split()[5]), float(line.split("drifted by ")[1].split()[0])
    # The offset is that at the first collective, the header's that at the last anchor.
    assert abs(ahead - offset_ns / 1e6) < 1.0 and abs(drift - drift_ppm) < 20, line
    assert not any(each.startswith("the clock of other") for each in before["evidence"])


def check_late(traces, folder):
    here = found_in(traces)
    if "latency.straggler" not in here or here["latency.straggler"]["culprits"] != [1]:
        return False
    values = here["latency.straggler"]["values"]
    assert abs(values["gain_ns"] - values["late_ns"]) < 0.1 * values["late_ns"], values  # the others only wait for it
    for number, (offset_ns, drift_ppm) in enumerate([(12_345_000, 0), (-70_000_000, 0), (1_000_000_000, 80), (5_000_000, -80)]):
        check_straggler(here, moved(traces, f"{folder}/late{number}", offset_ns, drift_ppm), offset_ns, drift_ppm)
    wild = moved(traces, f"{folder}/wild", 12_345_000, 900)
    if wild is not None:
        assert "latency.straggler" not in wild and "latency.wait-not-transfer" not in wild, sorted(wild)
        assert any("clocks cannot be brought together" in each for each in wild["trace.incomplete-timeline"]["evidence"]), wild
    return True


def check_healthy(traces, folder):
    def blamed(found):
        return sorted(code for code, finding in found.items() if code.startswith("latency.") and finding["severity"] != "info")

    if blamed(found_in(traces)):
        return False
    for number, offset_ns in enumerate((12_345_000, -70_000_000)):
        there = moved(traces, f"{folder}/healthy{number}", offset_ns)
        assert not blamed(there) and "trace.incomplete-timeline" not in there, sorted(there)
    return True


def main():
    for case, check in (("late", check_late), ("in-time", check_healthy)):
        for _ in range(ATTEMPTS):
            with tempfile.TemporaryDirectory(prefix="hosts.") as folder:
                if check(record(folder, case), folder):
                    break
        else:
            print(f"SKIPPED: others used this machine, {case} was never recorded as it should be")
            return 77
    print("as expected")
    return 0


sys.exit(main())
