"""Asks `traintrace attach` of a job that is not recorded, which waits in a call, what it has passed there.

    arguments.py BUILD_FOLDER
"""
import json
import os
import subprocess
import sys
import tempfile

import jobs
from jobs import check

NUMBER = 12344
# What lies in no register that the call gives back is not told, rather than guessed.
KNOWN = {"reduce": f"ncclAllReduce(count={NUMBER}, type=float32, op=max)", "copy": f"cudaMemcpy(bytes={NUMBER}, direction=d2h)",
         "forget": "cudaMemcpy(direction=d2h)"}
build = os.path.abspath(sys.argv[1])


def look(pid, *options):
    done = subprocess.run([os.path.join(build, "bin", "traintrace"), "attach", str(pid), "--format=json", "--interval=0s",
                           *options], capture_output=True, text=True)
    check(done.returncode == 0, f"attach exits with {done.returncode}", done.stderr)
    answer = json.loads(done.stdout)
    main = next(thread for thread in answer["threads"] if thread["role"] == "main")
    return main, answer["findings"][0]


def look_when_it_waits(pid, *options):
    while True:  # it polls: now and then it runs
        main, finding = look(pid, *options)
        if main["state"] == "S" and main["waits_on"].startswith(("nccl", "cudaMemcpy")):
            return main, finding


def try_kind(kind, known):
    with tempfile.TemporaryDirectory(prefix="traintrace-attach-") as folder:
        environment = jobs.environment(build, folder, LD_PRELOAD=None, SIMGPU_DEVICES="2")
        job = subprocess.Popen([os.path.join(build, "tests", "arguments"), kind, str(NUMBER)], env=environment,
                               stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
        try:
            check(job.stdout.readline() == "ready\n", f"{kind}: the job did not start")
            main, finding = look_when_it_waits(job.pid)
            check(main["waits_on"] == known, f"{kind}: without stopping it", main["waits_on"])
            check(known in finding["title"] and not finding["culprits"], f"{kind}: finding", finding)
            main, _ = look_when_it_waits(job.pid, "--stop")
            check(main["waits_on"] == known, f"{kind}: stopped", main["waits_on"])
        finally:
            jobs.stop([job])


for each, told in KNOWN.items():
    try_kind(each, told)
jobs.end("arguments")
