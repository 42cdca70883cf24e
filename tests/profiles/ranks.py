"""Which rank a profile is of, and which profiles belong together, where they do not say so themselves.   ranks.py TRAINTRACE"""
import json
import subprocess
import sys
import tempfile

from made import Rank

ALL_REDUCE = "ncclDevKernel_AllReduce_Sum_f32_RING_LL"
SEND_RECV = "ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)"


def named(operation, members, group, number):
    return {"Collective name": operation, "Process Group Name": group, "Process Group Ranks": str(members), "Group size": len(members), "Seq": number}


def job(late=2, ranks=4, groups=None, steps=12, at=0.0):
    """Ranks that meet in each step, one of which its loader makes late; `groups`: each has its members, in the order in which they meet."""
    groups = groups or {"0": list(range(ranks))}
    jobs = [Rank(number, ranks) for number in range(ranks)]
    for rank in jobs:
        rank.now += at
    for step in range(steps):
        began = [rank.now for rank in jobs]
        for rank in jobs:
            if rank.rank == late:
                rank.host(4000.0, "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", "user_annotation")
            for _ in range(20):
                rank.launch(200.0)
        for group, members in groups.items() if ranks > 1 else ():
            starts = {number: max(jobs[number].free[7], jobs[number].now + 3, jobs[number].free.get(20, 0.0)) for number in members}
            end = max(starts.values()) + 30
            for number, start in starts.items():
                jobs[number].launch(end - start, ALL_REDUCE, stream=20, after=(start,), **named("allreduce", members, group, step))
        for rank in jobs:
            rank.block(stream=20 if ranks > 1 else 7)
        for rank, start in zip(jobs, began):
            rank.step(step, start)
    return jobs


def analyze(traintrace, files, *options):
    """files: name -> (rank, whether it says its own number)."""
    with tempfile.TemporaryDirectory() as folder:
        for name, (rank, tells) in files.items():
            document = rank.document()
            if not tells:
                del document["distributedInfo"]
            with open(f"{folder}/{name}", "w", encoding="utf-8") as file:
                json.dump(document, file)
        done = subprocess.run([traintrace, "analyze", folder, "--format=json", *options], stdout=subprocess.PIPE, check=False)
    assert done.returncode == 0, done.returncode
    return json.loads(done.stdout)


def culprits(document, code="latency.data-starvation"):
    return [finding["culprits"] for finding in document["findings"] if finding["code"] == code]


def expect(what, found, wanted):
    return [] if found == wanted else [f"{what}: {found}, not {wanted}"]


def by_name(traintrace):
    """No profile says its rank: their names do."""
    wrong = []
    for form in ("rank{}.pt.trace.json", "run7_rank_{}_step_12.json", "trace-rank-{}.json", "Rank{}.json"):
        document = analyze(traintrace, {form.format(rank.rank): (rank, False) for rank in job()})
        wrong += expect(form, (document["run"]["ranks"], document["run"]["missing_ranks"], culprits(document)), ([0, 1, 2, 3], [], [[2]]))
    alone = analyze(traintrace, {"rank2.pt.trace.json": (job()[2], False)})
    return wrong + expect("alone", (alone["run"]["ranks"], alone["run"]["world_size"], alone["run"]["missing_ranks"], culprits(alone)), ([2], 4, [0, 1, 3], [[2]]))


def one_of_them(traintrace):
    """One profile does not say its rank: by its name, else the number that the others leave."""
    wrong = []
    for name in ("rank2.pt.trace.json", "other.json", "local_rank0.json", "rank0.json"):
        files = {f"told{rank.rank}.json": (rank, True) for rank in job() if rank.rank != 2}
        files[name] = (job()[2], False)
        document = analyze(traintrace, files)
        wrong += expect(f"one, {name}", (document["run"]["ranks"], document["run"]["missing_ranks"], culprits(document)), ([0, 1, 2, 3], [], [[2]]))
    return wrong


def by_groups(traintrace):
    """Two groups in which a rank is leave one number, whatever its file is called."""
    groups = {"tp0": [0, 1], "tp1": [2, 3], "dp0": [0, 2], "dp1": [1, 3]}
    document = analyze(traintrace, {f"{'dcab'[rank.rank]}.json": (rank, False) for rank in job(groups=groups)})
    return expect("by groups", (document["run"]["ranks"], document["run"]["missing_ranks"], culprits(document)), ([0, 1, 2, 3], [], [[2]]))


def nobody_knows(traintrace):
    """Nothing tells the ranks apart: they are one job, none is called by a number of the job, and it says so."""
    document = analyze(traintrace, {f"{'dcab'[rank.rank]}.json": (rank, False) for rank in job()})
    wrong = expect("nobody knows", (document["run"]["ranks"], document["run"]["missing_ranks"], document["run"]["world_size"]), ([1000, 1001, 1002, 1003], [], 4))
    said = [finding for finding in document["findings"] if finding["values"].get("unknown_rank_count") == 4]
    wrong += expect("nobody knows, said", [(finding["severity"], finding["evidence"][:1]) for finding in said], [("info", ["rank 1000 stands for a.json"])])
    # Rank 2 is in a.json.
    return wrong + expect("nobody knows, who", culprits(document), [[1000]])


def names_of_two_nodes(traintrace):
    """Each node counts its own ranks: what two files claim is nobody's."""
    document = analyze(traintrace, {f"node{rank.rank // 2}_{rank.rank // 2}.rank{rank.rank % 2}.json": (rank, False) for rank in job()})
    return expect("two nodes", (len(document["run"]["ranks"]), document["run"]["ranks"][0], document["run"]["world_size"]), (4, 1000, 4))


def several_jobs(traintrace):
    """Single processes, each a job of its own, and a rank that was recorded twice: each window has a name of its own."""
    alone = [job(late=0, ranks=1)[0] for _ in range(3)]
    document = analyze(traintrace, {f"job{'abc'[i]}.json": (rank, False) for i, rank in enumerate(alone)})
    names = [document["run"]["id"]] + [run["id"] for run in document["run"]["other_runs"]]
    wrong = expect("single jobs", (len(set(names)), document["run"]["ranks"], culprits(document)), (3, [0], [[0]]))
    for name in names:
        chosen = analyze(traintrace, {f"job{'abc'[i]}.json": (rank, False) for i, rank in enumerate(alone)}, f"--run={name}")
        wrong += expect("chosen", chosen["run"]["id"], name)
    twice = {f"step_1_rank{rank.rank}.json": (rank, False) for rank in job()} | {f"step_2_rank{rank.rank}.json": (rank, False) for rank in job(late=1, at=10e6)}
    document = analyze(traintrace, twice)
    return wrong + expect("twice", (document["run"]["ranks"], len(document["run"]["other_runs"]), culprits(document)), ([0, 1, 2, 3], 1, [[1]]))


def main(traintrace):
    wrong = []
    for check in (by_name, one_of_them, by_groups, nobody_knows, names_of_two_nodes, several_jobs):
        wrong += check(traintrace)
    print("\n".join(wrong) if wrong else "as expected")
    return 1 if wrong else 0


sys.exit(main(*sys.argv[1:]))
