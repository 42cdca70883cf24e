"""examples/ddp/train.py, in which rank 2 gets stuck: ddp.py KIND FOLDER [option of train.py ..]

Run by torchrun; the mistake is made in step 5.  KIND `none`: nothing is wrong.
"""
import os
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "..", "examples", "ddp"))
import train  # noqa: E402

kind, folder = sys.argv[1], sys.argv[2]
del sys.argv[1:3]
RANK, STEP = 2, 5
is_culprit = int(os.environ["RANK"]) == RANK


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
        if is_culprit and step == STEP and kind not in ("none", "loader"):
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


train.Examples = Examples
train.Trainer = Trainer
train.main()
