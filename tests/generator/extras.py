"""What happens around a training step, in every kind of job: the loader, the loss that is printed, checkpoints, evaluation."""
from model import HOST, HOST_TOO, MARK, ONLY, STREAM, SYNC

TRAIN = "/workspace/train.py"


class Extras:
    def __init__(self, random, ranks):
        self.ranks = ranks
        self.loader = random.uniform(1e-3, 2e-2)
        self.loss_every = random.choice([1, 1, 2, 4])
        self.checkpoint_every = random.choice([0, 2, 3, 5])
        self.checkpoint_by = random.choice(["rank 0", "all"])
        self.checkpoint_seconds = random.uniform(2, 60)
        self.evaluate_every = random.choice([0, 0, 2, 3])
        self.evaluate_seconds = random.uniform(5, 240)
        self.barrier = random.random() < 0.3
        self.metrics = ranks <= 16 and random.random() < 0.3  # gathered as a list, of another length from each rank

    def before(self, program, step):
        program.append((HOST, self.loader))

    def after(self, writer, step):
        program = writer.program
        if (step + 1) % self.loss_every == 0:
            writer.collective("default_pg", "all_reduce", [[1]], [[1]], "Float", 171, "average_loss", STREAM, 1e-4, TRAIN)
            if self.metrics:
                outputs = [[3 + rank % 3] for rank in range(self.ranks)]
                writer.collective("default_pg", "all_gather_list", [[3]], outputs, "Float", 177, "gather_metrics", STREAM, 3e-4, TRAIN)
            program.append((SYNC,))
        elif self.barrier:
            self.meet(writer, 174)
        if self.checkpoint_every and (step + 1) % self.checkpoint_every == 0:
            program.append((MARK, "checkpoint", step))
            if self.checkpoint_by == "all":
                program.append((SYNC,))
                program.append((HOST, self.checkpoint_seconds / 4))
            else:
                program.append((SYNC,))
                program.append((ONLY, 0, self.checkpoint_seconds))
            self.meet(writer, 188)
            program.append((MARK, "checkpointed", step))
        if self.evaluate_every and (step + 1) % self.evaluate_every == 0:
            program.append((MARK, "evaluation", step))
            program.append((SYNC,))
            program.append((ONLY, 0, self.evaluate_seconds))
            self.meet(writer, 199)
            program.append((MARK, "evaluated", step))

    def meet(self, writer, line):
        writer.collective("default_pg", "barrier", [[1]], [[1]], "Float", line, "main", HOST_TOO, 1e-4, TRAIN)
