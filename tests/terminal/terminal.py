"""Runs traintrace on a terminal of its own and compares what it prints with expected/*.txt.

    terminal.py TRAINTRACE [--update]
"""
import fcntl
import json
import os
import pty
import re
import struct
import subprocess
import sys
import tempfile
import termios

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "profiles"))
import made  # noqa: E402

TRAINTRACE = os.path.abspath(sys.argv[1])
UPDATE = "--update" in sys.argv

PROGRAM = """import nccl

def train_step(batch):
    loss = forward(batch)
    exchange_gradients()

def hard_examples(stream):
    while nccl.cudaStreamQuery(stream) == nccl.cudaErrorNotReady:
        pass

def train():
    for batch in batches():
        train_step(batch)
"""
# 4 GiB, of which 3.75 are held and 0.25 are free.
HELD = """ranks 0-1
communicator dp members=0-1
allocation 0x7f0000000000 bytes=2147483648 at=+1 device=1 call=cudaMalloc @1=train.py:4:train_step,train.py:13:train
allocation 0x7f8000000000 bytes=1879048192 at=+2 device=1 call=cudaMalloc @2=train.py:5:train_step,train.py:13:train
out-of-memory 1 at=+4.5 call=cudaMalloc bytes=335544320 result=2 device=1 free=268435456 total=4294967296 asked=+4.4 @1
held 1 0x7f0000000000 bytes=2147483648 call=cudaMalloc device=1 @1
held 1 0x7f8000000000 bytes=1879048192 call=cudaMalloc device=1 @2
+2 0-1 calls ncclAllReduce on dp x20 every=100ms @train.py:5:train_step,train.py:13:train
+4.5 1 calls cudaMalloc bytes=335544320 =cudaErrorMemoryAllocation @train.py:4:train_step,train.py:13:train
+4.6 0 enqueues ncclAllReduce on dp @train.py:5:train_step
end +30
"""
# All allocate by one helper, which says nothing; what was free nobody asked.
HELPER = """ranks 0
ranks 1
fact gpu-1-memory 4294967296
communicator dp members=0-1
allocation 0x7f0000000000 bytes=2147483648 at=+1 device=1 call=cudaMalloc @1=train.py:4:train_step,train.py:11:train
allocation 0x7f8000000000 bytes=1879048192 at=+2 device=1 call=cudaMalloc @2=train.py:4:train_step,train.py:12:train.<locals>.<listcomp>,train.py:12:train
out-of-memory 1 at=+4.5 call=cudaMalloc bytes=335544320 result=2 device=1 @2
held 1 0x7f0000000000 bytes=2147483648 call=cudaMalloc device=1 @1
held 1 0x7f8000000000 bytes=1879048192 call=cudaMalloc device=1 @2
+2 0-1 calls ncclAllReduce on dp x20 every=100ms @train.py:5:train_step,train.py:13:train
+4.5 1 calls cudaMalloc bytes=335544320 =cudaErrorMemoryAllocation "@train.py:4:train_step,train.py:12:train.<locals>.<listcomp>,train.py:12:train"
+4.6 0 enqueues ncclAllReduce on dp @train.py:5:train_step
end +30
"""
# One line with two callers, of which one keeps what it gets.
LEAK = "\n".join(
    ["start 1700000000.000000000", "process 0 rank=0 world=1 local=0 host=a pid=1000 armed=+0.5 exit=exit status=0 exited=+4", "thread 1 tid=1000",
     "stack 1 train.py:4:train_step train.py:12:train", "stack 2 train.py:4:train_step train.py:13:train"]
    + [f"""+{1 + step / 20:.6f} 0/1 > cudaLaunchKernel @1 on-device=0
+{1.00001 + step / 20:.6f} 0/1 < cudaLaunchKernel =cudaSuccess
+{1.001 + step / 20:.6f} 0/1 > cudaMalloc bytes=2097152 on-device=0 @1
+{1.00101 + step / 20:.6f} 0/1 < cudaMalloc =cudaSuccess address=0x7f1000000000
+{1.002 + step / 20:.6f} 0/1 > cudaMalloc bytes=1048576 on-device=0 @2
+{1.00201 + step / 20:.6f} 0/1 < cudaMalloc =cudaSuccess address=0x{0x7f2000000000 + (step << 21):x}
+{1.003 + step / 20:.6f} 0/1 > cudaFree address=0x7f1000000000 on-device=0
+{1.00301 + step / 20:.6f} 0/1 < cudaFree =cudaSuccess""" for step in range(30)]
    + ["end +4", ""])
