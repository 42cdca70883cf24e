"""Hugging Face Transformers: `Trainer(.., callbacks=[traintrace.transformers.Markers()])`."""
# pylint: disable=import-error,unused-argument,missing-function-docstring
from transformers import TrainerCallback

from traintrace._markers import mark, step
from traintrace._open_ranges import OpenRange


class Markers(TrainerCallback):
    """Steps are global steps; ranges are forward and backward, optimizer (where that hook is called) and evaluation, from the end of its first
    batch on; a checkpoint is a mark."""

    def __init__(self):
        self.part = OpenRange()

    def on_step_begin(self, args, state, control, **more):
        step(state.global_step)
        self.part.enter("forward and backward")

    def on_pre_optimizer_step(self, args, state, control, **more):
        self.part.enter("optimizer")

    def on_optimizer_step(self, args, state, control, **more):
        self.part.enter(None)

    def on_prediction_step(self, args, state, control, **more):
        self.part.enter("evaluation")

    def on_save(self, args, state, control, **more):
        mark("checkpoint saved")

    on_step_end = on_evaluate = on_predict = on_train_end = on_optimizer_step
