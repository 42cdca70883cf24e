"""scenarios.py TRAINTRACE FOLDER: what dump prints of each scenario reads back as the same, to the byte and to the verdict."""
import concurrent.futures
import glob
import json
import os
import subprocess
import sys
import tempfile

traintrace, folder = sys.argv[1:]


def run(*arguments):
    done = subprocess.run([traintrace, *arguments], capture_output=True, text=True, errors="replace")
    return done.stdout, done.returncode, done.stderr


def verdict(path):
    text, status, complaint = run("analyze", path, "--format=json")
    return (json.loads(text) if text else complaint.replace(path, ""), status)


def check(scenario):
    """Nothing, or what is wrong with it."""
    with tempfile.NamedTemporaryFile("w", prefix="traintrace-readback-", suffix=".txt") as copy:
        once, status, complaint = run("dump", scenario)
        if status:
            return complaint
        copy.write(once)
        copy.flush()
        again, status, complaint = run("dump", copy.name)
        if status:
            return complaint
        if again != once:
            lines = zip(once.splitlines(), again.splitlines())
            return "reads back as " + next((f"{b!r} for {a!r}" for a, b in lines if a != b), "fewer or more lines")
        return "" if verdict(copy.name) == verdict(scenario) else "another verdict"


scenarios = sorted(glob.glob(os.path.join(folder, "*.txt")))
scenarios = [path for path in scenarios if os.path.basename(path) != "CMakeLists.txt"]
with concurrent.futures.ThreadPoolExecutor(2) as workers:
    wrong = [(path, problem) for path, problem in zip(scenarios, workers.map(check, scenarios)) if problem]
for path, problem in wrong:
    print(f"{os.path.basename(path)}: {problem.strip()}")
print(f"{len(scenarios) - len(wrong)} of {len(scenarios)} read back")
sys.exit(1 if wrong or not scenarios else 0)
