"""The tracer sees the frames, lines and names that the interpreter itself reports."""

import asyncio
import ctypes
import functools
import inspect
import os
import random
import sys
import threading

from probe import CUT, LIB, LIB_WITH_GIL, Code, Frame, check, describe, line_of, load, qualname

TESTS = []


def test(function):
    TESTS.append(function)
    return function


def bare(name):
    """The name as it is kept before 3.11."""
    return name if CUT >= (3, 11) else name.rsplit(".", 1)[-1]


@test
def innermost_is_the_line_of_the_call():
    frames = (Frame * 8)()
    count = LIB.probe_frames(frames, 8); line = inspect.currentframe().f_lineno
    assert count >= 2
    seen = describe(frames[0].code)
    assert seen.qualname == b"innermost_is_the_line_of_the_call"
    assert line_of(seen, frames[0].instruction) == line
    count = LIB.probe_frames(
        frames,
        8,
    )
    assert line_of(seen, frames[0].instruction) == line + 5


@test
def nested_functions_and_lambdas():
    def outer():
        def inner():
            return (lambda: check())()
        return inner()
    names = [name for name, _ in outer()]
    here = "nested_functions_and_lambdas.<locals>.outer"
    assert names[:3] == [bare(here + ".<locals>.inner.<locals>.<lambda>"),
                         bare(here + ".<locals>.inner"), bare(here)], names


@test
def methods_and_class_bodies():
    class Model:
        seen = check()

        def forward(self):
            return check()

        @classmethod
        def build(cls):
            return cls().forward()

        @property
        def value(self):
            return self.build()

    assert Model.seen[0][0] == bare("methods_and_class_bodies.<locals>.Model")
    assert Model().value[0][0] == bare("methods_and_class_bodies.<locals>.Model.forward")


@test
def comprehensions_and_generators():
    [check() for _ in range(3)]
    {check()[0]: check() for _ in range(2)}
    list(map(lambda _: check(), range(2)))
    sorted([3, 1, 2], key=lambda _: len(check()))

    def counted():
        received = yield check()
        while received:
            received = yield check()

    generator = counted()
    assert next(generator)[0][0] == bare("comprehensions_and_generators.<locals>.counted")
    assert generator.send(True)[0][0] == bare("comprehensions_and_generators.<locals>.counted")

    def delegating():
        yield from counted()
    assert [name for name, _ in next(delegating())][:2] == [
        bare("comprehensions_and_generators.<locals>.counted"),
        bare("comprehensions_and_generators.<locals>.delegating")]


@test
def coroutines():
    async def leaf():
        check()
        await asyncio.sleep(0)
        return check()

    async def numbers():
        for i in range(3):
            check()
            yield i

    async def root():
        async for _ in numbers():
            check()
        await asyncio.gather(leaf(), leaf())
        return await leaf()

    names = [name for name, _ in asyncio.run(root())]
    assert names[:2] == [bare("coroutines.<locals>.leaf"), bare("coroutines.<locals>.root")], names


@test
def decorators_and_partials():
    def wrapped(function):
        @functools.wraps(function)
        def wrapper(*arguments):
            return function(*arguments)
        return wrapper

    @wrapped
    @functools.lru_cache(maxsize=None)
    def decorated(depth):
        return check() if depth == 0 else functools.partial(decorated, depth - 1)()

    assert len(decorated(3)) > 7


@test
def callbacks_enter_again():
    callback_type = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int)

    @callback_type
    def back(depth):
        check()
        if depth > 0:
            (LIB if depth % 2 else LIB_WITH_GIL).probe_call(back, depth - 1)
        check(LIB_WITH_GIL)
        return 7

    assert LIB.probe_call(back, 6) == 7


@test
def callbacks_on_foreign_threads():
    seen = []

    @ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int)
    def back(depth):
        seen.append([name for name, _ in check()])
        return LIB.probe_call(back, depth - 1) if depth > 0 else 3

    assert LIB.probe_call_elsewhere(back, 2) == 3
    assert [len(names) for names in seen] == [1, 2, 3], seen


