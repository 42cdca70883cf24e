"""mixed.py BUILD [FIRST:LAST] [drop|stale|flip]: jobs of mixed_job.py whose buffers are looked at on the GPU.

Without a fault nothing may be found; with one, in a collective of chance, nobody but the rank that it befell may be a culprit."""
import json
import random
import sys
import tempfile

from recorded import record, traintrace

build = sys.argv[1]
first, last = map(int, sys.argv[2].split(":")) if len(sys.argv) > 2 else (0, 10)
faults = [sys.argv[3]] if len(sys.argv) > 3 else ["", "drop", "stale", "flip"]
CODES = {"numeric.impossible-result", "numeric.result-differs", "numeric.delivered-differs"}


def judge(seed, fault):
    """What is wrong, or nothing; then whether something was found."""
    chance = random.Random(f"{seed} {fault}")
    ranks, befallen = chance.choice([2, 3, 4]), 0
    settings = {"TRAINTRACE_PAYLOAD": "check"}
    if fault:
        befallen = chance.randrange(ranks)
        settings["SIMGPU_NCCL_CORRUPT"] = f"{befallen}@{chance.randint(20, 45)}={fault}"
    with tempfile.TemporaryDirectory(prefix="mixed.") as folder:
        record(build, seed, ranks, folder, job="mixed_job.py", **settings)
        report = json.loads(traintrace(build, "analyze", f"{folder}/traces", "--format=json"))
    found = [finding for finding in report["findings"] if finding["severity"] != "info"]
    wrong = [finding["title"] for finding in found
             if not fault or finding["code"] not in CODES or not set(finding.get("culprits", [])) <= {befallen}]
    return [f"{seed} {fault} on rank {befallen} of {ranks}: {title}" for title in wrong], bool(found)


def main():
    failed = False
    for fault in faults:
        results = [judge(str(seed), fault) for seed in range(first, last)]
        found = sum(is_found for _, is_found in results)
        wrong = [line for lines, _ in results for line in lines]
        print(f"{fault or 'healthy'}: {len(results)} jobs, {found} with a finding, {len(wrong)} wrong")
        print("\n".join(wrong[:20]))
        # Some faults change nothing: zeros in a maximum, or from a rank that is not the root.
        failed = failed or bool(wrong) or (fault != "" and 2 * found < len(results))
    return 1 if failed else 0


sys.exit(main())
