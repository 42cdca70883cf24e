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
        self.assertEqual([one["code"] for one in findings(self.of(1162, "none")[0]) if one["severity"] == "error"], [])

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


if __name__ == "__main__":
    unittest.main()
