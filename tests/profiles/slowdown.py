"""How stragglers slow a pipeline down: schedules made here, whose step times are known.   slowdown.py TRAINTRACE"""
import json
import subprocess
import sys
import tempfile

STAGES, REPLICAS, BATCHES, STEPS = 4, 3, 6, 4
TRANSFER = 0.0005


def many_ranks(traintrace, folder):
    """What would take minutes or all memory is refused with a reason, at once."""
    cases = {"replica": [(rank, 0, 0) for rank in range(50_000)], "most have none": [(rank, rank, rank) for rank in range(20_000)]}
    for reason, cases_rows in cases.items():
        path = f"{folder}/{reason.replace(' ', '_')}.csv"
        with open(path, "w", encoding="utf-8") as file:
            file.write("rank,stage,step,operation,start,end\n")
            file.writelines(f"{rank},{stage},{step},forward-compute,{rank}.0,{rank}.5\n" for rank, stage, step in cases_rows)
        done = subprocess.run([traintrace, "report", "--by=slowdown", path], capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 2 and reason in done.stderr and done.stderr.count("\n") == 1, done


def schedule(stage):
    """One forward, one backward."""
    ahead = min(STAGES - stage - 1, BATCHES)
    order = [("forward", i) for i in range(ahead)]
    for i in range(BATCHES - ahead):
        order += [("forward", ahead + i), ("backward", i)]
    return order + [("backward", i) for i in range(BATCHES - ahead, BATCHES)]


def made(slower):
    """Rows of a job; `slower(replica, stage, step)`: by what its computing is longer.  Also the mean step time."""
    rows, step_times, begin = [], [], 100.0
    for step in range(STEPS):
        ends = []
        for replica in range(REPLICAS):
            done, free, orders = {}, [begin] * STAGES, [schedule(stage) for stage in range(STAGES)]
            sent, received = {}, {}  # when the last message of a kind was through
            history = [[begin] for _ in range(STAGES)]  # ends of what was computed
            while any(orders):
                for stage, order in enumerate(orders):
                    while order:
                        what, batch = order[0]
                        source = stage - 1 if what == "forward" else stage + 1
                        start = free[stage]
                        if 0 <= source < STAGES:
                            if (what, batch, source) not in done:
                                break
                            # A receive is posted once the one before it is used; the first of the backward pass a little ahead.
                            posted = done.get((what, batch - 1, stage), history[stage][-2] if what == "backward" and len(history[stage]) > 2 else begin)
                            posted = max(posted, received.get((what, stage), begin))
                            sending = max(done[what, batch, source], sent.get((what, source), begin))
                            arrived = max(posted, sending) + TRANSFER
                            sent[what, source] = received[what, stage] = arrived
                            rows.append((replica, source, step, f"{what}-send", sending, arrived))
                            rows.append((replica, stage, step, f"{what}-recv", posted, arrived))
                            start = max(start, arrived)
                        length = (0.01 if what == "forward" else 0.02) * slower(replica, stage, step)
                        rows.append((replica, stage, step, f"{what}-compute", start, start + length))
                        free[stage] = done[what, batch, stage] = start + length
                        history[stage].append(start + length)
                        order.pop(0)
            ends.append(free)
        for stage in range(STAGES):
            last = max(free[stage] for free in ends)
            for replica in range(REPLICAS):
                rows.append((replica, stage, step, "grads-reduce-scatter", ends[replica][stage], last + 0.004))
                ends[replica][stage] = last + 0.004
        last = max(max(free) for free in ends)
        for replica in range(REPLICAS):
            for stage in range(STAGES):
                rows.append((replica, stage, step, "optimizer-clip-main-grad", ends[replica][stage], last + 0.001))
                rows.append((replica, stage, step, "optimizer", last + 0.001, last + 0.003))
        step_times.append(last + 0.003 - begin)
        begin = last + 1.0
    return rows, sum(step_times) / STEPS


def report(traintrace, folder, rows, unit="s"):
    path = f"{folder}/operations.csv"
    with open(path, "w", encoding="utf-8") as file:
        file.write("step,rank,stage,operation,start,end\n")
        for replica, stage, step, operation, start, end in rows:
            rank = stage * REPLICAS + replica
            times = (f"{start:.9f}", f"{end:.9f}") if unit == "s" else (round(start * 1e9), round(end * 1e9))
            file.write(f"{step},{rank},{stage},{operation},{times[0]},{times[1]}\n")
    done = subprocess.run([traintrace, "report", path, "--format=json"], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done
    return json.loads(done.stdout)["rows"]


def near(a, b, share=0.002):
    return abs(a - b) <= share * abs(b)


def check(traintrace, folder, slower, usual):
    """The job is as slow as the two schedules say: with this, and with everyone taking what is usual on average."""
    rows, step_s = made(slower)
    found = report(traintrace, folder, rows)
    job = found[0]
    assert job["of"] == "job" and near(job["recorded_ns"], step_s * 1e9) and near(job["replayed_ns"], step_s * 1e9), (job, step_s)
    ideal = made(lambda *_: usual)[1]
    assert near(job["ideal_ns"], ideal * 1e9) and near(job["slowdown"], step_s / ideal), (job, ideal)
    in_ns = {(row["of"], row["name"]): row["slowdown"] for row in report(traintrace, folder, rows, "ns")}
    assert len(in_ns) == len(found) and all(near(row["slowdown"], in_ns[row["of"], row["name"]]) for row in found), (found, in_ns)
    return job, {of: [row for row in found if row["of"] == of] for of in ("stage", "rank", "operation")}


def main(traintrace):
    cells = REPLICAS * STAGES
    with tempfile.TemporaryDirectory() as folder:
        many_ranks(traintrace, folder)
        job, parts = check(traintrace, folder, lambda *_: 1.0, 1.0)
        assert near(job["slowdown"], 1) and job["explained_by_slowest_ranks"] is None, job
        # One worker: all of it is its own doing.
        job, parts = check(traintrace, folder, lambda replica, stage, step: 2.0 if (replica, stage) == (1, 2) else 1.0, (cells + 1) / cells)
        assert parts["rank"][0]["name"] == str(2 * REPLICAS + 1) and parts["stage"][0]["name"] == "2", parts
        assert near(parts["rank"][0]["slowdown"], job["slowdown"]) and 1.1 > parts["rank"][1]["slowdown"] and job["explained_by_slowest_ranks"] > 0.9, (job, parts["rank"])
        assert [row["name"] for row in parts["operation"][:2]] == ["backward-compute", "forward-compute"], parts["operation"]
        # The last stage, on all replicas: not the ranks, but how the layers are split.
        job, parts = check(traintrace, folder, lambda replica, stage, step: 1.6 if stage == STAGES - 1 else 1.0, (STAGES + 0.6) / STAGES)
        assert parts["stage"][0]["name"] == str(STAGES - 1) and job["explained_by_last_stage"] > 0.9, (job, parts["stage"])
        assert job["explained_by_slowest_ranks"] < 0.3, job
        # One step, all ranks: no rank, and on average no slowdown either.
        job, parts = check(traintrace, folder, lambda replica, stage, step: 1.5 if step == 2 else 1.0, 1 + 0.5 / STEPS)
        assert near(parts["rank"][0]["slowdown"], parts["rank"][-1]["slowdown"], 0.02), parts["rank"]
        assert near(job["slowdown"], 1), job
        for text, why in (("rank,stage,step,operation,start,end\n0,0,0,dance,1.0,2.0\n", "no rule for what 'dance'"),
                          ("rank,stage,step,operation,start,end\n0,0,x,optimizer,1.0,2.0\n", "line 2"),
                          ("rank,stage,step,operation,start,end\n", "expected operations")):
            with open(f"{folder}/bad.csv", "w", encoding="utf-8") as file:
                file.write(text)
            done = subprocess.run([traintrace, "report", f"{folder}/bad.csv"], capture_output=True, text=True, timeout=60, check=False)
            assert done.returncode == 2 and (why in done.stderr or "expected operations" in done.stderr), (text, done)
    print("as made")


main(sys.argv[1])
