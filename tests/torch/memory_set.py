"""The cases of memory_scripts: how long each runs, how it ends, and what must be said of it."""
import dataclasses
import enum

LEAK, CAPACITY, FRAGMENTED = "memory.growth-leak", "memory.capacity-oom", "memory.fragmentation-oom"


class End(str, enum.Enum):
    EXIT = "exit"
    EXCEPTION = "exception"
    KILL = "kill"
    LIVE = "live"  # looked at while it runs
    HANG = "hang"  # looked at when some of its ranks have waited for a while


class Kind(enum.Enum):
    LEAK = "leak"
    FULL = "full"
    HEALTHY = "healthy"
    FIGURES = "figures"  # the figures of running out of memory are compared with PyTorch's own message


@dataclasses.dataclass(frozen=True)
class Case:
    name: str
    kind: Kind
    wanted: tuple = ()  # codes above info; the line is that of the first
    steps: tuple = (12,)
    ends: tuple = (End.EXIT,)
    ranks: int = 1
    culprits: tuple = ()  # not compared where empty
    environment: dict = dataclasses.field(default_factory=dict)

    def rows(self):
        return [(self, steps, end) for steps, end in zip(self.steps, self.ends)]


ALL_ENDS = (End.EXIT, End.EXCEPTION, End.KILL, End.LIVE)
CASES = {}


def add(kind, names, wanted=(), steps=(12,), ends=None, **rest):
    """Leaks and healthy ones end in each way in turn, all others exit."""
    in_turn = kind in (Kind.LEAK, Kind.HEALTHY)
    for i, name in enumerate(names.split()):
        turns = [ALL_ENDS[(i + k) % len(ALL_ENDS)] if in_turn else End.EXIT for k in range(len(steps))]
        CASES[name] = Case(name, kind, wanted, steps, ends or tuple(turns), **rest)


add(Kind.LEAK, "kept_graph kept_outputs hook hidden_state tracebacks optimizers seldom layers extension", (LEAK,), (10, 17, 36, 200))
add(Kind.LEAK, "gradients_kept hooks_pile_up lengths_kept two_at_a_time uncollected_cycles unbounded_cache function_remembers penalty_kept thread_keeps "
    "accumulates_and_keeps buffer_grows", (LEAK,), (11, 23, 48, 150))
add(Kind.LEAK, "closures_kept returned_outputs_kept gradients_by_hook state_with_graph masks_by_shape history_before_training pinned_batches_kept "
    "loss_without_backward gradients_with_graph method_cached records_of_log cycles_over_stream buffers_by_step", (LEAK,), (13, 29, 52, 140))
add(Kind.LEAK, "failures_kept", (LEAK,), (24, 45, 80, 160))
add(Kind.LEAK, "optimizer_of_each_epoch", (LEAK,), (45, 60, 100, 200))
add(Kind.LEAK, "graphs_of_each_shape", (LEAK, "memory.handle-leak", "memory.cache-flush-in-loop"), (13, 44))
add(Kind.LEAK, "begins_late", (LEAK,), (30, 45, 90, 160))
add(Kind.LEAK, "evaluates_and_keeps buffer_grows_in_evaluations", (LEAK,), (21, 26, 36, 200))
add(Kind.LEAK, "evaluates_with_graph", (LEAK,), (28, 41, 64, 180))
add(Kind.LEAK, "keeps_every_epoch", (LEAK,), (42, 60, 90, 200))
add(Kind.LEAK, "sessions_kept backward_hook_keeps producer_runs_ahead epoch_outputs_not_cleared activations_by_name", (LEAK,), (12, 24, 50, 150))
add(Kind.LEAK, "validation_summed_with_graph optimizer_states_kept trials_kept", (LEAK,), (48, 64, 90, 200))
add(Kind.LEAK, "images_every_tenth", (LEAK,), (80, 120, 160, 200))
add(Kind.LEAK, "graphs_captured", (LEAK, "memory.handle-leak"), (12, 40))
add(Kind.LEAK, "activations_listed activations_with_graph micro_losses_kept pool_of_images averages_listed features_of_loader replayed_outputs_kept "
    "rollouts_kept metric_not_reset frames_of_all_samples saved_by_hand requests_never_evicted adapters_never_unloaded "
    "cyclic_trainer scaled_losses_kept graph_network_keeps", (LEAK,), (12, 36, 100))
