#!/usr/bin/python3
"""TRAINTRACE_MODE=full where there is no room for it: the job does not notice, and the trace says what is missing.   full_disk.py BUILD"""
import os
import re
import subprocess
import sys
import tempfile
import threading
import unittest

BUILD = sys.argv[1]
JOB = [os.path.join(BUILD, "tests", "memory_job"), "5", "120000", "1"]
MIB = 1 << 20


def run(folder, *limit, **settings):
    """Its status and what it says that is not an address."""
    environment = dict(os.environ, SIMGPU_DEVICES="1", SIMGPU_NODE=tempfile.gettempdir(), **settings)
    done = subprocess.run([*JOB, *limit], cwd=folder, env=environment, capture_output=True, text=True, timeout=200, check=False)
    return done.returncode, re.findall(r"^total .*", done.stdout, re.M), done.stderr


def recorded(folder, **settings):
    return dict(LD_PRELOAD=os.path.join(BUILD, "lib", "libtraintrace.so"), TRAINTRACE_DIR=os.path.join(folder, "traces"),
                TRAINTRACE_MODE="full", TRAINTRACE_RING_MB="1", **settings)


def dump(folder):
    return subprocess.run([os.path.join(BUILD, "bin", "traintrace"), "dump", os.path.join(folder, "traces"), "--limit=0"],
                          capture_output=True, text=True, timeout=200, check=False).stdout


def records_of(text):
    return int(re.search(r"^process .* records=(\d+)", text, re.M)[1])


def fill(folder, done):
    """Until there is nothing left, again and again."""
    with open(os.path.join(folder, "filler"), "wb", buffering=0) as file:
        for piece in (MIB, 4096, 1):
            while not done.wait(0.001):
                try:
                    file.write(b"x" * piece)
                except OSError:
                    break


class FullDisk(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="full-disk.")
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def test_disk(self):
        """A file system of its own, which something else fills while the job runs."""
        disk = os.path.join(self.folder, "disk")
        os.mkdir(disk)
        done = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=128M", "none", disk], capture_output=True, check=False)
        if done.returncode != 0:
            self.skipTest("a disk cannot be mounted here")
        try:
            plain = run(disk)
            end = threading.Event()
            filler = threading.Thread(target=fill, args=(disk, end))
            filler.start()
            traced = run(disk, **recorded(disk))
            end.set()
            filler.join()
            # On stderr it may say that there is no room for a trace.
            self.assertEqual((plain[:2], plain[0]), (traced[:2], 0))
            text = dump(disk)
            # None at all where there was no room from the beginning.
            self.assertTrue("process " not in text or re.search(r"^loss ring-overwritten [1-9]", text, re.M), text[:2000])
        finally:
            subprocess.run(["umount", disk], check=True)

    def test_limit_of_files(self):
        """Beyond it a write is answered by a signal that kills."""
        whole_folder = os.path.join(self.folder, "whole")
        os.mkdir(whole_folder)
        run(whole_folder, **dict(recorded(whole_folder), TRAINTRACE_RING_MB="64"))
        whole = records_of(dump(whole_folder))
        for limit in ("0", str(MIB // 4)):
            folder = os.path.join(self.folder, limit)
            os.mkdir(folder)
            plain, traced = run(folder, limit), run(folder, limit, **recorded(folder))
            self.assertEqual((plain, plain[0]), (traced, 0))
            # The keeper has no limit.  How much of so small a ring it comes to read before it is overwritten is a matter of time.
            text = dump(folder)
            self.assertTrue(records_of(text) == whole or re.search(r"^loss ring-overwritten [1-9]", text, re.M), text[:2000])


if __name__ == "__main__":
    if os.geteuid() == 0 and "FULL_DISK_ALONE" not in os.environ:
        os.environ["FULL_DISK_ALONE"] = "1"
        alone = ["unshare", "--mount", "--propagation", "private"]
        if subprocess.run([*alone, "true"], capture_output=True, check=False).returncode == 0:
            os.execvp(alone[0], [*alone, sys.executable, *sys.argv])
    del sys.argv[1]
    unittest.main()
