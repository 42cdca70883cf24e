"""Daemon threads inside C calls while the interpreter ends; the process must end as it would."""

import subprocess
import sys

from probe import LIB

CHILD = """
import os, sys, threading, time
sys.argv = [sys.argv[0], %r]
sys.path.insert(0, %r)
from probe import LIB, check
assert LIB.probe_find()
LIB.probe_linger_at_exit()
check()

def deep(depth):
    LIB.probe_capture_forever() if depth == 0 else deep(depth - 1)

class Late:
    def __del__(self, still_found=LIB.probe_still_found, write=os.write):
        found = still_found()
        if found > 3:  # one may be under way on each
            write(1, b"frames of threads that were deleted: %%d; " %% found)
        write(1, b"end")

sys.late = Late()  # goes when nearly everything is gone
for depth in (1, 5, 20):
    threading.Thread(target=deep, args=(depth,), daemon=True).start()
while LIB.probe_capturing() < 3:
    time.sleep(0.001)
while LIB.probe_still_found() == 0:
    pass
"""


def main():
    assert LIB.probe_find()
    for _ in range(10):
        child = subprocess.run([sys.executable, "-B", "-c", CHILD % (sys.argv[1], sys.path[0])],
                               stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=100)
        assert child.returncode == 0 and child.stdout == b"end", (child.returncode, child.stdout)


main()