HANG = """ranks 0-3
communicator dp members=0-3
+1 0-3 calls ncclAllReduce on dp x39 @train.py:5:train_step,train.py:13:train
+2 0,1,3 enqueues ncclAllReduce on dp @train.py:5:train_step,train.py:13:train
+2 2 polls cudaStreamQuery @/usr/lib/python3/dist-packages/torch/cuda/streams.py:9:query,train.py:8:hard_examples,train.py:13:train
end +30
"""
OUT_OF_MEMORY = """ranks 0-3
communicator dp members=0-3
+1 0-3 calls ncclAllReduce on dp x100 every=50ms @train.py:5:train_step,train.py:13:train
+10 2 calls cudaMalloc bytes=335544320 =cudaErrorMemoryAllocation @train.py:4:train_step,train.py:13:train
+10.1 2 calls cudaFree address=0x7000 @train.py:5:train_step
+10 0,1,3 enqueues ncclAllReduce on dp @train.py:5:train_step
+10.1 0,1,3 enters cudaStreamSynchronize @train.py:5:train_step
end +40
"""
# A wrong count in one of four groups; the stages after it wait in receives of their own pairs, two lines each.
FURTHER = """ranks 0-7
communicator tp_0 members=0-3
communicator pp_0 members=0,4
communicator pp_1 members=1,5
communicator pp_2 members=2,6
communicator pp_3 members=3,7
+1 0-3 calls ncclAllReduce on tp_0 x20 @train.py:5:train_step,train.py:13:train
+2 0,2,3 enqueues ncclBroadcast on tp_0 count=4097 root=0 @train.py:4:train_step,train.py:13:train
+2 1 enqueues ncclBroadcast on tp_0 count=8194 root=0 @train.py:4:train_step,train.py:13:train
+2.1 0-3 enters cudaStreamSynchronize @train.py:5:train_step,train.py:13:train
+2 4 enqueues ncclRecv on pp_0 peer=0 @train.py:12:train
+2 5 enqueues ncclRecv on pp_1 peer=0 @train.py:12:train
+2 6 enqueues ncclRecv on pp_2 peer=0 @train.py:12:train
+2 7 enqueues ncclRecv on pp_3 peer=0 @train.py:12:train
end +60
"""
# The culprit's thread was sampled elsewhere than where it made its last call.
SAMPLED = """ranks 0-3 running=yes
communicator dp members=0-3
+1 0-3 calls ncclAllReduce on dp x39 @train.py:5:train_step,train.py:13:train
+2.9 0,1,3 enqueues ncclAllReduce on dp @train.py:5:train_step,train.py:13:train
+3 0,1,3 enters cudaStreamSynchronize @train.py:12:train
+40 0,1,3 stands waits=cuda on=cudaStreamSynchronize steady @train.py:12:train
+40 2 stands waits=gil steady ran @train.py:8:hard_examples,train.py:13:train
+40 2 stands role=worker name=python3 waits=lock steady holds-gil @train.py:4:train_step
end +40
"""
# What holds the GPU up was put on its stream before, by another call than the last.
CALLBACK = """ranks 0,1,3
ranks 2
host-function 0x7f3100001200 call=cudaLaunchHostFunc stream=1 position=20 device=2 enqueued=+1.9 entered=+2 @train.py:8:hard_examples
communicator dp members=0-3
+1 0-3 calls ncclAllReduce on dp x20 @train.py:5:train_step
+2 0-3 enqueues ncclAllReduce on dp @train.py:5:train_step
+2.1 0-3 enters cudaStreamSynchronize @train.py:12:train
end +40
"""
HEALTHY = "ranks 0-1\ncommunicator dp members=0-1\n+1 0-1 calls ncclAllReduce on dp x20\n+2 0-1 exits\n"
# Names that would move the cursor, or look like another line of ours.
HOSTILE = """ranks 0-3
communicator dp members=0-3 name="d\\x1b[2Jp"
+1 0-3 calls ncclAllReduce on dp x39 "@train.py:5:tr\\x1b[31main\\nHEALTHY"
+2 0,1,3 enqueues ncclAllReduce on dp "@train.py:5:tr\\x1b[31main\\nHEALTHY"
+2 2 polls cudaStreamQuery "@/job/<script>.py:8:hard\\x9b2J"
end +30
"""