@test
def generated_code():
    for name in ("<string>", "weird name\t.py", "", "d\u00e9j\u00e0/\u8a13\u7df4.py", "\U0001f409" * 40,
                 "a\udc80b.py"):
        code = compile("\n\n\ndef generated():\n    return check()\n", name, "exec")
        scope = {"check": check if "\udc80" not in name else lambda: None}
        exec(code, scope)
        scope["generated"]()
    assert eval("check()")[0][0] == "<module>"


@test
def many_lines():
    """Steps of lines forwards and backwards that need several entries in the tables."""
    rng = random.Random(7)
    for _ in range(60):
        gaps = [rng.choice([0, 1, 2, 30, 126, 127, 128, 129, 200, 255, 256, 300, 5000])
                for _ in range(12)]
        body = "def lines(check):\n  return [\n" + "".join(
            "\n" * gap + "    check(),\n" for gap in gaps) + "  ]\n"
        scope = {}
        exec(compile("\n" * rng.choice([0, 5, 70000]) + body, "lines.py", "exec"), scope)
        seen = [frames[0][1] for frames in scope["lines"](check)]
        assert seen == sorted(seen) and len(set(seen)) == len(seen)


@test
def backward_lines():
    def f(*_): return check()
    f(
        f(
            1,
            f(2),
        ),
        f(3)
    )
    for _ in range(
            len(check()) and 2):
        with open(os.devnull):
            check()
        try:
            raise ValueError
        except ValueError:
            check()
        finally:
            check()


@test
def long_code():
    """Offsets beyond one byte, and instructions with extended arguments."""
    body = "def long(check, x):\n" + "".join(
        "    x = x + %d if x %% 3 else x - 1\n" % i for i in range(3000)) + "    return check()\n"
    scope = {}
    exec(compile(body, "long.py", "exec"), scope)
    assert scope["long"](check, 1)[0] == ("long", 3002)


@test
def deep_recursion_is_bounded():
    def deep(depth):
        return innermost() if depth == 0 else deep(depth - 1)

    def innermost():
        frames = (Frame * 4096)()
        return [LIB.probe_frames(frames, limit) for limit in (0, 1, 64, 4096)], frames

    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(5000)
    counts, frames = deep(1000)
    sys.setrecursionlimit(limit)
    assert counts[:3] == [0, 1, 64] and counts[3] >= 1003, counts
    assert describe(frames[1000].code).qualname.decode() == qualname(deep.__code__)


@test
def names_in_other_alphabets():
    scope = {"check": check}
    exec("def \u8a13\u7df4_\u00e9tape():\n  return check()\n"
         "def \U00010400():\n  return check()\n"
         "def \u00e9():\n  return check()\n", scope)
    for name in ("\u8a13\u7df4_\u00e9tape", "\U00010400", "\u00e9"):
        assert scope[name]()[0] == (name, scope[name].__code__.co_firstlineno + 1)


def truncated(text, room):
    kept = text.encode()[:room - 1]
    return kept.decode(errors="ignore").encode()


@test
def long_names_are_cut_between_characters():
    for name in ("n" * 400, "\u8a13" * 300, "x" + "\u8a13" * 300, "xy" + "\u8a13" * 300,
                 "\u00e9" * 500, "z" + "\U00010400" * 200):
        code = compile("def %s(frames, lib): return lib.probe_frames(frames, 1)\n" % name, "f.py",
                       "exec")
        scope = {}
        exec(code, scope)
        frames = (Frame * 1)()
        function = scope.popitem()[1]
        function(frames, LIB)
        seen = describe(frames[0].code)
        assert seen.qualname == truncated(name, 256), (seen.qualname, name)


@test
def long_paths_are_cut_at_their_beginning():
    for character in ("p", "\u00e9", "\u8a13", "\U00010400"):
        for length in (200, 255, 256, 340, 341, 342, 510, 511, 512, 1019, 1020, 1021, 1022, 1023,
                       1024, 1025, 3000):
            path = character * length + "/train.py"
            frames = (Frame * 1)()
            code = compile("lib.probe_frames(frames, 1)", path, "exec")
            exec(code, {"lib": LIB, "frames": frames})
            assert frames[0].code == id(code)
            seen = describe(frames[0].code).file
            if len(path.encode()) <= 1023:
                assert seen == path.encode()
            else:
                assert seen.startswith(b"...") and path.encode().endswith(seen[3:])
                assert 1023 - 4 < len(seen) <= 1023 and seen[3:].decode()


