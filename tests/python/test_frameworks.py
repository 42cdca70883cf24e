"""test_frameworks.py BUILD: the markers of frameworks, which call them in the order that their documentation gives; stand-ins, not they."""
import os
import textwrap

import case

CUDA = """
import ctypes
ctypes.CDLL("libcudart.so.13").cudaFree(None)
"""
LIGHTNING = CUDA + """
import traintrace.lightning
class Trainer:
    global_step = 0
trainer, markers = Trainer(), traintrace.lightning.Markers()
markers.on_validation_start(trainer, None); markers.on_validation_end(trainer, None)
for batch in range(3):  # two of them are one step
    markers.on_train_batch_start(trainer, None, object(), batch)
    markers.on_before_backward(trainer, None, 0.5)
    markers.on_after_backward(trainer, None)
    if batch != 0:
        markers.on_before_optimizer_step(trainer, None, object())
        trainer.global_step += 1
    if batch == 2:
        markers.on_exception(trainer, None, ValueError())
    else:
        markers.on_train_batch_end(trainer, None, {}, object(), batch)
"""
TRANSFORMERS = CUDA + """
import traintrace.transformers
class State:
    global_step = 7
state, markers = State(), traintrace.transformers.Markers()
every = (object(), state, object())
for _ in range(2):
    markers.on_step_begin(*every, model=None)
    markers.on_pre_optimizer_step(*every, model=None)
    markers.on_optimizer_step(*every, model=None)
    state.global_step += 1
    markers.on_step_end(*every, model=None)
markers.on_prediction_step(*every); markers.on_prediction_step(*every)
markers.on_evaluate(*every, metrics={})
markers.on_save(*every)
"""
ACCELERATE = CUDA + """
import traintrace.accelerate
class Optimizer:
    def __init__(self): self.hooks = []
    def register_step_post_hook(self, hook): self.hooks.append(hook)
    def step(self, closure=None):
        for hook in self.hooks: hook(self, (), {})
class Prepared:
    def __init__(self): self.optimizer = Optimizer()
    def step(self): self.optimizer.step()
class Accelerator:
    def backward(self, loss, **more): return loss
accelerator, optimizer = Accelerator(), Prepared()
traintrace.accelerate.follow(accelerator, optimizer)
for _ in range(2):
    assert accelerator.backward(0.5, retain_graph=True) == 0.5
    optimizer.step()
traintrace.accelerate.follow(Accelerator(), object())
"""


class Frameworks(case.Case):
    def marked_by(self, code):
        """What is marked, and that without the tracer it runs as well."""
        self.run_python(code, recorded=False)
        self.run_python(code)
        return [line.replace("offset=0 bytes=1 ", "") for line in case.moments(self.traintrace("dump"))]

    def module(self, path, text):
        path = os.path.join(self.folder, path)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(textwrap.dedent(text))

    def test_lightning(self):
        for package in ("lightning/pytorch", "pytorch_lightning"):
            with self.subTest(package):
                self.tearDown()
                self.setUp()
                self.module(f"{package}/callbacks.py", "class Callback: pass")
                batch = ["rangePush forward", "rangePop forward", "rangePush backward", "rangePop backward"]
                optimizer = ["rangePush optimizer", "rangePop optimizer"]
                self.assertEqual(self.marked_by(LIGHTNING), [
                    "rangePush validation", "rangePop validation", "step step=0", "note batch 0", *batch, "note batch 1", *batch, *optimizer,
                    "step step=1", "note batch 2", *batch, *optimizer])

    def test_transformers(self):
        self.module("transformers.py", "class TrainerCallback: pass")
        step = ["rangePush forward and backward", "rangePop forward and backward", "rangePush optimizer", "rangePop optimizer"]
        self.assertEqual(self.marked_by(TRANSFORMERS), [
            "step step=7", *step, "step step=8", *step, "rangePush evaluation", "rangePop evaluation", "mark checkpoint saved"])

    def test_accelerate(self):
        backward = ["rangePush backward", "rangePop backward"]
        self.assertEqual(self.marked_by(ACCELERATE), ["step step=0", *backward, "step step=1", *backward, "step step=2"])

    def test_without_the_framework(self):
        """Nothing of ours imports one; who asks for its markers is told which is missing."""
        done = self.run_python("import sys, traintrace\ntraintrace.step()\nassert not {'lightning', 'transformers', 'accelerate'} & set(sys.modules)\n"
                               "try:\n  import traintrace.transformers\nexcept ImportError as error:\n  print(error.name)")
        self.assertEqual(done, "transformers\n")


if __name__ == "__main__":
    case.main()
