#!/usr/bin/python3
"""Is the generator itself right?   test_generator.py [FOLDER OF REAL DATA]"""
import glob
import json
import os
import pickle
import pickletools
import random
import re
import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import faults
import generate
import measure
import scenario
import text
from model import BLOCK, COLLECTIVE, COMPUTE, DIE, HANG, HOST, HOST_TOO, MESSAGES, NOTHING, STREAM, SYNC, WAIT, Job, Spec
from simulate import Simulation

REAL = sys.argv.pop(1) if len(sys.argv) > 1 and not sys.argv[1].startswith("-") else ""
SITE = ("train.py", 1, "main")

# Of the 2.9 dumps in NVIDIA's nvidia-resiliency-ext, for where they are not at hand.
TOP = {"version", "pg_config", "nccl_version", "pg_status", "entries"}
ENTRY = {"record_id": int, "pg_id": int, "process_group": tuple, "thread_name": str, "thread_id": str, "collective_seq_id": int, "p2p_seq_id": int,
         "op_id": int, "profiling_name": str, "time_created_ns": int, "input_sizes": list, "input_dtypes": list, "output_sizes": list,
         "output_dtypes": list, "state": str, "time_discovered_started_ns": type(None), "time_discovered_completed_ns": type(None), "retired": bool,
         "timeout_ms": int, "is_p2p": bool}
STATUS = {"last_enqueued_collective", "last_started_collective", "last_completed_collective"}


def reduce_of(count, kind="all_reduce", dtype="Float"):
    return Spec(kind, [[count]], [[count]], dtype, SITE, 1e-3)


def call(count, comm="all", wait=STREAM, kind="all_reduce", tag=None):
    return (COLLECTIVE, comm, reduce_of(count, kind), wait, tag)


def message(direction, peer, batched, *more):
    parts = [(direction, peer, [1 << 22], "Float")] + [(d, p, [1 << 22], "Float") for d, p in more]
    return (MESSAGES, "all", parts, batched, STREAM, None, SITE)


def run(*programs, groups=(), **options):
    job = Job(len(programs))
    job.add_groups("all", [range(len(programs))])
    for name, members in groups:
        job.add_groups(name, [members])
    job.programs = [list(program) for program in programs]
    return Simulation(job, [1.0] * len(programs), {}, **options).run()


def open_operations(simulation):
    return [sum(operation.end is None for operation in rank.operations) for rank in simulation.ranks]


