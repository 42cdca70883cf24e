"""brute_force.py REPLAY: random histories of an allocator, and the measures of its free space by counting every unit of memory.

A unit is half a MiB: segments of four units are PyTorch's for small requests.  REPLAY reads the same histories and must print the same, byte for byte.  Events that contradict
what came before are among them, and must be refused."""
import random
import subprocess
import sys

UNIT = 512 << 10
UNITS = 96
BASE = 0x7F0000000000
HISTORIES = 1000
PIECE = -1


class Allocator:
    """What lies in each unit: no segment (None), or the first unit of its segment, PIECE if it is mapped piece by piece; the
    same for blocks."""

    def __init__(self):
        self.segment = [None] * UNITS
        self.block = [None] * UNITS
        self.requested = {}
        self.pending = {}
        self.peaks = [0, 0]
        self.peak_overheads = [0.0, 0.0]
        self.overheads = []

    def put(self, owner, start, length, allowed, label=None):
        units = range(start, start + length)
        if length == 0 or any(unit >= UNITS or owner[unit] is not None or not allowed(unit) for unit in units):
            return False
        for unit in units:
            owner[unit] = start if label is None else label
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

    def overhead(self, held, used):
        return (held - used) / used if used else 0.0

    def note(self):
        held, used = self.used(self.segment), self.used(self.block)
        for i, now in enumerate((held, used)):
            if now > self.peaks[i]:
                self.peaks[i] = now
                self.peak_overheads[i] = self.overhead(held, used)
        if used:
            self.overheads.append(self.overhead(held, used))

    def do(self, what, start, length, requested):
        done = self.attempt(what, start, length, requested)
        if done:
            self.note()
        if done and what in ("allocate", "unmap", "unmap-piece"):
            self.forget(lambda unit: self.block[unit] is not None or self.segment[unit] is None)
        return done

    def forget(self, gone):
        """What waits there has been taken, or given back."""
        self.pending = {start: length for start, length in self.pending.items() if not any(gone(unit) for unit in range(start, start + length))}

    def wait(self, start, length):
        units = range(start, start + length)
        inside = self.segment[start]
        if inside is None or any(unit >= UNITS or self.segment[unit] != inside or self.block[unit] is not None or self.waits(unit) for unit in units):
            return False
        self.pending[start] = length
        return True

    def waits(self, unit):
        return any(start <= unit < start + length for start, length in self.pending.items())

    def begin_of_segment(self, unit):
        while self.segment[unit] == PIECE and unit > 0 and self.segment[unit - 1] == PIECE:
            unit -= 1
        return unit if self.segment[unit] == PIECE else self.segment[unit]

    def space(self, small, without):
        """Free, largest piece, in segments with nothing else, pending, largest hole if nothing were: of one kind of segments."""
        segments = {}
        for unit in range(UNITS):
            if self.segment[unit] is not None:
                segments.setdefault(self.begin_of_segment(unit), []).append(unit)
        free = whole = pending = 0
        pieces, holes = [0], [0]
        for begin, units in segments.items():
            if (self.segment[begin] != PIECE and len(units) == 4) != small or begin in without:
                continue
            states = ["used" if self.block[unit] is not None else "waits" if self.waits(unit) else "free" for unit in units]
            free += states.count("free")
            pending += states.count("waits")
            whole += len(units) if states.count("free") == len(units) else 0
            text = "".join(state[0] for state in states)
            pieces += [len(piece) for piece in text.replace("w", "u").split("u")]
            holes += [len(hole) for hole in text.split("u")]
        return " ".join(str(count * UNIT) for count in (free, max(pieces), whole, pending, max(holes)))

    def attempt(self, what, start, length, requested):
        if what == "map-piece":
            return self.put(self.segment, start, length, lambda unit: True, PIECE)
        if what == "unmap-piece":
            units = range(start, start + length)
            if not units or any(self.segment[unit] != PIECE or self.block[unit] is not None for unit in units):
                return False
            for unit in units:
                self.segment[unit] = None
            return True
        if what == "map":
            return self.put(self.segment, start, length, lambda unit: True)
        if what == "unmap":
            return self.take(self.segment, start, lambda unit: self.block[unit] is None)
        if what == "allocate":
            inside = self.segment[start]
            if inside is None or not self.put(self.block, start, length, lambda unit: self.segment[unit] == inside):
                return False
            self.requested[start] = (length * UNIT - requested) if requested else 0
            return True
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
        free, held, used = sum(holes), self.used(self.segment), self.used(self.block)
        unusable = sum(hole for hole in holes if hole < request)
        unrequested = sum(self.requested[unit] for unit in range(UNITS) if self.block[unit] == unit)
        total = 0.0
        for overhead in self.overheads:
            total += overhead
        shares = (
            (free - max(holes)) / free if free else 0,
            free / held if held else 0,
            sum(hole * hole for hole in holes) / (held * held) if held else 0,
            unusable / free if free else 0,
            total / len(self.overheads) if self.overheads else 0,
            self.peak_overheads[1],
            self.peak_overheads[0],
            self.overhead(*self.peaks),
        )
        return (f"{held} {used} {free} {max(holes, default=0)} {len(holes)} {unusable} {self.peaks[0]} {self.peaks[1]} "
                f"{unrequested} " + " ".join(f"{share:.9f}" for share in shares))


def history(generator, lines, expected):
    allocator = Allocator()
    lines.append("history")
    for _ in range(generator.randrange(5, 60)):
        what = generator.choice(["map", "map-piece", "allocate", "allocate", "allocate", "free", "free", "unmap", "unmap-piece"])
        likely = {
            "map": lambda unit: allocator.segment[unit] is None,
            "map-piece": lambda unit: allocator.segment[unit] is None,
            "unmap-piece": lambda unit: allocator.segment[unit] == PIECE and allocator.block[unit] is None,
            "unmap": lambda unit: allocator.segment[unit] == unit,
            "allocate": lambda unit: allocator.segment[unit] is not None and allocator.block[unit] is None,
            "free": lambda unit: allocator.block[unit] == unit,
        }[what]
        starts = [unit for unit in range(UNITS) if likely(unit)]
        start = generator.choice(starts) if starts and generator.random() < 0.95 else generator.randrange(UNITS)
        length = min(generator.randrange(0 if generator.random() < 0.1 else 1, 40 if what == "map" else 6), UNITS - start)
        length = max(length, 1) if what == "unmap-piece" else length
        length = min(4, UNITS - start) if what == "map" and generator.random() < 0.4 else length
        requested = generator.choice([0, max(length * UNIT - generator.randrange(UNIT), 0)])
        lines.append(f"{what} {BASE + start * UNIT} {length * UNIT} {requested}")
        if not allocator.do(what, start, length, requested):
            expected.append("refused")
        start, length = generator.randrange(UNITS), generator.randrange(1, 4)
        if generator.random() < 0.5 and allocator.wait(start, length):
            lines.append(f"wait {BASE + start * UNIT} {length * UNIT}")
        if allocator.pending and generator.random() < 0.2:
            start = generator.choice(sorted(allocator.pending))
            del allocator.pending[start]
            lines.append(f"done {BASE + start * UNIT}")
        start, length = generator.randrange(UNITS), generator.choice([0, 0, 1, 20, UNITS])
        lines.append(f"space {BASE + start * UNIT} {length * UNIT}")
        expected += [allocator.space(small, range(start, start + length)) for small in (False, True)]
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