def on_terminal(arguments, columns, **environment):
    """What it writes to a terminal that is as wide."""
    ours, its = pty.openpty()
    fcntl.ioctl(its, termios.TIOCSWINSZ, struct.pack("HHHH", 50, columns, 0, 0))
    clean = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "NO_COLOR")}
    with subprocess.Popen([TRAINTRACE, *arguments], stdin=subprocess.DEVNULL, stdout=its, env={**clean, "TERM": "xterm", **environment}):
        os.close(its)
        output = b""
        while True:
            try:
                more = os.read(ours, 1 << 16)
            except OSError:  # the other side is closed
                more = b""
            if not more:
                break
            output += more
    os.close(ours)
    return output.decode().replace("\r\n", "\n")


def compare(name, text):
    path = os.path.join(HERE, "expected", name + ".txt")
    if UPDATE:
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        return
    with open(path, encoding="utf-8") as file:
        expected = file.read()
    assert text == expected, f"{name}: printed\n{text}\nand not\n{expected}\nIf that was meant: terminal.py TRAINTRACE --update"


def write(name, text):
    with open(name, "w", encoding="utf-8") as file:
        file.write(text)
    os.utime(name, (1.6e9, 1.6e9))  # before the runs, which are of 1.7e9


def slow_profiles(folder):
    """Two ranks whose host needs four times as long as the GPU for each kernel."""
    os.makedirs(folder)
    for number in range(2):
        rank = made.Rank(number, 2)
        for step in range(6):
            began = rank.now
            for _ in range(40):
                rank.launch(20.0)
                rank.host(80.0 + 40.0 * number)
            rank.launch(100.0, "ncclDevKernel_AllReduce_Sum_f32_RING_LL", stream=13)
            rank.block(stream=13)
            rank.step(step, began)
        rank.write(folder)


def check_hang():
    write("hang.txt", HANG)
    for columns in (100, 60):
        text = on_terminal(["analyze", "hang.txt"], columns, NO_COLOR="1")
        assert all(len(line) <= columns or "traintrace analyze" in line for line in text.splitlines()), text
        compare(f"hang_{columns}", text)
    piped = subprocess.run([TRAINTRACE, "analyze", "hang.txt"], stdout=subprocess.PIPE, text=True, check=False).stdout
    compare("hang_piped", piped)
    found = json.loads(subprocess.run([TRAINTRACE, "analyze", "hang.txt", "--format=json"], stdout=subprocess.PIPE, check=False).stdout)
    first = found["findings"][0]
    assert f"verdict: {found['verdict']}\n" in piped
    assert f"\nerror {first['code']} proof culprits=2 victims=0,1,3: {first['title']}\n" in piped
    without_clock = re.sub(r" \(\d\d:\d\d:\d\d\.\d{3} UTC\)", "", piped)
    assert without_clock != piped and all(f"\n    {line}\n" in without_clock for line in first["evidence"]), piped


