#!/usr/bin/python3
"""Whom dumps accuse where a ring keeps no beginning, where several ranks did the same wrong, and where a dump is missing.   test_blame.py TRAINTRACE
"""
import json
import os
import pickle
import subprocess
import sys
import tempfile
import unittest

TRAINTRACE = sys.argv.pop(1)
START = 1_758_580_000_000_000_000
STEP = 1_000_000
LIMIT = 180_000


class Blame(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.folder = temporary.name

    def job(self, groups, calls_of, ranks, first=100, active_only=False, completed_of=None, timed=False):
        """`calls_of(rank)`: (group, name, size, state), and a type where that is not Float. The first record kept is number `first`.

        State "unseen": the dump says "completed", and the watchdog has not seen that.
        """
        for old in os.listdir(self.folder):
            os.remove(os.path.join(self.folder, old))
        for rank in ranks:
            own = {name: members for name, members in groups.items() if rank in members}
            config = {name: {"name": name, "desc": name, "ranks": str(members)} for name, members in own.items()}
            counts, messages, entries = dict.fromkeys(own, 0), dict.fromkeys(own, 0), []
            for number, (group, name, size, state, *types) in enumerate(calls_of(rank)):
                message = name.startswith(("send", "recv"))
                counts[group] += not message
                messages[group] += message
                created = START + number * STEP
                done = state in ("completed", "unseen")
                looked = START + LIMIT * STEP + STEP  # by the dump, of what is not retired
                entries.append({"record_id": first + number, "pg_id": list(own).index(group), "process_group": (group, group),
                                "collective_seq_id": counts[group], "p2p_seq_id": messages[group], "op_id": counts[group] + messages[group],
                                "profiling_name": "nccl:" + name, "time_created_ns": created, "input_sizes": [[size]], "input_dtypes": types or ["Float"],
                                "output_sizes": [[size]], "output_dtypes": types or ["Float"], "state": "completed" if done else state,
                                "time_discovered_started_ns": looked if state == "started" else created + STEP // 2 if done and timed else None,
                                "time_discovered_completed_ns": looked if state == "unseen" else created + STEP // 2 if done else None,
                                "retired": state == "completed", "timeout_ms": LIMIT,
                                "is_p2p": message})
            dump = {"version": "2.9", "pg_config": config, "nccl_version": "2.27.3",
                    "entries": [one for one in entries if not active_only or one["state"] != "completed"]}
            if completed_of is not None:
                dump["pg_status"] = {str(list(own).index(name)): {"last_enqueued_collective": counts[name], "last_started_collective": -1,
                                                                  "last_completed_collective": completed_of(rank)} for name in own}
            path = os.path.join(self.folder, f"_dump_{rank}")
            with open(path, "wb") as file:
                pickle.dump(dump, file, protocol=2)
            written = START + LIMIT * STEP + STEP
            os.utime(path, ns=(written, written))
        done = subprocess.run([TRAINTRACE, "analyze", "--format=json", self.folder], capture_output=True, text=True, timeout=120, check=False)
        self.said = done.stdout
        return [(one["code"], one["certainty"], one["culprits"]) for one in json.loads(done.stdout)["findings"]
                if one["severity"] != "info" and not one["code"].startswith("trace.")]

    def test_sizes_of_messages_without_numbers(self):
        """The ring keeps no beginning, so that nobody can count messages: those that two ranks stand in have met."""
        def calls(size, last, before=()):
            def of(rank):
                for step in range(5):
                    late = step == 4
                    yield from before if late and rank == 1 else []
                    if rank > 0:
                        yield "pp", f"recv {rank}<-{rank - 1}", 64, last if late and rank > 1 else "completed"
                    if rank < 3:
                        yield "pp", f"send {rank}->{rank + 1}", size if late and rank == 1 else 64, last if late and rank in (1, 2) else "completed"
            return of
        groups = {"pp": [0, 1, 2, 3], "tp": [0, 1]}
        self.assertEqual(self.job(groups, calls(32, "scheduled"), range(4)), [("p2p.count-mismatch", "likely", [1])])
        self.assertIn("rank 1 -> rank 2 on communicator pp", self.said)  # without a number
        self.assertNotIn("right before", self.said)
        self.assertEqual(self.job(groups, calls(64, "completed"), range(4)), [])
        self.assertEqual(self.job(groups, calls(64, "scheduled"), range(4)), [("device.transport-stall", "possible", [])])
        # It stands before that message: rank 0 has not come.
        held = self.job(groups, calls(32, "scheduled", [("tp", "all_reduce", 8, "scheduled")]), range(4))
        self.assertNotIn("p2p.count-mismatch", [code for code, _, _ in held])

    def wrong_peer(self, last, steps=6):
        """Stages 0 to 3; in the last step stage 2 asks stage 3 for what stage 1 sends.  Then all broadcast."""
        def calls(rank):
            for step in range(steps):
                late = step == steps - 1
                wrong = late and rank == 2
                if rank > 0:
                    yield "pp", f"recv {rank}<-{rank + 1 if wrong else rank - 1}", 64, last if wrong else "scheduled" if late and rank == 3 else "completed"
                if rank < 3 and not wrong:
                    yield "pp", f"send {rank}->{rank + 1}", 64, "scheduled" if late and rank == 1 else "completed"
                if not wrong and not (late and rank == 3):
                    yield "pp", "broadcast", 1, "scheduled" if late else "completed"
        return calls

    def test_an_end_that_only_the_dump_saw(self):
        """The event that ends an operation is recorded when the call returns; until then it reads as complete, and the watchdog knows nothing of it."""
        groups = {"pp": [0, 1, 2, 3]}
        blocked = self.job(groups, self.wrong_peer("unseen"), range(4), first=0)
        self.assertEqual(blocked, [("p2p.wrong-peer", "likely", [2])])
        self.assertEqual(self.job(groups, self.wrong_peer("scheduled"), range(4), first=0), blocked)
        self.assertNotIn("all that it issued is finished", self.said)

    def stages(self, without, ranks=range(8), groups_of_two=True):
        """Two stages of two replicas of two ranks: each stage passes two micro-batches on in a step. `without` leave out the second, in the last."""
        groups = {"world": list(range(8)), "tp0": [0, 1], "tp1": [2, 3], "tp2": [4, 5], "tp3": [6, 7], "dp0": [0, 2], "dp1": [1, 3], "dp2": [4, 6], "dp3": [5, 7],
                  "pp0": [0, 4], "pp1": [1, 5], "pp2": [2, 6], "pp3": [3, 7]}

        def of_kind(kind, rank):
            return next(name for name, members in groups.items() if name.startswith(kind) and rank in members)

        def calls(rank):
            stuck = [rank + 4 for rank in without]  # in the message that does not come
            behind = {4 + (rank + 2) % 4 for rank in without}
            for step in range(5):
                late = step == 4
                for micro in range(2):
                    skipped = late and micro == 1
                    if rank < 4 and not (skipped and rank in without):
                        yield of_kind("tp", rank), "all_reduce", 512, "completed"
                        yield of_kind("pp", rank), "send 0->1", 64, "completed"
                    if rank > 3:
                        yield of_kind("pp", rank), "recv 1<-0", 64, "scheduled" if skipped and rank in stuck else "completed"
                        yield of_kind("tp", rank), "all_reduce", 512, "scheduled" if skipped and rank in stuck else "completed"
                open_ = bool(late and without)
                yield of_kind("dp", rank), "all_reduce", 4096, "scheduled" if open_ and (rank in stuck or rank in behind) else "completed"
                yield "world", "all_reduce", 1, "scheduled" if open_ else "completed"
        return self.job(groups, calls, ranks)

    def test_several_left_out_the_same(self):
        found = self.stages([0, 1])
        self.assertEqual([culprits for _, _, culprits in found], [[0, 1]])
        self.assertEqual(self.stages([]), [])

    def test_one_that_its_gpu_holds_up_beside_a_missing_dump(self):
        """Starts are recorded: the stream of rank 1 has not come to what those of ranks 0 and 2 are in. Of rank 3 there is no dump."""
        def calls(state_of_1):
            def of(rank):
                for step in range(5):
                    yield "dp", "all_reduce", 64, "completed" if step < 4 else state_of_1 if rank == 1 else "started"
            return of
        groups = {"dp": [0, 1, 2, 3]}
        held = self.job(groups, calls("scheduled"), range(3), first=0, timed=True)
        self.assertEqual(held[0], ("device.blocked-stream", "likely", [1]))
        self.assertEqual([culprits for _, certainty, culprits in held[1:] if culprits], [])
        self.assertEqual(self.job(groups, calls("started"), range(3), first=0, timed=True), [("collective.missing-rank", "likely", [3])])
        self.assertEqual(self.job(groups, lambda rank: list(calls("completed")(rank))[:4], range(3), first=0, timed=True), [])

    def test_a_part_whose_number_is_complete(self):
        """Entries that are complete are left out, and with them the one that closes parts: those stay as they were. Their group counts them as complete."""
        def calls(rank):
            yield "dp", "_all_gather_base", 64, "scheduled"  # the last part of several
            for _ in range(3):
                yield "dp", "all_reduce", 32, "completed"
            if rank != 1:
                yield "dp", "all_reduce", 16, "scheduled"
        groups = {"dp": [0, 1, 2, 3]}
        self.assertEqual(self.job(groups, calls, range(4), active_only=True, completed_of=lambda rank: 4), [("collective.missing-rank", "likely", [1])])

    def test_types_of_an_all_to_all(self):
        """How much each rank passes on is its own affair; of what type it is, is not."""
        def calls(type_of_2, last="scheduled"):
            def of(rank):
                for step in range(4):
                    late = step == 3
                    yield "ep", "all_to_all", 100 + 7 * rank + step, last if late else "completed", type_of_2 if late and rank == 2 else "BFloat16"
            return of
        groups = {"ep": [0, 1, 2, 3]}
        for first in (0, 100):
            self.assertEqual(self.job(groups, calls("Float"), range(4), first=first), [("collective.dtype-mismatch", "proof", [2])])
            self.assertEqual(self.job(groups, calls("BFloat16", "completed"), range(4), first=first), [])
            self.assertEqual(self.job(groups, calls("BFloat16"), range(4), first=first), [("device.transport-stall", "possible", [])])

if __name__ == "__main__":
    unittest.main()