add(Kind.LEAK, "adapts_then_serves_and_keeps every_second_kept", (LEAK,), (24, 36, 100))
add(Kind.LEAK, "predictions_of_all_evaluations checkpoints_by_step heads_of_tasks information_of_exceptions loader_of_two_kept", (LEAK,), (50, 71, 130))
add(Kind.LEAK, "lengths_kept_in_expandable", (LEAK,), (16, 36, 100), environment={"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"})
add(Kind.LEAK, "samples_of_first_rank", (LEAK,), (12, 36), ranks=2, culprits=(0,))
add(Kind.LEAK, "gathered_losses_kept", (LEAK,), (12, 36), ranks=2)
add(Kind.LEAK, "streams_kept events_kept", ("memory.handle-leak",), (12, 40))
add(Kind.LEAK, "side_stream_lags", ("memory.pending-free",), (24, 48))
add(Kind.LEAK, "long_run_keeps", (LEAK,), (500,) * 4, environment={"TRAINTRACE_RING_MB": "1"})
add(Kind.LEAK, "pinned_kept", (LEAK,), (12, 40))
add(Kind.LEAK, "ddp_outputs one_keeps fsdp_keeps stage_keeps", (LEAK,), (12, 35), ranks=2)
add(Kind.LEAK, "whole_weights_kept", (LEAK,), (24, 40), ranks=2)
add(Kind.LEAK, "pinned_on_one", (LEAK,), (12, 40), ranks=2, culprits=(1,))
add(Kind.LEAK, "two_of_four_keep", (LEAK,), (12, 35), ranks=4, culprits=(1, 3))
add(Kind.LEAK, "one_of_three_keeps", (LEAK,), (14, 40), ranks=3, culprits=(1,))
add(Kind.LEAK, "last_of_nine_events", ("memory.handle-leak",), (24,), ranks=9, culprits=(8,))

add(Kind.FULL, "leak_until_full leak_with_lengths_until_full", (LEAK, CAPACITY), environment={"SIMGPU_MEMORY": "128M"})
add(Kind.FULL, "graph_until_full grows_until_full", (LEAK, CAPACITY), environment={"SIMGPU_MEMORY": "256M"})
add(Kind.FULL, "leak_in_expandable", (LEAK, CAPACITY), environment={"SIMGPU_MEMORY": "256M", "PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"})
add(Kind.FULL, "too_large limited", (CAPACITY,), environment={"SIMGPU_MEMORY": "256M"})
add(Kind.FULL, "too_large_batch", (CAPACITY,), environment={"SIMGPU_MEMORY": "128M"})
add(Kind.FULL, "first_step_does_not_fit", (CAPACITY,), environment={"SIMGPU_MEMORY": "224M"})
add(Kind.FULL, "loaded_beside", (CAPACITY,), environment={"SIMGPU_MEMORY": "320M"})
add(Kind.FULL, "pieces", (FRAGMENTED,), environment={"SIMGPU_MEMORY": "272M"})
add(Kind.FULL, "pieces_between_kept", (FRAGMENTED,), environment={"SIMGPU_MEMORY": "224M"})
add(Kind.FULL, "neighbour named_neighbour", ("memory.neighbour-oom",), environment={"SIMGPU_MEMORY": "256M"})
add(Kind.FULL, "many_groups", ("memory.library-oom",), ranks=2, environment={"SIMGPU_MEMORY": "448M", "SIMGPU_NCCL_BUFFERS": str(16 << 20)})
add(Kind.FULL, "one_until_full", (LEAK, "run.oom-then-hang"), ends=(End.HANG,), ranks=2, environment={"SIMGPU_MEMORY": "128M"})

SEEDS = tuple(range(1, 51))
add(Kind.FIGURES, "random_state", steps=SEEDS, environment={"SIMGPU_MEMORY": "256M"})
add(Kind.FIGURES, "random_state_expandable", steps=SEEDS[:10], environment={"SIMGPU_MEMORY": "256M", "PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"})
add(Kind.FIGURES, "random_state_whole", steps=SEEDS[:10], environment={"SIMGPU_MEMORY": "256M", "PYTORCH_CUDA_ALLOC_CONF": "max_split_size_mb:24"})
add(Kind.FIGURES, "random_state_limited", steps=SEEDS[:10], environment={"SIMGPU_MEMORY": "256M"})

add(Kind.HEALTHY, "trains first_step_of_optimizer items detached plateau full_queue growing_lengths varying_lengths evaluates evaluates_and_keeps_best "
    "evaluates_and_keeps_for_a_while evaluates_and_plots empties_cache_per_epoch loads_with_workers checkpointed saves "
    "average_of_weights accumulates truncated scaled prefetches collected caught", steps=(12, 60))
add(Kind.HEALTHY, "filled_cache generates generates_long average_by_copy teacher unfreezes curriculum two_phases replays adversaries second_order "
    "window_of_metrics metrics_per_epoch loads_pretrained best_weights last_checkpoints warmed_caches", steps=(16, 80))
