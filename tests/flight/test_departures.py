#!/usr/bin/python3
"""Ranks that call something else than those that run the same program, through the whole command.   test_departures.py TRAINTRACE

The jobs are simulated (tests/generator), one for each way to depart; then jobs in which a rank departs from the others and does no harm.
"""
import json
import os
import pickle
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "generator"))
import generate

TRAINTRACE = sys.argv.pop(1)
SECOND = 1_000_000_000
START = 1_758_580_000 * SECOND


def findings(folder):
    done = subprocess.run([TRAINTRACE, "analyze", "--format=json", folder], capture_output=True, text=True, timeout=120, check=False)
    return [one for one in json.loads(done.stdout)["findings"] if one["severity"] != "info" and not one["code"].startswith("trace.")]


def found(folder):
    return [(one["code"], one["certainty"], one["culprits"]) for one in findings(folder)]


def entry(number, group, sequence, size, done, line):
    return {"frames": [{"name": "step", "filename": "/job/train.py", "line": line}], "record_id": number, "pg_id": int(group[0]), "process_group": group,
            "collective_seq_id": sequence, "p2p_seq_id": 0, "op_id": sequence, "profiling_name": "nccl:all_reduce", "time_created_ns": START + number * 1_000_000,
            "input_sizes": [[size]], "input_dtypes": ["Float"], "output_sizes": [[size]], "output_dtypes": ["Float"], "state": "completed" if done else "scheduled",
            "time_discovered_started_ns": None, "time_discovered_completed_ns": START + number * 1_000_000 + 500_000 if done else None, "retired": done,
            "timeout_ms": 180_000, "is_p2p": False}


