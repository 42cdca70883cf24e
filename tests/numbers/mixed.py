"""mixed.py BUILD [FIRST:LAST] [FAULT]: jobs of mixed_job.py whose buffers are looked at on the GPU, healthy and with a fault in a collective of chance.

Prints how often the finding is exact (code, operation, number, and nobody but the rank that it befell is a culprit), wrong or missing, or missing where rounding can
do as much. Only the last may be."""
import json
import math
import random
import sys
import tempfile
from collections import Counter

from mixed_shape import BFLOAT16, DIGITS, FLOAT16, FLOAT32, Shape, given, value_of
from recorded import record, traintrace

SUMS = {"sum", "average", "scatter"}
COPIES = {"gather", "broadcast"}
OPERATIONS = {"gather": "ncclAllGather", "broadcast": "ncclBroadcast", "scatter": "ncclReduceScatter"}
TYPES = {FLOAT16: "float16", FLOAT32: "float32", BFLOAT16: "bfloat16"}
# What simgpu does, and whom it befalls.
ROWS = 16  # of a sketch of a sum: format/payload_check.h
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


def sign(index):
    """Of that element in its row of a sketch, as format/payload_check.h has it."""
    mixed = ((index ^ (index >> 16)) * 0x85ebca6b) & 0xffffffff
    mixed = ((mixed ^ (mixed >> 13)) * 0xc2b2ae35) & 0xffffffff
    return -1 if mixed >> 31 else 1


def norm(values):
    return math.sqrt(sum(value * value for value in values))


class Job:
    def __init__(self, seed, fault):
        self.seed, self.fault, self.shape = seed, fault, Shape(f"{fault} {seed}")
        chance = random.Random(f"{seed} {fault} befalls")
        self.befallen = chance.randrange(self.shape.ranks)
        calls = list(enumerate(self.shape.collectives(), 1)) if FAULTS[fault] else []
        places = [(number, place) for number, place in calls[5:] if befalls(fault, place[2]["what"], place[1] % self.shape.ranks == self.befallen)]
        self.number, (self.exchange, self.step, self.bucket) = chance.choice(places) if places else (0, (0, 0, None))

    def is_possible(self):
        return self.bucket is not None or not FAULTS[self.fault]

    def settings(self):
        fault = {"SIMGPU_NCCL_CORRUPT": f"{self.befallen}@{self.number}={FAULTS[self.fault]}"} if self.bucket else {}
        return {"TRAINTRACE_PAYLOAD": "check", **fault}

    def alarms(self, build):
        with tempfile.TemporaryDirectory(prefix="mixed.") as folder:
            record(build, self.shape_seed(), self.shape.ranks, folder, job="mixed_job.py", **self.settings())
            report = json.loads(traintrace(build, "analyze", f"{folder}/traces", "--format=json"))
        # What a busy machine does to a job's times is no alarm about its numbers.
        return [finding for finding in report["findings"] if finding["severity"] != "info" and not finding["code"].startswith("latency.")]

    def shape_seed(self):
        return f"{self.fault} {self.seed}"

    def is_exact(self, found):
        what = self.bucket["what"]
        code = "numeric.impossible-result" if self.fault == "lost-contribution" else code_of(what)
        return ((found["code"], found["operation"], found["sequence"]) == (code, OPERATIONS.get(what, "ncclAllReduce"), self.number)
                and set(found.get("culprits", [])) <= {self.befallen})

    def inputs(self):
        """Of each rank, what the result of the one that the fault befalls is a sum of."""
        bucket, ranks = self.bucket, self.shape.ranks
        count, first = bucket["count"], self.befallen * bucket["count"] if bucket["what"] == "scatter" else 0
        sent = count * (ranks if bucket["what"] == "scatter" else 1)
        return [[value_of(bucket["kind"], value) for value in given(self.shape_seed(), rank, self.exchange, self.step, sent, bucket["scale"])[first:first + count]]
                for rank in range(ranks)]

    def is_below_rounding(self):
        """Whether what it does to a sum is no more than adding up may be wrong by, in each row of a sketch. Of what all ranks get, the hashes of the others tell a
        flipped bit."""
        bucket, ranks = self.bucket, self.shape.ranks
        if bucket["what"] not in (SUMS if self.fault == "lost-contribution" else {"scatter"} if self.fault == "flipped-bit" else {}):
            return False
        inputs, digits = self.inputs(), DIGITS[bucket["kind"]]
        if self.fault == "lost-contribution":
            changes = dict(enumerate(inputs[self.befallen]))
        else:  # the lowest bit but one
            middle = bucket["count"] // 2
            changes = {middle: math.ldexp(2, max(math.frexp(sum(own[middle] for own in inputs))[1], -13) - digits)}
        roundings = ranks - 1 + (2 if bucket["what"] == "average" else 0)
        for row in range(min(ROWS, bucket["count"])):
            elements = range(row, bucket["count"], ROWS)
            rounding = math.sqrt(len(elements)) * roundings * 2.0 ** -digits * sum(norm(own[i] for i in elements) for own in inputs)
            if abs(sum(sign(i) * changes.get(i, 0) for i in elements)) > 2 * rounding:
                return False
        return True

    def __str__(self):
        where = f", {self.bucket['count']} {TYPES[self.bucket['kind']]}, {self.bucket['what']} #{self.number} on rank {self.befallen}" if self.bucket else ""
        return f"{self.fault} {self.seed}: {self.shape.ranks} ranks{where}"


def judge(job, build):
    alarms = job.alarms(build)
    if not job.bucket:
        outcome = "false alarm" if alarms else "quiet"
    else:
        outcome = ("below rounding" if job.is_below_rounding() else "missed") if not alarms else "exact" if len(alarms) == 1 and job.is_exact(alarms[0]) else "wrong"
    if outcome not in ("quiet", "exact"):
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
        failed = failed or outcomes["wrong"] + outcomes["false alarm"] + outcomes["missed"] > 0
    return 1 if failed else 0


sys.exit(main())
