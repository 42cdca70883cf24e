"""The markers of include/traintrace.h, by the library that is preloaded into this process; without it they do nothing.

Whatever they are given, they raise nothing: a job must not end because of them.  None of them waits for a GPU.
"""
import functools
import inspect
import os

MOST_BYTES = 512  # that the recorder keeps of a text
MOST_VALUES = 256


def folder_of_traces():
    """As the tracer sees it, which looks when recording begins: later the job may be elsewhere.  Empty: not known."""
    try:
        return os.path.abspath(os.environ.get("TRAINTRACE_DIR") or "traintrace")
    except OSError:
        return ""


def load():
    """The functions of the library; None: it is not in this process."""
    if os.environ.get("TRAINTRACE_DISABLE", "0") not in ("", "0"):
        return None
    try:
        import ctypes  # pylint: disable=import-outside-toplevel
        library = ctypes.PyDLL(None)  # which keeps the GIL: a call takes less time than to give it back
        functions = {}
        for name, kinds in (("step", [ctypes.c_int64]), ("range_push", [ctypes.c_char_p]), ("range_end", [ctypes.c_char_p]), ("mark", [ctypes.c_char_p]),
                            ("note", [ctypes.c_char_p, ctypes.c_char_p])):
            function = library["traintrace_" + name]
            function.restype = None
            function.argtypes = kinds
            functions[name] = function
        return functions
    except (ImportError, OSError, AttributeError, TypeError):
        return None


def encoded(text):
    try:
        return str(text).encode("utf-8", "replace").replace(b"\0", b" ")[:MOST_BYTES]
    except Exception:  # pylint: disable=broad-exception-caught
        return b"(unprintable)"


def runs_of(numbers):
    """[5, 6, 7, 9] as "5-7,9"."""
    parts = []
    first = last = None
    for number in [*numbers, None]:
        if last is not None and number is not None and number == last + 1:
            last = number
            continue
        if last is not None:
            parts.append(str(first) if first == last else f"{first}-{last}")
        first = last = number
    return ",".join(parts)


def text_of(value):
    """A note as a text: numbers that follow one another as a range."""
    if isinstance(value, (str, int, float)):
        return str(value)
    device = str(getattr(value, "device", "cpu"))
    if not device.startswith("cpu"):
        return f"({len(value)} values on {device})"  # reading them would wait for the GPU
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, dict) or not hasattr(value, "__iter__"):
        return str(value)
    values = list(value)
    more = f",.. ({len(values)} values)" if len(values) > MOST_VALUES else ""
    values = values[:MOST_VALUES]
    if values and all(type(each) is int for each in values):  # pylint: disable=unidiomatic-typecheck
        return runs_of(values) + more
    return ",".join(map(str, values)) + more


class Nothing:
    """A range of a job that is not recorded."""
    __slots__ = ()

    def __enter__(self):
        return self

    def __exit__(self, kind, value, trace):
        return None

    def __call__(self, function):
        return function


NOTHING = Nothing()
FUNCTIONS = load()
FOLDER = folder_of_traces()


def is_recorded():
    """Whether libtraintrace.so is in this process."""
    return FUNCTIONS is not None


def snapshot(to):
    """What is recorded of this process so far, packed into the folder `to`, while the job goes on: for `traintrace analyze`, with the snapshots
    that other ranks packed there.  The folder's path; None if there is none: not recorded, no program `traintrace`, no place."""
    if FUNCTIONS is None:
        return None
    try:
        from traintrace._snapshot import packed  # pylint: disable=import-outside-toplevel
        return packed(FOLDER, to)
    except Exception:  # pylint: disable=broad-exception-caught
        return None


if FUNCTIONS is None:
    def step(number=None):  # pylint: disable=unused-argument
        """A step of the training loop begins on this thread, and the one before it ends.  Without a number: one more."""

    def mark(text):  # pylint: disable=unused-argument
        """A moment."""

    def note(key, value):  # pylint: disable=unused-argument
        """What this thread works on from now on, until the next note with that key: numbers of samples, a file."""

    def range(name):  # pylint: disable=unused-argument,redefined-builtin
        """A part of the work, on this thread: `with range("eval"):`, or `@range("eval")` before a function."""
        return NOTHING
else:
    STEP, PUSH, END = FUNCTIONS["step"], FUNCTIONS["range_push"], FUNCTIONS["range_end"]
    MARK, NOTE = FUNCTIONS["mark"], FUNCTIONS["note"]

    def step(number=None):
        """A step of the training loop begins on this thread, and the one before it ends.  Without a number: one more."""
        STEP(number if type(number) is int else -1)  # pylint: disable=unidiomatic-typecheck

    def mark(text):
        """A moment."""
        MARK(encoded(text))

    def note(key, value):
        """What this thread works on from now on, until the next note with that key: numbers of samples, a file."""
        try:
            text = text_of(value)
        except Exception as error:  # pylint: disable=broad-exception-caught
            text = f"({type(error).__name__})"
        NOTE(encoded(key), encoded(text))

    class range:  # pylint: disable=redefined-builtin,invalid-name
        """A part of the work, on this thread: `with range("eval"):`, or `@range("eval")` before a function.

        A generator or coroutine is not marked by the decorator: it runs in pieces, between other work of its thread."""
        __slots__ = ("name",)

        def __init__(self, name):
            self.name = encoded(name)

        def __enter__(self):
            PUSH(self.name)
            return self

        def __exit__(self, kind, value, trace):
            END(self.name)  # a generator may leave its range while one is open that began later

        def __call__(self, function):
            if inspect.iscoroutinefunction(function) or inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
                return function
            name = self.name

            @functools.wraps(function)
            def marked(*arguments, **named):
                PUSH(name)
                try:
                    return function(*arguments, **named)
                finally:
                    END(name)
            return marked
