"""diff.py BUILD: two runs whose batches, and two whose numbers, differ from some step on; and two that do not differ."""
import json
import os
import sys
import tempfile

from recorded import line_of, record, traintrace

build = sys.argv[1]


def differences(folder, case, changed, first="99"):
    for run, step in (("a", first), ("b", changed)):
        os.mkdir(f"{folder}/{case}.{run}")
        record(build, case, 2, f"{folder}/{case}.{run}", CHANGED=step)
    folders = [f"{folder}/{case}.{run}/traces" for run in "ab"]
    text = traintrace(build, "diff", *folders)
    report = json.loads(traintrace(build, "diff", *folders, "--format=json"))
    assert text.splitlines()[0] == f"verdict: {report['verdict']}", text
    return report["verdict"], report["values"], text


def check_data(folder):
    verdict, values, text = differences(folder, "data-of-a-run", "17")
    first, = values["differences"]
    place = f"job.py:{line_of('BATCH')} in train"
    assert (first["kind"], first["ranks"], first["number"], first["where"]) == ("batch", [1], 18, place), first
    assert f"the first data that differs is batch 18 sent at {place} by rank 1" in verdict, verdict
    assert f"batch 18 sent at {place} by rank 1 differs" in text, text
    assert values["same_count"] == 1, values  # rank 0's


def check_numbers(folder):
    verdict, values, _ = differences(folder, "losses-of-a-run", "5")
    first, = values["differences"]
    assert (first["kind"], first["ranks"], first["number"]) == ("scalar", [0, 1], 6), first
    assert first["a"] == "0.6666667" and first["b"] == "0.75", first
    assert f"job.py:{line_of('LOSS')} in log_losses by ranks 0,1" in verdict, verdict


def check_same(folder):
    verdict, values, _ = differences(folder, "data-of-a-run", "98")
    assert values == {"differences": [], "same_count": 2, "incomplete_count": 0}, values
    assert verdict == "no difference in the collectives of the two runs", verdict


def check_read_again(folder):
    _, values, text = differences(folder, "resumed-data", "30", "0")
    again, = values["read_again"]
    assert (again["later"], again["ranks"], again["again_count"], again["batch_count"]) == ("B", [0, 1], 20, 80), again
    assert (again["rank"], again["earlier_rank"], again["earlier_number"], again["earlier_count"]) == (0, 0, 31, 40), again
    assert "data: B begins with 20 batches that A sent before it" in text, text


def check_went_on(folder):
    _, values, _ = differences(folder, "resumed-data", "40", "0")
    assert "read_again" not in values, values


for check in (check_data, check_numbers, check_same, check_read_again, check_went_on):
    with tempfile.TemporaryDirectory(prefix="numbers.") as scratch:
        check(scratch)
print("as expected")
