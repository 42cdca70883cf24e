"""A program that the CUDA runtime is linked into (nvcc's default): what it does is recorded by the driver's calls, and told of the job's lines."""
import os
import re

import job

PROGRAM = f"{job.BUILD}/tests/static_runtime"
ROUNDS = 40
TOLD = "traintrace: the CUDA runtime is linked into the program: its calls are recorded as the driver's (cuMemAlloc for cudaMalloc)"


class StaticRuntime(job.Case):
    def counts(self, folder="traintrace"):
        _, text, _ = self.traintrace("report", folder, "--by=call", "--format=csv", "--columns=call,count")
        return dict(line.split(",") for line in text.splitlines()[1:])

    def test_its_calls_are_the_drivers(self):
        status, _, errors = self.record(program=[PROGRAM, str(ROUNDS)], SIMGPU_NODE=f"{self.folder}/gpus")
        self.assertEqual(status, 0, errors)
        self.assertRegex(errors, f"^{re.escape(TOLD)}\ntraintrace: recorded 1 process in traintrace \\(\\d+ KB\\); next: traintrace analyze\n$")
        counts = self.counts()
        self.assertEqual([counts.get(call) for call in ("cuMemAlloc_v2", "cuMemcpyHtoDAsync_v2", "cuStreamSynchronize", "cuMemFree_v2")],
                         ["2", str(ROUNDS), str(ROUNDS), "1"])
        self.assertFalse([call for call in counts if call.startswith("cuda")])

    def test_it_is_told_of_the_program(self):
        self.record(program=[PROGRAM, "3"], SIMGPU_NODE=f"{self.folder}/gpus", TRAINTRACE_CALLS="cuMem*,cudaMalloc")
        finding = self.finding("trace.static-runtime")
        self.assertEqual((finding["severity"], finding["values"]), ("info", {"rank_count": 1}))
        self.assertEqual(finding["evidence"], ["rank 0: TRAINTRACE_CALLS=cuMem*,cudaMalloc: names of the runtime (cudaMalloc) match none of its calls"])

    def test_nothing_is_told_of_a_runtime_that_a_library_brings(self):
        """As cuBLAS and NCCL do, beside the one that the job uses; simgpu's NCCL has one, too."""
        _, _, errors = self.record("--out=shared", SIMGPU_NODE=f"{self.folder}/gpus")
        self.assertNotIn("linked into", errors)
        self.assertIsNone(self.finding("trace.static-runtime", "shared"))
        program = [f"{job.BUILD}/tests/mistakes", "none", "5"]
        self.record("--out=nccl", program=program, SIMGPU_DEVICES="2", SIMGPU_NODE=f"{self.folder}/gpus", RANK="0", LOCAL_RANK="0", WORLD_SIZE="1",
                    WORKLOAD_DIR=f"{self.folder}/rendezvous")
        self.assertIn("ncclAllReduce", self.counts("nccl"))
        self.assertIsNone(self.finding("trace.static-runtime", "nccl"))

    def test_the_first_rank_tells_of_it(self):
        for rank, times in (("0", 1), ("3", 0)):
            _, _, errors = self.record(f"--out=rank{rank}", program=[PROGRAM, "3"], SIMGPU_NODE=f"{self.folder}/gpus", RANK=rank, WORLD_SIZE="4")
            self.assertEqual(errors.count(TOLD), times, errors)

    def test_places_are_the_jobs(self):
        self.record(program=[PROGRAM], SIMGPU_NODE=f"{self.folder}/gpus")
        finding = self.finding("memory.leak-at-exit")
        place = finding["where"][0]
        self.assertEqual(os.path.basename(place["file"]), "static_runtime.cc", place)
        self.assertIn("leak", place["function"])

    def test_its_timeline(self):
        self.record("--gpu-timeline=cupti", program=[PROGRAM, str(ROUNDS)], SIMGPU_NODE=f"{self.folder}/gpus")
        counts = self.counts()
        self.assertEqual(counts.get("gpuLaunch"), str(ROUNDS))
        self.assertIn("gpuCopy", counts)  # the last tenth of a second may be missing


if __name__ == "__main__":
    job.main()