@test
def file_names_that_are_not_utf8():
    frames = (Frame * 1)()
    code = compile("lib.probe_frames(frames, 1)", "a\udc80b\udcffc.py", "exec")
    exec(code, {"lib": LIB, "frames": frames})
    assert frames[0].code == id(code)
    assert describe(frames[0].code).file.decode() == "a\ufffdb\ufffdc.py"


@test
def threads_see_their_own_frames():
    failures = []

    def work(seed):
        rng = random.Random(seed)

        def descend(depth):
            check(LIB if rng.random() < .5 else LIB_WITH_GIL)
            if depth:
                [descend(depth - 1) for _ in range(rng.choice([1, 1, 2]))]
        try:
            for _ in range(10):
                descend(5)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures, failures


@test
def threads_without_python_have_none():
    frames = (Frame * 16)()
    assert LIB.probe_frames_elsewhere(frames, 16) == 0


@test
def forked_children_see_theirs():
    def in_child():
        pid = os.fork()
        if pid == 0:
            try:
                check()
                os._exit(0)
            finally:
                os._exit(1)
        return os.waitpid(pid, 0)[1]

    assert in_child() == 0
    results = []
    thread = threading.Thread(target=lambda: results.append(in_child()))
    thread.start()
    thread.join()
    assert results == [0]


@test
def destructors_and_collector():
    class Dropped:
        def __init__(self):
            self.me = self

        def __del__(self):
            check()

    import gc
    for _ in range(20):
        Dropped()

    def leaves_behind():
        one = Dropped()
        one.me = None
        return 1
    leaves_behind()
    gc.collect()


@test
def tracing_functions():
    def trace(frame, event, argument):
        check()
        return trace

    def traced():
        x = [i for i in range(3)]
        return sum(x)

    sys.settrace(trace)
    try:
        traced()
    finally:
        sys.settrace(None)
    sys.setprofile(lambda *_: check() and None)
    try:
        traced()
    finally:
        sys.setprofile(None)


@test
def exceptions_under_way():
    def fails():
        try:
            raise ValueError("x")
        except ValueError as error:
            check()
            raise RuntimeError from error
        finally:
            check()
    try:
        fails()
    except RuntimeError:
        check()


@test
def keys_tell_code_apart():
    """New code that gets the address of old code has another key, whatever else it got of it."""
    frames = (Frame * 1)()
    seen = {}  # (address, key): which code

    def run(which, name, lines_between):
        scope = {"lib": LIB, "frames": frames, "key": 0}
        source = "lib.probe_frames(frames, 1)" + "\n" * lines_between
        exec(compile(source + "key = lib.probe_key(frames[0].code)", name, "exec"), scope)
        before = len(seen)
        assert scope["key"] != 0, (which, "is taken for what was there before")
        seen.setdefault((frames[0].code, scope["key"]), which)
        assert len(seen) > before, (which, "has the key of", seen[frames[0].code, scope["key"]])

    for which in range(1000):
        run(which, "<generated_%04d>" % which, 1)
    seen.clear()
    for which in range(1, 100):
        run(which, "<generated>", which)
    addresses = {address for address, _ in seen}
    assert len(addresses) < len(seen), "no address was used again"
    mine = sys._getframe().f_code
    keys = {LIB.probe_key(id(mine)) for _ in range(5)}
    assert len(keys) == 1 and 0 not in keys


@test
def what_is_no_code_is_not_described():
    code = Code()
    for thing in (None, "text", b"bytes", 7, check, [], type):
        assert not LIB.probe_describe(id(thing), code)
    for address in (0, 8, 1 << 40, 1 << 46, (1 << 47) - 8, 1 << 47, (1 << 64) - 8, 12345,
                    id(check.__code__) + 8, id(check.__code__) + 1):
        assert not LIB.probe_describe(address, code), hex(address)


if __name__ == "__main__":
    assert LIB.probe_code_size() == ctypes.sizeof(Code)
    assert LIB.probe_find(), "interpreter not recognised"
    for function in TESTS:
        function()
        print("ok", function.__name__)
