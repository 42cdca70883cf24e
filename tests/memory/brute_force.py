"""brute_force.py REPLAY: random histories of an allocator, and the measures of its free space by counting every unit of memory.

A unit is 512 bytes.  REPLAY reads the same histories and must print the same, byte for byte.  Events that contradict
what came before are among them, and must be refused."""
import random
import subprocess
import sys

UNIT = 512
UNITS = 96
BASE = 0x7F0000000000
HISTORIES = 1000


class Allocator:
    """What lies in each unit: no segment (None), or the first unit of its segment; the same for blocks."""

    def __init__(self):
        self.segment = [None] * UNITS
        self.block = [None] * UNITS
        self.peaks = [0, 0]

    def put(self, owner, start, length, allowed):
        units = range(start, start + length)
        if length == 0 or any(unit >= UNITS or owner[unit] is not None or not allowed(unit) for unit in units):
            return False
        for unit in units:
            owner[unit] = start
        self.peaks = [max(self.peaks[0], self.used(self.segment)), max(self.peaks[1], self.used(self.block))]
        return True

    def take(self, owner, start, allowed):
        units = [unit for unit in range(UNITS) if owner[unit] == start]
        if not units or not all(allowed(unit) for unit in units):
            return False
        for unit in units:
            owner[unit] = None
        return True

    @staticmethod
    def used(owner):
        return sum(unit is not None for unit in owner) * UNIT

    def do(self, what, start, length):
        if what == "map":
            return self.put(self.segment, start, length, lambda unit: True)
        if what == "unmap":
            return self.take(self.segment, start, lambda unit: self.block[unit] is None)
        if what == "allocate":
            inside = self.segment[start]
            return inside is not None and self.put(self.block, start, length, lambda unit: self.segment[unit] == inside)
        return self.take(self.block, start, lambda unit: True)

    def holes(self):
        lengths = []
        previous = None
        for unit in range(UNITS):
            here = self.segment[unit] if self.block[unit] is None else None
            if here is not None:
                if here == previous:
                    lengths[-1] += UNIT
                else:
                    lengths.append(UNIT)
            previous = here
        return lengths

    def measures(self, request):
        holes = self.holes()
        return (f"{self.used(self.segment)} {self.used(self.block)} {sum(holes)} {max(holes, default=0)} {len(holes)} "
                f"{sum(hole for hole in holes if hole < request)} {self.peaks[0]} {self.peaks[1]}")


def history(generator, lines, expected):
    allocator = Allocator()
    lines.append("history")
    for _ in range(generator.randrange(5, 60)):
        what = generator.choice(["map", "allocate", "allocate", "allocate", "free", "free", "unmap"])
        likely = {
            "map": lambda unit: allocator.segment[unit] is None,
            "unmap": lambda unit: allocator.segment[unit] == unit,
            "allocate": lambda unit: allocator.segment[unit] is not None and allocator.block[unit] is None,
            "free": lambda unit: allocator.block[unit] == unit,
        }[what]
        starts = [unit for unit in range(UNITS) if likely(unit)]
        start = generator.choice(starts) if starts and generator.random() < 0.95 else generator.randrange(UNITS)
        length = min(generator.randrange(0 if generator.random() < 0.1 else 1, 40 if what == "map" else 6), UNITS - start)
        lines.append(f"{what} {BASE + start * UNIT} {length * UNIT}")
        if not allocator.do(what, start, length):
            expected.append("refused")
        request = generator.randrange(0, 12) * UNIT
        lines.append(f"measure {request}")
        expected.append(allocator.measures(request))


def main():
    generator = random.Random(7)
    lines, expected = [], []
    for _ in range(HISTORIES):
        history(generator, lines, expected)
    done = subprocess.run(sys.argv[1:], input="\n".join(lines) + "\n", capture_output=True, text=True, timeout=100, check=True)
    found = done.stdout.splitlines()
    for number, (ours, theirs) in enumerate(zip(found, expected)):
        if ours != theirs:
            sys.exit(f"answer {number}: expected '{theirs}', found '{ours}'")
    if len(found) != len(expected):
        sys.exit(f"{len(found)} answers instead of {len(expected)}")
    print(f"ok: {HISTORIES} histories, {len(expected)} answers, {expected.count('refused')} refused")


main()
