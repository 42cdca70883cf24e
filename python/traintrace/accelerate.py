"""Hugging Face Accelerate: `traintrace.accelerate.follow(accelerator, optimizer)`, with what `prepare()` gave."""
from traintrace._markers import range, step  # pylint: disable=redefined-builtin


def follow(accelerator, optimizer):
    """`accelerator.backward()` is the range backward; each step of the optimizer ends a step.

    Where gradients are accumulated Accelerate leaves the optimizer's steps out in between, and so do we.  An optimizer without hooks, such as
    DeepSpeed's, has no steps here: call traintrace.step() in the loop.
    """
    accelerator.backward = range("backward")(accelerator.backward)
    inner = getattr(optimizer, "optimizer", optimizer)
    if hasattr(inner, "register_step_post_hook"):  # PyTorch 2.0
        step()
        inner.register_step_post_hook(lambda *_: step())
