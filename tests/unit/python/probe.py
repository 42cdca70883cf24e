"""The tracer's view of this interpreter, beside the interpreter's own."""

import ctypes
import sys

CUT = sys.version_info[:2]


class Frame(ctypes.Structure):
    _fields_ = [("code", ctypes.c_uint64), ("instruction", ctypes.c_int32)]


class Code(ctypes.Structure):
    _fields_ = [
        ("qualname_bytes", ctypes.c_uint32),
        ("file_bytes", ctypes.c_uint32),
        ("qualname", ctypes.c_char * 256),
        ("file", ctypes.c_char * 1024),
        ("first_line", ctypes.c_int32),
        ("minor", ctypes.c_uint8),
        ("line_table", ctypes.c_void_p),
        ("line_table_bytes", ctypes.c_size_t),
    ]


def load(loader=ctypes.CDLL):
    lib = loader(sys.argv[1])
    lib.probe_find.restype = ctypes.c_bool
    for name in ("probe_frames", "probe_frames_elsewhere"):
        function = getattr(lib, name)
        function.restype = ctypes.c_size_t
        function.argtypes = [ctypes.POINTER(Frame), ctypes.c_size_t]
    lib.probe_code_size.restype = ctypes.c_size_t
    lib.probe_describe.restype = ctypes.c_bool
    lib.probe_describe.argtypes = [ctypes.c_uint64, ctypes.POINTER(Code)]
    lib.probe_key.restype = ctypes.c_uint64
    lib.probe_key.argtypes = [ctypes.c_uint64]
    lib.probe_line.argtypes = [ctypes.c_int, ctypes.c_int, ctypes.c_void_p, ctypes.c_size_t,
                               ctypes.c_int]
    lib.probe_nanoseconds.restype = ctypes.c_double
    lib.probe_nanoseconds.argtypes = [ctypes.c_size_t, ctypes.c_bool, ctypes.c_int]
    return lib


LIB = load()  # releases the GIL around each call, as libraries for CUDA do
LIB_WITH_GIL = load(ctypes.PyDLL)


def qualname(code):
    """What the interpreter keeps with the code: 3.9 and 3.10 only the bare name."""
    return getattr(code, "co_qualname", code.co_name)


def own_view(frame):
    """(code, instruction, line) of each frame, innermost first, as the interpreter says."""
    frames = []
    while frame is not None:
        frames.append((frame.f_code, frame.f_lasti, frame.f_lineno))
        frame = frame.f_back
    return frames


def describe(code_address):
    code = Code()
    assert LIB.probe_describe(code_address, code), hex(code_address)
    assert code.minor == sys.version_info[1]
    assert len(code.qualname) == code.qualname_bytes and len(code.file) == code.file_bytes
    return code


def line_of(code, instruction):
    return LIB.probe_line(code.minor, code.first_line, code.line_table, code.line_table_bytes,
                          instruction)


def compare(captured, expected):
    assert len(captured) == len(expected), (len(captured), len(expected))
    for (address, instruction), (code, lasti, line) in zip(captured, expected):
        assert address == id(code), (code, hex(address))
        assert instruction == lasti, (code, instruction, lasti)
        seen = describe(address)
        assert seen.qualname.decode() == qualname(code), (seen.qualname, qualname(code))
        assert seen.file.decode() == code.co_filename, (seen.file, code.co_filename)
        assert seen.first_line == code.co_firstlineno, (seen.first_line, code)
        assert line_of(seen, instruction) == (-1 if line is None else line), (code, line)


def check(loader=None, limit=4096):
    """Compares both views of the caller and everything above it; returns its (name, line)s."""
    lib = loader or LIB
    frames = (Frame * limit)()
    count = lib.probe_frames(frames, limit)
    caller = sys._getframe(1)
    captured = [(frames[i].code, frames[i].instruction) for i in range(count)]
    assert captured[0][0] == id(check.__code__)
    compare(captured[1:], own_view(caller)[:limit - 1])
    return [(describe(address).qualname.decode(), line_of(describe(address), instruction))
            for address, instruction in captured[1:]]