def check_source():
    """A line is shown only of the file that ran."""
    shown = "> 8 |     while nccl.cudaStreamQuery"
    assert shown in on_terminal(["analyze", "hang.txt"], 100)
    os.utime("train.py", (1.8e9, 1.8e9))
    assert shown not in on_terminal(["analyze", "hang.txt"], 100), "the file is younger than the run"
    os.rename("train.py", "secret")
    os.symlink("secret", "train.py")
    assert shown not in on_terminal(["analyze", "hang.txt"], 100), "a link was followed"
    os.remove("train.py")
    write("other.txt", HANG.replace("train.py", "secret"))
    assert "import nccl" not in on_terminal(["analyze", "other.txt"], 100), "no program's source"


def check_colours():
    plain = on_terminal(["analyze", "hang.txt"], 100, NO_COLOR="1")
    coloured = on_terminal(["analyze", "hang.txt"], 100)
    assert "\x1b[1;31mHANG\x1b[0m" in coloured and "\x1b" not in plain
    link = re.compile(r"\x1b\]8;;(.*?)\x1b\\")
    places = [url for url in link.findall(coloured) if url]
    assert places and all(re.fullmatch(r"file://[^/]+/.*/train\.py#\d+", url) for url in places), places
    assert re.sub(r"\x1b\[[0-9;]*m", "", link.sub("", coloured)) == plain
    assert "\x1b]8" not in on_terminal(["analyze", "hang.txt"], 100, TERM="linux")
    piped = [TRAINTRACE, "analyze", "hang.txt"]
    for when, has in (("always", True), ("never", False), ("auto", False)):
        text = subprocess.run([*piped, f"--color={when}"], stdout=subprocess.PIPE, text=True, check=False).stdout
        assert ("\x1b[" in text) == has and "\x1b]8" not in text, when
    assert "\x1b" not in on_terminal(["analyze", "hang.txt", "--color=never"], 100)


def check_strangers():
    """A process that has nothing to do with GPUs, and files that have nothing to do with jobs."""
    with subprocess.Popen(["sleep", "1000"]) as stranger:
        try:
            done = subprocess.run([TRAINTRACE, "attach", str(stranger.pid), "--interval=100ms"], capture_output=True, text=True, check=False)
        finally:
            stranger.kill()
    assert f"process {stranger.pid} (sleep) uses neither CUDA nor NCCL" in done.stdout and "LD_PRELOAD" not in done.stdout, done
    os.mkdir("others")
    for name in "abc":
        write(f"others/{name}.json", '{"a": 1}')
    done = subprocess.run([TRAINTRACE, "analyze", "others"], capture_output=True, text=True, check=False)
    assert done.returncode == 2 and done.stderr.count("\n") == 1 and "no kind that traintrace reads, nor are the other 2 files" in done.stderr, done


def check_shapes():
    """A profile may be the bare list of its events, and begin with a byte order mark; so may text."""
    def title(path):
        found = json.loads(subprocess.run([TRAINTRACE, "analyze", path, "--format=json"], stdout=subprocess.PIPE, check=False).stdout)
        return found["findings"][0]["title"]
    whole = os.path.join("profiles", "rank1.pt.trace.json")
    with open(whole, encoding="utf-8") as file:
        document = json.load(file)
    os.mkdir("shapes")
    for name, content in (("bare", document["traceEvents"]), ("marked", document), ("both", document["traceEvents"])):
        path = os.path.join("shapes", f"{name}_rank1.json")
        with open(path, "w", encoding="utf-8" if name == "bare" else "utf-8-sig") as file:
            json.dump(content, file)
        assert title(path) == title(whole), name
    with open("marked.txt", "w", encoding="utf-8-sig") as file:
        file.write(HANG)
    assert title("marked.txt") == title("hang.txt")
    write("strange.txt", "root:x:0:0\n")
    refused = subprocess.run([TRAINTRACE, "analyze", "strange.txt"], capture_output=True, text=True, check=False)
    assert refused.returncode == 2 and "neither a trace nor the text of `traintrace dump`" in refused.stderr, refused