class Semantics(unittest.TestCase):
    def test_a_collective_ends_for_all_after_the_last_came(self):
        done = run([call(8)], [(HOST, 5.0), call(8)])
        ends = [rank.operations[0].end for rank in done.ranks]
        self.assertEqual(ends[0], ends[1])
        self.assertGreater(ends[0], 5.0)

    def test_equal_calls_meet_whatever_they_were_meant_to_be(self):
        self.assertEqual(open_operations(run([call(8)] * 3, [call(8)] * 3, [call(8)] * 2)), [1, 1, 0])

    def test_a_skipped_call_of_another_size_hangs_at_once(self):
        self.assertEqual(open_operations(run([call(8), call(9), call(8)], [call(9), call(8)])), [3, 2])

    def test_messages_in_a_batch_may_cross(self):
        self.assertEqual(open_operations(run([message("send", 1, True, ("recv", 1))], [message("send", 0, True, ("recv", 0))])), [0, 0])

    def test_sends_that_cross_one_by_one_do_not_end(self):
        program = [message("send", 1, False), message("recv", 1, False)]
        other = [message("send", 0, False), message("recv", 0, False)]
        self.assertEqual(open_operations(run(program, other)), [2, 2])

    def test_two_communicators_in_another_order_deadlock_only_if_the_streams_wait(self):
        two = (("two", [0, 1]),)
        self.assertEqual(open_operations(run([call(8), call(8, "two")], [call(8, "two"), call(8)], groups=two)), [2, 2])
        free = [call(8, "all", NOTHING, tag=1), call(8, "two", NOTHING, tag=2)]
        self.assertEqual(open_operations(run(free, free[::-1], groups=two)), [0, 0])

    def test_the_host_stops_only_where_it_waits(self):
        done = run([call(8), call(8), (SYNC,), call(8)], [(HANG, "lock")])
        self.assertEqual(len(done.ranks[0].operations), 2)
        self.assertEqual(done.ranks[0].state, "waits")

    def test_a_full_queue_stops_the_host(self):
        done = run([call(8)] * 9, [(HANG, "lock")], depth=4)
        self.assertEqual((len(done.ranks[0].operations), done.ranks[0].state), (4, "full"))

    def test_a_stalled_device_lets_its_peers_through(self):
        self.assertEqual(open_operations(run([call(8), call(8)], [call(8), call(8)], stalls=[(1, 0)])), [1, 2])

    def test_a_kernel_without_end_blocks_what_comes_after_it(self):
        self.assertEqual(open_operations(run([call(8), (BLOCK,), call(8)], [call(8), call(8)])), [1, 1])

    def test_what_a_dead_rank_had_not_completed_never_ends(self):
        programs = [call(8), (COMPUTE, 9.0), call(8)], [call(8), call(8), (HOST, 5.0), (DIE,)]
        time = run(*programs).ranks[1].time
        self.assertEqual(open_operations(run(*programs, death={1: time})), [1, 1])

    def test_wait_on_an_operation_that_was_left_out(self):
        self.assertEqual(open_operations(run([(WAIT, 7), call(8, wait=HOST_TOO)], [call(8)])), [0, 0])


def make(folder, seed, form, kind, ranks=None):
    told = generate.generate(seed, form, kind, ranks, folder)
    return told, sorted(glob.glob(os.path.join(folder, "traces", "*")))


def content(folder, *what):
    _, files = make(folder, *what)
    files.append(os.path.join(folder, "truth.json"))
    return [(os.path.basename(path), Path(path).read_bytes()) for path in files]


def load(path):
    data = Path(path).read_bytes()
    return json.loads(data) if data[:1] == b"{" else pickle.loads(data)


