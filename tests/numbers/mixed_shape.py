"""What mixed_job.py does in each step: collectives and messages of types, sizes, scales and operations of chance."""
import random

FLOAT16, FLOAT32, BFLOAT16 = 6, 7, 9
REDUCTIONS = {"sum": 0, "max": 2, "average": 4}


class Shape:
    def __init__(self, seed):
        chance = random.Random(seed)
        self.ranks = chance.randint(2, 8)
        self.buckets = [bucket(chance) for _ in range(chance.randint(3, 7))]
        self.steps = chance.randint(15, 40)

    def collectives(self):
        """(step, bucket) of each, in the order of the calls; messages are none."""
        return [(step, each) for step in range(self.steps) for each in self.buckets if each["what"] != "ring"]


def bucket(chance):
    return {"kind": chance.choice([FLOAT16, FLOAT32, BFLOAT16]), "count": chance.choice([1, 3, 17, 64, 65, 500, 1001, 1536]),
            "what": chance.choice(["sum", "sum", "average", "max", "gather", "scatter", "broadcast", "ring"]),
            "scale": 10 ** chance.uniform(-4, 2), "in_place": chance.random() < 0.3}