def check_series():
    """What leaps up, or stays what it is, is seen in the first columns: of numbers their course, of checks NaN and norms."""
    def records(step):
        loss, norm = (9.0 if step == 70 else 1 + 1 / (1 + step)), (2.0 / (1 + step) if step < 30 else 0.5)
        return "".join(f"+{1 + step / 10:.1f} 0/1 * scalarRead bytes=4 value=0x{struct.pack('>f', value).hex()} @{'deep/' * 8}train.py:{line}:log,train.py:13:train\n"
                       for line, value in ((6, loss), (7, norm)))
    write("series.txt", "ranks 0\nfact setting.TRAINTRACE_PAYLOAD scalars\n" + "".join(records(step) for step in range(100)) + "end +20\n")
    for columns in (80, 100, 160):
        table = on_terminal(["report", "--by=scalar", "series.txt"], columns, NO_COLOR="1").splitlines()
        assert all(len(line) <= columns for line in table) and table[0].split()[:3] == ["place", "rank", "curve"], table
        (course,), (flat,) = ([cell for cell in line.split() if re.fullmatch("[_.=^-]{40}", cell)] for line in table[1:3])
        assert course[28] == "^" and set(course[5:28] + course[29:]) == {"_"}, course
        assert flat[0] == "^" and len(set(flat[12:])) == 1, flat
    with_nan = os.path.join(os.path.dirname(HERE), "scenarios", "numeric_checks_first_nonfinite.txt")
    heading = on_terminal(["report", "--by=check", with_nan], 120, NO_COLOR="1").splitlines()[0]
    assert heading.split() == "place operation rank side nan last norm".split(), heading


def check_reports():
    """For people on a terminal, exact in a pipe."""
    for name, arguments in (("report_rank", ["--by=rank", "profiles"]), ("report_cause", ["--by=cause", "profiles"]), ("report_kernel", ["--by=kernel", "profiles"]),
                            ("report_call", ["--by=call", "oom.txt"]),
                            ("report_stack", ["--by=stack", "oom.txt"])):
        text = on_terminal(["report", *arguments], 100, NO_COLOR="1")
        assert all(len(line) <= 100 for line in text.splitlines()), text
        compare(name, text)
    for columns in (100, 80):
        table = on_terminal(["report", "--by=call", "further.txt"], columns, NO_COLOR="1").splitlines()
        assert len(table) > 2 and all(len(line) <= columns for line in table), table
    for by, says in (("rank", "of 4 rows no figure is known"), ("range", "nothing of this kind was recorded")):
        assert on_terminal(["report", f"--by={by}", "hang.txt"], 100).splitlines()[-1] == says, "no table without figures"
    narrow = on_terminal(["report", "--by=rank", "profiles"], 50, NO_COLOR="1").splitlines()
    assert narrow[0].startswith("rank  window") and all(len(line) <= 50 for line in narrow), "the bar and the last columns give way"
    piped = [TRAINTRACE, "report", "--by=rank", "profiles"]
    whole = subprocess.run(piped, stdout=subprocess.PIPE, text=True, check=True).stdout
    assert "exposed_communication_ns" in whole and "gemm_flops" in whole and " ms" not in whole, whole
    chosen = subprocess.run([*piped, "--columns=rank,idle_ns", "--format=csv"], stdout=subprocess.PIPE, text=True, check=True).stdout
    assert chosen.startswith("rank,idle_ns\n0,") and chosen.count(",") == 3, chosen
    wrong = subprocess.run([*piped, "--columns=idle"], capture_output=True, text=True, check=False)
    assert wrong.returncode == 2 and "there is no column idle; there are rank," in wrong.stderr and wrong.stdout == "", wrong
    assert "gemm flops" in on_terminal(["report", "--by=rank", "profiles", "--columns=all"], 300)
    rank = made.Rank(0, 1)
    for functor in ("Add", "Mul"):
        rank.launch(25.0, f"void at::native::(anonymous namespace)::vectorized<4, at::native::{functor}<float>, at::detail::Array<char*, 3> >(int, at::native::{functor}<float>, at::detail::Array<char*, 3>)")
    rank.step(0, 0.0)
    os.makedirs("templates", exist_ok=True)
    rank.write("templates")
    kernels = on_terminal(["report", "--by=kernel", "templates"], 110, NO_COLOR="1")
    assert all(f"vectorized<4, {functor}<float>, Array<char*, 3> >  " in kernels for functor in ("Add", "Mul")), kernels
    notes = subprocess.run([TRAINTRACE, "report", "--by=rank", "further.txt"], capture_output=True, text=True, check=True).stderr
    assert [line for line in notes.splitlines() if "how much memory" in line] == [
        "traintrace: how much memory ranks 0-7 had at most is not known: it was not recorded by traintrace"], notes
    written = subprocess.run([*piped, "-o", "report.out"], stdout=subprocess.PIPE, text=True, check=True).stdout
    with open("report.out", encoding="utf-8") as file:
        assert file.read() == whole and written == ""