class Files(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def place(self, name):
        return os.path.join(self.folder.name, name)

    def test_a_seed_gives_the_same_job(self):
        for form in ("flight", "text"):
            self.assertEqual(content(self.place(form + "1"), 5, form, "any", 16), content(self.place(form + "2"), 5, form, "any", 16))
        self.assertNotEqual(content(self.place("3"), 5, "flight", "any", 16)[0], content(self.place("4"), 6, "flight", "any", 16)[0])

    def test_each_fault_is_produced_in_each_form(self):
        for form, kinds in (("flight", faults.FLIGHT), ("text", faults.TEXT)):
            for kind in kinds:
                told, files = make(self.place(form + kind), 11, form, kind, 8)
                self.assertEqual(told["fault"], kind)
                self.assertTrue(files)
                self.assertTrue(told["victims"], kind)
                self.assertFalse(set(told["victims"]) & set(told["culprits"]), kind)
                self.assertTrue(told["culprits"] or kind in ("transport", "cycle"), kind)

    def test_a_fault_leaves_unfinished_entries_that_have_timed_out(self):
        for seed in range(6):
            told, files = make(self.place(str(seed)), seed, "flight", "stuck", 8)
            states = {entry["state"] for path in files for entry in load(path).get("entries", []) if entry["profiling_name"] != "nccl:coalesced"}
            self.assertTrue(states & {"scheduled", "started"}, told)

    def fields_of_real_dumps(self):
        """(names at the top, {name: type} of entries). From the dumps themselves where they are, else the lists above."""
        files = glob.glob(os.path.join(REAL, "flight_recorder", "*", "_dump_*")) if REAL else []
        if not files:
            return TOP, ENTRY
        real = [load(path) for path in files]
        entries = [entry for dump in real for entry in dump["entries"]]
        return set(real[0]), {name: type(entries[0][name]) for name in entries[0]}

    def test_fields_are_those_of_real_dumps(self):
        top, fields = self.fields_of_real_dumps()
        self.assertEqual((top, set(fields)), (TOP, set(ENTRY)))
        seen = 0
        for seed in range(200):
            if seen == 3:
                break
            drawn = scenario.draw(seed, "flight", "none", 8)
            settings = drawn.settings
            if settings.version != "2.9" or settings.json:
                continue
            seen += 1
            told, files = make(self.place(str(seed)), seed, "flight", "none", 8)
            for path in files:
                self.check(load(path), top, fields, told)
                self.check_opcodes(path)
        self.assertEqual(seen, 3)

    def check(self, dump, top, fields, told):
        self.assertEqual(set(dump), top)
        for status in dump["pg_status"].values():
            self.assertEqual(set(status), STATUS)
        for entry in dump["entries"]:
            self.assertEqual(set(entry) - {"duration_ms", "frames"}, set(fields))
            self.assertEqual("frames" in entry, told["stacks"])
            for name, kind in fields.items():
                if kind is not type(None):
                    self.assertIs(type(entry[name]), kind, name)
            self.assertIn(entry["process_group"][0], dump["pg_config"])
            self.assertEqual(entry["state"] == "completed", entry["time_discovered_completed_ns"] is not None)
            self.assertTrue(entry["state"] == "completed" or not entry["retired"])
        records = [entry["record_id"] for entry in dump["entries"]]
        if not told["only_active"]:
            self.assertEqual(records, list(range(records[0], records[0] + len(records))))

    def check_opcodes(self, path):
        allowed = {"PROTO", "EMPTY_DICT", "EMPTY_LIST", "MARK", "SETITEMS", "APPENDS", "BINUNICODE", "BININT", "BININT1", "BININT2", "LONG1", "NONE", "NEWTRUE",
                   "NEWFALSE", "BINPUT", "BINGET", "LONG_BINPUT", "LONG_BINGET", "TUPLE2", "BINFLOAT", "STOP"}
        with open(path, "rb") as file:
            used = {opcode.name for opcode, _, _ in pickletools.genops(file)}
        self.assertFalse(used - allowed)

    def test_versions_and_forms_differ_as_they_do(self):
        for seed in range(30):
            told, files = make(self.place(str(seed)), seed, "flight", "any", 8)
            minor, dump = int(told["version"][2:]), load(files[0])
            if not dump.get("entries"):
                continue
            entry = dump["entries"][0]
            self.assertEqual("thread_id" in entry, minor >= 9)
            self.assertEqual("is_p2p" in entry, minor >= 3)
            self.assertEqual("comm_lib_version" in dump, minor >= 10)
            self.assertEqual("frames" in entry, told["stacks"] and not told["json"])
            self.assertIs(type(entry["process_group"]), list if told["json"] else tuple)
            self.assertLessEqual(len(dump["entries"]), told["ring"])
            for status in dump["pg_status"].values():
                self.assertTrue(all(type(number) is (str if told["json"] else int) for number in status.values()))


class Created(unittest.TestCase):
    """The order of communicators in the text form: that in which each process has created its own."""

    def read(self, drawn):
        """{communicator: members} in the order of the lines, {rank: the pairs that it uses, in the order of calls}."""
        members, used = {}, {rank: [] for rank in range(drawn.job.size)}
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "job.txt")
            text.write(drawn, path)
            lines = Path(path).read_text().splitlines()
        for line in lines:
            created = re.match(r"communicator (\S+) members=(\S+)", line)
            called = re.match(r"\S+ (\d+) \w+ nccl(?:Send|Recv) on (\S+_pair_\S+)", line)
            if created:
                members[created[1]] = list(map(int, created[2].split(",")))
            elif called and called[2] not in used[int(called[1])]:
                used[int(called[1])].append(called[2])
        return members, used

    def pipelines(self, kind, count):
        """So many jobs of several pipelines whose stages exchange single messages with two neighbours."""
        for seed in range(200):
            drawn = scenario.draw(seed, "text", kind, 16)
            stages = drawn.notes.get("layout", {}).get("pp", 1)
            if 2 < stages < 16:
                members, used = self.read(drawn)
                if any(len(pairs) > 1 for pairs in used.values()):
                    yield drawn, members, used
                    count -= 1
                    if count == 0:
                        return
        self.fail("too few jobs with pairs")

    def pairs_of(self, rank, members):
        return [name for name, ranks in members.items() if "_pair_" in name and rank in ranks]

    def test_each_rank_creates_its_pairs_as_it_comes_to_them(self):
        for kind, count in (("none", 3), ("wrong-peer", 5)):
            for drawn, members, used in self.pipelines(kind, count):
                for rank, pairs in used.items():
                    # A peer that nobody meant may have called for one more.
                    self.assertEqual(self.pairs_of(rank, members)[:len(pairs)], pairs, (drawn.seed, kind, rank))

    def test_ranks_of_a_stage_create_their_pairs_in_the_same_order(self):
        for drawn, members, _ in self.pipelines("none", 3):
            kinds = ["_pair_" in name for name in members]
            self.assertEqual(kinds, sorted(kinds))  # groups come before
            orders = {}
            for name, ranks in members.items():
                if re.fullmatch(r"pp_\d+", name):
                    for stage, rank in enumerate(ranks):
                        own = tuple(pair.split("_pair_")[1] for pair in self.pairs_of(rank, members))
                        orders.setdefault(stage, set()).add(own)
            self.assertEqual(len(orders), drawn.notes["layout"]["pp"])
            for stage, each in orders.items():
                self.assertEqual(len(each), 1, (drawn.seed, stage, each))

    def test_a_group_created_in_the_middle_comes_after_pairs(self):
        for _, members, _ in self.pipelines("create-missing", 1):
            self.assertTrue(list(members)[-1].startswith("late_"))

    def pairs(self, **since):
        return {name: text.Pair(time, 0, int(name[1]), int(name[2]), "") for name, time in since.items()}

    def test_the_order_of_each_rank_counts_not_who_was_early(self):
        pairs = self.pairs(p01=5.0, p12=1.0, p23=2.0)
        self.assertEqual(text.creation_order(pairs, []), ["p12", "p23", "p01"])
        chain = [["p01"], ["p01", "p12"], ["p12", "p23"], ["p23"]]
        self.assertEqual(text.creation_order(pairs, chain), ["p01", "p12", "p23"])

    def test_orders_that_would_hang_are_replaced_by_that_of_peers(self):
        pairs = self.pairs(p12=1.0, p02=2.0, p01=3.0, p34=4.0)
        ring = [["p01", "p02"], ["p12", "p01"], ["p02", "p12"], ["p34"]]
        self.assertEqual(text.creation_order(pairs, ring), ["p34", "p01", "p02", "p12"])
        told = 0
        for _, members, used in self.pipelines("cycle", 12):
            for rank, pairs in used.items():
                own = self.pairs_of(rank, members)
                if own[:len(pairs)] != pairs:
                    told += 1
                    self.assertEqual(own, sorted(own))
        self.assertGreater(told, 0)


