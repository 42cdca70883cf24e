"""Packs: what is read of them is what is read of the traces, and nothing that is in them is trusted."""
import gzip
import os
import re
import shutil
import struct
import subprocess
import tarfile
import tempfile
import time
import zlib

import job

HEAD = 104
BLOCK = 40


def without_sources(text):
    return re.sub(r" source=\S+", "", text)


class Packs(job.Case):
    recorded = None  # by the first test, in a folder that the others copy

    def setUp(self):
        super().setUp()
        if not Packs.recorded:
            self.assertEqual(self.record()[0], 0)
            self.collect("packs")
            Packs.recorded = tempfile.mkdtemp(prefix="packs.")
            shutil.copytree(self.folder, Packs.recorded, dirs_exist_ok=True)
        shutil.copytree(Packs.recorded, self.folder, dirs_exist_ok=True)
        self.pack = self.files("packs/*.ttz")[0]

    @classmethod
    def tearDownClass(cls):
        if cls.recorded:
            shutil.rmtree(cls.recorded)

    def collect(self, to, *options, status=0):
        got, out, errors = self.traintrace("collect", "traintrace", f"--to={to}", *options)
        self.assertEqual((got, errors), (status, ""))
        self.assertRegex(out, r"^\S+: collected 1 process into " + to)

    def dump(self, *traces):
        status, out, errors = self.traintrace("dump", *traces)
        self.assertEqual((status, errors), (0, ""))
        return without_sources(out)

    def test_every_record_is_there(self):
        trace = self.dump("traintrace")
        self.assertEqual(self.dump("packs"), trace)
        self.assertEqual(self.dump(self.pack), trace)
        self.assertEqual(trace.count("< cudaMemset"), job.CALLS)
        self.assertLess(os.path.getsize(self.pack), os.path.getsize(self.files("traintrace/*.trace")[0]) / 4)
        self.assertEqual(os.stat(self.pack).st_mode & 0o777, 0o600)
        self.assertEqual(os.listdir(f"{self.folder}/packs"), [os.path.basename(self.pack)], "nothing else is left there")

    def test_nothing_is_unpacked_as_a_whole(self):
        """That of a job that runs has room for hundreds of megabytes: a copy, in memory too, would be a file that is written to."""
        with tarfile.open(f"{self.folder}/packs.tar", "w") as tar:
            tar.add(f"{self.folder}/packs", arcname="packs")
        for pack in ("packs", "packs.tar"):
            done = subprocess.run(["prlimit", "--fsize=0", job.TRAINTRACE, "dump", pack], cwd=self.folder, env=job.environment(),
                                  capture_output=True, text=True, check=False)
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            self.assertEqual(without_sources(done.stdout), self.dump("traintrace"))

    def test_every_command_reads_them(self):
        for command in (["analyze"], ["report", "--by=stack"], ["report"], ["export", "csv", "--output=-"]):
            of_traces = self.traintrace(command[0], *command[1:2], "traintrace", *command[2:])
            of_packs = self.traintrace(command[0], *command[1:2], "packs", *command[2:])
            self.assertEqual(of_packs, of_traces)
            self.assertEqual(of_packs[0], 0)
        self.assertEqual(self.traintrace("diff", "traintrace", "packs")[0], 0)

    def test_a_trace_and_its_pack_are_one_process(self):
        self.collect("traintrace")
        self.assertEqual(len(self.files("traintrace/*")), 2)
        self.assertEqual(self.analyze("traintrace")["run"]["ranks"], [0])
        self.assertEqual(len(self.dump("traintrace")), len(self.dump("packs")))

    def test_two_processes_with_one_name(self):
        """Containers may have the same host name and PIDs, and their jobs the same start."""
        name = os.path.basename(self.files("traintrace/*.trace")[0])
        self.assertEqual(self.record("--out=other", RANK="1")[0], 0)
        other = self.files("other/*.trace")[0]
        with open(other, "r+b") as file:
            head = file.read(4096)
            (pid, start), (old_pid, old_start) = ([int(part) for part in one.split(".")[-3:-1]] for one in (name, os.path.basename(other)))
            at = re.search(re.escape(struct.pack("<i", old_pid)) + rb"[\s\S]{4}" + re.escape(struct.pack("<Q", old_start)), head).start()
            file.seek(at)
            file.write(struct.pack("<i", pid))
            file.seek(at + 8)
            file.write(struct.pack("<Q", start))
        os.rename(other, f"{self.folder}/other/{name}")
        for _ in range(2):  # again: each replaces its own
            for folder in ("traintrace", "other"):
                self.assertEqual(self.traintrace("collect", folder, "--to=both")[0], 0)
        stem = name[:-len(".trace")]
        self.assertEqual(sorted(os.listdir(f"{self.folder}/both")), [f"{stem}.1.ttz", f"{stem}.ttz"])
        for folders in (["both"], ["traintrace", "both"], ["other", "both"]):
            self.assertEqual(self.dump(*folders).count("\nprocess "), 2)

    def test_the_ring_as_asked(self):
        self.collect("none", "--ring=none")
        self.assertEqual(self.dump("none").count("cudaMemset\n"), 0)
        self.assertEqual(self.analyze("none")["findings"][-1]["code"], self.analyze("packs")["findings"][-1]["code"])
        self.collect("last", "--ring=60s")
        self.assertEqual(self.dump("last"), self.dump("packs"))
        status, _, errors = self.traintrace("collect", "traintrace", "--to=x", "--ring=some")
        self.assertEqual((status, errors), (2, "traintrace: --ring=some: write all, none, or a time as 30s\n"))

    def test_the_newest_part_of_a_ring(self):
        self.assertEqual(self.record("--out=long", program=[*job.JOB[:3], "100000", "0"])[0], 0)
        got, _, errors = self.traintrace("collect", "long", "--to=short", "--ring=1ms")
        self.assertEqual((got, errors), (0, ""))
        all_calls, last_calls = (self.dump(folder).count("< cudaMemset") for folder in ("long", "short"))
        self.assertGreater(last_calls, 0)
        self.assertLess(last_calls, all_calls / 2)

    def test_full_recording_goes_along(self):
        self.record("--out=full", "--mode=full", "--ring-mb=1", program=[*job.JOB[:3], "200000", "0"])
        self.assertTrue(self.files("full/*.segments"))
        self.traintrace("collect", "full", "--to=packed")
        self.assertEqual(self.dump("packed"), self.dump("full"))

    def test_archives_of_both(self):
        expected = self.dump("traintrace")
        for name, mode in (("ustar", tarfile.USTAR_FORMAT), ("gnu", tarfile.GNU_FORMAT), ("pax", tarfile.PAX_FORMAT)):
            for folder in ("traintrace", "packs"):
                with tarfile.open(f"{self.folder}/{name}.tar", "w", format=mode) as tar:
                    tar.add(f"{self.folder}/{folder}", arcname="a/" + "long" * 40 if name != "ustar" else "a")
                self.assertEqual(self.dump(f"{name}.tar"), expected)

    def pack_by(self, command, path, into):
        """Whether there is such a command here."""
        try:
            with open(f"{self.folder}/{path}", "rb") as source, open(f"{self.folder}/{into}", "wb") as target:
                subprocess.run(command, stdin=source, stdout=target, check=True)
        except FileNotFoundError:
            os.remove(f"{self.folder}/{into}")
            return False
        return True

    def test_compressed_archives(self):
        """A trace has room for far more than it holds."""
        expected = self.dump("traintrace")
        for folder in ("traintrace", "packs"):
            for name, options in (("whole", []), ("holes", ["--sparse"])):
                subprocess.run(["tar", "--format=gnu", "-cf", f"{name}.tar", *options, folder], cwd=self.folder, check=True)
                self.assertEqual(self.dump(f"{name}.tar"), expected)
                for command, ending in ((["gzip"], ".tgz"), (["gzip"], ".tar.gz"), (["zstd", "-q"], ".tar.zst")):
                    if self.pack_by(command, f"{name}.tar", name + ending):
                        self.assertEqual(self.dump(name + ending), expected)
                        self.assertEqual(self.analyze(name + ending)["findings"], self.analyze("traintrace")["findings"])
                        os.remove(f"{self.folder}/{name}{ending}")

    def test_a_compressed_trace(self):
        expected = self.dump("traintrace")
        os.mkdir(f"{self.folder}/single")
        for path in (self.pack, self.files("traintrace/*.trace")[0]):
            name = "single/" + os.path.basename(path)
            for command, ending in ((["gzip"], ".gz"), (["zstd", "-q"], ".zst")):
                if self.pack_by(command, path[len(self.folder) + 1:], name + ending):
                    self.assertEqual(self.dump(name + ending), expected)
                    self.assertEqual(self.dump("single"), expected)
                    os.remove(f"{self.folder}/{name}{ending}")

    def test_a_compressed_trace_of_any_length(self):
        """Also of one that is as long as the parts in which it is unpacked."""
        expected = self.dump(self.pack)
        with open(self.pack, "rb") as file:
            data = file.read()
        for size in (65535, 65536, 65537, 131072):
            with open(f"{self.folder}/x.ttz", "wb") as file:
                file.write(data.ljust(size, b"\0"))
            for command, ending in ((["gzip"], ".gz"), (["zstd", "-q"], ".zst")):
                if self.pack_by(command, "x.ttz", "y.ttz" + ending):
                    self.assertEqual(self.dump("y.ttz" + ending), expected)

    def test_a_folder_of_archives(self):
        """One of each host, and beside the traces that are in them."""
        self.record("--out=other", RANK="1", WORLD_SIZE="2")
        self.assertEqual(self.traintrace("collect", "other", "--to=packs1")[0], 0)
        os.mkdir(f"{self.folder}/shared")
        for number, folder in enumerate(("packs", "packs1")):
            subprocess.run(["tar", "czf", f"shared/node{number}.tgz", folder], cwd=self.folder, check=True)
        expected = self.dump("packs", "packs1")
        self.assertEqual(self.dump("shared"), expected)
        for path in self.files("other/*"):
            shutil.copy(path, f"{self.folder}/shared")
        self.assertEqual(self.dump("shared").count("\nprocess "), 2)

    def test_an_archive_that_was_cut(self):
        subprocess.run(["tar", "cf", "whole.tar", "packs"], cwd=self.folder, check=True)
        with open(f"{self.folder}/whole.tar", "rb") as file:
            cut = file.read()[:2 * 512 + os.path.getsize(self.pack) - BLOCK]  # after the headers of the folder and of the pack
        stream = zlib.compressobj(wbits=16 + zlib.MAX_WBITS)
        for name, data in (("cut.tar", cut), ("cut.tgz", stream.compress(cut) + stream.flush(zlib.Z_SYNC_FLUSH))):
            with open(f"{self.folder}/{name}", "wb") as file:
                file.write(data)
            report = self.analyze(name)
            self.assertEqual(report["run"]["ranks"], [0], name)
            codes = {finding["code"] for finding in report["findings"]}
            self.assertIn("trace.truncated", codes, name)
            self.assertNotIn("trace.corrupt", codes, name)

    def test_what_unpacks_to_too_much(self):
        def packed(size, fill):
            return gzip.compress(fill * size, mtime=0)
        with open(f"{self.folder}/text.tgz", "wb") as file:  # 300 MB, not zeros
            file.write(packed(75_000_000, b"abcd"))
        self.assertLess(os.path.getsize(f"{self.folder}/text.tgz"), 1_000_000)
        member = tarfile.TarInfo("x.trace")
        member.size = 300_000_000
        with gzip.open(f"{self.folder}/bomb.tgz", "wb") as file:
            file.write(member.tobuf())
            for _ in range(75):
                file.write(b"abcd" * 1_000_000)
        status, out, errors = self.traintrace("analyze", "bomb.tgz")
        self.assertEqual((status, out), (2, ""))
        self.assertEqual(errors, "traintrace: bomb.tgz: expected no more than 64 times what it has packed, as traces have: it is not read\n")
        self.assertEqual(self.traintrace("analyze", "text.tgz")[0], 2)

    def test_archives_in_archives_are_not_read(self):
        subprocess.run("tar czf in.tgz packs && tar czf out.tgz in.tgz", shell=True, cwd=self.folder, check=True)
        status, out, errors = self.traintrace("analyze", "out.tgz")
        self.assertEqual((status, out), (2, ""))
        self.assertRegex(errors, "^traintrace: out.tgz/in.tgz: expected a tar archive, as it is or compressed by gzip or zstd, outside of other")

    def test_no_room_to_unpack(self):
        subprocess.run(["tar", "czf", "traces.tgz", "traintrace"], cwd=self.folder, check=True)
        done = self.on_small_disk("16k", 'TMPDIR=small "$@"', job.TRAINTRACE, "analyze", "traces.tgz")
        self.assertEqual((done.returncode, done.stdout), (2, ""))
        self.assertRegex(done.stderr, "^traintrace: traces.tgz: cannot be unpacked in small: No space left on device; ")

    def test_folders_of_dumped_text(self):
        text = self.traintrace("dump", "traintrace")[1].encode()
        expected = self.dump("traintrace")
        os.mkdir(f"{self.folder}/text")
        path = f"{self.folder}/text/a.txt"
        for pack, ending in ((lambda: text, ""), (lambda: gzip.compress(text), ".gz"),
                             (lambda: subprocess.run(["zstd", "-q"], input=text, stdout=subprocess.PIPE, check=True).stdout, ".zst")):
            try:
                packed = pack()
            except FileNotFoundError:  # no zstd here
                continue
            with open(path + ending, "wb") as file:
                file.write(packed)
            self.assertEqual(self.dump("text"), expected)
            os.remove(path + ending)

    def damaged(self, damage):
        """What `analyze` says about a pack that `damage` has changed: (status, stdout + stderr)."""
        with open(self.pack, "rb") as file:
            data = bytearray(file.read())
        path = f"{self.folder}/damaged.ttz"
        with open(path, "wb") as file:
            file.write(damage(data))
        status, out, errors = self.traintrace("analyze", path)
        return status, out + errors

    def test_damage_is_told_with_file_and_offset(self):
        def flip(place):
            def damage(data):
                data[place] ^= 0x40
                return data
            return damage
        self.assertEqual(self.damaged(flip(20))[0], 2)
        self.assertIn("damaged.ttz: at 96: expected the checksum of the pack's head", self.damaged(flip(20))[1])
        self.assertIn(f"damaged.ttz: at {HEAD}: expected the head of a block", self.damaged(flip(HEAD + 8))[1])
        # The trace's own header lies in the first block.
        self.assertIn(f"damaged.ttz: at {HEAD + BLOCK}: expected a block with the checksum", self.damaged(flip(HEAD + BLOCK + 8))[1])
        # The last block of data: tables, or events.  The rest is read all the same.
        def last(data):
            at = HEAD
            places = []
            while True:
                member, _, _, packed = struct.unpack_from("<IQII", data, at + 4)
                if member == 0:
                    break
                places.append(at + BLOCK)
                at += BLOCK + packed
            data[places[-1]] ^= 1
            return data
        status, text = self.damaged(last)
        self.assertEqual(status, 0, text)
        self.assertIn("trace.corrupt", text)
        self.assertIn("expected a block with the checksum of its head", text)

    def test_a_pack_that_was_cut(self):
        status, text = self.damaged(lambda data: data[:-BLOCK])
        self.assertEqual(status, 0)
        self.assertIn("trace.truncated", text)
        self.assertIn("the pack is truncated", text)
        self.assertEqual(self.damaged(lambda data: data[:50])[0], 2)

    def test_of_a_process_that_runs(self):
        """What was collected is a snapshot: the process is silent from then on, whatever became of it since."""
        settings = job.environment(LD_PRELOAD=job.LIBRARY, TRAINTRACE_DIR=f"{self.folder}/live")
        counts = f"{self.folder}/counts"
        with open(counts, "wb") as file:
            file.write(bytes(4096))
        with subprocess.Popen([job.JOB[0], "work", counts, "1000", "4", "5000", "0"], env=settings, stdout=subprocess.DEVNULL) as process:
            end = time.monotonic() + 60
            while time.monotonic() < end and not self.files("live/*.trace"):
                time.sleep(0.1)
            for _ in range(3):
                status, _, errors = self.traintrace("collect", "live", "--to=snapshot")
                self.assertEqual((status, errors), (0, ""))
                status, text, errors = self.traintrace("dump", "snapshot")
                self.assertEqual((status, errors), (0, ""))
                self.assertEqual([line for line in text.splitlines() if line.startswith("error ")], [])
                self.assertFalse(" running=" in text, "of what it did since nothing is known")
            process.kill()
        report = self.analyze("snapshot")
        self.assertEqual((report["run"]["live"], report["findings"][0]["code"]), (False, "run.in-progress"))

    def test_nothing_here_to_collect(self):
        os.mkdir(f"{self.folder}/empty")
        status, _, errors = self.traintrace("collect", "empty")
        self.assertEqual(status, 2)
        self.assertTrue(errors.startswith("traintrace: no traces of empty on this host: name the folder that TRAINTRACE_DIR named"), errors)

    def test_packs_of_traces_that_are_gone(self):
        """Collected before they were removed: nothing is missing."""
        self.record()
        self.assertEqual(self.traintrace("collect", "traintrace", "--to=packs")[0], 0)
        path = self.files("traintrace/*.trace")[0]
        name = os.path.basename(path)[:-len(".trace")]
        with open(f"{self.folder}/packs/{name}.pointer", "w", encoding="utf-8") as file:
            file.write(f"traintrace-pointer 1\n{path}\n{os.uname().nodename}\n")
        os.unlink(path)
        said = f"{os.uname().nodename}: nothing more to collect: 1 pack is in packs already\n"
        self.assertEqual(self.traintrace("collect", "packs"), (0, said, ""))
        self.assertEqual(self.analyze("packs")["run"]["ranks"], [0])

    def test_pointers_to_traces_that_are_gone(self):
        """Two hosts may have one name: of what the other one has, one line is enough."""
        os.mkdir(f"{self.folder}/pointers")
        for number in range(3):
            name = f"{os.uname().nodename}.{number}.7"
            with open(f"{self.folder}/pointers/{name}.pointer", "w", encoding="utf-8") as file:
                file.write(f"traintrace-pointer 1\n/nowhere/{name}.trace\n{os.uname().nodename}\n")
        status, _, errors = self.traintrace("collect", "pointers")
        self.assertEqual((status, errors), (2, f"traintrace: /nowhere: 3 traces of {os.uname().nodename} are not here: removed, or in the private "
                                               "/tmp of a job, or on another host of that name\n"))


if __name__ == "__main__":
    job.main()
