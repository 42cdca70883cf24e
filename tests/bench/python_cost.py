"""What a call costs below 10 Python frames and the native ones above them: the C loop of call_cost, called by ctypes.

    python_cost.py LIBRARY [CALLS]      prints ns per call, the best of 5 rounds
"""
import ctypes
import sys
import time

library = ctypes.CDLL(sys.argv[1])
calls = int(sys.argv[2]) if len(sys.argv) > 2 else 1_000_000


def below(frames, count):
    if frames == 0:
        begin = time.thread_time_ns()
        library.synchronisations(ctypes.c_long(count))
        return time.thread_time_ns() - begin
    return below(frames - 1, count)


library.start()
below(8, 1000)
print(f"{min(below(8, calls) for _ in range(5)) / calls:.2f}")
