"""checks.py BUILD SCENARIOS: what the commands say of the checks in the text of a trace."""
import csv
import io
import json
import subprocess
import sys
import tempfile

build, scenarios = sys.argv[1:3]


def traintrace(*arguments, status=0):
    done = subprocess.run([f"{build}/bin/traintrace", *arguments], capture_output=True, text=True, timeout=120)
    assert done.returncode == status, (arguments, done.returncode, done.stdout, done.stderr)
    return done.stdout


def scenario(name):
    return f"{scenarios}/numeric_checks_{name}.txt"


findings = json.loads(traintrace("analyze", scenario("first_nonfinite"), "--format=json", status=1))["findings"]
assert [(finding["code"], finding["culprits"]) for finding in findings] == [("numeric.first-nonfinite", [1])], findings
findings = json.loads(traintrace("analyze", scenario("first_nonfinite_healthy_twin"), "--format=json"))["findings"]
assert all(finding["severity"] == "info" for finding in findings), findings

rows = list(csv.DictReader(io.StringIO(traintrace("report", scenario("first_nonfinite"), "--by=check", "--format=csv"))))
assert [(row["rank"], row["side"], row["count"], row["nan_count"]) for row in rows] == [
    ("0", "input", "8", "51"), ("0", "output", "8", "68"), ("1", "input", "8", "68"), ("1", "output", "8", "68"),
    ("2", "input", "8", "51"), ("2", "output", "8", "68")], rows
assert rows[0]["place"] == "train.py:10 in step" and rows[0]["last_norm"] == "2", rows[0]
report = json.loads(traintrace("report", scenario("first_nonfinite"), "--by=check", "--format=json"))
assert len(report["rows"]) == 6 and report["rows"][0]["operation"] == "ncclAllReduce", report["rows"][0]

# The same numbers as one series of each rank, and one by one.
drift = f"{scenarios}/numeric_replica_drift.txt"
rows = list(csv.DictReader(io.StringIO(traintrace("report", drift, "--by=scalar", "--format=csv"))))
values = list(csv.DictReader(io.StringIO(traintrace("report", drift, "--by=value", "--format=csv"))))
assert [(row["rank"], row["type"], row["place"]) for row in rows] == [(str(rank), "float32", "train.py:30 in step") for rank in range(4)], rows
for row in rows:
    own = [each for each in values if each["rank"] == row["rank"]]
    numbers = [float(each["value"]) for each in own]
    assert [int(each["number"]) for each in own] == list(range(1, int(row["count"]) + 1)), own
    assert [float(row[key]) for key in ("first", "last", "least", "most")] == [numbers[0], numbers[-1], min(numbers), max(numbers)], row
    assert (row["begin_ns"], row["end_ns"]) == (own[0]["time_ns"], own[-1]["time_ns"]), row
assert sum(int(row["count"]) for row in rows) == len(values) > 100, rows

runs = [scenario("result_differs_healthy_twin"), scenario("result_differs")]
text = traintrace("diff", *runs)
assert "what ncclAllReduce #3 on dp gave rank 2 at train.py:10 in step differs" in text, text
assert "its inputs are the same on all ranks: the operation itself differs\n    what is recorded of NCCL is the same in both" in text, text
values = json.loads(traintrace("diff", *runs, "--format=json"))["values"]
first, = values["differences"]
assert (first["kind"], first["ranks"], first["operation"]) == ("result", [2], "ncclAllReduce #3 on dp"), first
assert values["same_operation_count"] == 2, values
assert first["conditions"] == [], first


def with_conditions(name, file, version="2.28.9", settings=(("NCCL_ALGO", "Ring"),), hosts=(("0-2", "a"),), order=(0, 1, 2)):
    with open(scenario(name), encoding="utf-8") as source:
        records = source.read().split("---")[0].split("members=0-2\n")[1]
    for ranks, host in hosts:
        print(f"ranks {ranks} host={host}\nfact setting.TRAINTRACE_PAYLOAD check\nfact nccl-version {version}", file=file)
        print("".join(f"fact env.{key} {value}\n" for key, value in settings), end="", file=file)
    print("".join(f"communicator dp members={rank} rank={place} size=3\n" for rank, place in enumerate(order)) + records, file=file, flush=True)


# What NCCL's order of adding depends on, as it is in the second run, and what is said of it.
CONDITIONS = [
    ({"settings": (("NCCL_ALGO", "Tree"), ("NCCL_DEBUG", "INFO"))}, "NCCL_ALGO of ranks 0-2: A Ring; B Tree"),
    ({"settings": ()}, "NCCL_ALGO of ranks 0-2: A Ring; B not set"),
    ({"version": "2.29.2"}, "NCCL of ranks 0-2: A 2.28.9; B 2.29.2"),
    ({"hosts": (("0,1", "a"), ("2", "c"))}, "hosts: A 0-2 on a; B 0,1 on a, 2 on c"),
    ({"order": (0, 2, 1)}, "order of ranks: A 0,1,2; B 0,2,1"),
    ({}, None),
]
for changed, wanted in CONDITIONS:
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as of_a, tempfile.NamedTemporaryFile("w", suffix=".txt") as of_b:
        with_conditions("result_differs_healthy_twin", of_a)
        with_conditions("result_differs", of_b, **changed)
        text = traintrace("diff", of_a.name, of_b.name)
        first, = json.loads(traintrace("diff", of_a.name, of_b.name, "--format=json"))["values"]["differences"]
    assert (first["kind"], first["ranks"], len(first["conditions"])) == ("result", [2], 1 if wanted else 0), (changed, first)
    assert f"    {wanted}\n" in text if wanted else "the same in both, NCCL 2.28.9, NCCL_ALGO=Ring: " in text, (wanted, text)


def generation(number, first, start):
    """Two ranks that send 40 batches of their own each."""
    lines = ["run job7", f"ranks 0-1 armed=+{start} pid={1000 * number}", "fact setting.TRAINTRACE_PAYLOAD batches",
             f"fact env.TORCHELASTIC_RESTART_COUNT {number - 1}", "communicator dp members=0-1"]
    for batch in range(first, first + 40):
        lines += [f"+{start + 1 + (batch - first) / 100:.2f} {rank}/1 * batchHash bytes=4096 value={0x1000 * (rank + 1) + batch:#x} @data.py:7:load"
                  for rank in range(2)]
    return lines + [f"+{start + 2} 0-1 exits" + (" status=1" if number == 1 else "")]


for first, wanted in ((30, (20, 80, 31, 40)), (0, (80, 80, 1, 40)), (40, None)):
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as file:
        file.write("\n".join(generation(1, 0, 0) + generation(2, first, 10)) + "\n")
        file.flush()
        done = subprocess.run([f"{build}/bin/traintrace", "analyze", file.name, "--format=json"], capture_output=True, text=True, timeout=120, check=False)
    findings = json.loads(done.stdout)["findings"]
    found = [tuple(finding["values"].values()) for finding in findings if finding["code"] == "numeric.read-again"]
    assert found == ([wanted] if wanted else []), (first, findings)
print("as expected")
