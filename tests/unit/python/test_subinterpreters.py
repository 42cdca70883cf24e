"""A second interpreter in the process: nothing breaks, and frames are those of some interpreter."""

import sys

try:
    import _interpreters as interpreters  # 3.13
except ImportError:
    try:
        import _xxsubinterpreters as interpreters
    except ImportError:
        sys.exit(0)

from probe import LIB, check

SCRIPT = """
import sys
sys.argv = ["inner", %r]
sys.path.insert(0, %r)
try:
    from probe import Frame, LIB, describe, line_of
except ImportError:
    pass  # ctypes cannot be had in some kinds of interpreters
else:
    def inside():
        frames = (Frame * 64)()
        count = LIB.probe_frames(frames, 64)
        return [describe(frames[i].code).qualname.decode() for i in range(count)]
    names = inside()
    # Up to 3.11 the thread's first interpreter is the one that is known.
    assert names[0] == ("inside" if sys.version_info >= (3, 12) else "main"), names
"""


def main():
    assert LIB.probe_find()
    check()
    options = ["legacy"] if sys.version_info >= (3, 13) else []
    for _ in range(3):
        inner = interpreters.create(*options)
        failure = interpreters.run_string(inner, SCRIPT % (sys.argv[1], sys.path[0]))
        assert failure is None, failure
        check()
        interpreters.destroy(inner)
        check()


main()
