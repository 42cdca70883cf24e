"""What mixed_job.py does in each step: collectives and messages of types, sizes, scales and operations of chance."""
import random
import struct

FLOAT16, FLOAT32, BFLOAT16 = 6, 7, 9
DIGITS = {FLOAT16: 11, FLOAT32: 24, BFLOAT16: 8}
REDUCTIONS = {"sum": 0, "max": 2, "average": 4}


class Shape:
    def __init__(self, seed):
        chance = random.Random(seed)
        self.ranks = chance.randint(2, 8)
        self.buckets = [bucket(chance) for _ in range(chance.randint(3, 7))]
        self.steps = chance.randint(15, 40)

    def exchanges(self):
        """(number, step, bucket) of each, in the order of the calls."""
        return [(step * len(self.buckets) + i, step, each) for step in range(self.steps) for i, each in enumerate(self.buckets)]

    def collectives(self):
        return [exchange for exchange in self.exchanges() if exchange[2]["what"] != "ring"]


def bucket(chance):
    return {"kind": chance.choice([FLOAT16, FLOAT32, BFLOAT16]), "count": chance.choice([1, 3, 17, 64, 65, 500, 1001, 1536]),
            "what": chance.choice(["sum", "sum", "average", "max", "gather", "scatter", "broadcast", "ring"]),
            "scale": 10 ** chance.uniform(-4, 2), "in_place": chance.random() < 0.3}


def given(seed, rank, number, step, sent, scale):
    """What a rank gives to its exchange of that number."""
    own = random.Random(f"{seed} {rank} {number}")
    return [own.gauss(0, scale / (1 + 0.05 * step)) for _ in range(sent)]


def element(kind, value):
    if kind == FLOAT16:
        return struct.pack("<e", max(-60000, min(60000, value)))
    return struct.pack("<f", value)[2 if kind == BFLOAT16 else 0:]


def value_of(kind, value):
    """As an element has it."""
    data = element(kind, value)
    return struct.unpack("<e", data)[0] if kind == FLOAT16 else struct.unpack("<f", data.rjust(4, b"\0"))[0]
