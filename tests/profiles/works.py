"""Tables by kernel, operator, annotation, module, collective and cause, against what was made.   works.py TRAINTRACE"""
import json
import os
import subprocess
import sys
import tempfile

from made import Rank

STEPS = 8


def ns(us):
    return round(us * 1000)


def within(rank, category, name, work):
    """`work` inside a range of the framework."""
    began = rank.now
    rank.now += 1
    work()
    rank.now += 1
    rank.add(category, name, began, rank.now - began, "host")


def made(number=0, world=1):
    """Each step: two products in a module in the forward pass, an all-reduce, a sum that PyTorch reads, an optimizer."""
    rank = Rank(number, world)
    rank.launch(300.0, "warm")
    for step in range(STEPS):
        began = rank.now

        def forward():
            for layer in range(12):
                within(rank, "python_function", f"nn.Module: Linear_{layer % 2}",
                       lambda: within(rank, "cpu_op", "aten::linear", lambda: within(rank, "cpu_op", "aten::mm", lambda: rank.launch(100.0, "gemm"))))
            within(rank, "cpu_op", "aten::relu", lambda: rank.launch(40.0, "relu"))

        within(rank, "user_annotation", "forward", forward)
        within(rank, "cpu_op", "c10d::allreduce_", lambda: within(rank, "user_annotation", "nccl:all_reduce", lambda: rank.launch(
            250.0, "ncclDevKernel_AllReduce_Sum_f32_RING_LL", stream=20, after=(rank.free[7],),
            **{"Collective name": "allreduce", "In msg nelems": 1 << 20, "dtype": "Float", "Group size": 4, "Process Group Name": "0", "Seq": step})))
        within(rank, "cpu_op", "aten::item", lambda: within(rank, "cpu_op", "aten::_local_scalar_dense", lambda: rank.block(stream=20)))
        rank.host(500)
        within(rank, "user_annotation", "Optimizer.step#AdamW.step", lambda: within(
            rank, "cpu_op", "aten::_fused_adamw_", lambda: rank.launch(60.0, "multi_tensor_apply_kernel")))
        for _ in range(10):
            rank.launch(20.0, "elsewhere")
        rank.step(step, began)
    return rank


def rows(traintrace, folder, by, *options):
    done = subprocess.run([traintrace, "report", folder, f"--by={by}", "--format=json", *options], capture_output=True, text=True, timeout=60, check=True)
    return json.loads(done.stdout)["rows"], done.stderr


def check_sums(found, by, jobs):
    """Sums over rows are those over all events, whatever they are grouped by."""
    kernels = [each for rank in jobs for each in rank.events if each["cat"] == "kernel"]
    assert sum(row["gpu_ns"] for row in found) == sum(ns(each["dur"]) for each in kernels), by
    assert sum(row["work_count"] for row in found) == len(kernels), by
    assert abs(sum(row["share_percent"] for row in found) - 100) < 0.01, by
    assert found == sorted(found, key=lambda row: -row["gpu_ns"])


def check_groups(traintrace, folder, jobs):
    idle = sum(row["idle_ns"] for row in rows(traintrace, folder, "rank")[0])
    tables = {}
    for by in ("kernel", "operator", "annotation", "module"):
        found, said = rows(traintrace, folder, by)
        assert "is recorded" not in said, said
        check_sums(found, by, jobs)
        assert sum(row["idle_before_ns"] for row in found) == idle, by
        tables[by] = {row[by]: row for row in found}
    kernels, operators = tables["kernel"], tables["operator"]
    count = STEPS * len(jobs)
    assert kernels["gemm"]["gpu_ns"] == ns(100) * 12 * count and kernels["gemm"]["kind"] == "compute" and kernels["gemm"]["rank_count"] == len(jobs)
    assert kernels["ncclDevKernel_AllReduce_Sum_f32_RING_LL"]["kind"] == "communication"
    # The innermost operator, not what is around it.
    assert "aten::linear" not in operators and "c10d::allreduce_" not in operators
    assert operators["aten::mm"]["launch_count"] == 12 * count and operators["nccl:all_reduce"]["gpu_ns"] == ns(250) * count
    assert operators[None]["work_count"] == len(jobs) * (1 + 10 * STEPS)
    # The GPU waits for what is launched after .item(): the optimizer waits, .item() is why.
    waits = operators["aten::_local_scalar_dense"]
    assert waits["gpu_ns"] == 0 and waits["idle_caused_ns"] > ns(500) * count, waits
    assert abs(operators["aten::_fused_adamw_"]["idle_before_ns"] - waits["idle_caused_ns"]) < ns(20) * count
    assert tables["annotation"]["forward"]["gpu_ns"] == (12 * ns(100) + ns(40)) * count
    assert tables["annotation"]["Optimizer.step#AdamW.step"]["gpu_ns"] == ns(60) * count
    assert {"nn.Module: Linear_0", "nn.Module: Linear_1", None} == set(tables["module"])
    return tables


