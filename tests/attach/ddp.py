"""examples/ddp/train.py, in which rank 2 gets stuck: ddp.py KIND FOLDER [option of train.py ..]

Run by torchrun; the mistake is made in step 5.  KIND `none`: nothing is wrong.  `watched`: neither, and at its end every
rank says how many signals it has seen, and how many of its waits were interrupted.
"""
import ctypes
import os
import select
import signal
import sys
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
for each in ("common", "ddp"):
    sys.path.insert(0, os.path.join(HERE, "..", "..", "examples", each))
import train  # noqa: E402

kind, folder = sys.argv[1], sys.argv[2]
del sys.argv[1:3]
RANK, STEP = 2, 5
is_culprit = int(os.environ["RANK"]) == RANK


class Watch:
    """Waits as a library would that does not repeat what was interrupted."""

    def __init__(self):
        self.waits, self.interrupted, self.signals = 0, 0, []
        self.ended = False
        for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP, signal.SIGCHLD, signal.SIGTERM}:
            signal.signal(number, lambda caught, _: self.signals.append(caught))
        self.threads = [threading.Thread(target=wait, daemon=True) for wait in (self.poll, self.sleep)]
        for thread in self.threads:
            thread.start()

    def count(self, failed):
        self.waits += 1
        self.interrupted += failed

    def poll(self):
        libc, events = ctypes.CDLL(None, use_errno=True), (ctypes.c_char * 120)()
        with select.epoll() as nothing:
            while not self.ended:
                self.count(libc.epoll_wait(nothing.fileno(), events, 10, 50) != 0)

    def sleep(self):
        libc, time_spec = ctypes.CDLL(None, use_errno=True), (ctypes.c_long * 2)(0, 20_000_000)
        while not self.ended:
            self.count(libc.nanosleep(time_spec, None) != 0)

    def end(self):
        self.ended = True
        for thread in self.threads:
            thread.join()
        print(f"watched waits={self.waits} interrupted={self.interrupted} signals={len(self.signals)}", flush=True)


class Examples(train.Examples):
    """Its files lie on a server that does not answer for one of them."""

    def __getitem__(self, number):
        world = int(os.environ["WORLD_SIZE"])
        if kind == "loader" and is_culprit and number == (STEP * world + RANK) * train.BATCH:
            time.sleep(100000)  # WORKER
        return super().__getitem__(number)


class Trainer(train.Trainer):
    def __init__(self, options, store):
        super().__init__(options, store)
        self.store = store

    def train_step(self, step, features, labels):
        if is_culprit and step == STEP and kind not in ("none", "watched", "loader"):
            getattr(self, "stuck_" + kind)()
        if kind == "none":
            time.sleep(0.05)
        return super().train_step(step, features, labels)

    def stuck_store(self):
        self.store.get("never set")  # STUCK store

    def stuck_checkpoint(self):
        path = os.path.join(folder, "checkpoint")
        os.mkfifo(path)  # nobody reads
        train.torch.save(self.model.state_dict(), path)  # STUCK checkpoint

    def stuck_slow(self):
        while True:  # it works, and works
            time.sleep(0.03)  # STUCK slow
            sum(range(1000))


# In a long run an example may become hard by itself, and that is the example's own way to hang.
train.HARD_LOSS = float("inf")
train.Examples = Examples
train.Trainer = Trainer
watch = Watch() if kind == "watched" else None
train.main()
if watch:
    watch.end()
