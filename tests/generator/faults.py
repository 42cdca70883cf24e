"""Puts one fault into a job at a random place. Each kind edits the program of one rank (or names an operation whose GPU stands still), so
what follows from it is up to the simulation.

Codes are those of the catalogue, the best first. `tie`: two ranks disagree and no third one can say who is right, or the form does not show
what would decide: then naming nobody is right as well, and naming another rank is as wrong as ever.
"""
from model import BLOCK, COLLECTIVE, CREATE, DIE, HANG, HOST_TOO, LEAVE, MARK, MESSAGES, STREAM, UNEVEN, Spec

ABSENT = ["collective.missing-rank", "p2p.missing-send", "p2p.missing-recv"]
DIFFERENT = ["collective.operation-mismatch", "collective.count-mismatch", "collective.dtype-mismatch"]
# A shifted sequence can look like any of these, depending on what meets what and on what the ring still holds.
SHIFTED = DIFFERENT + ["collective.missing-rank", "collective.order-swapped", "collective.cross-communicator-deadlock"]


class Fault:
    def __init__(self, kind, culprits, codes, cause):
        self.kind, self.culprits, self.codes, self.cause = kind, culprits, codes, cause
        self.site, self.tie, self.dump, self.comm = None, False, "written", None
        self.stalls, self.broken, self.rank, self.instruction = (), (), None, None
        self.dies = False


