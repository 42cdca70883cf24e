"""starts.py FOLDER RANKS METHOD [nested] [loader METHOD], or FOLDER RANKS first: a script that starts its ranks by multiprocessing, as torch.multiprocessing.spawn does.

No environment says which rank a process is.  `nested`: each rank is started by a process of its own, as Ray's actors are.
`first`: it is rank 0 itself and starts the others with a local rank each, as Lightning's launcher does.
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


def run_first(path, ranks):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="29500", NODE_RANK="0", LOCAL_RANK="0", WORLD_SIZE=str(ranks))
    code = "import sys, worker; worker.train(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))"
    others = [subprocess.Popen([sys.executable, "-c", code, path, str(rank), str(ranks)], env={**os.environ, "LOCAL_RANK": str(rank)},
                               cwd=os.path.dirname(os.path.abspath(__file__))) for rank in range(1, ranks)]
    run(path, 0, ranks)
    sys.exit(max(other.wait() for other in others))


def main():
    folder, ranks, method = sys.argv[1], int(sys.argv[2]), sys.argv[3]
    if method == "first":
        run_first(os.path.join(folder, "unique-id"), ranks)
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