def check_diff():
    """Of a healthy run and a hang the first difference named is that of the rank at fault, not of those that wait for it."""
    write("calm.txt", HANG.split("+2 ")[0].replace("x39", "x60") + "end +30\n")
    text = subprocess.run([TRAINTRACE, "diff", "calm.txt", "hang.txt"], stdout=subprocess.PIPE, text=True, check=False).stdout
    first = "rank 2 on communicator dp (4 ranks): the same calls until B ends, after #39; A goes on to #60"
    narrow = on_terminal(["diff", "calm.txt", "hang.txt"], 80)
    assert all(len(line) <= 80 for line in narrow.splitlines()) and " ".join(narrow.split()) == " ".join(text.replace("1024 float32 (4096 bytes)", "1,024 float32 (4 KiB)").split()), narrow
    assert text.startswith(f"verdict: {first}\nA: calm.txt\nB: hang.txt\n\n{first}\n") and "ranks 0,1,3 on communicator dp (4 ranks): the same calls until B ends, after #40" in text, text


def check_overview():
    """The first command of the overview records: ld.so ignores a library without its path."""
    text = subprocess.run([TRAINTRACE, "help"], stdout=subprocess.PIPE, text=True, check=True).stdout
    assert re.search("traintrace run -- .*record", text) and "LD_PRELOAD=lib" not in text, text


def check_hostile():
    write("hostile.txt", HOSTILE)
    for text in (on_terminal(["analyze", "hostile.txt"], 80, NO_COLOR="1"),
                 subprocess.run([TRAINTRACE, "analyze", "hostile.txt"], stdout=subprocess.PIPE, text=True, check=False).stdout):
        assert "hard" in text, text
        assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f]", text), repr(text)
        assert not any(line.startswith("HEALTHY") for line in text.splitlines()), text


def main():
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        write("train.py", PROGRAM)
        check_hang()
        for name, text in (("oom", OUT_OF_MEMORY), ("held", HELD), ("helper", HELPER), ("leak", LEAK), ("further", FURTHER),
                           ("sampled", SAMPLED), ("callback", CALLBACK), ("healthy", HEALTHY)):
            write(name + ".txt", text)
            compare(name, on_terminal(["analyze", name + ".txt"], 100, NO_COLOR="1"))
        slow_profiles("profiles")
        compare("slow", on_terminal(["analyze", "profiles"], 100, NO_COLOR="1"))
        check_reports()
        check_shapes()
        check_series()
        check_diff()
        check_overview()
        check_strangers()
        check_colours()
        check_hostile()
        check_source()


main()