class Departures(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.folder = temporary.name

    def test_each_kind(self):
        """In a group of two, of which nobody can say by itself which one is wrong; messages, of which only one side is seen; an order across groups."""
        for seed, kind, code in ((32, "missing-send", "p2p.missing-send"), (14, "missing-send", "p2p.missing-send"), (87, "missing-recv", "p2p.missing-recv"),
                                 (34, "wrong-peer", "p2p.wrong-peer"), (232, "wrong-peer", "p2p.wrong-peer"),
                                 (189, "swapped-communicators", "collective.cross-communicator-deadlock"),
                                 (63, "swapped-communicators", "collective.cross-communicator-deadlock"), (31, "wrong-communicator", "collective.wrong-communicator"),
                                 (186, "skipped", "collective.skipped-call"), (47, "wrong-dtype", "collective.dtype-mismatch")):
            with self.subTest(kind=kind, seed=seed):
                folder = os.path.join(self.folder, f"{kind}-{seed}")
                truth = generate.generate(seed, "flight", kind, None, folder)
                self.assertEqual(found(os.path.join(folder, "traces")), [(code, "likely", truth["culprits"])])

    def of(self, seed, kind):
        folder = os.path.join(self.folder, f"{kind}-{seed}")
        truth = generate.generate(seed, "flight", kind, None, folder)
        return os.path.join(folder, "traces"), truth

    def test_a_dump_long_before_the_others_is_that_of_a_rank_that_died(self):
        for seed in (1, 55, 217):
            with self.subTest(seed=seed):
                folder, truth = self.of(seed, "died")
                self.assertEqual(found(folder), [("collective.dead-rank", "likely", truth["culprits"])])

    def test_a_rank_without_a_dump(self):
        """It died; or one that waits for it, or one behind that, called something else than the ranks that run the same program."""
        for seed in (19, 91, 145):
            with self.subTest(seed=seed):
                folder, truth = self.of(seed, "died")
                self.assertEqual([one[1:] for one in found(folder)], [("likely", truth["culprits"])])
        for seed in (300419,):
            with self.subTest(seed=seed):
                self.assertEqual([one[1:] for one in found(self.of(seed, "cycle")[0])], [("possible", [])])

    def test_messages_in_a_batch_and_single_ones_do_not_meet(self):
        for seed in (17, 287, 600448, 600503):
            with self.subTest(seed=seed):
                codes = [(code, culprits) for code, _, culprits in found(self.of(seed, "cycle")[0]) if code != "run.unexplained"]
                self.assertEqual(codes, [("p2p.cycle", [])])

    def test_what_a_ring_has_overwritten_is_not_known(self):
        """Nothing is kept but unfinished entries: what these ranks wait for may be gone. Nor is a rank without a dump to blame then."""
        for seed, kind in ((84, "wrong-kind"), (293, "transport"), (1131, "missing-recv")):
            with self.subTest(seed=seed):
                self.assertEqual([one[2] for one in found(self.of(seed, kind)[0]) if one[2]], [])

    def test_no_time_limit_has_passed(self):
        """A slow loader, an evaluation; of dumps before 2.2, which do not say the limit; of dumps without completed entries, in which messages that
        are complete look as if they were in flight."""
        for seed in (50, 67, 102, 160, 172, 1116):
            with self.subTest(seed=seed):
                self.assertEqual(found(self.of(seed, "none")[0]), [])

    def test_part_of_a_job_waits_and_nothing_says_for_how_long(self):
        for seed in (1162, 430000):
            with self.subTest(seed=seed):
                self.assertEqual([one["code"] for one in findings(self.of(seed, "none")[0]) if one["severity"] == "error"], [])

    def test_only_the_count_says_that_starts_are_noted(self):
        """Nothing is kept but unfinished entries, and the GPU of one rank has begun none of its own."""
        folder, truth = self.of(800122, "stream-blocked")
        self.assertEqual(found(folder), [("device.blocked-stream", "likely", truth["culprits"])])

    def test_one_rank_has_the_other_order(self):
        """Of two groups, in a ring that keeps no earlier step."""
        folder, truth = self.of(50013, "swapped-communicators")
        self.assertEqual(found(folder), [("collective.cross-communicator-deadlock", "likely", truth["culprits"])])

    def test_a_message_left_out_long_before_the_hang(self):
        """Later ones took its place, until the last was missing: batches are complete on one side only."""
        folder, truth = self.of(50018, "missing-send")
        self.assertEqual(found(folder), [("p2p.missing-send", "likely", truth["culprits"])])

    def test_a_changed_argument_before_which_nothing_is_kept(self):
        """Dumps without completed entries: the call that differs is the first of all."""
        for seed in (50213, 50285):
            with self.subTest(seed=seed):
                folder, truth = self.of(seed, "wrong-dtype")
                self.assertEqual(found(folder), [("collective.dtype-mismatch", "proof", truth["culprits"])])

    def test_messages_left_out_in_native_traces(self):
        for seed, kind in ((52094, "missing-send"), (52074, "missing-send"), (160074, "missing-send"), (160015, "missing-recv")):
            with self.subTest(seed=seed):
                folder = os.path.join(self.folder, f"native-{seed}")
                truth = generate.generate(seed, "text", kind, None, folder)
                self.assertEqual(found(os.path.join(folder, "traces", "job.txt")), [("p2p." + kind, "likely", truth["culprits"])])

    def job(self, calls_of, ranks=4):
        """`calls_of(rank)`: (group, size, whether it is done, line). Group 1 is of the ranks 2 and 3 alone."""
        config = {"0": {"name": "0", "desc": "all", "ranks": str(list(range(ranks)))}, "1": {"name": "1", "desc": "pair", "ranks": "[2, 3]"}}
        for rank in range(ranks):
            entries, counts = [], {"0": 0, "1": 0}
            for group, size, done, line in calls_of(rank):
                counts[group] += 1
                entries.append(entry(len(entries), (group, config[group]["desc"]), counts[group], size, done, line))
            with open(os.path.join(self.folder, f"_dump_{rank}"), "wb") as file:
                own = {name: group for name, group in config.items() if rank in json.loads(group["ranks"])}
                pickle.dump({"version": "2.9", "pg_config": own, "nccl_version": "2.27.3", "entries": entries}, file, protocol=2)
        return self.folder

    def test_a_departure_that_holds_up_nobody_is_no_culprit(self):
        """Ranks 2 and 3 once call something of their own, which completes; much later rank 1 is stuck. To put the former right would free nobody."""
        def calls(rank):
            steps = 20 if rank != 1 else 19
            for step in range(steps):
                yield "0", 64, step < 19, 10
                yield from [("1", 8, True, 20)] if step == 8 and rank > 1 else []
        self.assertEqual(found(self.job(calls)), [("host.stuck", "likely", [1])])

    def test_a_rank_that_is_behind_departs_from_nothing(self):
        def calls(rank):
            for step in range(20 if rank != 2 else 17):
                for line in (10, 11, 12):
                    yield "0", 64, step < 17, line
        self.assertEqual(found(self.job(calls)), [("host.stuck", "likely", [2])])

    def pairs(self, calls_of):
        """Ranks 0 and 1, 2 and 3, 4 and 5 are groups `dp` of two. Of the others, `line` 0,2,4 and 1,3,5, are ring or pipeline.
        `calls_of(rank)`: (group, name, size, type, whether it is done, line)."""
        members = {"dp": [[0, 1], [2, 3], [4, 5]], "line": [[0, 2, 4], [1, 3, 5]]}
        for rank in range(6):
            own, counts, entries, config = {}, {"dp": 0, "line": 0}, [], {}
            for number, (kind, groups) in enumerate(members.items(), 1):
                at = next(i for i, ranks in enumerate(groups) if rank in ranks)
                own[kind] = (str(10 * number + at), kind)
                config[own[kind][0]] = {"name": own[kind][0], "desc": kind, "ranks": str(groups[at])}
            for kind, name, size, dtype, done, line in calls_of(rank):
                message = name.startswith(("send", "recv", "coalesced"))
                counts[kind] += name.startswith(("send", "all", "reduce"))
                one = entry(len(entries), own[kind], 0 if message else counts[kind], size, done, line)
                one.update(profiling_name="nccl:" + name, pg_id=list(members).index(kind) + 1, input_dtypes=[dtype], output_dtypes=[dtype],
                           p2p_seq_id=counts[kind] if message else 0, is_p2p=message and name != "coalesced")
                if name == "coalesced":
                    one.update(input_sizes=[], output_sizes=[], input_dtypes=[], output_dtypes=[])
                entries.append(one)
            with open(os.path.join(self.folder, f"_dump_{rank}"), "wb") as file:
                pickle.dump({"version": "2.9", "pg_config": config, "nccl_version": "2.27.3", "entries": entries}, file, protocol=2)
        return found(self.folder)

    def test_other_groups_tell_who_is_right_of_two(self):
        """Of stages of a pipeline, which do not run one program. Where another group did as rank 5 does, the type may be another one from here on."""
        def calls(by_rank):
            def of(rank):
                for step in range(4):
                    stage = rank // 2
                    yield from [("line", f"recv {stage}<-{stage - 1}", 32, "Float", True, 10)] if stage > 0 else []
                    yield from [("line", f"send {stage}->{stage + 1}", 32, "Float", True, 20)] if stage < 2 else []
                    last = step == 3
                    yield ("dp", "all_reduce", 4096, by_rank.get(rank, "Float") if last else "Float", not last or stage != 2, 30)
            return of
        self.assertEqual(self.pairs(calls({5: "BFloat16"})), [("collective.dtype-mismatch", "likely", [5])])
        self.assertEqual(self.pairs(calls({5: "BFloat16", 2: "BFloat16", 3: "BFloat16"})), [("collective.dtype-mismatch", "proof", [])])
        self.assertEqual(self.pairs(calls({4: "BFloat16", 5: "BFloat16"}))[0][2], [])

    def test_members_of_a_ring_run_one_program(self):
        """Each sends to the next one and receives from the one before: rank 1 left out a call of its group of two, which ranks 2-5 called."""
        def calls(without):
            def of(rank):
                place = rank // 2
                for step in range(4):  # without the call in the third; nobody gets through the fourth
                    done = step < 2 or not without or (step == 2 and rank > 1)
                    gathered = done or step == 2 or rank > 1
                    yield ("dp", "all_gather", 4096, "Float", gathered, 10)
                    yield from [("line", f"send {place}->{(place + 1) % 3}", 32, "Float", False, 20),
                                ("line", f"recv {place}<-{(place - 1) % 3}", 32, "Float", False, 20), ("line", "coalesced", 0, "Float", done or step == 2, 20)]
                    yield from [("dp", "reduce_scatter", 4096, "Float", done, 30)] if step != 2 or rank not in without else []
                    yield ("dp", "all_reduce", 64, "Float", done, 40)
            return of
        self.assertEqual(self.pairs(calls([])), [])
        self.assertEqual(self.pairs(calls([1])), [("collective.skipped-call", "likely", [1])])
        self.assertEqual(self.pairs(calls([0])), [("collective.skipped-call", "likely", [0])])

    def lists(self, calls_of, ranks=4, kept=lambda rank: 24):
        """One group, in which "list" is an all-gather of a list as PyTorch before 2.6 counts it: once, and once more for each member.
        `calls_of(rank)`: (what, whether it is done, line)."""
        for rank in range(ranks):
            entries, sequence = [], 0
            for what, done, line in calls_of(rank):
                sequence += 1 + ranks if what == "list" else 1
                one = entry(len(entries), ("0", "default_pg"), sequence, 64, done, line)
                if what == "list":
                    one.update(profiling_name="nccl:coalesced", input_sizes=[], output_sizes=[], input_dtypes=[], output_dtypes=[])
                entries.append(one)
            with open(os.path.join(self.folder, f"_dump_{rank}"), "wb") as file:
                pickle.dump({"version": "2.2", "pg_config": {"0": {"name": "0", "desc": "default_pg", "ranks": str(list(range(ranks)))}},
                             "pg_status": {"0": {"last_enqueued_collective": sequence, "last_started_collective": -1, "last_completed_collective": sequence - 1}},
                             "entries": entries[-kept(rank):]}, file, protocol=2)
        return self.folder

    def test_a_list_counts_once(self):
        """Its number is as many higher as it has parts: a rank that calls one all-reduce instead, or leaves it out, seems to be far behind."""
        def calls(instead=None, steps=6, behind=()):
            def of(rank):
                for step in range(steps):
                    last = step == steps - 1
                    yield from [("reduce", True, 10), ("reduce", True, 11)]
                    if rank in behind and last:
                        return
                    if rank != 2 or not last or instead is None:
                        yield "list", not last or (instead is None and not behind), 12
                    elif instead:
                        yield instead, False, 13
                    if rank == 2 and last and instead == "":
                        yield "reduce", False, 14
            return of
        ragged = lambda rank: 7 + 2 * rank  # of one ring the oldest is such a list
        for kept in (lambda rank: 24, ragged):
            self.assertEqual(found(self.lists(calls(), kept=kept)), [])
            for instead in ("reduce", ""):
                self.assertEqual(found(self.lists(calls(instead), kept=kept))[0][::2], ("collective.operation-mismatch", [2]))
            self.assertEqual(found(self.lists(calls(behind=(2,)), kept=kept)), [("collective.missing-rank", "likely", [2])])

    def stages(self, calls_of):
        """A pipeline of four, of which the ring keeps no beginning. `calls_of(rank)`: (name, whether it is done)."""
        for rank in range(4):
            entries = []
            for name, done in calls_of(rank):
                one = entry(100 + len(entries), ("0", "pp"), 0, 64, done, 10)
                one.update(profiling_name=f"nccl:{name}", p2p_seq_id=100 + len(entries), is_p2p=True, frames=[])
                entries.append(one)
            with open(os.path.join(self.folder, f"_dump_{rank}"), "wb") as file:
                pickle.dump({"version": "2.9", "pg_config": {"0": {"name": "0", "desc": "pp", "ranks": "[0, 1, 2, 3]"}}, "entries": entries}, file, protocol=2)
        return found(self.folder)

    def test_the_first_message_between_two_stages(self):
        """Rank 3 asks rank 0, as it never did before, and rank 2 waits for it: either that was the wrong peer, or rank 0 left out its side.

        With `shortcut` it did in each step, and rank 0 sent: then rank 0 left it out.
        """
        def calls(last_from, shortcut=False):
            def of(rank):
                for step in range(5):
                    done = step < 4
                    if shortcut and rank in (0, 3):
                        yield from [("recv 3<-0" if rank == 3 else "send 0->3", done)] if rank == 3 or done else []
                    if rank > 0:
                        source = rank - 1 if done or rank < 3 else last_from
                        yield f"recv {rank}<-{source}", done or rank < 3
                    if rank < 3:
                        yield f"send {rank}->{rank + 1}", done or rank < 2
                        yield f"recv {rank}<-{rank + 1}", done
                    if rank > 0:
                        yield f"send {rank}->{rank - 1}", done
                if rank == 3:
                    yield "recv 3<-2", False
            return of
        self.assertEqual(self.stages(calls(0)), [("p2p.wrong-peer", "likely", [])])
        self.assertEqual([(code, culprits) for code, _, culprits in self.stages(calls(2, shortcut=True))], [("p2p.missing-send", [0])])

    def wrapped(self, status_of, ranks=4, kept=lambda rank: 3):
        """Groups: of all, and of two each. What ranks called last is in flight on all, and what they stand in is overwritten.
        `status_of(rank)`: what is enqueued, begun and complete, of all and of the two."""
        for rank in range(ranks):
            pair = str(1 + rank // 2)
            config = {"0": {"name": "0", "desc": "all", "ranks": str(list(range(ranks)))}, pair: {"name": pair, "desc": "pair", "ranks": str([rank // 2 * 2, rank // 2 * 2 + 1])}}
            entries, status = [], {}
            for (name, group), (enqueued, started, completed) in zip(config.items(), status_of(rank)):
                status[name] = {"last_enqueued_collective": enqueued, "last_started_collective": started, "last_completed_collective": completed}
                for sequence in range(enqueued + 1 - (kept(rank) if name == "0" else 3), enqueued + 1):
                    entries.append(entry(100 + len(entries), (name, group["desc"]), sequence, 64, sequence <= completed, 10))
            with open(os.path.join(self.folder, f"_dump_{rank}"), "wb") as file:
                pickle.dump({"version": "2.9", "pg_config": config, "pg_status": status, "entries": entries}, file, protocol=2)
        return [(code, culprits) for code, _, culprits in found(self.folder)]

    def test_counters_tell_what_the_ring_has_overwritten(self):
        """Nothing is kept but what is in flight. Which collectives of a group are complete, and in which the GPU is, is counted."""
        def status(all_of_1, pair_of_1, all_of_2=(30, 11, 10), pair_of_0=(30, 11, 10)):
            return lambda rank: {0: [(30, 10, 10), pair_of_0], 1: [all_of_1, pair_of_1]}.get(rank, [all_of_2, (30, 10, 10)])
        self.assertEqual(self.wrapped(status((30, 10, 9), (30, 10, 10))), [("device.stalled", [1])])
        self.assertEqual(self.wrapped(status((30, 10, 10), (30, 10, 10))), [("device.blocked-stream", [1])])
        # As long as starts are not recorded, what others have completed tells it; else nothing does.
        self.assertEqual(self.wrapped(status((30, -1, 9), (30, -1, 10), (30, -1, 10), (30, -1, 10))), [("device.stalled", [1])])
        self.assertEqual([one[1] for one in self.wrapped(status((30, -1, 10), (30, -1, 10), (30, -1, 10), (30, -1, 10))) if one[1]], [])
        self.assertEqual(self.wrapped(lambda rank: [(30, 30, 30), (30, 30, 30)]), [])

    def test_a_call_that_one_ring_has_overwritten_is_no_other_call(self):
        """All stand in the same collective; some rings keep it."""
        for lost in ({1}, {0, 1, 2}):
            with self.subTest(lost=lost):
                self.assertEqual([culprits for _, culprits in self.wrapped(lambda rank: [(30, 11, 10), (30, 10, 10)], kept=lambda rank: 3 if rank in lost else 22)
                                  if culprits], [])

    def test_seeds_of_the_generator(self):
        """A call of a list; a rank that died; a wrong peer; another place of a call in a group of two; a full ring."""
        for seed, kind, expected in ((410016, "wrong-kind", "collective.operation-mismatch"), (430059, "died", "collective.dead-rank"),
                                     (430018, "wrong-peer", "p2p.wrong-peer"), (430011, "swapped-communicators", "collective.order-swapped"),
                                     (410013, "swapped-communicators", "collective.order-swapped"), (430005, "device-stalled", "device.stalled"),
                                     (430043, "transport", "device.transport-stall"), (430070, "missing-send", "p2p.missing-send")):
            with self.subTest(seed=seed):
                folder, truth = self.of(seed, kind)
                first = found(folder)[0]
                self.assertEqual(first[0], expected)
                self.assertIn(first[2], [truth["culprits"]] + ([[]] if truth["tie"] else []))


if __name__ == "__main__":
    unittest.main()
