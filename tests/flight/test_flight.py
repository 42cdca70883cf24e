#!/usr/bin/python3
"""Dumps of Flight Recorder through the whole command: read, judged, imported, exported, compared.   test_flight.py TRAINTRACE"""
import json
import os
import pickle
import random
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.dirname(__file__))
import generate
import strict_reader

TRAINTRACE = sys.argv.pop(1)
NAMES = ["_dump_{}", "nccl_trace_rank_{}", "rank{}.pkl", "trace.{}.2025", "job7_rank-{}_dump"]


def run(*arguments):
    return subprocess.run([TRAINTRACE, *arguments], capture_output=True, text=True, timeout=120, check=False)


def judged(*paths):
    done = run("analyze", "--format=json", *paths)
    if done.returncode == 2:
        raise AssertionError(done.stderr)
    return json.loads(done.stdout)


def found(report):
    return [(one["code"], one["certainty"], one["culprits"]) for one in report["findings"] if one["severity"] != "info"]


class Flight(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def dumps(self, name="_dump_{}", version=(2, 9), form="pickle", **chosen):
        folder = os.path.join(self.folder.name, f"job{len(os.listdir(self.folder.name))}")
        options = generate.options_of([folder, *(f"--{key}={value}" for key, value in chosen.items())])
        generate.write(folder, options, name, version, form)
        return folder

    def test_every_name(self):
        for name in NAMES:
            with self.subTest(name):
                report = judged(self.dumps(name, fault="missing", culprit=2))
                self.assertEqual(found(report), [("host.stuck", "likely", [2])])
                self.assertEqual(report["run"]["ranks"], [0, 1, 2, 3])
                self.assertEqual(report["run"]["sources"], ["flight-recorder"])

    def stuck(self, **chosen):
        options = generate.options_of(["", *(f"--{key}={value}" for key, value in ({"fault": "missing"} | chosen).items())])
        return lambda rank: generate.dump(rank, options)

    def test_names_tell_the_rank_and_nothing_else(self):
        """Whatever else is in a name, or which folder it lies in: the dumps of one job are judged together."""
        for name in ("node{1}_gpu_{2}_rank_{0}.pickle", "gpu{2}.host{1}.rank{0}.pkl", "fr.{0}.2026-11-23T10-00-00", "r{0}/_dump_{0}", "r{0}/dump",
                     "n{1}/_dump_{0}", "job7/{0}"):
            with self.subTest(name):
                options = generate.options_of(["", "--fault=missing", "--culprit=2"])
                folder = os.path.join(self.folder.name, f"job{len(os.listdir(self.folder.name))}")
                folders = set()
                for rank in range(options.ranks):
                    path = os.path.join(folder, name.format(rank, rank // 2, rank % 2))
                    folders.add(os.path.dirname(path))
                    os.makedirs(os.path.dirname(path), exist_ok=True)
                    with open(path, "wb") as file:
                        pickle.dump(generate.dump(rank, options), file)
                report = judged(*sorted(folders))
                self.assertEqual(found(report), [("host.stuck", "likely", [2])])
                self.assertEqual(report["run"]["ranks"], [0, 1, 2, 3])

    def test_no_rank_is_invented(self):
        """Where names do not tell them apart, or tell it in two ways, nobody is called a rank."""
        for name in ("fr_{1}.pkl", "{1}/_dump_7", "fr.{0}.{2}"):
            with self.subTest(name):
                folder = os.path.join(self.folder.name, f"job{len(os.listdir(self.folder.name))}")
                paths = [os.path.join(folder, name.format(rank, "abcd"[rank], 3 - rank)) for rank in range(4)]
                for rank, path in enumerate(paths):
                    os.makedirs(os.path.dirname(path), exist_ok=True)
                    with open(path, "wb") as file:
                        pickle.dump(self.stuck()(rank), file)
                done = run("analyze", *paths)
                self.assertEqual((done.returncode, done.stdout), (2, ""))
                self.assertIn("expected the rank in the file's name", done.stderr)

    def test_what_a_dump_says_of_its_rank_counts(self):
        options = generate.options_of([""])
        folder = self.each(lambda rank: generate.message_dump(3 - rank, options), "fr_{}")
        report = judged(folder)
        self.assertEqual((found(report), report["run"]["ranks"]), ([], [0, 1, 2, 3]))

    def test_a_dump_of_an_earlier_job_is_not_of_this_one(self):
        """Rank 3 wrote none this time, and that of an hour before lies there still."""
        hour = 3600 * generate.SECOND
        then = {key: generate.START - hour + value for key, value in (("time_created_ns", 0), ("time_discovered_completed_ns", 1000))}
        options = generate.options_of(["", "--fault=none"])

        def dumped(rank):
            dump = generate.dump(rank, options)
            if rank == 3:
                dump["entries"] = [one | then for one in dump["entries"][:20]]
            return dump

        report = judged(self.each(dumped))
        self.assertEqual((found(report), report["run"]["ranks"]), ([], [0, 1, 2]))

    def test_a_rank_without_dump(self):
        """Not there or cut off: the others wait for it, if for long."""
        stalled = self.stuck(fault="stalled", culprit=9)
        others = [0, 1, 3]
        alone = judged(self.each(stalled, ranks=others))
        self.assertEqual(found(alone), [("collective.missing-rank", "likely", [2]), ("trace.missing-rank", "proof", [])])
        self.assertEqual(alone["run"]["missing_ranks"], [2])
        folder = self.each(stalled)
        with open(os.path.join(folder, "_dump_2"), "r+b") as file:
            file.truncate(2000)
        self.assertIn(("collective.missing-rank", "likely", [2]), found(judged(folder)))
        folder = self.each(stalled, ranks=others)
        last = (generate.START + 40 * 1_000_000) / 1e9 + 1
        for name in os.listdir(folder):
            os.utime(os.path.join(folder, name), (last, last))
        self.assertEqual(found(judged(folder)), [])

    def test_versions_and_forms(self):
        for version in [(1, 2), (2, 0), (2, 4), (2, 7), (2, 9), (2, 10)]:
            for form in ("pickle", "json"):
                with self.subTest(version=version, form=form):
                    self.assertEqual(found(judged(self.dumps(version=version, form=form, fault="missing"))), [("host.stuck", "likely", [2])])

    def test_faults(self):
        stalled = judged(self.dumps(fault="stalled", culprit=1))
        self.assertEqual(found(stalled), [("device.stalled", "likely", [1])])
        self.assertEqual(stalled["findings"][0]["victims"], [0, 2, 3])
        # The others went on so far that what they are through with is only counted in their dumps.
        counted = judged(self.dumps(fault="stalled", culprit=1, ahead=100, keep=50))
        self.assertEqual(found(counted), [("device.stalled", "likely", [1])])
        self.assertEqual(counted["findings"][0]["victims"], [0, 2, 3])
        count = judged(self.dumps(fault="count", culprit=0))
        self.assertEqual([(code, culprits) for code, _, culprits in found(count)], [("collective.count-mismatch", [0])])
        self.assertEqual(count["findings"][0]["where"][0]["file"], "/job/train.py")
        skipped = judged(self.dumps(fault="skipped", culprit=3))
        self.assertEqual([(code, culprits) for code, _, culprits in found(skipped)], [("collective.skipped-call", [3])])
        self.assertEqual(found(judged(self.dumps(fault="none"))), [])

    def test_a_dump_of_just_now_is_no_hang(self):
        folder = self.dumps(fault="missing")
        last = (generate.START + 40 * 1_000_000) / 1e9 + 1
        for name in os.listdir(folder):
            os.utime(os.path.join(folder, name), (last, last))
        self.assertEqual(found(judged(folder)), [])

    def test_a_dump_by_hand_is_not_called_progress(self):
        """Within the time limits a hang and a slow step look the same: both are told as such, and who is missing."""
        def dumped(fault, seconds):
            folder = self.dumps(fault=fault)
            last = (generate.START + 40 * 1_000_000) / 1e9 + seconds
            for name in os.listdir(folder):
                os.utime(os.path.join(folder, name), (last, last))
            return folder

        hang = dumped("missing", 70)
        first = judged(hang)["findings"][0]
        self.assertEqual((first["code"], first["severity"], first["certainty"], first["culprits"]), ("run.in-progress", "info", "possible", []))
        self.assertIn("cannot be told whether the run still moves: ranks 0,1,3 were in ncclAllReduce #40", first["title"])
        self.assertIn("which rank 2 had not entered, for up to ", first["title"])
        self.assertEqual(found(json.loads(run("analyze", "--format=json", "--hang-after=60s", hang).stdout)), [("host.stuck", "likely", [2])])
        for lost, text in ((3, "which rank 2 had not entered (of rank 3 it is not known), for up to "),
                           (2, "which rank 2 (left no trace) may not have entered, for up to ")):
            folder = dumped("missing", 70)
            os.remove(os.path.join(folder, next(name for name in os.listdir(folder) if name.endswith(f"_{lost}"))))
            self.assertIn(text, judged(folder)["findings"][0]["title"])
        for calm in (dumped("missing", 1), dumped("none", 70)):
            self.assertNotIn("cannot be told", judged(calm)["findings"][0]["title"])

    def timed(self, started_after, written):
        """Dumps of a hang with times of starts.  started_after(entry): ns; written: of the files, s after the last record."""
        def dumped(rank):
            root = self.stuck()(rank)
            for entry in root["entries"]:
                entry["time_discovered_started_ns"] = entry["time_created_ns"] + started_after(entry)
                entry["state"] = entry["state"] if entry["retired"] else "started"
            return root

        folder = self.each(dumped)
        last = (generate.START + 40 * 1_000_000) / 1e9 + written
        for name in os.listdir(folder):
            os.utime(os.path.join(folder, name), (last, last))
        return found(judged(folder))

    def test_what_starts_tell_of_the_dump(self):
        """PyTorch looks at starts when it retires an entry, and when it dumps; where somebody polled, they say nothing of the dump."""
        soon, limit, copied = 2_000, 180, 86_400
        hang = [("host.stuck", "likely", [2])]

        def by_dump(entry):  # seen at once with its end, or by the dump
            return 500_000 - soon if entry["retired"] else 1_000_000_000

        def polled(entry):
            return soon

        self.assertEqual(self.timed(by_dump, copied), [])
        self.assertEqual(self.timed(by_dump, 1), [])
        self.assertEqual(self.timed(by_dump, limit + 2), hang)  # the file is the watchdog's
        self.assertEqual(self.timed(polled, limit + 2), hang)
        self.assertEqual(self.timed(polled, copied), hang)
        self.assertEqual(self.timed(polled, 1), [])

    def test_order_of_files_leaves_no_mark(self):
        folder = self.dumps(fault="missing", ranks=8)
        paths = [os.path.join(folder, name) for name in os.listdir(folder)]
        first = run("analyze", *paths).stdout
        random.Random(1).shuffle(paths)
        self.assertEqual(run("analyze", *paths).stdout, first)

    def test_damaged(self):
        folder = self.dumps(fault="missing", ranks=8)
        with open(os.path.join(folder, "_dump_5"), "r+b") as file:
            file.truncate(2000)
        open(os.path.join(folder, "_dump_6"), "wb").close()
        with open(os.path.join(folder, "README"), "w") as file:
            file.write("not a dump\n")
        report = judged(folder)
        codes = {one["code"]: one for one in report["findings"]}
        self.assertIn("_dump_5", " ".join(codes["trace.truncated"]["evidence"]))
        self.assertIn("_dump_6", " ".join(codes["trace.corrupt"]["evidence"]))
        self.assertNotIn("README", json.dumps(report))
        self.assertEqual(codes["host.stuck"]["culprits"], [2])
        self.assertEqual(report["run"]["missing_ranks"], [5, 6])

    def test_versions_that_are_not_read_are_named(self):
        """PyTorch 2.2 wrote a list without a version; what a version to come means, nobody knows. Several are told as one."""
        entry = {"profiling_name": "nccl:all_reduce", "pg_id": 0, "seq_id": 1, "state": "scheduled"}
        for rank in range(3):
            for folder, dump in (("old", [entry]), ("new", {"version": "3.0", "entries": [entry]})):
                os.makedirs(os.path.join(self.folder.name, folder), exist_ok=True)
                with open(os.path.join(self.folder.name, folder, f"_dump_{rank}"), "wb") as file:
                    pickle.dump(dump, file, protocol=2)
        for folder, expected in (("old", "a list of entries alone, is of PyTorch 2.2 or earlier"), ("new", "not '3.0'")):
            done = run("analyze", os.path.join(self.folder.name, folder))
            self.assertEqual(done.returncode, 2)
            self.assertIn(expected, done.stderr)
            self.assertIn("; the same of 2 other files there", done.stderr)
            self.assertEqual(done.stderr.count("\n"), 1, done.stderr)

    def test_hostile(self):
        class Evil:
            def __reduce__(self):
                return os.system, ("touch " + os.path.join(self.target, "executed"),)

        Evil.target = self.folder.name
        path = os.path.join(self.folder.name, "_dump_0")
        for protocol in (2, 4):
            with open(path, "wb") as file:
                pickle.dump({"version": "2.9", "entries": [Evil()]}, file, protocol=protocol)
            done = run("analyze", path)
            self.assertEqual((done.returncode, done.stdout), (2, ""))
            self.assertRegex(done.stderr, r"_dump_0: at \d+: expected numbers, text, lists and dictionaries")
        self.assertFalse(os.path.exists(os.path.join(self.folder.name, "executed")))

    def test_import(self):
        folder = self.dumps(fault="stalled")
        imported = os.path.join(self.folder.name, "imported.trace")
        self.assertEqual(run("import", "flight-recorder", folder, f"--out={imported}").returncode, 0)
        self.assertEqual(run("analyze", imported).stdout, run("analyze", folder).stdout)

    def test_export(self):
        scenario = os.path.join(os.path.dirname(__file__), "export.txt")
        prefix = os.path.join(self.folder.name, "out_")
        self.assertEqual(run("export", "flight-recorder", scenario, f"--output={prefix}").returncode, 0)
        dumps = [strict_reader.read(prefix + str(rank)) for rank in range(4)]
        last = dumps[0]["entries"][-1]
        self.assertEqual((last["profiling_name"], last["state"], last["collective_seq_id"]), ("nccl:all_reduce", "scheduled", 21))
        self.assertEqual((last["input_sizes"], last["input_dtypes"]), ([[1024]], ["Float"]))
        self.assertEqual(last["frames"][0], {"name": "train_step", "filename": "train.py", "line": 118})
        self.assertEqual([entry["profiling_name"] for entry in dumps[1]["entries"] if entry["is_p2p"]], ["nccl:recv 1<-0"])
        gathered = [entry for entry in dumps[3]["entries"] if entry["profiling_name"] == "nccl:_all_gather_base"]
        self.assertEqual((gathered[0]["input_sizes"], gathered[0]["output_sizes"]), ([[8]], [[32]]))

    def exported(self, name):
        """The folder of the dumps that are made of that scenario."""
        folder = os.path.join(self.folder.name, f"job{len(os.listdir(self.folder.name))}")
        os.makedirs(folder)
        scenario = os.path.join(os.path.dirname(__file__), name)
        self.assertEqual(run("export", "flight-recorder", scenario, f"--output={folder}/_dump_").returncode, 0)
        return folder

    def test_export_of_a_ring(self):
        """Numbers say how much came before.  As from a ring, nothing is missing between two entries: of each communicator other calls are kept."""
        folder = self.exported("export_long.txt")
        for rank, messages in enumerate((101, 202, 202, 101)):
            dump = strict_reader.read(os.path.join(folder, f"_dump_{rank}"))
            first, last = dump["entries"][0], dump["entries"][-1]
            self.assertEqual((first["record_id"] > 64, last["record_id"]), (True, 100 + messages - 1), rank)
            self.assertEqual((last["p2p_seq_id"], last["collective_seq_id"] if not last["is_p2p"] else 100), (messages, 100), rank)
            self.assertEqual([entry["time_created_ns"] >= first["time_created_ns"] for entry in dump["entries"]], [True] * len(dump["entries"]))
            steps = [entry["collective_seq_id"] for entry in dump["entries"] if not entry["is_p2p"]]
            self.assertEqual(steps, list(range(steps[0], 101)), rank)
            self.assertEqual(sum(entry["is_p2p"] for entry in dump["entries"]), (1 if rank in (0, 3) else 2) * (len(steps) + 1), rank)
        self.assertEqual(found(judged(folder)), [])

    def test_export_of_what_nobody_asked_about(self):
        """It is not pending, but for what cannot complete.  The file has the time of what it tells."""
        folder = self.exported("export_unseen.txt")
        entries = [strict_reader.read(os.path.join(folder, f"_dump_{rank}"))["entries"] for rank in range(4)]
        self.assertEqual([(entry["state"], entry["retired"]) for entry in entries[0][-3:]], [("scheduled", True)] * 2 + [("scheduled", False)])
        self.assertEqual([(entry["state"], entry["retired"]) for entry in entries[2][-2:]], [("completed", True), ("scheduled", False)])
        waited = os.stat(os.path.join(folder, "_dump_2")).st_mtime_ns - entries[2][-1]["time_created_ns"]
        self.assertEqual(waited, 27_700_000_000)
        self.assertEqual(found(judged("--hang-after=3s", folder)), [("collective.missing-rank", "likely", [1])])

    def test_events_narrow_a_range(self):
        """The place is beyond all that the tables keep; the events have it."""
        scenarios = os.path.join(os.path.dirname(__file__), "..", "scenarios")
        for name, code in (("skipped_call_long_ago", "collective.skipped-call"), ("count_mismatch_long_ago", "collective.count-mismatch")):
            report = judged(os.path.join(scenarios, name + ".txt"))
            first = report["findings"][0]
            self.assertEqual((first["code"], first["culprits"], first["sequence"], first.get("sequence_last")), (code, [1], 601, None))

    def each(self, dumped, name="_dump_{}", ranks=range(4)):
        """What `dumped` gives for each rank."""
        folder = os.path.join(self.folder.name, f"job{len(os.listdir(self.folder.name))}")
        for rank in ranks:
            path = os.path.join(folder, name.format(rank))
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "wb") as file:
                pickle.dump(dumped(rank), file, protocol=2)
        return folder

    def messages(self, fault, first=0):
        options = generate.options_of(["", "--culprit=1"])
        return self.each(lambda rank: generate.message_dump(rank, options, fault, first))

    def test_messages(self):
        for fault in ("none", "grouped", "grouped, newer"):
            self.assertEqual(found(judged(self.messages(fault))), [], fault)
        unsent = judged(self.messages("unsent"))["findings"][0]
        self.assertEqual((unsent["code"], unsent["culprits"]), ("p2p.missing-send", [1]))
        self.assertIn(2, unsent["victims"])
        self.assertNotEqual(unsent["certainty"], "proof")
        short = judged(self.messages("short"))["findings"][0]
        self.assertEqual((short["code"], short["victims"]), ("p2p.count-mismatch", [0, 2, 3]))
        for fault in ("grouped, short", "grouped, short, newer"):
            done = judged(self.messages(fault))["findings"][0]
            self.assertEqual((done["code"], done["victims"]), ("p2p.count-mismatch", []), fault)

    def test_messages_of_which_the_first_are_lost(self):
        """How many came before is not known: nobody's are compared.  The oldest that is unfinished has no other side, all the same."""
        for dumps in (lambda fault: self.messages(fault, first=7), self.messages_numbered_anew):
            codes = [code for code, _, _ in found(judged(dumps("short")))]
            self.assertFalse([code for code in codes if code.startswith("p2p.")], codes)
            unsent = judged(dumps("unsent"))["findings"][0]
            self.assertEqual((unsent["code"], unsent["culprits"]), ("p2p.missing-send", [1]))

    def messages_numbered_anew(self, fault):
        """Each rank has lost others, and what wrote the dumps counts records from there on."""
        options = generate.options_of(["", "--culprit=1"])

        def dump(rank):
            whole = generate.message_dump(rank, options, fault)
            kept = whole["entries"][(1, 3, 2, 5)[rank]:]
            return whole | {"entries": [entry | {"record_id": number} for number, entry in enumerate(kept)]}
        return self.each(dump)

    def coalesced(self, fault, closing="coalesced", lost=(), apart=200):
        options = generate.options_of(["", f"--fault={fault}", "--records=9"])
        return self.each(lambda rank: generate.coalesced_dump(rank, options, closing, dict(lost).get(rank, 0), apart))

    def test_the_closing_entry_tells_of_its_parts(self):
        """They never get done by themselves, neither as operations nor as what a watchdog would have found first."""
        for closing in ("coalesced", "ALLGATHER_coalesced", "REDUCE_SCATTER_coalesced"):
            self.assertEqual(found(judged(self.coalesced("none", closing))), [], closing)
            missing = judged(self.coalesced("missing", closing))
            self.assertEqual(found(missing), [("host.stuck", "likely", [2])], closing)
            self.assertEqual(missing["findings"][0]["values"]["waited_ns"] // generate.SECOND, 180)
            self.assertEqual([code for code, _, _ in found(judged(self.coalesced("stalled", closing, apart=1)))], ["device.transport-stall"])

    def test_parts_that_are_lost(self):
        """How much the first collective of rank 1 was is not known."""
        for fault in ("none", "missing"):
            for lost in (1, 2, 3, 4, 5):
                whole = found(judged(self.coalesced(fault)))
                self.assertEqual(found(judged(self.coalesced(fault, lost={1: lost}))), whole, (fault, lost))

    def beside(self, *files):
        """Native traces of a job in which rank 3 left out a call, and what lies beside them."""
        folder = os.path.join(self.folder.name, "beside")
        os.makedirs(folder, exist_ok=True)
        dumped = run("dump", os.path.join(os.path.dirname(__file__), "..", "scenarios", "skipped_call.txt"))
        for name, content in ((("job.trace", dumped.stdout.encode())), *files):
            with open(os.path.join(folder, name), "wb") as file:
                file.write(content)
        return folder

    def test_dumps_beside_traces_support_and_count_nothing(self):
        alone = judged(self.beside())
        options = generate.options_of(["", f"--ranks={alone['run']['world_size']}"])
        dumps = [(f"dump_{rank}", pickle.dumps(generate.dump(rank, options), protocol=2)) for rank in alone["run"]["ranks"]]
        both = judged(self.beside(*dumps, ("dump_9", b"\x80\x02}X\x07\x00\x00\x00entries"), ("notes", b"{}"), ("picture", b"\x80\x02nothing")))
        self.assertEqual(both["run"], alone["run"])
        self.assertEqual(len(both["findings"]), len(alone["findings"]))
        for one, other in zip(both["findings"], alone["findings"]):
            said = [line for line in one["evidence"] if line.startswith("Flight Recorder (dump_*) of rank")]
            self.assertEqual(bool(said), one["severity"] != "info", one)
            one["evidence"] = [line for line in one["evidence"] if line not in said]
            self.assertEqual(one, other)

    def test_what_nccl_says_beside_traces(self):
        alone = judged(self.beside())
        corpus = os.path.join(os.path.dirname(__file__), "..", "fuzz", "corpus", "testimony")
        for name in ("ras", "ras_without_comma", "log"):
            with open(os.path.join(corpus, name), "rb") as file:
                both = judged(self.beside(("job.trace.txt", b"some words\n"), (name, file.read())))
            self.assertEqual(found(both), found(alone), name)
        with open(os.path.join(corpus, "ras_cut"), "rb") as file:
            report = judged(self.beside(("ras.json", file.read())))
        self.assertEqual([one for one in found(report) if not one[0].startswith("trace.")], found(alone))

    def test_what_nccl_says_alone(self):
        corpus = os.path.join(os.path.dirname(__file__), "..", "fuzz", "corpus", "testimony")
        for name, says in (("ras", "rank 2 on communicator 0x5a13: 2 AllGather, 40 AllReduce launched"),
                           ("ras_without_comma", "rank 3 on communicator 0x5a13: does not answer, and is considered dead"),
                           ("log", "rank 2: its proxy thread failed with ncclRemoteError, after it had warned: NET/IB : Got completion from peer 10.0.0.8 with "
                                  "status=12 (2026-11-26 05:10:00 there)"),
                           ("watchdog", "rank 2: had enqueued up to work 20584 of process group 0(default_pg), completed up to 20584"),
                           ("ras_text", "processes 483096 on 172.16.64.213, 483098 on 172.16.64.213 on communicator 0x5a13: reported Remote process exited "
                                       "or there was a network error")):
            report = judged(os.path.join(corpus, name))
            self.assertEqual([(one["code"], one["certainty"], one["culprits"]) for one in report["findings"]], [("run.in-progress", "possible", [])])
            self.assertIn(says, report["findings"][0]["evidence"])
        report = judged(os.path.join(corpus, "watchdog"))
        self.assertTrue(report["findings"][0]["title"].startswith("rank 2 had not enqueued work 20585 of process group 0(default_pg) (ALLREDUCE), for "
                                                                  "which ranks 0,1 waited 600 s, says PyTorch's log; "), report["findings"][0]["title"])
        done = run("analyze", os.path.join(corpus, "ras_cut"))
        self.assertEqual((done.returncode, done.stdout), (2, ""))
        self.assertIn("ras_cut", done.stderr)

    def test_import_of_what_nccl_says(self):
        corpus = os.path.join(os.path.dirname(__file__), "..", "fuzz", "corpus", "testimony")
        folder = self.beside()
        before = judged(folder)
        done = run("import", "nccl-ras", *(os.path.join(corpus, name) for name in ("ras", "ras_without_comma", "ras_text")), f"--out={folder}")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertEqual(sorted(name for name in os.listdir(folder) if "ras" in name), ["nccl-ras.0.json", "nccl-ras.1.json", "nccl-ras.2.txt"])
        self.assertEqual(found(judged(folder)), found(before))
        self.assertEqual(run("import", "nccl-ras", os.path.join(corpus, "ras_cut"), "--out=-").returncode, 2)
        self.assertEqual(run("import", "nccl-ras", os.path.join(corpus, "log"), "--out=-").returncode, 2)

    def test_diff(self):
        good, bad = self.dumps(fault="none", records=60), self.dumps(fault="skipped", records=60, culprit=3)
        report = json.loads(run("diff", "--format=json", good, bad).stdout)
        first = report["sequences"][0]
        self.assertEqual((first["kind"], first["ranks"], first["sequence"]), ("differs", [3], 30))
        self.assertEqual((first["a"]["count"], first["b"]["count"]), (4 * 64, 4 * (64 + 8)))
        self.assertEqual([one["kind"] for one in report["sequences"][1:]], ["same"])
        self.assertIn("no difference", run("diff", good, good).stdout)
        short = self.dumps(fault="none", records=50)
        self.assertIn("B ends, after #50; A goes on to #60", run("diff", good, short).stdout)
        self.assertEqual(run("diff", good, "/nonexistent").returncode, 2)


if __name__ == "__main__":
    unittest.main()
