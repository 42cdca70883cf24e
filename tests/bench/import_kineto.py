"""How fast traces of PyTorch's profiler are read, and in how much memory: the events of a trace repeated to 20 million, uncompressed.

import_kineto.py BUILD [--events=N] [TRACE..]   Without a TRACE: one made here.  Writes some GB into TMPDIR, and removes them."""
import gzip
import json
import os
import re
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "profiles"))
from made import Rank


def made():
    """What a step of PyTorch writes: operators, calls, kernels, arrows, annotations."""
    rank = Rank(0, 1)
    for step in range(50):
        began = rank.now
        for layer in range(200):
            rank.host(5, "aten::linear")
            rank.add("cpu_op", "aten::addmm", rank.now, 9, "host", **{"External id": layer, "Sequence number": layer, "Fwd thread id": 0,
                     "Input Dims": [[1024], [64, 1024], [1024, 1024], [], []], "Input type": ["float", "float", "float", "Scalar", "Scalar"]})
            rank.launch(60, "ampere_sgemm_128x64_tn", **{"External id": layer, "queued": 0, "context": 1, "registers per thread": 122,
                        "shared memory": 16384, "blocks per SM": 1.185185, "warps per SM": 9.481481, "grid": [16, 1, 8], "block": [256, 1, 1],
                        "est. achieved occupancy %": 15})
            for phase in "sf":
                rank.events.append({"ph": phase, "id": rank.correlation, "pid": 0, "tid": 7, "ts": rank.now, "cat": "ac2g", "name": "ac2g", "bp": "e"})
        rank.step(step, began)
    return json.dumps(rank.document())


def text_of(path):
    with (gzip.open if path.endswith(".gz") else open)(path, "rb") as file:
        return file.read().decode("utf-8", "surrogateescape")


def repeated(text, events, file):
    """The same events again and again, in the same place of the document."""
    begin = text.index("[", text.index('"traceEvents"')) + 1
    count = len(re.findall(r'"ph"\s*:', text))
    end = json.JSONDecoder(strict=False).raw_decode(text, begin - 1)[1] - 1
    inside = text[begin:end].encode("utf-8", "surrogateescape")
    file.write(text[:begin].encode("utf-8", "surrogateescape"))
    for number in range(max(1, events // count)):
        file.write(b"," + inside if number else inside)
    file.write(text[end:].encode("utf-8", "surrogateescape"))
    file.flush()


def measure(build, path):
    done = subprocess.run([f"{build}/bench/peers/import_kineto", path], stdout=subprocess.PIPE, check=True)
    return json.loads(done.stdout)


def main(build, *arguments):
    events = next((int(argument.split("=")[1]) for argument in arguments if argument.startswith("--events=")), 20_000_000)
    traces = [argument for argument in arguments if not argument.startswith("--")]
    print("| trace | GB | events | M events/s of one core | MB/s | bytes resident per event | at the peak |\n|---|---|---|---|---|---|---|")
    for name in traces or [None]:
        text = text_of(name) if name else made()
        with tempfile.NamedTemporaryFile(suffix=".json") as file:
            repeated(text, events, file)
            result, size = measure(build, file.name), os.path.getsize(file.name)
        print(f"| {os.path.basename(name) if name else 'made here'} | {size / 1e9:.2f} | {result['events']} | "
              f"{result['events'] / result['cpu_s'] / 1e6:.2f} | {size / result['cpu_s'] / 1e6:.0f} | "
              f"{result['resident_bytes'] / result['events']:.1f} | {result['peak_bytes'] / result['events']:.1f} |", flush=True)


main(*sys.argv[1:])
