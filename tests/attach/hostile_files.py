"""Files that want `traintrace` to hang, to fill memory, to write elsewhere or to tell the network what is looked at.

    hostile_files.py BUILD_FOLDER
"""
import csv
import gzip
import io
import json
import os
import resource
import socket
import stat
import subprocess
import sys
import tempfile

build = os.path.abspath(sys.argv[1])
traintrace = os.path.join(build, "bin", "traintrace")
failures = []
HANGS = 60  # seconds: what takes that long waits for somebody
MOST_MIB = 2048

PROCESS = """start 1700000000.000000000
process 0 host=a pid=1000 alive=+9
fact env.RANK %s
module 0x7f3100000000-0x7f3100009000 bias=0x7f3100000000 build-id=%s path=%s
stack 1 0x7f3100002000
thread 1 tid=1000 name="=1+1\\x1b[2J\\xc2\\x9b\\xff" last=cudaMalloc last-at=+1 @1
+1.010000 0/1 > cudaMalloc bytes=20971520 on-device=0 @1
+1.010010 0/1 < cudaMalloc =cudaSuccess address=0x7f0000000000
"""


def check(holds, what, *details):
    if not holds:
        failures.append(what)
        print("WRONG:", what, *(str(detail)[-1500:] for detail in details))


def say(*arguments, **environment):
    try:
        done = subprocess.run([traintrace, *arguments], capture_output=True, timeout=HANGS, stdin=subprocess.DEVNULL,
                              env={**os.environ, **environment})
    except subprocess.TimeoutExpired:
        check(False, "hangs: " + " ".join(arguments))
        return subprocess.CompletedProcess(arguments, -1, b"", b"")
    check(done.returncode in (0, 1, 2), "ends by itself: " + " ".join(arguments), done)
    return done


def no_regular_files():
    os.mkfifo("fifo")
    os.symlink("/dev/zero", "zero")
    os.symlink("/dev/tty", "tty")
    for name in ("fifo", "zero"):
        for command in (["analyze"], ["report"], ["dump"], ["attach"], ["diff", name], ["export", "csv", "--output=-"],
                        ["import", "kineto", "--out=x"], ["import", "nccl-ras", "--out=x"], ["import", "rmm-csv", "--out=x"]):
            done = say(*command, name)
            check(done.returncode == 2 and done.stderr.startswith(b"traintrace: "), "refused", command, done)
    kind = {"fifo": "a FIFO", "zero": "a device"}
    for name, text in kind.items():
        check(f"{name}: expected a regular file, found {text}" in say("dump", name).stderr.decode(), "says what", name)


# Beside one good trace, under every name that is looked for.
def folder_of_them():
    os.mkdir("folder")
    with open("folder/good.trace", "w") as file:
        file.write(PROCESS % ("0", "00", "/nowhere"))
    for name in ("a.trace", "b.pointer", "good.threads", "good.segments", "c.json", "nccl_trace_rank_1", "d.pickle", "e.log"):
        os.mkfifo("folder/" + name)
    os.symlink("/dev/zero", "folder/z.trace")
    with open("folder/p.pointer", "w") as file:
        file.write("traintrace-pointer 1\n%s\n%s\n" % (os.path.abspath("fifo"), os.uname().nodename))
    for command in ("analyze", "report", "dump"):
        done = say(command, "folder")
        check(done.returncode in (0, 1) and done.stdout, "the good one is read", command, done)
    answer = json.loads(say("analyze", "folder", "--format=json").stdout)
    check(answer["run"]["ranks"] == [0], "whose trace is read", answer["run"])
    check(any(finding["code"].startswith("trace.") for finding in answer["findings"]), "the others are said", answer["findings"])


def profile(events, **more):
    return json.dumps({"schemaVersion": 1, "distributedInfo": {"rank": 0, "world_size": 1}, **more, "traceEvents": events})


def kernel(number, device):
    return {"ph": "X", "cat": "kernel", "name": "k", "pid": device, "tid": 7, "ts": number, "dur": 0.5,
            "args": {"device": device, "stream": 7, "correlation": number + 1}}


def launch(number):
    return {"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 1, "tid": 1, "ts": number, "dur": 0.25,
            "args": {"correlation": number + 1}}


def twenty_thousand_devices():
    events = [event for i in range(20000) for event in (launch(i), kernel(i, i))]
    models = [{"id": i, "name": "GPU", "computeMajor": 9, "computeMinor": 0} for i in range(20000)]
    with open("devices.json", "w") as file:
        file.write(profile(events, deviceProperties=models))
    for command in (["analyze"], ["report", "--by=rank"], ["report", "--by=call"], ["export", "csv", "--output=-"]):
        done = say(*command, "devices.json")
        check(done.returncode in (0, 1), "devices", command, done.stderr)
    answer = json.loads(say("analyze", "devices.json", "--format=json").stdout)
    left_out = [line for finding in answer["findings"] for line in finding["evidence"] if "are left out" in line]
    check(left_out and "at most 128 GPUs: 19872 events on others" in left_out[0], "devices: what is left out", answer)
    # As many as a large host has are all read.
    with open("host.json", "w") as file:
        file.write(profile([event for i in range(720) for event in (launch(i), kernel(i, i % 72))]))
    check(b"left out" not in say("analyze", "host.json").stdout, "72 devices are no trick")