def check_findings(traintrace, folder):
    """Without Python frames the operator is where."""
    done = subprocess.run([traintrace, "analyze", folder, "--format=json"], capture_output=True, text=True, timeout=60, check=False)
    finding = next(each for each in json.loads(done.stdout)["findings"] if each["code"] == "latency.sync-in-loop")
    assert finding["where"][0]["function"] == "aten::_local_scalar_dense", finding
    assert any("cudaStreamSynchronize within aten::_local_scalar_dense" in line for line in finding["evidence"]), finding
    # Without .item() the GPU would be busy all the time, and the next step would begin beside the collective.
    assert finding["evidence"][-1].startswith(("if this were solved, the step of rank ", "if this were solved on all ranks, the step of rank ")), finding
    gain, idle = finding["values"]["gain_ns"], finding["values"]["idle_ns"]
    assert 0.95 * (idle + ns(250) * STEPS) < gain < 1.05 * (idle + ns(250) * STEPS), finding


def check_collectives(traintrace, folder, ranks):
    found = rows(traintrace, folder, "collective")[0]
    assert len(found) == 1, found
    row = found[0]
    size = 4 << 20
    assert (row["operation"], row["communicator"], row["communicator_size"], row["size_bytes"]) == ("allreduce", "0", 4, size), row
    assert row["median_ns"] == ns(250) and row["count"] == STEPS * (1 if ranks == 4 else ranks), row
    assert row["measured"] == ("transfer" if ranks == 4 else "transfer and waiting"), row
    assert abs(row["algorithm_gb_per_s"] - size / ns(250)) < 1e-3 and abs(row["bus_gb_per_s"] - 1.5 * size / ns(250)) < 1e-3, row


def check_causes(traintrace, folder):
    found = rows(traintrace, folder, "cause")[0]
    causes = {row["cause"]: row for row in found if row["rank"] == 0}
    assert abs(causes["none"]["replayed_ns"] - causes["none"]["window_ns"]) <= 0.001 * causes["none"]["window_ns"], causes["none"]
    sync = causes["sync-induced"]
    hidden = sync["lost_ns"] + ns(250) * STEPS
    # As the finding says: were it left out on one rank alone, the others would make that one wait in collectives.
    assert 0.95 * hidden < sync["gain_ns"] < 1.05 * hidden, sync
    assert causes["communication"]["gain_ns"] > 0.9 * causes["communication"]["lost_ns"], causes["communication"]


def check_operator_decides(traintrace, folder):
    """A kernel with any name is communication where an operator that moves data launched it; what PyTorch computes within one is not."""
    rank = Rank()
    for _ in range(20):
        rank.launch(500.0, "gemm")
        within(rank, "cpu_op", "symm_mem::multimem_all_reduce_", lambda: rank.launch(100.0, "a_name_of_its_own"))
        within(rank, "cpu_op", "symm_mem::fused_all_gather_matmul", lambda: rank.launch(100.0, "fused"))
        within(rank, "cpu_op", "c10d::allgather_", lambda: within(rank, "cpu_op", "aten::cat", lambda: rank.launch(50.0, "cat")))
    os.mkdir(folder)
    rank.write(folder)
    kinds = {row["kernel"]: row["kind"] for row in rows(traintrace, folder, "kernel")[0]}
    assert kinds == {"gemm": "compute", "a_name_of_its_own": "communication", "fused": "compute", "cat": "compute"}, kinds
    table = f"{folder}.table"
    with open(table, "w", encoding="utf-8") as file:
        file.write("# of our own library\n^fu\nnothing\n")
    kinds = {row["kernel"]: row["kind"] for row in rows(traintrace, folder, "kernel", f"--communication-kernels=@{table}")[0]}
    assert kinds["fused"] == "communication" and kinds["cat"] == "compute", kinds
    with open(table, "a", encoding="utf-8") as file:
        file.write("a(\n")
    done = subprocess.run([traintrace, "report", folder, f"--communication-kernels=@{table}"], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 2 and "line 4" in done.stderr, done


def check_nothing_known(traintrace, folder):
    rank = Rank()
    for _ in range(30):
        rank.launch(50.0, "gemm")
    os.mkdir(folder)
    rank.write(folder)
    for by, why in (("operator", "no operator"), ("annotation", "record_function"), ("module", "with_modules"), ("collective", "no communication")):
        found, said = rows(traintrace, folder, by)
        assert why in said and all(row.get(by) is None for row in found), (by, found, said)


def main(traintrace):
    with tempfile.TemporaryDirectory() as folder:
        for count in (1, 4):
            jobs = [made(number, 4) for number in range(count)]
            job = f"{folder}/{count}"
            os.mkdir(job)
            for rank in jobs:
                rank.write(job)
            check_groups(traintrace, job, jobs)
            check_findings(traintrace, job)
            check_collectives(traintrace, job, count)
            check_causes(traintrace, job)
        check_operator_decides(traintrace, f"{folder}/operators")
        check_nothing_known(traintrace, f"{folder}/nothing")
    print("as made")


main(sys.argv[1])
