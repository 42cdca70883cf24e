"""Lightning: `Trainer(callbacks=[traintrace.lightning.Markers()])`, of the package lightning or pytorch_lightning."""
# pylint: disable=import-error,unused-argument,missing-function-docstring
try:
    from lightning.pytorch.callbacks import Callback
except ImportError:
    from pytorch_lightning.callbacks import Callback

from traintrace._markers import note, step
from traintrace._open_ranges import OpenRange


class Markers(Callback):
    """Steps are global steps, `batch` is a note, ranges are forward, backward, optimizer, validation and test."""

    def __init__(self):
        super().__init__()
        self.step = None
        self.part = OpenRange()

    def on_train_batch_start(self, trainer, pl_module, batch, batch_idx):
        if trainer.global_step != self.step:  # several batches are one where gradients are accumulated
            self.step = trainer.global_step
            step(self.step)
        note("batch", batch_idx)
        self.part.enter("forward")

    def on_before_backward(self, trainer, pl_module, loss):
        self.part.enter("backward")

    def on_after_backward(self, trainer, pl_module):
        self.part.enter(None)

    def on_before_optimizer_step(self, trainer, pl_module, optimizer, *more):
        self.part.enter("optimizer")

    def on_train_batch_end(self, trainer, pl_module, *more):
        self.part.enter(None)

    def on_validation_start(self, trainer, pl_module):
        self.part.enter("validation")

    def on_test_start(self, trainer, pl_module):
        self.part.enter("test")

    on_validation_end = on_test_end = on_after_backward

    def on_exception(self, trainer, pl_module, exception):
        self.part.enter(None)
