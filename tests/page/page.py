"""Makes pages with `traintrace analyze --format=html` and looks at them in Chromium (page.mjs).

    page.py TRAINTRACE NODE_MODULES [FOLDER]     FOLDER: pages are kept there, and screenshots of them

77: node, playwright-core or Chromium is not installed.
"""
import json
import lzma
import math
import os
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "profiles"))
import made  # noqa: E402

TRAINTRACE = os.path.abspath(sys.argv[1])
MODULES = os.path.abspath(sys.argv[2])
BROWSER = next((found for found in map(shutil.which, ("chromium", "chromium-browser", "google-chrome")) if found), None)
RANKS = 1024
# Eight ranks of a real training, where it lies.
REAL_PROFILE = os.path.join(os.path.dirname(os.path.dirname(os.path.dirname(HERE))), "shared", "data", "kineto", "dlrm_v100_8rank")

STORIES = ("hang", "early-stop", "healthy", "skipped", "swapped", "cross-communicator", "dead-rank", "blocked-stream", "oom")


def hang_of_many():
    """1,024 ranks on 128 hosts, the last 64 operations of each, as a trace keeps them; rank 702 does not come to the next."""
    lines = []
    for host in range(RANKS // 8):
        lines.append(f"ranks {host * 8}-{host * 8 + 7} host=node{host:03}")
    lines.append(f"communicator dp members=0-{RANKS - 1}")
    for column in range(4):
        members = ",".join(str(rank) for rank in range(RANKS) if rank % 4 == column)
        lines.append(f"communicator tp{column} members={members}")
    others = f"0-701,703-{RANKS - 1}"
    lines.append(f"+1 0-{RANKS - 1} calls ncclAllReduce on dp x64 every=20ms @train.py:118:train_step,train.py:200:main")
    lines.append(f"+3 {others} enqueues ncclAllReduce on dp @train.py:118:train_step,train.py:200:main")
    lines.append("+3 702 polls cudaStreamQuery @data.py:41:collate,train.py:110:train_step,train.py:200:main")
    lines.append("end +60")
    return "\n".join(lines) + "\n"


DIED = """ranks 0-3
communicator dp members=0-3
+1 0-3 calls ncclAllReduce on dp x30 every=50ms @train.py:118:train_step,train.py:200:main
+2.6 0,1,3 enqueues ncclAllReduce on dp @train.py:118:train_step,train.py:200:main
+2.7 2 dies signal=11
end +40
"""

SILENT_HOST = "\n".join([f"ranks {host * 8}-{host * 8 + 7} host=node{host:02}" for host in range(4)] + ["""communicator dp members=0-31
+1 0-31 calls ncclAllReduce on dp x64 every=20ms @train.py:118:train_step,train.py:200:main
+2.5 8-15 falls-silent
+3 0-7,16-31 enqueues ncclAllReduce on dp @train.py:118:train_step,train.py:200:main
end +60
"""])

HOSTILE = r"""ranks 0-3 host="<img src=x onerror=alert(1)>"
communicator dp members=0-3 name="</script><script>alert(2)</script>"
+1 0-3 calls ncclAllReduce on dp x20 "@</script><svg onload=alert(3)>.py:7:f"
+2 0,1,3 enqueues ncclAllReduce on dp "@/job/</script><!--<script>.py:7:\u202e\x1b[2J"
+2 2 polls cudaStreamQuery "@/job/javascript:alert(4).py:8:<b>bold</b>"
end +30
"""

WEIGHTS, OPTIMIZER, ACTIVATIONS = ("train.py:9:load_weights,train.py:20:main", "train.py:10:make_optimizer,train.py:20:main",
                                   "train.py:8:alloc,train.py:11:activations,train.py:20:main")


def out_of_memory():
    """Rank 1 of 2 needs 16 MiB more with each step until 4 GiB are full."""
    lines = ["ranks 0", "ranks 1", "communicator dp members=0-1"]
    blocks = [(64, 0.5 + i / 100, 1, WEIGHTS) for i in range(8)] + [(128, 0.7 + i / 100, 2, OPTIMIZER) for i in range(8)]
    blocks += [(16 + 16 * i, 2 + i / 10, 3, ACTIVATIONS) for i in range(17)]
    address = 0x7f0000000000
    held = []
    for mebibytes, time, number, stack in blocks:
        lines.append(f"allocation {address:#x} bytes={mebibytes << 20} at=+{time:.2f} device=1 call=cudaMalloc @{number}={stack.replace(' ', ',')}")
        held.append(f"held 1 {address:#x} bytes={mebibytes << 20} call=cudaMalloc device=1 @{number}")
        address += (mebibytes << 20) + (4 << 20)
    free = (4096 - sum(block[0] for block in blocks)) << 20
    lines.append(f"out-of-memory 1 at=+4.5 call=cudaMalloc bytes={320 << 20} result=2 device=1 free={free} total={4 << 30} asked=+4.4 @3")
    lines += held
    lines.append("+2 0-1 calls ncclAllReduce on dp x20 every=100ms @train.py:15:train,train.py:20:main")
    lines.append(f"+4.5 1 calls cudaMalloc bytes={320 << 20} =cudaErrorMemoryAllocation @{ACTIVATIONS}")
    lines += ["+4.6 0 enqueues ncclAllReduce on dp @train.py:15:train,train.py:20:main",
              "+5 1 calls cudaStreamQuery @train.py:12:retry,train.py:20:main", "end +30"]
    return "\n".join(lines) + "\n"


def scalar(time, rank, value, line):
    return f"+{time:.3f} {rank}/1 * scalarRead bytes=4 value={struct.unpack('<I', struct.pack('<f', value))[0]:#x} @train.py:{line}:step,train.py:90:main"


def of_numbers():
    """Three ranks fetch a loss of their own, NaN on rank 1 from value 61 to the end, and a norm that is the same on all, with a spike."""
    lines = ["ranks 0-2", "fact setting.TRAINTRACE_PAYLOAD scalars", "communicator dp members=0-2"]
    for step in range(80):
        lines += [scalar(1 + step, rank, math.nan if rank == 1 and step >= 60 else 4 / (1 + step) + 0.1 * rank, 20) for rank in range(3)]
    for step in range(5000):
        norm = 50.0 if step == 3209 else 1 + math.sin(step / 50) / 10
        lines += [scalar(1 + step / 100, rank, norm, 30) for rank in range(3)]
    return "\n".join(lines) + "\nend +90\n"


def numbers_of_many():
    """1,024 ranks with losses of their own; that of rank 700 goes up."""
    lines = [f"ranks 0-{RANKS - 1}", "fact setting.TRAINTRACE_PAYLOAD scalars", f"communicator dp members=0-{RANKS - 1}"]
    for step in range(40):
        lines += [scalar(1 + step, rank, 4 / (1 + step) + rank / 1e5 + (step if rank == 700 else 0), 20) for rank in range(RANKS)]
    return "\n".join(lines) + "\nend +60\n"


def profiles(folder, slow=True):
    """Four ranks, of which the host of rank 2 is slow."""
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    together = []
    for number in range(4):
        rank = made.Rank(number, 4)
        for step in range(8):
            began = rank.now
            for _ in range(30):
                rank.launch(25.0)
                rank.host(40.0 + (60.0 if slow and number == 2 else 0.0))
            rank.launch(150.0, "ncclDevKernel_AllReduce_Sum_f32_RING_LL", stream=13)
            rank.block(stream=13)
            rank.step(step, began)
        together.append(rank)
    for rank in together:
        rank.write(folder)
    return folder


def scenario(name, folder):
    with open(os.path.join(os.path.dirname(HERE), "scenarios", name + ".txt"), encoding="utf-8") as file:
        return write(os.path.join(folder, name + ".txt"), re.split(r"^---$", file.read(), maxsplit=1, flags=re.M)[0])


def generated(seed, ranks, folder):
    """The traces of a job of tests/generator as one text."""
    job = os.path.join(folder, f"generated-{seed}")
    subprocess.run([sys.executable, os.path.join(os.path.dirname(HERE), "generator", "generate.py"), "--seed", str(seed), "--form", "text", "--fault", "any",
                    "--ranks", str(ranks), job], check=True, stdout=subprocess.DEVNULL)
    return os.path.join(job, "traces", "job.txt")


def make(name, given, folder, **expected):
    page = os.path.join(folder, name + ".html")
    began = time.monotonic()
    done = subprocess.run([TRAINTRACE, "analyze", given, "--format=html", "-o", page], cwd=folder, stderr=subprocess.PIPE, check=False)
    assert done.returncode in (0, 1) and os.path.exists(page), (name, done)
    found = json.loads(subprocess.run([TRAINTRACE, "analyze", given, "--format=json"], cwd=folder, stdout=subprocess.PIPE, check=False).stdout)
    size = os.path.getsize(page)
    print(f"{name}: {size / 1024:.0f} KiB, {time.monotonic() - began:.2f} s", flush=True)
    assert size < 1_000_000, f"{name}: {size} bytes"
    leading = next((f for f in found["findings"] if f["title"] in found["verdict"]), found["findings"][0])
    return {"name": name, "page": page, "code": leading["code"], "culprits": leading["culprits"], "ranks": len(found["run"]["ranks"]), **expected}


def sheet(name, command, folder, says, plain, bars=""):
    page = os.path.join(folder, name + ".html")
    done = subprocess.run([TRAINTRACE, *command, "--format=html", "-o", page], cwd=folder, stderr=subprocess.PIPE, check=False)
    assert done.returncode == 0, (name, done)
    assert os.path.getsize(page) < 1_000_000, name
    return {"name": name, "page": page, "says": says, "plain": plain, "bars": bars}


def sheets(folder):
    profiled, hang = os.path.join(folder, "slow"), os.path.join(folder, "hang.txt")
    faster = profiles(os.path.join(folder, "fast"), slow=False)
    return [
        lambda: sheet("report-rank", ["report", "--by=rank", profiled], folder, r"Report by rank: 4 rows", r"window_ns", "#steps"),
        lambda: sheet("report-unknown", ["report", "--by=rank", os.path.join(folder, "died.txt")], folder, r"Report by rank: 4 rows", r"rank"),
        lambda: sheet("report-kernel", ["report", "--by=kernel", profiled], folder, r"Most GPU time: ", r"gpu_ns"),
        lambda: sheet("report-call", ["report", "--by=call", hang], folder, r"Most time on the host: \w+, ", r"host_ns", "#bars"),
        lambda: sheet("report-stack", ["report", "--by=stack", hang], folder, r"Report by stack: \d+ rows", r"host_ns", "#bars"),
        lambda: sheet("diff-time", ["diff", faster, profiled], folder, r"A step takes .* instead of .*A.*fast.*B.*slow|[Rr]ank 2", r"verdict: .*\nA: .*fast\nB: .*slow", "#time"),
        lambda: sheet("diff-calls", ["diff", os.path.join(folder, "healthy.txt"), hang], folder, r"A.*healthy\.txt.*B.*hang\.txt", r"verdict: ", "#collectives"),
    ]


def write(path, text):
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    return path


def story_text(story):
    with lzma.open(os.path.join(HERE, "stories", story + ".txt.xz"), "rt") as file:
        return file.read()


def all_pages(folder):
    """What makes each page, those first that take longest."""
    def page(name, text, **expected):
        return lambda: make(name, write(os.path.join(folder, name + ".txt"), text()), folder, **expected)
    return [
        page("many", hang_of_many, grid=RANKS),
        *[lambda seed=seed, ranks=ranks: make(f"generated-{seed}", generated(seed, ranks, folder), folder, screen="waits") for seed, ranks in ((10, 256), (21, 64), (5, 64))],
        page("many-numbers", numbers_of_many, screen="numbers", about="numbers"),
        lambda: make("slow", profiles(os.path.join(folder, "slow")), folder, screen="steps", about="steps"),
        *([lambda: make("real-profile", REAL_PROFILE, folder, screen="steps", about="steps")] if os.path.isdir(REAL_PROFILE) else []),
        *[page(story, lambda story=story: story_text(story)) for story in STORIES],
        page("died", lambda: DIED, crashed=True),
        page("silent-host", lambda: SILENT_HOST, screen="waits"),
        page("hostile", lambda: HOSTILE),
        page("memory", out_of_memory, screen="memory"),
        page("numbers", of_numbers, screen="numbers", about="numbers"),
        *[lambda name=name: make(name, scenario(name, folder), folder, screen="waits") for name in ("p2p_cycle", "p2p_cycle_of_two_rings", "p2p_wrong_peer")],
        # What the headline is about is framed: a call long before the end, a message by its number, what has no number.
        *[lambda name=name, framed=framed: make(name, scenario(name, folder), folder, framed=framed) for name, framed in (
            ("late_rank", [f"{rank}: ncclAllReduce #21" for rank in range(4)]),
            ("alltoall_mismatch", ["1: ncclRecv from rank 2 #1", "2: ncclSend to rank 1 #1"]),
            ("p2p_count_mismatch_then_agrees", ["0: ncclSend to rank 1 #2", "1: ncclRecv from rank 0 #2"]),
            ("dead_rank_ahead_with_messages", ["0: ncclRecv from rank 1 #7", "1: ncclRecv from rank 2 #7", "2: ncclSend to rank 1 #7"]),
            ("end_incomplete", [f"{rank}: ncclCommFinalize #0" for rank in (0, 1, 3)]),
            ("skipped_call_long_ago", []))],
        *[lambda name=name: make(name, scenario(name, folder), folder) for name in ("killed_and_told", "root_mismatch_then_stall", "blocked_stream_marks_young", "numeric_rank_apart_near_miss")],
        *[lambda name=name, of=of: make(name, scenario(of, folder), folder, screen="memory", about="memory")
          for name, of in (("leak", "memory_growth"), ("fragmentation", "memory_oom_fragmentation"))],
    ]


def main():
    if not (BROWSER and shutil.which("node") and os.path.isdir(os.path.join(MODULES, "playwright-core"))):
        print("not installed: node, Chromium, or playwright-core (npm ci in analyzer/page/web)")
        sys.exit(77)
    with tempfile.TemporaryDirectory() as scratch:
        folder = os.path.abspath(sys.argv[3]) if len(sys.argv) > 3 else scratch
        os.makedirs(folder, exist_ok=True)
        began = time.monotonic()
        with ThreadPoolExecutor(min(4, os.cpu_count())) as pool:
            pages = list(pool.map(lambda one: one(), all_pages(folder)))
            shown = list(pool.map(lambda one: one(), sheets(folder)))
        print(f"{len(pages) + len(shown)} pages made in {time.monotonic() - began:.1f} s", flush=True)
        write(os.path.join(folder, "pages.json"), json.dumps({"browser": BROWSER, "pages": pages, "sheets": shown}))
        began = time.monotonic()
        # Below the modules, so that node finds them.
        done = subprocess.run(["node", os.path.join(HERE, "page.mjs"), folder, MODULES, *(["keep"] if len(sys.argv) > 3 else [])], check=False)
        print(f"looked at in {time.monotonic() - began:.1f} s", flush=True)
        sys.exit(done.returncode)


main()
