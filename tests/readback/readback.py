"""readback.py STORY TRAINTRACE PROGRAM: a recorded program's calls, as dumped, are those that it printed."""
import collections
import csv
import decimal
import io
import os
import re
import subprocess
import sys
import tempfile
import time

LINE = re.compile(r"([+-][0-9.]+) (\S+)/(\d+) ([<>]) (\S+)(.*)")
KEY = re.compile(r"(\S+?)=(\S+)")


def check(condition, message):
    if not condition:
        sys.exit(f"readback: {message}")


def run(*command):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False)
    check(done.returncode == 0, f"{' '.join(command)} ended with {done.returncode}: {done.stderr[-2000:]}")
    return done.stdout


def recorded(traintrace, program, *arguments):
    """What it printed, and the lines of its dump."""
    with tempfile.TemporaryDirectory() as folder:
        printed = run(traintrace, "run", f"--out={folder}/traces", "--stacks=off", "--", program, *arguments)
        # On a busy machine the process may be gone before its memory is copied.
        end = time.monotonic() + 20
        while len(os.listdir(f"{folder}/traces")) != 1 and time.monotonic() < end:
            time.sleep(0.05)
        check(len(os.listdir(f"{folder}/traces")) == 1, "not one trace")
        return printed.splitlines(), run(traintrace, "dump", f"{folder}/traces").splitlines()


def check_threads(traintrace, program):
    threads, calls = 8, 100_000 // 8
    _, dump = recorded(traintrace, program, "threads", str(threads), str(calls))
    check(not [line for line in dump if line.startswith(("loss", "error"))], "records were lost")
    sizes = collections.defaultdict(list)
    returns = collections.Counter()
    for match in filter(None, map(LINE.match, dump)):
        thread, way, call, rest = match.group(3, 4, 5, 6)
        if call == "cudaMemset" and way == ">":
            keys = dict(KEY.findall(rest))
            sizes[thread, int(keys["value"], 0)].append(int(keys["bytes"]))
        elif call == "cudaMemset":
            returns[thread, rest.strip()] += 1
    check(len(sizes) == threads, f"calls of {len(sizes)} threads")
    for (thread, value), found in sizes.items():
        check(found == [i % 256 for i in range(calls)], f"thread {thread}, value {value}: other calls than it made")
        check(returns[thread, "=cudaSuccess"] == calls, f"thread {thread}: {returns} returned")


def check_collectives(traintrace, program):
    steps = 400
    printed, dump = recorded(traintrace, program, "collectives", str(steps))
    ranks = {}
    found = collections.defaultdict(list)
    for line in dump:
        if line.startswith("communicator "):
            keys = dict(KEY.findall(line))
            ranks[line.split()[1]] = keys["rank"]
            check(keys["collectives"] == str(steps), f"{line}: not {steps} collectives")
            check(keys["origin"] == "init-all" and keys["size"] == "3", line)
        match = LINE.match(line)
        if match and match[4] == ">" and "comm=" in line and "seq=" in line:
            keys = dict(KEY.findall(match[6]))
            found[ranks[keys["comm"]]].append(
                (int(keys["seq"]), match[5], keys["count"], keys["type"], keys.get("op", "-"),
                 keys.get("root", "-1"), keys["stream"]))
    expected = collections.defaultdict(list)
    for line in printed:
        _, rank, *call = line.split()
        expected[rank].append((len(expected[rank]) + 1, *call))
    check(found == expected, f"recorded {dict(found)}\nprinted {dict(expected)}")


