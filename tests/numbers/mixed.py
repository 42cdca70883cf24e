"""mixed.py BUILD [FIRST:LAST] [FAULT]: jobs of mixed_job.py whose buffers are looked at on the GPU, healthy and with a fault in a collective of chance.

Prints how often the finding is exact (code, operation, number, and nobody but the rank that it befell is a culprit), wrong or missing. Nothing may be wrong."""
import json
import random
import sys
import tempfile
from collections import Counter

from mixed_shape import BFLOAT16, FLOAT16, FLOAT32, Shape
from recorded import record, traintrace

SUMS = {"sum", "average", "scatter"}
COPIES = {"gather", "broadcast"}
OPERATIONS = {"gather": "ncclAllGather", "broadcast": "ncclBroadcast", "scatter": "ncclReduceScatter"}
TYPES = {FLOAT16: "float16", FLOAT32: "float32", BFLOAT16: "bfloat16"}
# What simgpu does, and whom it befalls.
FAULTS = {"healthy": None, "lost-contribution": "drop", "stale-for-all": "drop", "stale-for-one": "stale", "flipped-bit": "flip"}


def befalls(fault, what, is_root):
    """Whether it changes anything there."""
    if fault == "lost-contribution":
        return what in SUMS
    if fault == "stale-for-all":
        return what == "gather" or (what == "broadcast" and is_root)
    return not (what == "broadcast" and is_root)


def code_of(what):
    return ("numeric.delivered-differs" if what in COPIES
            else "numeric.impossible-result" if what == "scatter" else "numeric.result-differs")


class Job:
    def __init__(self, seed, fault):
        self.seed, self.fault, self.shape = seed, fault, Shape(f"{fault} {seed}")
        chance = random.Random(f"{seed} {fault} befalls")
        self.befallen = chance.randrange(self.shape.ranks)
        calls = list(enumerate(self.shape.collectives(), 1)) if FAULTS[fault] else []
        places = [place for place in calls[5:] if befalls(fault, place[1][1]["what"], place[1][0] % self.shape.ranks == self.befallen)]
        self.number, (_, self.bucket) = chance.choice(places) if places else (0, (0, None))

    def is_possible(self):
        return self.bucket is not None or not FAULTS[self.fault]

    def settings(self):
        fault = {"SIMGPU_NCCL_CORRUPT": f"{self.befallen}@{self.number}={FAULTS[self.fault]}"} if self.bucket else {}
        return {"TRAINTRACE_PAYLOAD": "check", **fault}

    def alarms(self, build):
        with tempfile.TemporaryDirectory(prefix="mixed.") as folder:
            record(build, self.shape_seed(), self.shape.ranks, folder, job="mixed_job.py", **self.settings())
            report = json.loads(traintrace(build, "analyze", f"{folder}/traces", "--format=json"))
        return [finding for finding in report["findings"] if finding["severity"] != "info"]

    def shape_seed(self):
        return f"{self.fault} {self.seed}"

    def is_exact(self, found):
        what = self.bucket["what"]
        code = "numeric.impossible-result" if self.fault == "lost-contribution" else code_of(what)
        return ((found["code"], found["operation"], found["sequence"]) == (code, OPERATIONS.get(what, "ncclAllReduce"), self.number)
                and set(found.get("culprits", [])) <= {self.befallen})

    def __str__(self):
        where = f", {self.bucket['count']} {TYPES[self.bucket['kind']]}, {self.bucket['what']} #{self.number} on rank {self.befallen}" if self.bucket else ""
        return f"{self.fault} {self.seed}: {self.shape.ranks} ranks{where}"


def judge(job, build):
    alarms = job.alarms(build)
    if not job.bucket:
        outcome = "false alarm" if alarms else "quiet"
    else:
        outcome = "missed" if not alarms else "exact" if len(alarms) == 1 and job.is_exact(alarms[0]) else "wrong"
    if outcome in ("false alarm", "wrong", "missed"):
        print(f"{outcome}: {job}", *(finding["title"] for finding in alarms), sep="\n    ")
    return outcome


def main():
    build = sys.argv[1]
    first, last = map(int, sys.argv[2].split(":")) if len(sys.argv) > 2 else (0, 4)
    failed = False
    for fault in [sys.argv[3]] if len(sys.argv) > 3 else FAULTS:
        jobs = [job for job in (Job(seed, fault) for seed in range(first, last)) if job.is_possible()]
        outcomes = Counter(judge(job, build) for job in jobs)
        print(f"{fault}: {len(jobs)} jobs, " + ", ".join(f"{count} {outcome}" for outcome, count in sorted(outcomes.items())), flush=True)
        failed = failed or outcomes["wrong"] + outcomes["false alarm"] > 0 or 2 * outcomes["missed"] > len(jobs)
    return 1 if failed else 0


sys.exit(main())
