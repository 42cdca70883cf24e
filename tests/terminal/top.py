"""`traintrace top` over made-up ranks that run: as JSON, on a terminal, over 1,024 of them.

    top.py TRAINTRACE LIVE_RANKS [--update]
"""
import fcntl
import json
import os
import pty
import re
import resource
import select
import signal
import struct
import subprocess
import sys
import tempfile
import termios
import time
from contextlib import contextmanager

HERE = os.path.dirname(os.path.abspath(__file__))
TRAINTRACE, LIVE_RANKS = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
UPDATE = "--update" in sys.argv
CONTROL = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


@contextmanager
def job(folder, ranks, slow=-1, stuck=-1):
    with subprocess.Popen([LIVE_RANKS, folder, str(ranks), str(slow), str(stuck)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "ready\n"
        try:
            yield folder
        finally:
            process.stdin.close()


def top(*arguments):
    interval = [] if any(word.startswith("--interval") for word in arguments) else ["--interval=300ms"]
    return subprocess.run([TRAINTRACE, "top", *interval, *arguments], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)


def be_shell(arguments):
    """What a shell does: the program in the foreground of the terminal; one that stops goes on after it has been told."""
    signal.signal(signal.SIGTTOU, signal.SIG_IGN)
    program = os.fork()
    if program == 0:
        os.setpgid(0, 0)
        os.tcsetpgrp(0, os.getpid())
        signal.signal(signal.SIGTTOU, signal.SIG_DFL)
        os.execv(TRAINTRACE, [TRAINTRACE, "top", *arguments])
    while True:
        _, status = os.waitpid(program, os.WUNTRACED)
        if not os.WIFSTOPPED(status):
            os._exit(os.waitstatus_to_exitcode(status))
        os.tcsetpgrp(0, os.getpgid(0))
        lines = termios.tcgetattr(0)[3]
        os.write(1, f"STOPPED {bool(lines & termios.ICANON)} {bool(lines & termios.ECHO)}\n".encode())
        os.tcsetpgrp(0, program)
        os.kill(program, signal.SIGCONT)


class Terminal:
    """The program on a terminal of its own, in its foreground, so that Ctrl-C is a signal."""

    def __init__(self, *arguments, columns=120, lines=24):
        self.pid, self.ours = pty.fork()
        if self.pid == 0:
            os.environ.update(TERM="xterm", LC_ALL="C.UTF-8")
            os.environ.pop("NO_COLOR", None)
            fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
            be_shell(arguments)
        self.before = termios.tcgetattr(self.ours)  # it has only begun to load
        self.output = ""

    def read_until(self, *wanted, seconds=20):
        """Everything since the last call, once each of these has come."""
        began, end = len(self.output), time.monotonic() + seconds
        while time.monotonic() < end:
            if select.select([self.ours], [], [], 0.05)[0]:
                try:
                    more = os.read(self.ours, 1 << 16)
                except OSError:
                    more = b""
                if not more:
                    break
                self.output += more.decode(errors="replace")
            text = CONTROL.sub("", self.output[began:])
            if wanted and all(word in text for word in wanted):
                return text
        text = CONTROL.sub("", self.output[began:])
        assert all(word in text for word in wanted), f"not {wanted} in\n{text}"
        return text

    def press(self, keys):
        os.write(self.ours, keys.encode())

    def resize(self, columns, lines):
        fcntl.ioctl(self.ours, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))

    def end(self):
        """Its status and what it left of the terminal's settings."""
        self.read_until(seconds=10)
        settings = termios.tcgetattr(self.ours)
        _, status, self.used = os.wait4(self.pid, 0)
        os.close(self.ours)
        return os.waitstatus_to_exitcode(status), settings


def masked(document):
    """Without what differs each time: times, counts, names."""
    def mask(value, name):
        if isinstance(value, dict):
            return {key: mask(inner, key) for key, inner in value.items()}
        if name in ("steps_ns",):
            return "STEPS" if value else []
        if isinstance(value, list):
            return [mask(inner, name) for inner in value]
        return name.upper() if name in ("time_ns", "started_ns", "since_ns", "step", "step_ns", "median_step_ns", "lag_ns", "run", "pid",
                                        "last_count") or name == "sequence" and value != 40 else value
    return mask(document, "")


def compare(name, document):
    path = os.path.join(HERE, "expected", name + ".json")
    text = json.dumps(masked(document), indent=1) + "\n"
    if UPDATE:
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        return
    with open(path, encoding="utf-8") as file:
        expected = file.read()
    assert text == expected, f"{name}: printed\n{text}\nand not\n{expected}\nIf that was meant: top.py .. --update"


def check_json(folder):
    with job(os.path.join(folder, "slow"), 4, slow=2) as traces:
        found = json.loads(top(traces, "--once", "--format=json").stdout)
        compare("top_slow", found)
        slow = found["ranks"][2]
        assert found["slowest"]["ranks"] == [2] and "furthest_behind" not in found, found
        assert 20e6 < slow["lag_ns"] < 60e6 and slow["last_count"] == slow["of_count"] == 10, slow
        assert abs(found["median_step_ns"] - 100e6) < 1e6, found["median_step_ns"]
        text = top(traces, "--once")
        assert "slowest now: rank 2 +" in text.stdout and "\x1b" not in text.stdout, text
    with job(os.path.join(folder, "healthy"), 4) as traces:
        found = json.loads(top(traces, "--once", "--format=json").stdout)
        assert [row["ranks"] for row in found["rows"]] == [[0, 1, 2, 3]] and not any(rank["slow"] for rank in found["ranks"]), found
        assert "slowest" not in top(traces, "--once").stdout
    with job(os.path.join(folder, "stuck"), 4, stuck=1) as traces:
        found = json.loads(top(traces, "--once", "--format=json").stdout)
        compare("top_stuck", found)
        assert [row["ranks"] for row in found["rows"]] in ([[1], [0, 2, 3]], [[0, 2, 3], [1]]), found["rows"]
        blocked = sum(rank["state"] == "blocked" for rank in found["ranks"])
        text = top(traces, "--once").stdout
        assert found["ranks"][1]["behind_count"] == 1 and all(found["ranks"][rank].get("behind_count", 0) == 0 for rank in (0, 2, 3)), found["ranks"]
        assert "1 behind" in text and "furthest behind: rank 1 (1 collective)" in text, text
        assert found["furthest_behind"] == {"ranks": [1], "behind_count": 1} and "slowest" not in found, found
        assert blocked and f"traintrace analyze {traces} says whom they wait for" in text, text
        narrow = Terminal(traces, "--once", columns=100)
        narrow.read_until("says whom they wait for")
        narrow.end()
        assert re.search(r"polls \S+ for \d", narrow.output), narrow.output  # for how long is not cut off
    # The process is gone, and its traces are not written any more.
    found = json.loads(top(traces, "--once", "--format=json", "--interval=10ms").stdout)
    assert found["states"]["moving"] == 0, found["states"]


def check_refused(folder):
    for arguments, words in (((folder,), "top --once"), (("--format=json",), "--once"), (("--once", os.path.join(folder, "nothing")), "nothing"),
                             (("--once", "--interval=x"), "--interval")):
        done = top(*arguments)
        assert done.returncode == 2 and words in done.stderr and done.stdout == "", done
    done = subprocess.run([TRAINTRACE, "top", "--once"], cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 2 and "traintrace run -- PROGRAM" in done.stderr, done


def check_terminal(folder):
    with job(os.path.join(folder, "screen"), 16, slow=9) as traces:
        terminal = Terminal(traces, "--interval=200ms")
        text = terminal.read_until("16 moving", "slowest now: rank 9", "0-8,10-15", "[q]uit", "▃")
        assert "2 hosts, 16 ranks" in text, text
        assert "\x1b[?1049h" in terminal.output
        terminal.press("s")
        terminal.read_until("[s]ort: memory")
        terminal.press("\r")
        terminal.read_until("no stack of the job's code")
        terminal.press("m")
        terminal.read_until("it holds no device memory")
        terminal.resize(60, 8)
        terminal.read_until(seconds=0.6)
        began = len(terminal.output)
        terminal.read_until(seconds=1)
        frames = terminal.output[began:].split("\x1b[H")[1:-1]
        assert frames, terminal.output[began:]
        for frame in frames:  # fits, and never scrolls
            lines = [CONTROL.sub("", line) for line in re.split(r"\r*\n", frame)]
            assert len(lines) <= 8 and all(len(line) <= 60 for line in lines), lines
        terminal.press("h")
        terminal.read_until("[Enter] back", seconds=60)
        terminal.press("\n")
        terminal.read_until("16 moving")
        terminal.press("q")
        status, settings = terminal.end()
        assert status == 0 and settings == terminal.before, (status, settings, terminal.before)
        assert terminal.output.rstrip().endswith("\x1b[?25h\x1b[?1049l"), repr(terminal.output[-80:])

        terminal = Terminal(traces, "--interval=200ms")
        terminal.read_until("16 moving")
        terminal.press("\x1a")  # Ctrl-Z: the shell gets its terminal as it was
        terminal.read_until("STOPPED True True", "16 moving")
        assert "\x1b[?1049lSTOPPED" in terminal.output, terminal.output[-2000:]
        terminal.press("\x03")  # Ctrl-C
        status, settings = terminal.end()
        assert status == 0 and settings == terminal.before and terminal.output.rstrip().endswith("\x1b[?1049l"), (status, terminal.output[-80:])


def check_few_files(folder):
    """Each trace stays open: of a process that may open few files as many as it can ask for; what is not shown is told."""
    def look(traces, soft, hard):
        done = subprocess.run([TRAINTRACE, "top", "--interval=50ms", "--once", "--format=json", traces], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              check=True, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard)))
        document = json.loads(done.stdout)
        return len(document["ranks"]), document["unreadable"]

    with job(os.path.join(folder, "few"), 48) as traces:
        assert look(traces, 40, 1000) == (48, []), look(traces, 40, 1000)
        shown, unreadable = look(traces, 40, 40)
        assert 0 < shown < 48 and shown + len(unreadable) == 48, (shown, unreadable)
        assert all("Too many open files" in each["message"] and each["file"].startswith(traces) for each in unreadable), unreadable
        with open(os.path.join(traces, os.listdir(traces)[0]), "rb") as whole:
            head = whole.read(3000)
        with open(os.path.join(traces, "damaged.0.1.1.trace"), "wb") as damaged:
            damaged.write(head)
        done = top("--once", traces)
        assert "48 ranks" in done.stdout and " 1 trace cannot be read: " in done.stdout and "damaged.0.1.1.trace: " in done.stdout, done.stdout


def check_many(folder):
    """What a refresh costs; prints it, and asserts nothing on time."""
    looks = 10
    with job(os.path.join(folder, "many"), 1024, slow=702) as traces:
        def spent(count):
            terminal = Terminal(traces, "--interval=50ms", f"--looks={count}", columns=160, lines=40)
            # On a busy machine the only look may take so long that nobody is compared in it.
            slowest = ["slowest now: rank 702"] if count > 1 else []
            terminal.read_until("1,024 ranks", "128 hosts", *slowest, seconds=60)
            status, _ = terminal.end()
            assert status == 0
            return terminal.used.ru_utime + terminal.used.ru_stime
        once = spent(1)
        each = (spent(1 + looks) - once) / looks
        print(f"1,024 ranks: {1000 * once:.0f} ms to begin, {1000 * each:.1f} ms of a core for each refresh: {100 * each:.1f} % at one a second")


def main():
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(4096, resource.getrlimit(resource.RLIMIT_NOFILE)[1]), resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
    with tempfile.TemporaryDirectory() as folder:
        check_json(folder)
        check_refused(folder)
        check_terminal(folder)
        check_few_files(folder)
        check_many(folder)


main()