class Jobs(unittest.TestCase):
    def test_every_healthy_job_completes_all_operations(self):
        frameworks = set()
        for seed in range(60):
            drawn = scenario.draw(seed, "flight", "none", random.Random(seed).choice([8, 16, 24, 32]))
            frameworks.add(drawn.notes["framework"])
            for rank in drawn.simulation.ranks:
                self.assertEqual(rank.state, "done")
                self.assertTrue(all(operation.end is not None for operation in rank.operations))
        self.assertEqual(frameworks, {"3d", "ddp", "fsdp", "hsdp"})


    def test_a_rank_that_is_killed_ends(self):
        for seed in range(8):
            drawn = scenario.draw(seed, "text", "died", 8)
            self.assertEqual(drawn.simulation.ranks[drawn.fault.rank].state, "dead")
        # What lets it come to its end completes at that very moment.
        drawn = scenario.draw(700141, "text", "died", None)
        self.assertEqual(drawn.simulation.ranks[drawn.fault.rank].state, "dead")

    def test_all_to_alls_send_what_they_expect(self):
        sums = {}
        with tempfile.TemporaryDirectory() as folder:
            generate.generate(700025, "flight", "transport", None, folder)
            for path in glob.glob(folder + "/traces/*"):
                with open(path, "rb") as file:
                    entries = pickle.load(file)["entries"]
                for entry in entries:
                    if entry["profiling_name"] == "nccl:all_to_all":
                        own = sums.setdefault((entry["process_group"][0], entry["collective_seq_id"]), [0, 0, 0])
                        own[0] += 1
                        own[1] += entry["input_sizes"][0][0]
                        own[2] += entry["output_sizes"][0][0]
        whole = [own for own in sums.values() if own[0] == 2]  # of both members
        self.assertGreater(len(whole), 20)
        for _, sent, expected in whole:
            self.assertEqual(sent, expected)

    def test_what_a_ring_has_overwritten_is_no_evidence(self):
        # Of the first, open operations alone are written; of the second, the rank that died left no dump, and all stand in what is gone.
        for seed, kind in ((480017, "wrong-dtype"), (600049, "died")):
            with tempfile.TemporaryDirectory() as folder:
                self.assertFalse(generate.generate(seed, "flight", kind, None, folder)["evidence_in_ring"])


