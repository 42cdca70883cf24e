"""Programs that do what is unusual but allowed: each gives the same output, status and files with the tracer as without it.

  unharmed.py LIBRARY PROGRAM TRAINTRACE [CASE..]"""
import concurrent.futures
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "storage"))
import storage  # noqa: E402  pylint: disable=wrong-import-position

LANES = 6
TOO_LONG = 15  # seconds more than three times what it takes without us; what hangs, hangs for ever
CASES = """fork-storm fork-chain fork-while-busy spawn-while-busy exit-in-a-thread call-at-exit first-call-at-exit exec-itself load-and-unload
load-while-busy setuid-first setuid-later closed-standard-files closed-standard-files-later opens-a-file close-all-files no-descriptors
no-descriptors-later no-processes no-processes-later empty-root empty-root-later removed-folder removed-folder-default wait-for-anybody subreaper
subreaper-later ignores-children waits-for-signals counts-signals kills-its-group daemonizes locks-memory locks-little in-real-time without-environment aborts
calls-at-end-of-threads calls-when-it-forks calls-in-threads-of-timers cancels-at-any-instruction
faults handles-faults small-handler-stacks ends-by-system-call processes-that-share-memory many-threads closes-what-it-inherits
descriptors-3 descriptors-4 descriptors-5 descriptors-15 descriptors-16
main-thread-leaves main-thread-leaves-first main-thread-leaves-in-a-child main-thread-leaves-without-keeper
addresses-1000 addresses-4000 addresses-40000 data-500 data-8000
filter-kills-first filter-kills-later filter-allows-little-later filter-kills-a-copying-thread-later
filter-denies-polling""".split()
# What is said there is why nothing is recorded.
SAYS_SO = {"no-descriptors", "no-processes", "descriptors-3", "descriptors-4", "descriptors-5", "descriptors-15", "addresses-1000", "addresses-4000", "data-500", "filter-kills-first",
           "locks-little"}
# Where the trace lies.
MUST_SAY = {"empty-root"}
# Nobody copies it any more: the next keeper does.
LEAVES_MEMORY = {"filter-kills-a-copying-thread-later"}


class Run:
    """One case: what it did, as far as anybody can see."""

    def __init__(self, case, library):
        with storage.empty_folder() as folder:
            for path, mode in ((folder, 0o755), (folder / "files", 0o755), (folder / "trace", 0o777)):
                path.mkdir(exist_ok=True)
                path.chmod(mode)
            self.folder = folder
            # Its own runtime, not the simulated one, which has files.
            settings = {"LD_PRELOAD": library, "LD_LIBRARY_PATH": "", "TRAINTRACE_RING_MB": "many" if case == "opens-a-file" else "8"}
            trace = None if case.endswith("-default") else folder / "trace"
            begun = time.monotonic()
            job = subprocess.Popen([storage.JOB, case, folder / "files"], env=storage.environment(trace, **settings), stdin=subprocess.DEVNULL,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True, cwd=folder,
                                   preexec_fn=(lambda: os.close(2)) if case == "opens-a-file" else None)
            try:
                output, errors = job.communicate(timeout=4 * storage.LONG)
            except subprocess.TimeoutExpired:
                os.killpg(job.pid, signal.SIGKILL)
                output, errors = "it hangs", ""
                job.communicate()
            self.took = time.monotonic() - begun
            if case == "daemonizes":
                storage.until(lambda: (folder / "files" / "done").exists())
            files = {path.name: path.read_text(errors="replace") for path in (folder / "files").iterdir() if path.is_file()}
            lines = errors.splitlines(True)
            ours = [line for line in lines if line.startswith("traintrace: " if case in MUST_SAY else "traintrace: not recording: ")]
            self.seen = (job.returncode, output, [line for line in lines if line not in ours], files)
            self.said = len(ours)
            self.unread = self.unreadable(folder / "trace")
            self.recorded = bool(storage.traces(folder / "trace"))
            self.left = not storage.until(lambda: not self.memories(), 1 if case in LEAVES_MEMORY else storage.LONG)
            if case in LEAVES_MEMORY:
                for path in self.memories():
                    path.unlink(missing_ok=True)
            for path in Path("/tmp").glob(f"traintrace-{os.geteuid()}/*.{job.pid}.*"):
                path.unlink()

    def unreadable(self, trace):
        if not storage.until(lambda: not list(trace.glob("*.new")), 2) or not storage.traces(trace):
            return ""
        status, text = storage.dump(trace)
        return text[:500] if status else ""

    def memories(self):
        """Those that wait to be copied."""
        return [path for path in storage.SHM.glob("traintrace-*/*.trace") if getattr(storage.Header(path), "folder", "").startswith(str(self.folder))]


def judge(case):
    plain, traced = Run(case, ""), Run(case, storage.LIBRARY)
    problems = []
    if traced.seen != plain.seen:
        problems.append(f"{traced.seen}, without us {plain.seen}")
    if traced.said > (case in SAYS_SO | MUST_SAY):
        problems.append("not recorded")
    if case in MUST_SAY and not traced.said:
        problems.append("nothing is said")
    if case.split("-")[0] in ("descriptors", "addresses", "data") and traced.said + traced.recorded != 1:
        problems.append(f"recorded {traced.recorded}, said {traced.said}")
    if traced.took > 3 * plain.took + TOO_LONG:
        problems.append(f"{traced.took:.1f} s, without us {plain.took:.1f} s")
    if traced.unread:
        problems.append(f"dump: {traced.unread}")
    if traced.left and case not in LEAVES_MEMORY:
        problems.append("its memory stays")
    print(f"{'WRONG' if problems else 'right'} {case}: {plain.took:.2f} s, {traced.took:.2f} s {' '.join(problems)}", flush=True)
    return not problems


if __name__ == "__main__":
    with concurrent.futures.ThreadPoolExecutor(LANES) as pool:
        sys.exit(0 if all(list(pool.map(judge, sys.argv[4:] or CASES))) else 1)
