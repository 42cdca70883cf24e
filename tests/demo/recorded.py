"""A recorded job: what the analyzer says of it must be what the job itself printed."""
import collections
import json
import os
import re
import subprocess

CALL = re.compile(r"\S+ (\d+)/\d+ > (nccl\w+) .*?\bcomm=(\S+) .*@\d+=\S+?:(\d+):(\S+)")
COLLECTIVES = {"ncclAllReduce", "ncclBroadcast"}
CODES = {"hang": "collective.missing-rank", "dead-rank": "collective.dead-rank",
         "early-stop": "collective.early-exit"}


def check(condition, message):
    if not condition:
        raise AssertionError(message)


class Recording:
    def __init__(self, folder, tracer, analyzer):
        self.folder = folder
        self.analyzer = analyzer
        self.environment = {"LD_PRELOAD": tracer, "TRAINTRACE_DIR": folder}

    def run(self, expected_status, *arguments):
        done = subprocess.run([self.analyzer, *arguments], stdout=subprocess.PIPE, text=True, check=False)
        check(done.returncode == expected_status,
              f"{' '.join(arguments)} ended with {done.returncode}, not {expected_status}:\n{done.stdout[-4000:]}")
        return done.stdout

    def analyze(self, expected_status):
        text = self.run(expected_status, "analyze", self.folder, "--format=json", "--hang-after=2s")
        result = json.loads(text)
        print(result["verdict"])
        return result

    def dumped(self):
        """{rank: {communicator: {(operation, function, line): count}}} from the calls of the dump."""
        found = collections.defaultdict(lambda: collections.defaultdict(collections.Counter))
        for line in self.run(0, "dump", self.folder).splitlines():
            match = CALL.match(line)
            if match and match[2] in COLLECTIVES:
                rank, operation, communicator, line_number, function = match.groups()
                place = operation, function.rpartition(".")[2], int(line_number)  # before 3.11 without its class
                found[int(rank)][communicator][place] += 1
        return found

    def check_healthy(self, facts):
        result = self.analyze(0)
        # That its GPU, which only passes data on, is idle for most of the time is an info, and so is that others used the machine for a while.
        codes = {finding["code"] for finding in result["findings"]} - {"latency.host-bound", "latency.pause"}
        check(codes == {"run.healthy"} and all(finding["severity"] == "info" for finding in result["findings"]), f"not healthy: {result}")
        ranks = sorted({int(fact["rank"]) for fact in facts.of("done")})
        check(result["run"]["ranks"] == ranks, f"ranks {result['run']['ranks']}, not {ranks}")
        dumped = self.dumped()
        check(sorted(dumped) == ranks, f"collectives of ranks {sorted(dumped)}, not {ranks}")
        for rank in ranks:
            printed = facts.collectives(rank)
            recorded = {name: dict(calls) for name, calls in dumped[rank].items()}
            check(recorded == printed, f"rank {rank} recorded {recorded}, printed {dict(printed)}")

    def check_defect(self, story, facts, culprit, train):
        result = self.analyze(1)
        errors = [finding for finding in result["findings"] if finding["severity"] == "error"]
        check(len(errors) == 1, f"{len(errors)} errors: {errors}")
        finding = errors[0]
        ranks = sorted({int(fact["rank"]) for fact in facts.of("step")})
        check(finding["code"] == CODES[story], f"{finding['code']}, not {CODES[story]}")
        check(finding["culprits"] == [culprit], f"culprits {finding['culprits']}, not {[culprit]}")
        check(finding["victims"] == [rank for rank in ranks if rank != culprit], f"victims {finding['victims']}")
        check(finding["communicator"]["name"] == "dp", f"communicator {finding['communicator']}")
        sequence = facts.entered(0, "dp") + 1
        check(finding["sequence"] == sequence, f"sequence {finding['sequence']}, not {sequence}")
        if story == "hang":
            self.check_place(finding, culprit, train)

    def check_place(self, finding, culprit, train):
        """The line of train.py on which the culprit is stuck."""
        with open(train) as source:
            line = next(number for number, text in enumerate(source, 1) if "cudaStreamQuery(" in text)
        where = finding["where"][0]
        place = where["rank"], os.path.basename(where["file"]), where["line"], where["function"].rpartition(".")[2]
        expected = culprit, "train.py", line, "hard_example_mining"
        check(place == expected, f"the culprit is at {place}, not {expected}")
