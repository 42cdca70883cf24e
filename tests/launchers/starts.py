"""starts.py FOLDER RANKS METHOD [nested] [loader METHOD]: a script that starts its ranks by multiprocessing, as torch.multiprocessing.spawn does.

No environment says which rank a process is.  `nested`: each rank is started by a process of its own, as Ray's actors are.
`loader`: each rank has a worker of a loader that uses CUDA.
"""
import multiprocessing
import os
import subprocess
import sys

import worker


def run(path, rank, ranks):
    worker.train(path, rank, ranks)


def run_with_loader(path, rank, ranks, method):
    context = multiprocessing.get_context(method)
    queue = context.Queue()
    process = context.Process(target=worker.load, args=(queue, True))
    process.start()

    def between(step):
        assert queue.get(timeout=60) == step
    worker.train(path, rank, ranks, between=between)
    process.join()
    assert process.exitcode == 0


def run_nested(path, rank, ranks):
    code = f"import worker; worker.train({path!r}, {rank}, {ranks})"
    subprocess.run([sys.executable, "-c", code], check=True, cwd=os.path.dirname(os.path.abspath(__file__)))


def main():
    folder, ranks, method = sys.argv[1], int(sys.argv[2]), sys.argv[3]
    context = multiprocessing.get_context(method)
    target = run_nested if "nested" in sys.argv else run
    more = ()
    if "loader" in sys.argv:
        target, more = run_with_loader, (sys.argv[sys.argv.index("loader") + 1],)
    started = [context.Process(target=target, args=(os.path.join(folder, "unique-id"), rank, ranks, *more)) for rank in range(ranks)]
    for process in started:
        process.start()
    for process in started:
        process.join()
    sys.exit(max(abs(process.exitcode) for process in started))


if __name__ == "__main__":
    main()
