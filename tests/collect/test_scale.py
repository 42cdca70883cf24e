"""How much memory it takes to look at many ranks: what is held of each is little (docs/scale.md has the figures of thousands)."""
import os
import subprocess

import job

GENERATOR = f"{job.BUILD}/bench/peers/parallel_job"
RANKS = 512


class Memory(job.Case):
    def mebibytes(self, *arguments):
        read, write = os.pipe()
        pid = os.fork()
        if pid == 0:
            os.dup2(write, 1)
            os.execve(job.TRAINTRACE, [job.TRAINTRACE, *arguments], job.environment())
        os.close(write)
        with os.fdopen(read, encoding="utf-8") as out:
            text = out.read()
        _, status, usage = os.wait4(pid, 0)
        self.assertIn(os.waitstatus_to_exitcode(status), (0, 1))
        self.assertIn("4", text)
        return usage.ru_maxrss / 1024

    def test_of_512_ranks(self):
        subprocess.run([GENERATOR, f"{self.folder}/traces", f"--ranks={RANKS}"], check=True, timeout=120)
        traces = f"{self.folder}/traces"
        for most, arguments in ((110, ["analyze", traces]), (70, ["top", "--once", traces])):
            used = self.mebibytes(*arguments)
            print(f"{arguments[0]} of {RANKS} ranks: {used:.0f} MiB")
            self.assertLess(used, most, arguments)


if __name__ == "__main__":
    job.main()
