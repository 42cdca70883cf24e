"""What recording does to the step time of a training job: examples/ddp on simgpu, with and without the preload.

    steps.py BUILD_FOLDER [--rounds=12] [--steps=400] [--ranks=2] [--levels=off,scalars,batches,small,check]

Rounds of three runs, one with the preload and two without, right after one another and in another order each time, so
that other load on the machine hits all.  A run counts by its median step.  Prints a table in Markdown: the median of the
rounds' ratios, and the range that holds half of them.  The two runs without, one against the other, show what the method
itself cannot tell apart.  Nothing of the job runs on a GPU, so no figure here is about one.
"""
import argparse
import itertools
import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time

KINDS = {"by the clock": time.monotonic, "CPU time of the training thread": time.thread_time,
         "CPU time of the process": time.process_time}


def be_a_rank(steps, result):
    """The job itself, with clocks around each step."""
    sys.path.insert(0, "examples/ddp")
    import train
    times = {kind: [] for kind in KINDS}
    train_step = train.Trainer.train_step

    def timed(*arguments):
        before = [clock() for clock in KINDS.values()]
        loss = train_step(*arguments)
        for kind, clock, began in zip(KINDS, KINDS.values(), before):
            times[kind].append((clock() - began) * 1e3)
        return loss

    train.Trainer.train_step = timed
    sys.argv[1:] = ["--workers=0", f"--steps={steps}"]
    train.main()
    with open(result, "w") as file:
        json.dump({kind: statistics.median(of[len(of) // 10:]) for kind, of in times.items()}, file)


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return str(listener.getsockname()[1])


def run(options, scratch, traced, level=None):
    """Milliseconds of the median step, by kind of clock: the mean over the ranks."""
    folder = tempfile.mkdtemp(dir=scratch)
    traces = os.path.join(folder, "traces")
    os.mkdir(traces)
    environment = {**os.environ, "WORLD_SIZE": str(options.ranks), "MASTER_ADDR": "127.0.0.1",
                   "MASTER_PORT": free_port(), "OMP_NUM_THREADS": "1", "SIMGPU_NODE": folder, "TRAINTRACE_DIR": traces,
                   "LD_LIBRARY_PATH": os.path.join(options.build, "simgpu")}
    if level:
        environment["TRAINTRACE_PAYLOAD"] = level
    if traced:
        environment["LD_PRELOAD"] = os.path.join(options.build, "lib", "libtraintrace.so")
    results = [os.path.join(folder, f"rank{rank}") for rank in range(options.ranks)]
    ranks = [subprocess.Popen(["/usr/bin/python3", __file__, "--rank", str(options.steps), result],
                              env={**environment, "RANK": str(rank), "LOCAL_RANK": str(rank)},
                              text=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
             for rank, result in enumerate(results)]
    for rank in ranks:
        errors = rank.communicate()[1]
        if rank.returncode:
            sys.exit(f"the job ended with {rank.returncode}: {errors}")
    written = [name for name in os.listdir(traces) if name.endswith(".trace")]  # a keeper may still be renaming others
    if len(written) != options.ranks * traced:
        sys.exit(f"{sorted(os.listdir(traces))}: {len(written)} traces of {options.ranks * traced}")
    steps = [json.load(open(result)) for result in results]
    return {kind: statistics.fmean(step[kind] for step in steps) for kind in KINDS}


def spread(ratios):
    low, middle, high = statistics.quantiles(ratios, n=4)
    return f"{middle:.3f} ({low:.3f} .. {high:.3f})"


def compare_levels(options, scratch):
    first, *levels = options.levels.split(",")
    names = [first, "again", *levels]
    run(options, scratch, True, first)
    rounds = []
    for number in range(options.rounds):
        order = names[number % len(names):] + names[:number % len(names)]
        rounds.append({name: run(options, scratch, True, first if name == "again" else name) for name in order})
    print(f"| a step of examples/ddp, {options.ranks} ranks, half of {options.rounds} rounds | {' | '.join(KINDS)} |\n|---|---|---|---|")
    for name in names:
        cells = [f"{statistics.median(one[first][kind] for one in rounds):.3f} ms" if name == first else
                 spread([one[name][kind] / one[first][kind] for one in rounds]) for kind in KINDS]
        print(f"| {f'{first} again' if name == 'again' else name}{'' if name == first else ' / ' + first} | {' | '.join(cells)} |")


def main(options, scratch):
    if options.levels:
        compare_levels(options, scratch)
        return
    run(options, scratch, True)  # brings everything into the page cache
    orders = list(itertools.permutations(("with", "first", "second")))
    rounds = [{name: run(options, scratch, name == "with") for name in orders[number % len(orders)]}
              for number in range(options.rounds)]
    print(f"| a step of examples/ddp, {options.ranks} ranks ({os.cpu_count()} cores) | without, ms | with / without, half "
          f"of {options.rounds} rounds | without / without |\n|---|---|---|---|")
    for kind in KINDS:
        bare = [(one["first"][kind] + one["second"][kind]) / 2 for one in rounds]
        traced = spread([one["with"][kind] / without for one, without in zip(rounds, bare)])
        control = spread([one["second"][kind] / one["first"][kind] for one in rounds])
        print(f"| {kind} | {statistics.median(bare):.2f} | {traced} | {control} |")


if sys.argv[1:2] == ["--rank"]:
    be_a_rank(int(sys.argv[2]), sys.argv[3])
else:
    parser = argparse.ArgumentParser()
    parser.add_argument("build", type=os.path.abspath)
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--steps", type=int, default=400)
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--levels")
    with tempfile.TemporaryDirectory(prefix="traintrace-bench.", dir="/dev/shm") as folder:
        main(parser.parse_args(), folder)
