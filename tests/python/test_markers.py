"""test_markers.py BUILD: what a job says of itself by the package of Python."""
import glob
import json
import os
import re

import case

MARKED = """
import ctypes, traintrace
cuda = ctypes.CDLL("libcudart.so.13")
cuda.cudaFree(None)
@traintrace.range("loop")
def loop():
    for number in range(3):
        traintrace.step(number)
        traintrace.note("samples", [10 * number, 10 * number + 1, 10 * number + 5])
        with traintrace.range("forward"):
            traintrace.mark("here")
loop()
traintrace.step()
assert traintrace.is_recorded()
"""
ODD = """
import ctypes, traintrace
ctypes.CDLL("libcudart.so.13").cudaFree(None)
class OnGpu:
    device = "cuda:0"
    def __len__(self): return 7
    def tolist(self): raise AssertionError("that waits for the GPU")
class Bad:
    def __str__(self): raise ValueError
    def __iter__(self): raise KeyError("x")
class Array:
    def tolist(self): return [3, 4, 5]
traintrace.note("samples", OnGpu())
traintrace.note(7, Bad())
traintrace.note("array", Array())
traintrace.note("names", ("a.jpg", "b.jpg"))
traintrace.note("many", range(1000))
traintrace.note("none", None)
traintrace.step("seven"); traintrace.step(None); traintrace.step(2.5)
traintrace.mark(Bad()); traintrace.mark("nul\\0 and \\ud800")
with traintrace.range(None): pass
try:
    with traintrace.range("fails"):
        raise KeyError
except KeyError:
    pass
@traintrace.range("a")
def named(a, *, b=2):
    "Documented."
    return a + b
assert named(1, b=3) == 4 and named.__name__ == "named" and named.__doc__ == "Documented."
@traintrace.range("generator")
def generator():
    yield 1
assert list(generator()) == [1]
"""


TURNS = """
import ctypes, os, traintrace
ctypes.CDLL("libcudart.so.13").cudaFree(None)
def batches(name):
    with traintrace.range(name):
        yield 1
        yield 2
with traintrace.range("train"):
    left, right = batches("left"), batches("right")
    next(left), next(right)
    with traintrace.range("forward"):
        left.close()
    try:
        with traintrace.range("raises"), traintrace.range("within"):
            raise KeyError
    except KeyError:
        pass
    right.close()
    with traintrace.range("eval"):
        os.kill(os.getpid(), 9)
"""
SNAPSHOT = """
import ctypes, os, traintrace
cuda = ctypes.CDLL("libcudart.so.13")
assert traintrace.snapshot("early") is None
cuda.cudaFree(None)
traintrace.step(1)
os.mkdir("other")
os.chdir("other")
at_one = traintrace.snapshot("../peak")
traintrace.step(2)
at_two = traintrace.snapshot("peak")
traintrace.step(3)
assert traintrace.snapshot("/proc/nowhere") is None
if os.fork() == 0:
    os._exit(traintrace.snapshot("of a child") is not None)
assert os.wait()[1] == 0
print(at_one, at_two, sep="\\n")
"""
IDLE = """
import time, timeit, traintrace
ids, ranged, until = list(range(32)), traintrace.range("f")(lambda: None), time.monotonic() + 30
def within():
    with traintrace.range("x"):
        pass
calls = {"step": lambda: traintrace.step(7), "mark": lambda: traintrace.mark("x"), "note": lambda: traintrace.note("samples", ids), "range": within,
         "ranged": ranged, "is_recorded": traintrace.is_recorded, "snapshot": lambda: traintrace.snapshot("x")}
while calls and time.monotonic() < until:
    calls = {name: call for name, call in calls.items() if min(timeit.repeat(call, number=2000, repeat=30)) >= 2000 * 200e-9}
print(*calls)
"""