class Verdicts(unittest.TestCase):
    def judge(self, told, *findings):
        told = dict({"tie": False, "acceptable_codes": ["host.stuck"], "fault": "stuck", "culprits": [2]}, **told)
        usual = {"severity": "error", "certainty": "likely", "code": "host.stuck", "culprits": [2]}
        return measure.classify(told, [dict(usual, **finding) for finding in findings])

    def test_classes(self):
        self.assertEqual(self.judge({}, {}), measure.EXACT)
        self.assertEqual(self.judge({"evidence_in_ring": False}, {"certainty": "possible", "culprits": []}), measure.EXACT)
        self.assertEqual(self.judge({}, {"certainty": "possible", "culprits": []}), measure.OPEN)
        self.assertEqual(self.judge({}, {"code": "device.stalled"}), measure.OTHER)
        self.assertEqual(self.judge({}, {"culprits": []}), measure.OPEN)
        self.assertEqual(self.judge({"tie": True}, {"culprits": []}), measure.EXACT)
        self.assertEqual(self.judge({}), measure.MISSED)
        unexplained = {"code": "run.unexplained", "severity": "warning", "culprits": []}
        self.assertEqual(self.judge({}, unexplained), measure.OPEN)
        self.assertEqual(self.judge({"tie": True, "evidence_in_ring": True}, unexplained), measure.OPEN)
        self.assertEqual(self.judge({"tie": True, "evidence_in_ring": False}, unexplained), measure.EXACT)
        self.assertEqual(self.judge({"tie": True, "evidence_in_ring": False}), measure.MISSED)
        self.assertEqual(self.judge({}, {}, {"code": "p2p.missing-send", "culprits": [1]}), measure.WRONG)
        self.assertEqual(self.judge({}, {}, {"code": "collective.late-rank", "severity": "warning", "culprits": [1]}), measure.EXACT)
        healthy = {"fault": "none", "culprits": []}
        self.assertEqual(self.judge(healthy, {"culprits": []}), measure.ALARM)
        self.assertEqual(self.judge(healthy, {"code": "run.unexplained", "severity": "warning", "culprits": []}), measure.CALM)
        self.assertEqual(self.judge(healthy), measure.CALM)


if __name__ == "__main__":
    unittest.main(verbosity=1)
