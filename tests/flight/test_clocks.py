#!/usr/bin/python3
"""Dumps of hosts whose clocks differ, and dumps of different moments, through the whole command.   test_clocks.py TRAINTRACE"""
import json
import os
import subprocess
import sys
import tempfile
import unittest

TRAINTRACE = sys.argv.pop(1)
START = 1_758_580_000
LIMIT = 600


def dump(world, calls, clock=0.0, limit=LIMIT):
    """`calls`: for each collective when it was called and when its end was seen, None: not at all, in seconds. `clock`: how far it is ahead."""

    def ns(seconds):
        return int((START + clock + seconds) * 1e9)

    entries = [{"record_id": number, "pg_id": 0, "process_group": ["0", "dp"], "collective_seq_id": number + 1, "p2p_seq_id": 0, "op_id": number + 1,
                "profiling_name": "nccl:all_reduce", "time_created_ns": ns(called), "input_sizes": [[1024]], "input_dtypes": ["Float"],
                "output_sizes": [[1024]], "output_dtypes": ["Float"], "state": "completed" if ended else "scheduled",
                "time_discovered_started_ns": 0, "time_discovered_completed_ns": ns(ended) if ended else 0, "retired": bool(ended),
                "timeout_ms": limit * 1000, "is_p2p": False} for number, (called, ended) in enumerate(calls)]
    done = sum(1 for _, ended in calls if ended)
    return {"version": "2.9", "nccl_version": "2.28.9", "pg_config": {"0": {"name": "0", "desc": "dp", "ranks": str(list(range(world)))}},
            "pg_status": {"0": {"last_enqueued_collective": str(len(calls)), "last_started_collective": str(done),
                                "last_completed_collective": str(done)}}, "entries": entries}


def steps(count, pending=False, apart=1.0, late=0.0):
    done = [(1 + apart * step + late, 1.2 + apart * step + max(late, 0)) for step in range(count)]
    return done + ([(1 + apart * count, None)] if pending else [])


class Clocks(unittest.TestCase):
    def judged(self, dumps, written):
        """`dumps`: by rank; `written`: when the files were, by their own clocks."""
        with tempfile.TemporaryDirectory() as folder:
            for rank, (content, time) in enumerate(zip(dumps, written)):
                path = os.path.join(folder, f"_dump_{rank}")
                if content is None:
                    continue
                with open(path, "w", encoding="utf-8") as file:
                    json.dump(content, file)
                os.utime(path, (START + time, START + time))
            done = subprocess.run([TRAINTRACE, "analyze", "--format=json", folder], capture_output=True, text=True, timeout=120, check=False)
        return json.loads(done.stdout)

    def found(self, report, apart_from=("trace.clocks-unaligned",)):
        return [(one["code"], one["certainty"], one["culprits"]) for one in report["findings"]
                if one["severity"] != "info" and one["code"] not in apart_from]

    def stuck(self, clocks, limit=LIMIT):
        """Rank 3 does not call #15."""
        dumps = [dump(4, steps(14, rank != 3), clock, limit) for rank, clock in enumerate(clocks)]
        return self.judged(dumps, [16 + limit + clock for clock in clocks])

    def test_a_stuck_rank_whatever_the_clocks_show(self):
        for clocks, limit in (((0, 0, 0, 0), 600), ((0, 0, 1200, 1200), 600), ((0, 0, 120, 120), 60), ((0, 0, -120, 0), 600), ((0, 0, 0, 70), 600),
                              ((1200, 0, 0, 0), 600), ((0, 0, 7200, 7200), 600)):
            with self.subTest(clocks=clocks, limit=limit):
                report = self.stuck(clocks, limit)
                self.assertEqual(self.found(report), [("host.stuck", "likely", [3])])
                self.assertEqual(report["run"]["ranks"], [0, 1, 2, 3])
                moved = [one for one in report["findings"] if one["code"] == "trace.clocks-unaligned"]
                self.assertEqual(bool(moved), len(set(clocks)) > 1)

    def test_a_clock_that_is_ahead_is_no_late_rank(self):
        for ahead in (6, 15, -6, 40):
            with self.subTest(ahead):
                dumps = [dump(3, steps(12, apart=20), clock) for clock in (ahead, 0, 0)]
                self.assertEqual(self.found(self.judged(dumps, [260 + ahead, 260, 260])), [])

    def test_a_late_rank_is_late(self):
        """Rank 0 comes 8 s late to a few of them, and the others see these end after that."""
        for clock in (0, 30):
            late = [step % 4 == 2 for step in range(12)]
            ends = [1.2 + 20 * step + 8 * late[step] for step in range(12)]
            own = [(1 + 20 * step + 8 * late[step], ends[step]) for step in range(12)]
            others = [(1 + 20 * step, ends[step]) for step in range(12)]
            report = self.judged([dump(3, own, clock), dump(3, others), dump(3, others)], [260 + clock, 260, 260])
            self.assertEqual(self.found(report), [("collective.late-rank", "likely", [0])])

    def test_dumps_of_two_runs_stay_apart(self):
        """The ranks fit, and the steps do not: ranks 2 and 3 did not write one this time."""
        for before in (steps(14, True, apart=1.5), steps(4), steps(40)):
            dumps = [dump(4, steps(14, True)) for _ in range(2)] + [dump(4, before, -7200) for _ in range(2)]
            report = self.judged(dumps, [616, 616, -6600, -6600])
            self.assertEqual(report["run"]["ranks"], [0, 1])
            self.assertFalse([one for one in self.found(report) if one[2]])
            missing = [one for one in report["findings"] if one["code"] == "trace.missing-rank"]
            self.assertEqual([one["certainty"] for one in missing], ["likely"])
        alone = self.judged([dump(4, steps(14, True)) for _ in range(2)], [616, 616])
        missing = [one for one in alone["findings"] if one["code"] == "trace.missing-rank"]
        self.assertEqual([one["certainty"] for one in missing], ["proof"])

    def test_a_dump_of_before_the_others(self):
        """What they finished since proves that rank 2 went on, though the files' times are those of copies."""
        healthy = [dump(3, steps(13)), dump(3, steps(13)), dump(3, steps(8, True))]
        self.assertEqual(self.found(self.judged(healthy, [4000] * 3)), [])
        stalled = [dump(3, steps(9, True)), dump(3, steps(9, True)), dump(3, steps(8, True))]
        self.assertEqual(self.found(self.judged(stalled, [4000] * 3)), [("device.stalled", "likely", [2])])
        early = [dump(4, steps(14, True)), dump(4, steps(14, True)), dump(4, steps(4)), dump(4, steps(14))]
        self.assertEqual(self.found(self.judged(early, [616, 616, 4.5, 616])), [("host.stuck", "likely", [3])])
        ended = [dump(4, steps(14, True)), dump(4, steps(14, True)), dump(4, steps(14)), dump(4, steps(14, True))]
        self.assertEqual(self.found(self.judged(ended, [616, 616, 15.5, 616])), [("collective.dead-rank", "likely", [2])])


if __name__ == "__main__":
    unittest.main()
