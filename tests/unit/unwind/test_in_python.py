"""Native stacks below a real interpreter: what the tracer sees equals what glibc and libunwind see."""

import ctypes
import functools
import sys
import threading

probe = ctypes.CDLL(sys.argv[1])
text = ctypes.create_string_buffer(1 << 20)
depths = []


def take(*_):
    frames = probe.compare_stacks(text, ctypes.c_size_t(len(text)))
    if frames < 0:
        sys.exit(text.value.decode(errors="replace"))
    depths.append(frames)
    return 0


def nested(depth):
    return take() if depth == 0 else nested(depth - 1)


def generate():
    yield take()


take()
nested(50)
sorted([3, 1, 2], key=take)
sorted([3, 1, 2], key=functools.cmp_to_key(take))
list(map(take, [1, 2]))
list(generate())
exec("take()")


class Object:
    def __getattr__(self, name):
        return take()

    def __del__(self):
        take()


Object().anything

# Back into Python through a closure of libffi: code without a module, or at least without tables.
callback = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)(take)
numbers = (ctypes.c_int * 8)(*range(8))
ctypes.CDLL(None).qsort(numbers, ctypes.c_size_t(8), ctypes.c_size_t(4), callback)

threads = [threading.Thread(target=nested, args=(20,)) for _ in range(4)]
for thread in threads:
    thread.start()
    thread.join()

assert min(depths) > 5, depths
print(f"{len(depths)} stacks of {min(depths)} to {max(depths)} frames are the same")