class Planner:
    """`timing`: the form shows when an operation started on the GPU."""

    def __init__(self, random, job, timing):
        self.random, self.job, self.timing = random, job, timing

    def window(self, program):
        """From the second step to the last but one, so that a step is known to work, and enough follows for the fault to matter."""
        starts = [index for index, step in enumerate(program) if step[0] == MARK and step[1] == "step"]
        return starts[1], starts[-1]

    def pick(self, wanted, ranks=None):
        """A random instruction for which wanted(rank, step) holds; (None, None) if this job has none."""
        for _ in range(30):
            rank = self.random.choice(ranks) if ranks else self.random.randrange(self.job.size)
            program = self.job.programs[rank]
            first, last = self.window(program)
            for _ in range(40):
                index = self.random.randrange(first, last)
                if wanted(rank, program[index]):
                    return rank, index
        return None, None

    def edit(self, rank, start, end, replacement):
        program = list(self.job.programs[rank])
        program[start:end] = replacement
        self.job.programs[rank] = program

    def collective(self, least=2):
        return self.pick(lambda rank, step: step[0] == COLLECTIVE and len(self.job.comms[rank][step[1]].ranks) >= least)

    def about(self, kind, rank, index, codes, cause):
        fault = Fault(kind, [rank], codes, cause)
        fault.rank, fault.instruction = rank, index
        step = self.job.programs[rank][index]
        if step[0] in (COLLECTIVE, MESSAGES):
            fault.comm = self.job.comms[rank][step[1]]
            fault.site = step[2].site if step[0] == COLLECTIVE else step[6]
            fault.tie = len(fault.comm.ranks) == 2
        return fault

    def plan(self, kind):
        return getattr(self, kind.replace("-", "_"))()

    # ---- hosts

    def stuck(self):
        what = self.random.choice(["loader", "lock", "checkpoint", "file"])
        wanted = {"loader": lambda rank, step: step[0] == MARK and step[1] == "step",
                  "checkpoint": lambda rank, step: step[0] == MARK and step[1] == "checkpoint"}.get(what, lambda rank, step: True)
        rank, index = self.pick(wanted)
        if rank is None:
            return None
        fault = Fault("stuck", [rank], ["host.stuck"] + ABSENT, "rank %d is stuck on its host (%s)" % (rank, what))
        fault.rank, fault.instruction = rank, index + (what in ("loader", "checkpoint"))
        if what == "lock" and self.random.random() < 0.3:
            fault.dump = "missing"  # the thread that writes it waits for the same lock
            fault.codes = ABSENT + ["collective.dead-rank", "host.stuck"]
        self.edit(rank, fault.instruction, fault.instruction, [(HANG, what)])
        return fault

    def died(self):
        rank, index = self.pick(lambda rank, step: True)
        fault = Fault("died", [rank], ["collective.dead-rank"] + ABSENT + ["run.rank-failed", "host.stuck"], "rank %d was killed" % rank)
        fault.rank, fault.instruction, fault.dies = rank, index, True
        fault.dump = self.random.choice(["missing", "missing", "at death"])
        self.edit(rank, index, index, [(DIE,)])
        return fault

    def early_exit(self):
        rank = self.random.randrange(self.job.size)
        program = self.job.programs[rank]
        starts = [index for index, step in enumerate(program) if step[0] == MARK and step[1] == "step"]
        index = self.random.choice(starts[2:])
        fault = Fault("early-exit", [rank], ["collective.early-exit", "host.stuck"] + ABSENT, "rank %d left the loop early" % rank)
        fault.rank, fault.instruction = rank, index
        after = self.random.choice(["barrier", "idle", "gone"])
        rest = [(LEAVE,)]
        if after == "barrier":
            final = Spec("barrier", [[1]], [[1]], "Float", ("/workspace/train.py", 231, "main"), 1e-4)
            rest = [(COLLECTIVE, "default_pg", final, HOST_TOO, None), (LEAVE,)]
            fault.codes += ["collective.skipped-call"] + SHIFTED  # it left out the rest of the loop
        elif after == "gone":
            fault.dump, fault.codes = "missing", fault.codes + ["collective.dead-rank"]
        fault.cause += {"barrier": ", and waits at the final barrier", "idle": ", and does nothing more", "gone": ", and ended"}[after]
        self.edit(rank, index, len(program), rest)
        return fault

    # ---- devices

    def device_stalled(self):
        rank, index = self.collective()
        if rank is None:
            return None
        fault = self.about("device-stalled", rank, index, ["device.stalled", "device.blocked-stream"], "the kernel of this operation never ends on rank %d" % rank)
        fault.stalls, fault.tie = [(rank, index)], False
        return fault

    def stream_blocked(self):
        rank, index = self.collective()
        if rank is None:
            return None
        fault = self.about("stream-blocked", rank, index, ["device.blocked-stream", "device.stalled", "device.transport-stall"],
                           "a kernel before this operation never ends on rank %d" % rank)
        fault.tie = not self.timing
        self.edit(rank, index, index, [(BLOCK,)])
        return fault

    def transport(self):
        rank, index = self.pick(lambda rank, step: step[0] in (COLLECTIVE, MESSAGES))
        if rank is None:
            return None
        fault = self.about("transport", rank, index, ["device.transport-stall"], "all have entered this operation and nothing moves")
        fault.culprits, fault.broken, fault.tie = [], [(rank, index)], True
        return fault

    # ---- calls that differ

    def skipped(self):
        rank, index = self.collective()
        if rank is None:
            return None
        fault = self.about("skipped", rank, index, ["collective.skipped-call"] + SHIFTED, "rank %d leaves out this operation" % rank)
        if fault.tie:
            fault.codes.append("collective.extra-call")  # one too few here is one too many there
        self.edit(rank, index, index + 1, [])
        return fault

    def extra(self):
        rank, index = self.collective()
        if rank is None:
            return None
        step = self.job.programs[rank][index]
        fault = self.about("extra", rank, index, ["collective.extra-call", "collective.skipped-call"] + SHIFTED, "rank %d issues this operation twice" % rank)
        self.edit(rank, index, index, [(COLLECTIVE, step[1], step[2], STREAM, None)])
        return fault

    def second(self, rank, index, wanted):
        """The next collective within the same step for which wanted(step) holds."""
        program = self.job.programs[rank]
        for other in range(index + 1, min(index + 60, len(program))):
            if program[other][0] == MARK:
                return None
            if program[other][0] == COLLECTIVE and wanted(program[other]):
                return other
        return None

    def exchange(self, kind, wanted, codes):
        rank, index = self.collective()
        if rank is None:
            return None
        program = self.job.programs[rank]
        other = self.second(rank, index, lambda step: wanted(program[index], step))
        if other is None:
            return None
        fault = self.about(kind, rank, index, codes, "rank %d issues this operation and a later one in the other order" % rank)
        fault.tie = fault.tie or len(self.job.comms[rank][program[other][1]].ranks) == 2
        self.edit(rank, index, other + 1, [program[other]] + program[index + 1:other] + [program[index]])
        return fault

    def swapped(self):
        return self.exchange("swapped", lambda a, b: a[1] == b[1] and a[2].signature != b[2].signature, ["collective.order-swapped"] + DIFFERENT)

    def swapped_communicators(self):
        codes = ["collective.cross-communicator-deadlock", "collective.order-swapped", "collective.launch-order-race"]
        return self.exchange("swapped-communicators", lambda a, b: a[1] != b[1], codes)

    def changed(self, kind, code, change):
        rank, index = self.collective()
        if rank is None:
            return None
        step = self.job.programs[rank][index]
        spec = change(step[2])
        if spec is None or spec.signature == step[2].signature:
            return None
        fault = self.about(kind, rank, index, [code], "rank %d calls this operation with another argument" % rank)
        self.edit(rank, index, index + 1, [step[:2] + (spec,) + step[3:]])
        return fault

    def wrong_count(self):
        factor = self.random.choice([2, 3])

        def change(spec):
            if spec.kind in UNEVEN + ("barrier",):
                return None
            return spec.changed(inputs=[[shape[0] * factor] + shape[1:] for shape in spec.inputs],
                                outputs=[[shape[0] * factor] + shape[1:] for shape in spec.outputs])
        return self.changed("wrong-count", "collective.count-mismatch", change)

    def wrong_dtype(self):
        def change(spec):
            if spec.kind in UNEVEN + ("barrier",):
                return None
            return spec.changed(dtype={"BFloat16": "Float", "Half": "Float", "Float": "BFloat16", "Long": "Int"}[spec.dtype])
        return self.changed("wrong-dtype", "collective.dtype-mismatch", change)

    def wrong_kind(self):
        other = {"all_reduce": "broadcast", "barrier": "broadcast", "broadcast": "all_reduce", "all_gather": "all_to_all", "reduce_scatter": "all_to_all",
                 "all_to_all": "all_reduce", "all_gather_list": "all_reduce"}

        def change(spec):
            if len(spec.inputs) > 1:
                return None
            kind = other[spec.kind]
            outputs = spec.inputs if kind in ("all_reduce", "broadcast", "all_to_all") else spec.outputs
            return spec.changed(kind=kind, outputs=outputs, root=0 if kind == "broadcast" else -1)
        return self.changed("wrong-kind", "collective.operation-mismatch", change)

    def wrong_root(self):
        def change(spec):
            return spec.changed(root=1) if spec.kind == "broadcast" else None
        return self.changed("wrong-root", "collective.root-mismatch", change)

    def wrong_communicator(self):
        rank, index = self.collective()
        if rank is None:
            return None
        step = self.job.programs[rank][index]
        own = self.job.comms[rank]
        size = len(own[step[1]].ranks)
        free = step[2].kind in ("all_reduce", "broadcast", "barrier")  # else torch itself would refuse the sizes in a group of another size
        others = [name for name, comm in own.items() if name != step[1] and len(comm.ranks) > 1 and (free or len(comm.ranks) == size)]
        same = [name for name in others if own[name].ranks == own[step[1]].ranks]
        if not others:
            return None
        target = self.random.choice(same or others)
        codes = ["collective.wrong-communicator", "collective.missing-rank", "collective.skipped-call", "collective.extra-call"] + SHIFTED
        fault = self.about("wrong-communicator", rank, index, codes, "rank %d issues this operation on %s instead of %s" % (rank, target, step[1]))
        self.edit(rank, index, index + 1, [(step[0], target) + step[2:]])
        return fault

    # ---- messages

    def message(self, direction=None, least=2):
        def wanted(rank, step):
            return (step[0] == MESSAGES and len(self.job.comms[rank][step[1]].ranks) >= least and
                    (direction is None or any(part[0] == direction for part in step[2])))
        return self.pick(wanted)

    def missing_message(self, kind, direction):
        rank, index = self.message(direction)
        if rank is None:
            return None
        step = self.job.programs[rank][index]
        gone = next(part for part in step[2] if part[0] == direction)
        fault = self.about(kind, rank, index, ["p2p." + kind, "collective.missing-rank"], "rank %d leaves out a %s" % (rank, direction))
        # One message too few here or one too many there: only a group that does the same tells which.
        fault.tie = sum(group.name == fault.comm.name for group in self.job.groups) == 1
        parts = [part for part in step[2] if part is not gone]
        self.edit(rank, index, index + 1, [step[:2] + (parts,) + step[3:]] if parts else [])
        return fault

    def missing_send(self):
        return self.missing_message("missing-send", "send")

    def missing_recv(self):
        return self.missing_message("missing-recv", "recv")

    def wrong_peer(self):
        rank, index = self.message(least=3)
        if rank is None:
            return None
        step = self.job.programs[rank][index]
        comm = self.job.comms[rank][step[1]]
        number = self.random.randrange(len(step[2]))
        part = step[2][number]
        taken = {comm.position[rank]} | {other[1] for other in step[2]}
        free = [peer for peer in range(len(comm.ranks)) if peer not in taken]
        if not free:
            return None
        codes = ["p2p.wrong-peer", "p2p.missing-send", "p2p.missing-recv", "p2p.order"]  # one side lacks it, the other is not asked for it
        fault = self.about("wrong-peer", rank, index, codes, "rank %d names another peer in this %s" % (rank, part[0]))
        fault.tie = True
        parts = list(step[2])
        parts[number] = (part[0], self.random.choice(free)) + part[2:]
        self.edit(rank, index, index + 1, [step[:2] + (parts,) + step[3:]])
        return fault

    def cycle(self):
        """From some step on, the ranks of one group send first and then receive, each alone and waited for, instead of in one batch."""
        rank, index = self.pick(lambda rank, step: step[0] == MESSAGES and step[3] and len(step[2]) > 1)
        if rank is None:
            return None
        name = self.job.programs[rank][index][1]
        members = self.job.comms[rank][name].ranks
        fault = self.about("cycle", rank, index, ["p2p.cycle", "p2p.order"], "all ranks of this group send first, and nobody receives")
        fault.culprits, fault.tie = [], True
        begin = max(at for at in range(index) if self.job.programs[rank][at][0] == MARK and self.job.programs[rank][at][1] == "step")
        number = self.job.programs[rank][begin][2]
        for member in members:
            program, seen, replaced = self.job.programs[member], False, []
            for step in program:
                seen = seen or step == (MARK, "step", number)
                if seen and step[0] == MESSAGES and step[1] == name and len(step[2]) > 1:
                    ordered = sorted(step[2], key=lambda part: part[0] == "recv")
                    replaced += [step[:2] + ([part], False, STREAM, None, step[6]) for part in ordered]
                else:
                    replaced.append(step)
            self.job.programs[member] = replaced
        return fault

    # ---- communicators

    def create_missing(self):
        rank, index = self.pick(lambda rank, step: step[0] == MARK and step[1] == "step")
        if rank is None:
            return None
        number = self.job.programs[rank][index][2]
        group = self.random.choice([group for group in self.job.groups if len(group.ranks) > 1 and rank in group.position])
        fault = Fault("create-missing", [rank], ["comm.init-incomplete"] + ABSENT + ["host.stuck"], "rank %d does not create the communicator" % rank)
        fault.rank, fault.instruction, fault.comm, fault.tie = rank, index, group, len(group.ranks) == 2
        self.job.add_groups("late", [group.ranks])
        for member in group.ranks:
            at = next(i for i, step in enumerate(self.job.programs[member]) if step == (MARK, "step", number))
            self.edit(member, at, at, [(HANG, "lock")] if member == rank else [(CREATE, "late")])
        return fault


FLIGHT = ["stuck", "died", "early-exit", "device-stalled", "stream-blocked", "transport", "skipped", "extra", "swapped", "swapped-communicators",
          "wrong-count", "wrong-dtype", "wrong-kind", "wrong-communicator", "missing-send", "missing-recv", "wrong-peer", "cycle"]
# The Flight Recorder notes no root, and nothing of an operation whose communicator is still being created.
TEXT = FLIGHT + ["wrong-root", "create-missing"]