add(Kind.HEALTHY, "profiles offloads checkpointed_again accumulates_lengths clipped scaled_with_overflows empties_after_evaluation replays_graph "
    "times_steps events_of_steps logs_in_thread moving_batches anomalies recurrent tries_settings inferences guarded", steps=(15, 64))
add(Kind.HEALTHY, "finds_rate average_made_late accumulates_more evaluates_large graphed_layers prefetches_to_a_bound metrics_on_device pages_of_keys "
    "dataset_cached snapshots_in_turn newest_activations lengths_to_the_end buffer_doubles distills_in_two", steps=(14, 37, 60, 120))
add(Kind.HEALTHY, "closures_called returned_outputs_detached returned_outputs_of_epoch hooks_removed state_with_graph_for_a_while masks_by_bucket "
    "conversation_of_a_window conversations one_conversation optimizer_made_anew pinned_batches failures_as_text newest_failure graphs_of_few_shapes loss_of_micro_batches "
    "gradients_never_zeroed gradients_with_graph_dropped method_cached_with_bound records_of_log_written cycles_over_epochs buffer_by_name",
    steps=(13, 29, 52, 140))
add(Kind.HEALTHY, "activations_of_last losses_listed accumulates_and_begins_anew predictions_of_one_evaluation pool_with_bound average_and_best "
    "newest_checkpoints pinned_loader prefetcher replayed_step graphs_share_a_pool rollouts_of_episode metric_reset_each_epoch bank_of_fixed_length "
    "frames_of_one_sample saved_on_host requests_evicted adapters_in_lru head_of_task too_large_ones_skipped adapts_then_serves trainers_in_turn "
    "scaled_with_clipping graph_network loader_anew warms_up_then_serves_sessions", steps=(13, 45, 110))
add(Kind.HEALTHY, "lengths_in_expandable", steps=(13, 45, 110), environment={"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"})
add(Kind.HEALTHY, "trains_a_little_evaluates_long", steps=(60, 120, 240), ends=(End.EXIT, End.EXCEPTION, End.KILL))
add(Kind.HEALTHY, "side_stream_two_behind", steps=(24, 48, 120), ends=(End.EXIT,) * 3)
add(Kind.HEALTHY, "samples_to_host gathers_and_sums", steps=(13, 45), ranks=2)
add(Kind.HEALTHY, "ranks_of_two_kinds gathers_uneven", steps=(14, 45), ranks=2)
add(Kind.HEALTHY, "long_run", steps=(500,) * 4, environment={"TRAINTRACE_RING_MB": "1"})
# What they do behind their last step is part of them.
add(Kind.HEALTHY, "evaluates_at_the_end filled_at_the_end", steps=(16, 80), ends=(End.EXIT,) * 2)
add(Kind.HEALTHY, "halves_batch_after_failure", steps=(12,), environment={"SIMGPU_MEMORY": "160M"})
add(Kind.HEALTHY, "ddp ddp_evaluates fsdp fsdp2 pipeline ddp_accumulates ddp_scaled ddp_shards_optimizer ddp_evaluates_on_first ddp_gathers fsdp_saves "
    "async_sums columns", steps=(12, 40), ranks=2)
add(Kind.HEALTHY, "pipeline_of_four", steps=(12,), ranks=4)
# One leak at every length.
EVERY_LENGTH = Case("cache", Kind.LEAK, (LEAK,))
CASES["cache"] = EVERY_LENGTH

QUICK = [("cache", 23, End.EXCEPTION), ("kept_graph", 14, End.EXIT), ("layers", 33, End.KILL), ("leak_with_lengths_until_full", 0, End.EXIT),
         ("pieces", 12, End.EXIT), ("evaluates_at_the_end", 24, End.EXIT), ("plateau", 24, End.EXIT), ("full_queue", 24, End.EXIT),
         ("ddp_evaluates", 12, End.EXIT), ("buffer_grows", 23, End.LIVE), ("optimizers", 17, End.KILL), ("keeps_every_epoch", 42, End.EXIT),
         ("neighbour", 12, End.EXIT), ("random_state", 7, End.EXIT), ("random_state", 31, End.EXIT), ("unfreezes", 24, End.EXIT),
         ("generates_long", 24, End.EXIT)]


def rows(lengths, every_end):
    """(case, steps, end) of all; the one leak at each of `lengths`, to its ends in turn or to all of them."""
    found = [(EVERY_LENGTH, steps, end) for steps in lengths for end in (ALL_ENDS if every_end else [ALL_ENDS[steps % 4]])]
    return found + [row for case in CASES.values() for row in case.rows() if case is not EVERY_LENGTH]


def rows_of_figures(seeds):
    return [(case, seed, End.EXIT) for case in CASES.values() if case.kind is Kind.FIGURES for seed in seeds]


def quick_rows():
    return [(CASES[name], steps, end) for name, steps, end in QUICK]