# A megabyte that unpacks to gigabytes: as text, and as events.
def archive():
    with gzip.open("blanks.json.gz", "wb") as file:
        file.write(b'{"schemaVersion":1,"traceEvents":[')
        for _ in range(1024):
            file.write(b" " * (1 << 20))
        file.write(json.dumps(kernel(1, 0)).encode() + b"]}")
    event = json.dumps(kernel(1, 0)).encode() + b","
    with gzip.open("events.json.gz", "wb") as file:
        file.write(b'{"schemaVersion":1,"traceEvents":[' + event)
        for _ in range(400):
            file.write(event * 10000)
        file.write(json.dumps(kernel(2, 0)).encode() + b"]}")
    for name in ("blanks.json.gz", "events.json.gz"):
        check(os.path.getsize(name) < 10 << 20, "is small", name)
        done = say("report", "--by=rank", name)
        check(b"the rest is left out" in done.stderr, "archive: what is left out is said", name, done)
    # A profile as PyTorch writes it, repetitive as it is, is read whole.
    with gzip.open("real.json.gz", "wb") as file:
        file.write(profile([event for i in range(50000) for event in (launch(i), kernel(i, 0))]).encode())
    done = say("report", "--by=rank", "real.json.gz")
    check(done.returncode == 0 and done.stderr == b"", "archive: a real one", done)


def below(folder):
    return sorted(os.path.relpath(os.path.join(path, name)) for path, _, names in os.walk(folder) for name in names)


def exports():
    os.makedirs("e/f/out")
    for number, rank in enumerate(("../../x", "/tmp/hostile_files_x", "7", "7", "1e3")):
        with open(f"e/{number}.txt", "w") as file:
            text = PROCESS % (rank, "00", "/nowhere")
            file.write(text.replace("pid=1000", f"pid={1000 + number}"))
    inputs = [f"e/{number}.txt" for number in range(5)]
    before = set(below("."))
    done = say("export", "torch-snapshot", *inputs, "--output=e/f/out/s.")
    check(done.returncode == 0, "export", done)
    new = sorted(set(below(".")) - before)
    check(new == ["e/f/out/s." + name for name in ("7", "7.process3", "process0", "process1", "process4")], "names", new)
    open("e/old.csv", "w").close()
    os.chmod("e/old.csv", 0o644)
    for command in (["export", "csv", inputs[2], "--output=e/old.csv"], ["export", "perfetto", inputs[2], "--output=e/new.perfetto"],
                    ["analyze", inputs[2], "--format=html", "--output=e/new.html"]):
        check(say(*command).returncode in (0, 1), "export", command)
    os.umask(0)
    say("export", "collapsed", inputs[2], "--output=e/new.collapsed")
    for name in (*new, "e/old.csv", "e/new.perfetto", "e/new.html", "e/new.collapsed"):
        check(stat.S_IMODE(os.stat(name).st_mode) == 0o600, "rights", name, oct(os.stat(name).st_mode))
    check(say("export", "csv", inputs[2], "--output=/dev/null").returncode == 0, "to a device")
    check(stat.S_IMODE(os.stat("/dev/null").st_mode) != 0o600, "a device keeps its rights")
    with open("e/old.csv", encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    threads = {row["thread"] for row in rows}
    check(threads == {"1000 =1+1\\x1b[2J\\u009b\\xff".replace("1000", "1002")} or all("\x1b" not in name for name in threads),
          "CSV", threads)
    check(all(row["start_ns"].isdigit() for row in rows) and rows, "numbers stay numbers", rows)
    with open("e/new.html", encoding="utf-8") as file:
        file.read()


# A library without debug information, and a server that the environment names.
def network():
    notes = subprocess.run(["readelf", "-n", "/bin/true"], capture_output=True, text=True).stdout
    build_id = notes.partition("Build ID: ")[2].split()
    if not build_id:
        print("SKIPPED: network: /bin/true has no build-id")
        return
    with open("stripped.txt", "w") as file:
        file.write(PROCESS % ("0", build_id[0], os.path.realpath("/bin/true")))
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(1)
        asked = {"DEBUGINFOD_URLS": "http://127.0.0.1:%d" % server.getsockname()[1], "DEBUGINFOD_TIMEOUT": "1",
                 "DEBUGINFOD_CACHE_PATH": os.path.abspath("cache"), "DEBUGINFOD_MAXTIME": "2"}

        def connections(*arguments):
            process = subprocess.Popen([traintrace, *arguments], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                       env={**os.environ, **asked})
            count = 0
            while True:
                try:
                    server.accept()[0].close()
                    count += 1
                except socket.timeout:
                    if process.poll() is not None:
                        return count

        for command in (["analyze"], ["report", "--by=stack"], ["export", "perfetto", "--output=n"], ["dump"], ["attach"]):
            check(connections(*command, "stripped.txt") == 0, "no network unless asked", command)
        if connections("report", "--by=stack", "--debuginfod", "stripped.txt") == 0:
            print("SKIPPED: network: elfutils has no debuginfod here")


def error_lines():
    name = "x\x1b[2J\u009b\u202e\n.trace"
    done = say("dump", name)
    check(done.stderr.decode() == "traintrace: x\\x1b[2J\\u009b\\u202e\\n.trace: cannot be opened: No such file or directory\n",
          "error lines", done.stderr)


with tempfile.TemporaryDirectory(prefix="hostile_files.") as folder:
    os.chdir(folder)
    for part in (no_regular_files, folder_of_them, twenty_thousand_devices, archive, exports, network, error_lines):
        part()
    os.chdir("/")
peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss >> 10
print(f"the largest took {peak} MiB")
check(peak < MOST_MIB, "memory", peak)
print("hostile files ok" if not failures else "")
sys.exit(1 if failures else 0)
