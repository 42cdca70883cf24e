"""Jobs whose right answer is known and once was not given, by their configuration."""
from dataclasses import dataclass

import causes


@dataclass
class Known:
    label: str
    cause: str
    job: dict
    settings: dict  # of the cause
    codes: tuple  # of the first finding, the right ones
    line: str = ""  # in it
    gain: bool = False  # is within 20 % of what is lost
    unanswered: str = ""  # why it is not given yet


# Hosts that never wait run ahead. Where the recording then begins in the middle, the first kernels have no launch and the first steps no mark.
AHEAD = {"reads_each_step": False}

KNOWN = [
    Known("slow GPU among experts, from the middle", "slow-gpu",
          {"seed": 868213, "model": "experts", "steps": 10, "operator_us": 6, "all_reduce_us": 300, "recording_begins_ns": 8039838, **AHEAD},
          {"ranks": [1], "strength": 2 / 3}, (causes.SLOW_DEVICE, causes.STRAGGLER)),
    Known("slow GPU of a tensor group, from the middle", "slow-gpu",
          {"seed": 718830, "model": "tensor", "tensor": 4, "layers": 6, "steps": 12, "all_reduce_us": 300, "contention": 0.25,
           "recording_begins_ns": 4421917, **AHEAD},
          {"ranks": [0], "strength": 0.25}, (causes.SLOW_DEVICE, causes.STRAGGLER)),
    Known("slower from a step on, from the middle", "regression",
          {"seed": 770033, "ranks": 4, "steps": 16, "work_scale": 4, "all_reduce_us": 300, "contention": 0.25, "recording_begins_ns": 11623841,
           "with_stacks": True, **AHEAD},
          {"ranks": [0, 1, 2, 3], "strength": 0.5, "first_step": 8}, ("latency.step-regression",)),
    Known("exposed copies of all, from the middle", "exposed-copy",
          {"seed": 341844, "model": "tensor", "tensor": 2, "steps": 12, "work_scale": 4, "operator_us": 6, "all_reduce_us": 800,
           "recording_begins_ns": 14420713, "with_stacks": True, **AHEAD},
          {"strength": 8.938549}, (causes.EXPOSED_COPY,), gain=True),
    Known("slow copies of one rank, from the middle", "slow-copies",
          {"seed": 791096, "model": "tensor", "tensor": 2, "ranks": 16, "layers": 6, "work_scale": 4, "all_reduce_us": 800,
           "recording_begins_ns": 28040850, "with_stacks": True, **AHEAD},
          {"ranks": [2], "strength": 100 / 3, "usual_ms": 1.035112}, (causes.EXPOSED_COPY, causes.STRAGGLER), gain=True),
    Known("short exposed copies of all, from the middle", "exposed-copy",
          {"seed": 624937, "layers": 6, "all_reduce_us": 300, "contention": 0.25, "recording_begins_ns": 6589915, **AHEAD},
          {"strength": 1.401367}, (causes.EXPOSED_COPY,)),
    Known("more work in one place, among experts", "more-work",
          {"seed": 258226, "model": "experts", "layers": 6, "steps": 10, "work_scale": 2, "all_reduce_us": 800, "with_stacks": True},
          {"ranks": [1], "strength": 110}, (causes.STRAGGLER,)),
    Known("more work in one place, tensor parallel", "more-work",
          {"seed": 140408, "model": "tensor", "tensor": 2, "ranks": 4, "steps": 12, "all_reduce_us": 300, "contention": 0.25, **AHEAD},
          {"ranks": [2], "strength": 17}, (causes.STRAGGLER,)),
    Known("a value read on rank 0 alone", "value-on-rank-0",
          {"seed": 530193, "steps": 12, "work_scale": 2, "operator_us": 6, "all_reduce_us": 300, "contention": 0.25, "with_stacks": True, **AHEAD},
          {"ranks": [0], "strength": 1, "after_us": 11477.518}, (causes.SYNC,), line="log_metrics"),
    Known("allocations on one rank", "allocation",
          {"seed": 580808, "model": "sharded", "steps": 12, "all_gather_us": 150, "contention": 0.1, "recording_begins_ns": 4705642,
           "with_stacks": True},
          {"ranks": [3], "strength": 3.162641, "layers": 2}, (causes.IMPLICIT,), line="forward"),
    Known("more work in one place, behind its victims", "more-work",
          {"seed": 998232, "model": "tensor", "tensor": 2, "layers": 6, "steps": 10, "work_scale": 2, "operator_us": 6, "all_reduce_us": 800,
           "contention": 0.25, "with_stacks": True},
          {"ranks": [0], "strength": 11}, (causes.STRAGGLER,)),
    Known("one of two stages a little slower", "slow-stage",
          {"seed": 590239, "model": "pipeline", "stages": 2, "ranks": 4, "layers": 2, "batches": 8, "steps": 6},
          {"ranks": [1, 3], "strength": 0.15}, (causes.STRAGGLER,), gain=True),
    Known("a slow stage whose host waits for room in the queue", "slow-stage",
          {"seed": 638637, "model": "pipeline", "stages": 2, "ranks": 4, "layers": 2, "batches": 8, "steps": 10, **AHEAD},
          {"ranks": [0, 2], "strength": 0.6}, (causes.STRAGGLER,), gain=True),
    Known("code loaded by ranks that wait for each other", "lazy-loading",
          {"seed": 226297, "model": "pipeline", "stages": 4, "ranks": 4, "layers": 2, "batches": 8, "steps": 5, "operator_us": 6},
          {"strength": 8.0}, (causes.LAZY_LOAD,), gain=True),
    Known("pauses, clocks of two hosts and no sequence numbers", "pauses",
          {"seed": 366665, "layers": 6, "steps": 6, "operator_us": 6, "work_scale": 1, "ranks_per_host": 4, "with_arrows": True,
           "sequence_numbers": False, "clock_offsets_ns": (-3875191,) * 4 + (4101073,) * 4},
          {"ranks": [2], "strength": 12.592193, "rate": 0.3}, (causes.STRAGGLER, causes.PAUSE),
          unanswered="16 collectives, and it takes 20 to bring clocks together"),
]
