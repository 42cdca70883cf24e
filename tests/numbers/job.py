"""job.py CASE: a rank that fetches numbers from its GPU in each step, as judge.py knows them."""
import math
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, f"{HERE}/site-packages")
from gpu import Tensor, call
from amp.grad_scaler import GradScaler

rank = int(os.environ["RANK"])
NAN, INF = math.nan, math.inf


def loss_of(step):
    return 4.0 / (1 + step) + 0.01 * rank


def log_losses(losses, form="<f"):
    loss = Tensor()
    for each in losses:
        loss.set(form, each)
        loss.item()  # LOSS


def finite(count):
    return [loss_of(step) for step in range(count)]


def nan_on_one():
    log_losses(finite(30) + ([NAN] if rank == 1 else [loss_of(30)]) + [NAN] * 19)


def skip_steps(skipped, steps):
    found_inf = Tensor()
    scaler = GradScaler(found_inf)
    for step in range(steps):
        found_inf.set("<f", 1.0 if step in skipped else 0.0)
        scaler.step()  # STEP


EARLY = {0, 1, 2, 3, 4, 5}
CASES = {
    "healthy": lambda: log_losses(finite(50)),
    "nan-on-one": nan_on_one,
    "nan-on-all": lambda: log_losses(finite(30) + [NAN] * 20),
    "inf-of-doubles": lambda: log_losses(finite(30) + [INF] * 3, "<d"),
    # A gradient norm in a step that the loss scaler skips; and at the end, twice.
    "inf-now-and-then": lambda: log_losses(finite(30) + [INF] + finite(10) + [INF, INF]),
    # Nothing shows that these are floats: too few before, or too little change.
    "nan-early": lambda: log_losses(finite(7) + [NAN] * 20),
    "nan-behind-a-constant": lambda: log_losses([0.5] * 30 + [NAN] * 20),
    # The patterns of NaN as integers, behind small ones, and behind a clock of seconds.
    "minus-one": lambda: log_losses([*range(1, 40), -1, -1, -1, -1], "<i"),
    "most-integer": lambda: log_losses([*range(1, 40), 2**31 - 1, 2**31 - 1, 2**31 - 1], "<i"),
    "clock": lambda: log_losses([*range(1764130000, 1764130040), -1, -1, -1, -1], "<i"),
    "minus-one-of-64-bits": lambda: log_losses([*range(1, 40), -1, -1, -1, -1], "<q"),
    "halves": lambda: log_losses([*finite(40), NAN, NAN, NAN, NAN], "<e"),
    "skips": lambda: skip_steps(EARLY | {250, 390}, 400),
    "no-skips": lambda: skip_steps(set(), 400),
    "collapsed": lambda: skip_steps(EARLY | set(range(300, 400)), 400),
    "collapsed-for-5": lambda: skip_steps(EARLY | set(range(300, 305)), 400),
    "nearly-collapsed": lambda: skip_steps(EARLY | set(range(300, 304)) | set(range(206, 300, 6)), 400),
    "skips-at-last": lambda: skip_steps(EARLY | {201, 203}, 205),
    "collapsed-by-share": lambda: skip_steps(set(range(200, 400, 9)), 400),
}

call("cudaSetDevice", rank)
CASES[sys.argv[1]]()
