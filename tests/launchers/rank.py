"""rank.py FOLDER [die-in-first] [loader METHOD cuda|none]: a rank that a launcher started, by its environment."""
import multiprocessing
import os
import sys
import time

import worker


def main():
    rank, ranks = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    generation = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")
    path = os.path.join(sys.argv[1], f"unique-id.{generation}")

    def between(step):
        if "die-in-first" in sys.argv and generation == "0" and rank == 1 and step == 3:
            time.sleep(0.3)
            os._exit(7)
        if queue is not None:
            assert queue.get(timeout=60) == step

    queue = process = None
    if "loader" in sys.argv:
        method, uses = sys.argv[sys.argv.index("loader") + 1:][:2]
        context = multiprocessing.get_context(method)
        queue = context.Queue()
        process = context.Process(target=worker.load, args=(queue, uses == "cuda"))
        process.start()
    worker.train(path, rank, ranks, between=between)
    if process is not None:
        process.join()
        assert process.exitcode == 0


if __name__ == "__main__":
    main()
