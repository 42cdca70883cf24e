"""What the ranks of examples/ddp/train.py print about themselves: `KIND key=value ..`, behind torchrun's [defaultN]:."""
import collections
import re


class Facts:
    def __init__(self, lines):
        self.facts = []
        for line in lines:
            match = re.match(r"\[default\d+\]:(\w+) (rank=.*)\n", line)  # a line without its end is still being written
            if match:
                self.facts.append((match[1], dict(word.split("=", 1) for word in match[2].split())))

    def of(self, kind, rank=None):
        return [fact for name, fact in self.facts if name == kind and rank in (None, int(fact["rank"]))]

    def collectives(self, rank):
        """{communicator: {(operation, function, line): count}} as the rank printed it last."""
        found = collections.defaultdict(dict)
        for fact in self.of("calls", rank):
            place = fact["operation"], fact["function"], int(fact["line"])
            found[fact["communicator"]][place] = int(fact["count"])
        return found

    def entered(self, rank, communicator):
        """How many collectives of it the rank had behind it when it finished its last step."""
        return int(self.of("step", rank)[-1][communicator])