def check_table(traintrace, program):
    """`export csv` has a row for each call of the dump, in the same order, with the same values."""
    with tempfile.TemporaryDirectory() as folder:
        run(traintrace, "run", f"--out={folder}/traces", "--", program, "collectives", "20")
        dump = run(traintrace, "dump", f"{folder}/traces").splitlines()
        table = csv.DictReader(io.StringIO(run(traintrace, "export", "csv", f"{folder}/traces", "--output=-")))
        rows = list(table)
        run(traintrace, "export", "csv", f"{folder}/traces", f"--output={folder}/table.csv")
        with open(f"{folder}/table.csv", newline="", encoding="utf-8") as file:
            check(list(csv.DictReader(file)) == rows, "the file is not what is printed")
    start = next(line.split()[1] for line in dump if line.startswith("start "))
    threads = {line.split()[1]: re.search(r"tid=(\d+)", line)[1] for line in dump if line.startswith("thread ")}
    entered, left = [], collections.Counter()
    for match in filter(None, map(LINE.match, dump)):
        if match[4] == ">":
            at = decimal.Decimal(start) + decimal.Decimal(match[1])
            keys = dict(KEY.findall(match[6]))
            entered.append((int(at * 10**9), threads[match[3]], match[5], keys.get("comm", ""), keys.get("seq", ""), keys.get("stream", ""),
                            keys.get("count", "")))
        else:
            left[match[5], match[6].split()[0][1:]] += 1
    found = [(int(row["start_ns"]), row["thread"].split()[0], row["name"], row["communicator"], row["sequence"], row["stream"],
              dict(KEY.findall(row["values"])).get("count", "")) for row in rows]
    created = {call[2] for call in entered if call[2].startswith("cudaStreamCreate")}
    check(all(row[5] for row in found if row[2] in created), "a stream was made, and not said which")
    found = [row[:5] + ("",) + row[6:] if row[2] in created else row for row in found]  # the dump has it at the return
    other = sorted(set(found) ^ set(entered))[:4]
    check(len(entered) > 60 and sorted(found) == sorted(entered), f"{len(found)} rows, {len(entered)} calls: {other} not in both")
    check([row[0] for row in found] == sorted(row[0] for row in found), "not in the order of time")
    check(collections.Counter((row["name"], row["result"]) for row in rows if row["result"]) == left, "other results")
    check(all(int(row["end_ns"]) >= int(row["start_ns"]) for row in rows if row["end_ns"]), "ends before it starts")
    check(any(row["where"] for row in rows) and {row["kind"] for row in rows} >= {"collective", "alloc"}, "no places or kinds")


def check_live_dump(dump):
    """Of a process that overwrites its ring all the time: what is there is whole."""
    check("running=yes" in dump[1], f"not seen to run: {dump[1]}")
    check(not [line for line in dump if line.startswith("error")], "errors in a live trace")
    values = {}
    sizes = collections.defaultdict(list)
    for match in filter(None, map(LINE.match, dump)):
        thread, way, call, rest = match.group(3, 4, 5, 6)
        check(call in ("cudaMemset", "cudaMalloc"), f"{match[0]}: it never calls that")
        if call == "cudaMemset" and way == ">":
            keys = dict(KEY.findall(rest))
            check(values.setdefault(thread, keys["value"]) == keys["value"], f"{match[0]}: of another thread")
            sizes[thread].append(int(keys["bytes"]))
        elif call == "cudaMemset":
            check(rest.strip() == "=cudaSuccess", f"{match[0]}: a result that it never had")
    # Chunks that were overwritten while they were read are missing, and nothing else.
    for found in sizes.values():
        jumps = sum(1 for before, after in zip(found, found[1:]) if after != (before + 1) % 256)
        check(jumps <= len(found) // 100 + 2, f"{jumps} jumps in {len(found)} calls")
    return sum(map(len, sizes.values()))


def check_live(traintrace, program):
    with tempfile.TemporaryDirectory() as folder:
        job = subprocess.Popen([traintrace, "run", f"--out={folder}/traces", "--stacks=off", "--ring-mb=4", "--",
                                program, "threads", "4", "100000000"], stdout=subprocess.DEVNULL)
        try:
            deadline = time.monotonic() + 60
            dumps = calls = 0
            while dumps < 8:
                check(time.monotonic() < deadline, "nothing recorded in a minute")
                done = subprocess.run([traintrace, "dump", f"{folder}/traces"], stdout=subprocess.PIPE,
                                      stderr=subprocess.DEVNULL, text=True, check=False)
                if done.returncode == 0 and "cudaMemset" in done.stdout:
                    calls += check_live_dump(done.stdout.splitlines())
                    dumps += 1
                time.sleep(0.05)
            check(calls > 0, "no calls read")
        finally:
            job.terminate()
            job.wait()
        dump = run(traintrace, "dump", f"{folder}/traces", "--limit=1").splitlines()
        check("running=no" in dump[1] and "exit=" not in dump[1], f"not seen to be killed: {dump[1]}")


def main():
    story, traintrace, program = sys.argv[1:]
    {"threads": check_threads, "collectives": check_collectives, "table": check_table,
     "live": check_live}[story](traintrace, program)


main()