class Markers(case.Case):
    def test_are_recorded(self):
        self.run_python(MARKED)
        seen = case.moments(self.traintrace("dump"))
        step = [["step step=%d" % number, "note samples offset=0 bytes=%d %s" % (len(text), text if len(text) <= 8 else text[:8] + " " + text[8:]),
                 "rangePush forward", "mark here", "rangePop forward"] for number, text in enumerate(("0-1,5", "10-11,15", "20-21,25"))]
        self.assertEqual(seen, ["rangePush loop", *sum(step, []), "rangePop loop", "step step=3"])

    def test_take_whatever_they_are_given(self):
        self.run_python(ODD)
        seen = case.moments(self.traintrace("dump"))
        notes = [line for line in seen if line.startswith("note ")]
        self.assertIn("(7 value s on cud a:0)", notes[0])
        self.assertIn("(KeyErro r)", notes[1])
        self.assertIn("3-5", notes[2])
        self.assertIn("a.jpg,b. jpg", notes[3])
        self.assertIn("0-255,..  (1000 v alues)", notes[4])
        self.assertIn("None", notes[5])
        self.assertEqual([line for line in seen if line.startswith("step")], [f"step step={number}" for number in range(3)])
        self.assertIn("mark (unprintable)", seen)
        self.assertIn("mark nul  and ?", seen)
        self.assertEqual([line for line in seen if "fails" in line], ["rangePush fails", "rangePop fails"])
        self.assertFalse([line for line in seen if "generator" in line])

    def test_of_generators_end_in_any_order(self):
        """Whichever is left first: what stays open is what has not been left."""
        self.assertEqual(self.start("-c", TURNS).wait(timeout=60), -9)
        seen = case.moments(self.traintrace("dump"))
        self.assertEqual(seen, ["rangePush train", "rangePush left", "rangePush right", "rangePush forward", "rangePop left", "rangePop forward",
                                "rangePush raises", "rangePush within", "rangePop within", "rangePop raises", "rangePop right", "rangePush eval"])
        dump = self.traintrace("dump")
        open_ones = re.findall(r"^open-range \S+ range=(\S+)", re.sub(r" at=\S+", "", dump), re.MULTILINE)
        names = {number: name for number, name in re.findall(r"range=(\w+)=(\w+)", dump)}
        self.assertEqual([names.get(number, number) for number in open_ones], ["train", "eval"])

    def test_do_nothing_without_the_library(self):
        self.run_python(ODD.replace('ctypes.CDLL("libcudart.so.13").cudaFree(None)', "assert not traintrace.is_recorded()"), recorded=False)
        self.run_python("import traintrace; assert not traintrace.is_recorded()", TRAINTRACE_DISABLE="1")

    def test_without_the_library_take_no_time(self):
        """Less than 200 ns each; a machine with other work may need some attempts."""
        slow = self.run_python(IDLE, recorded=False).split()
        self.assertEqual(slow, [])

    def test_without_the_library_load_nothing_more(self):
        code = "import sys, traintrace; traintrace.step(1); print('json' in sys.modules, 'dataclasses' in sys.modules)"
        self.assertEqual(self.run_python(code, recorded=False), "False False\n")

    def test_name_the_step_and_the_phase_of_a_verdict(self):
        self.assertEqual(self.run_job(3, "107"), [None, None, 3])
        said = self.traintrace("analyze", "--hang-after=0.5s")
        self.assertIn("collective.early-exit proof culprits=2 victims=0,1", said)
        self.assertIn("rank 2 was in: step 107 > evaluate", said)
        self.assertIn("ranks 0,1 are in: step 107 > backward", said)
        self.assertIn("rank 2 noted: samples 10336-10367", said)

    def test_are_no_trouble_to_a_healthy_job(self):
        self.assertEqual(self.run_job(3), [0, 0, 0])
        self.assertIn("verdict: likely: nothing is wrong", self.traintrace("analyze"))

    def test_snapshot(self):
        """Each has what was recorded until then; a place of no use, a process without a trace and a job without the tracer have none."""
        folders = self.run_python(SNAPSHOT).splitlines()
        self.assertEqual(folders, [f"{self.folder}/peak", f"{self.folder}/other/peak"])
        for last, folder in enumerate(folders, 1):
            self.assertEqual(case.moments(self.traintrace("dump", folder)), [f"step step={step}" for step in range(1, last + 1)])
            self.assertEqual(os.stat(folder).st_mode & 0o777, 0o700)
        self.assertEqual(case.moments(self.traintrace("dump")), [f"step step={step}" for step in (1, 2, 3)])
        self.assertEqual(self.run_python("import traintrace\nprint(traintrace.snapshot('peak'))", recorded=False), "None\n")

    def test_tell_the_steps_of_a_timeline(self):
        self.assertEqual(self.run_job(2, TRAINTRACE_GPU_TIMELINE="cupti"), [0, 0])
        rows = self.traintrace("report", "--by=step", "--format=csv", "--columns=rank,found_by,step").splitlines()
        self.assertEqual([row for row in rows if ",marks," in row], [f"{rank},marks,{step}" for rank in range(2) for step in range(100, 110)])

    def test_are_in_exports(self):
        self.assertEqual(self.run_job(2, TRAINTRACE_GPU_TIMELINE="cupti"), [0, 0])
        self.traintrace("export", "perfetto", self.traces, "--output=all.perfetto")
        with open(f"{self.folder}/all.perfetto", "rb") as file:
            trace = file.read()
        for name in (b"forward", b"backward", b"evaluate", b"step 100", b"step 109", b"samples 6432-6463"):
            self.assertIn(name, trace)
        self.traintrace("export", "kineto", self.traces, "--output=kineto")
        for name in glob.glob(f"{self.folder}/kineto*/*.json") + glob.glob(f"{self.folder}/kineto*.json"):
            with open(name, encoding="utf-8") as file:
                events = json.load(file)["traceEvents"]
            marked = [event for event in events if event["cat"] == "user_annotation"]
            names = [event["name"] for event in marked]
            self.assertEqual([names.count(each) for each in ("forward", "backward", "evaluate", "ProfilerStep#107")], [10, 10, 10, 1])
            backward = next(event for event in marked if event["name"] == "backward")
            self.assertTrue(any(event["name"] == "cudaStreamSynchronize" and event["tid"] == backward["tid"]
                                and backward["ts"] <= event["ts"] <= backward["ts"] + backward["dur"] for event in events))
            break
        else:
            self.fail("no file")


if __name__ == "__main__":
    case.main()
