"""What is said of products of matrices in profiles: kernels that leave tensor cores unused, operations and MFU.   products.py TRAINTRACE"""
import csv
import io
import json
import subprocess
import sys
import tempfile

from made import Rank

STEPS = 12
V100, A100, H100 = ("Tesla V100-SXM2-32GB", 7, 0), ("NVIDIA A100-SXM4-80GB", 8, 0), ("NVIDIA H100 80GB HBM3", 9, 0)
L40, L40S, GTX = ("NVIDIA L40", 8, 9), ("NVIDIA L40S", 8, 9), ("NVIDIA GeForce GTX 1660 Ti", 7, 5)
SGEMM = "ampere_sgemm_128x64_tn"
HALF_SGEMM = "volta_fp16_sgemm_fp16_128x64_tn"
TF32 = "void cutlass::Kernel<cutlass_80_tensorop_s1688gemm_256x64_16x4_nn_align4>(cutlass_80_tensorop_s1688gemm_256x64_16x4_nn_align4::Params)"
UNALIGNED = TF32.replace("align4", "align1")
BF16 = "void cutlass::Kernel2<cutlass_80_tensorop_bf16_s16816gemm_bf16_256x128_64x3_tn_align8>(cutlass_80_tensorop_bf16_s16816gemm_bf16_256x128_64x3_tn_align8::Params)"
HOPPER = "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64_warpgroupsize1x1x1_execute_segment_k_off_kernel__5x_cublas"
FFMA = "sm80_xmma_gemm_f32f32_f32f32_f32_tn_n_tilesize64x64x8_stage3_warpsize1x4x1_ffma_aligna4_alignc4_execute_kernel__51_cublas"
FLOAT, HALF, BFLOAT, DOUBLE = "float", "c10::Half", "c10::BFloat16", "double"
LARGE = [[4096, 4096], [4096, 1024]]  # 34.4 GFLOP: 0.22 ms of TF32 on an A100, of which moving it takes 0.06


def shapes(operands, kind, bias=False):
    if operands is None:
        return None, None
    return ([[1024], *operands, [], []], [kind] * 3 + ["Scalar"] * 2) if bias else (operands, [kind] * 2)


def profile(model, kernel, us=2000.0, operands=LARGE, kind=FLOAT, operator="aten::mm", count=2, other=500.0, ranks=1, each_step=None):
    """`count` products of `us` in each step, beside other work of 8 times `other`."""
    jobs = []
    for number in range(ranks):
        rank = Rank(number, ranks)
        rank.models = [model] if model else []
        rank.launch(100.0, "warm")
        rank.block()
        for step in range(STEPS):
            began = rank.now
            for _ in range(8):
                rank.launch(other, "vectorized_elementwise_kernel")
            dims, types = shapes(operands, kind, operator == "aten::addmm")
            for _ in range(count):
                rank.operate(operator, dims, types, us, kernel)
            if each_step:
                each_step(rank)
            rank.block()
            rank.step(step, began)
        jobs.append(rank)
    return jobs


def hidden(kernel, us=2000.0):
    """The product runs beside a collective that takes longer."""
    def step(rank):
        rank.operate("aten::mm", *shapes(LARGE, FLOAT), us, kernel, stream=7)
        rank.launch(us + 200, "ncclDevKernel_AllReduce_Sum_f32_RING_LL", stream=20, after=(rank.free[7] - us - 100,))
        rank.launch(10.0, "after", after=(rank.free[20],))
    return profile(A100, kernel, count=0, each_step=step)


def in_autocast(rank):
    """mm of float operands, which calls itself with half ones after casting them."""
    began = rank.now
    rank.launch(20.0, "void at::native::vectorized_elementwise_kernel<4, cast>")
    rank.operate("aten::mm", *shapes(LARGE, HALF), 2000.0, HALF_SGEMM)
    rank.add("cpu_op", "aten::mm", began, rank.now - began, "host", **{"Input Dims": LARGE, "Input type": [FLOAT] * 2})


# name: jobs, certainty of the finding (None: none), and what its values must be.
def cases():
    lost = 2 * 2000 * STEPS
    of_large = {"m": 4096, "n": 1024, "k": 4096, "batch": 1}
    yield "float", profile(A100, SGEMM), "likely", {"slow_ns": lost, "kernel_count": 2 * STEPS, **of_large}
    yield "float, newer name", profile(H100, FFMA), "likely", {"slow_ns": lost}
    yield "float, addmm", profile(A100, SGEMM, operator="aten::addmm"), "likely", of_large
    yield "float, L40S", profile(L40S, SGEMM), "likely", {"slow_ns": lost}
    yield "float, no shapes", profile(A100, SGEMM, operands=None), "possible", {"slow_ns": lost, "m": None}
    yield "float, two ranks", profile(A100, SGEMM, ranks=2), "likely", {"slow_ns": lost}
    yield "float, batch", profile(A100, SGEMM, operands=[[16, 1024, 512], [16, 512, 256]], operator="aten::bmm"), "likely", {"batch": 16, "n": 256}
    yield "TF32", profile(A100, TF32), None, {}
    yield "float, V100", profile(V100, SGEMM), None, {}
    yield "float, TF32 no faster", profile(L40, SGEMM), None, {}
    yield "float, GPU not in the table", profile(("NVIDIA X1000", 9, 0), SGEMM), None, {}
    yield "float, GPU not known", profile(None, SGEMM), None, {}
    yield "float, part of a GPU", profile((A100[0] + " MIG 1g.10gb", 8, 0), SGEMM), None, {}
    yield "double", profile(A100, "ampere_dgemm_128x64_tn", kind=DOUBLE), None, {}
    yield "double by another name", profile(A100, SGEMM, kind=DOUBLE), None, {}
    yield "complex", profile(A100, "ampere_cgemm_64x64_tn", kind="c10::complex<float>"), None, {}
    yield "seldom", profile(A100, SGEMM, us=100.0), None, {}
    yield "just below", profile(A100, SGEMM, us=104.0), None, {}
    yield "just above", profile(A100, SGEMM, us=450.0, other=900.0), "likely", {}
    yield "short", profile(A100, SGEMM, us=9.0, count=400, operands=[[64, 64], [64, 64]], other=100.0), None, {}
    yield "narrow", profile(A100, SGEMM, us=400.0, operands=[[8, 9216], [9216, 16384]]), None, {}
    yield "convolution", profile(A100, SGEMM, operator="aten::cudnn_convolution", operands=[[32, 64, 56, 56], [64, 64, 3, 3]]), None, {}
    yield "convolution by its name", profile(A100, "void implicit_convolve_sgemm<float, float, 1024, 6, 7, 3, 3, 5, 1, false, true, true>()", operands=None), None, {}
    yield "hidden", hidden(SGEMM), None, {}
    yield "no product", profile(A100, "void at::native::vectorized_elementwise_kernel<4, float>"), None, {}
    yield "half", profile(V100, HALF_SGEMM, kind=HALF), "likely", {"slow_ns": lost}
    yield "half, no shapes", profile(V100, HALF_SGEMM, operands=None), "possible", {"slow_ns": lost}
    yield "half, no tensor cores", profile(GTX, HALF_SGEMM, kind=HALF), None, {}
    yield "half, Pascal", profile(("Tesla P100-SXM2-16GB", 6, 0), HALF_SGEMM, kind=HALF), None, {}
    yield "half, tensor cores", profile(V100, "volta_fp16_s884gemm_fp16_128x64_ldg8_f2f_tn", kind=HALF), None, {}
    yield "half, by autocast", profile(V100, SGEMM, count=0, each_step=in_autocast), "likely", {"slow_ns": lost // 2}
    yield "bfloat16", profile(H100, HOPPER, kind=BFLOAT), None, {}
    yield "unaligned", profile(A100, UNALIGNED, operands=[[4096, 4095], [4095, 1024]]), "likely", {"slow_ns": lost, "k": 4095}
    yield "unaligned bfloat16", profile(H100, BF16.replace("align8", "align2"), us=3000.0, operands=[[4096, 4096], [4096, 30522]], kind=BFLOAT), "likely", {"n": 30522}
    yield "half aligned", profile(H100, BF16.replace("align8", "align4"), kind=BFLOAT), None, {}
    yield "aligned", profile(H100, BF16, kind=BFLOAT), None, {}


def run(*command):
    done = subprocess.run(command, stdout=subprocess.PIPE, timeout=120, check=False)
    assert done.returncode == 0, (command, done.returncode)
    return json.loads(done.stdout)


def check(findings, certainty, values):
    found = [each for each in findings if each["code"] == "latency.slow-kernel-path"]
    if certainty is None:
        return [f"found {[each['title'] for each in found]}"] if found else []
    if len(found) != 1:
        return [f"found {sorted(each['code'] for each in findings)}"]
    wrong = []
    if found[0]["culprits"] or found[0]["certainty"] != certainty:
        wrong.append(f"{found[0]['certainty']}, blames {found[0]['culprits']}")
    for key, value in values.items():
        seen = found[0]["values"].get(key)
        if seen != (value * 1000 if key.endswith("_ns") else value):
            wrong.append(f"{key} is {seen}, not {value}")
    return wrong


def verdicts(traintrace):
    wrong = []
    for name, jobs, certainty, values in cases():
        with tempfile.TemporaryDirectory(prefix="products.") as folder, tempfile.TemporaryDirectory(prefix="imported.") as imported:
            for rank in jobs:
                rank.write(folder)
            findings = run(traintrace, "analyze", folder, "--format=json")["findings"]
            wrong += [f"{name}: {each}" for each in check(findings, certainty, values)]
            # What is read of a profile says the same once more.
            subprocess.run([traintrace, "import", "kineto", folder, f"--out={imported}"], timeout=60, check=True)
            again = run(traintrace, "analyze", imported, "--format=json")["findings"]
            if again != findings:
                wrong.append(f"{name}: otherwise after import")
    return wrong


def nested(rank):
    """linear, and in it addmm; mm that casts for itself: each product counts once."""
    began = rank.now
    rank.operate("aten::addmm", [[512], [256, 1024], [1024, 512], [], []], [BFLOAT] * 3 + ["Scalar"] * 2, 100.0, HOPPER)
    rank.add("cpu_op", "aten::linear", began, rank.now - began, "host", **{"Input Dims": [[256, 1024], [512, 1024], [512]], "Input type": [BFLOAT] * 3})
    began = rank.now
    rank.launch(20.0, "void at::native::vectorized_elementwise_kernel<4, cast>")
    rank.operate("aten::mm", [[256, 512], [512, 128]], [BFLOAT] * 2, 50.0, HOPPER)
    rank.add("cpu_op", "aten::mm", began, rank.now - began, "host", **{"Input Dims": [[256, 512], [512, 128]], "Input type": [FLOAT] * 2})
    rank.operate("aten::bmm", [[24, 256, 64], [24, 64, 256]], [BFLOAT] * 2, 30.0, HOPPER)


NESTED_FLOPS = 2 * (256 * 1024 * 512 + 256 * 512 * 128 + 24 * 256 * 64 * 256)
LARGE_FLOPS = 2 * 4096 * 4096 * 1024


def without_dims_once(jobs):
    """One of all operators has no shape."""
    operators = [event for event in jobs[0].events if event["name"] == "aten::mm"]
    del operators[7]["args"]["Input Dims"]
    return jobs


def twice(jobs):
    """Kernels stand there twice, as in some traces."""
    jobs[0].events += [event for event in jobs[0].events if event["cat"] == "kernel" and "gemm" in event["name"]]
    return jobs


# name: jobs, operations in each step (None: not known), 10^9 of them in a second at the peak (None: no MFU).
def figures():
    large = 2 * LARGE_FLOPS
    yield "bfloat16", profile(H100, HOPPER, kind=BFLOAT), large, 989_500
    yield "nested", profile(H100, HOPPER, count=0, each_step=nested), NESTED_FLOPS, 989_500
    yield "two ranks", profile(H100, HOPPER, kind=BFLOAT, ranks=2), large, 989_500
    yield "half", profile(V100, "volta_fp16_s884gemm_fp16_128x64_ldg8_f2f_tn", kind=HALF), large, 125_000
    yield "TF32", profile(A100, TF32), large, 156_000
    yield "float", profile(A100, SGEMM, us=4000.0), large, 19_500
    yield "float, V100", profile(V100, "volta_sgemm_128x64_tn", us=4500.0), large, 15_700
    yield "float by nobody knows what", profile(A100, "some_gemm_kernel"), large, None
    yield "double", profile(A100, "void cutlass::Kernel<cutlass_80_tensorop_d884gemm_128x64_16x3_tn_align1>()", us=4000.0, kind=DOUBLE), large, 19_500
    yield "no shapes", profile(A100, TF32, operands=None), None, None
    yield "one without shape", without_dims_once(profile(A100, TF32)), None, None
    yield "complex", profile(A100, "ampere_cgemm_64x64_tn", kind="c10::complex<float>"), None, None
    yield "no products", profile(A100, "elementwise", operator="aten::add"), None, None
    yield "GPU not in the table", profile(("NVIDIA X1000", 9, 0), TF32), large, None
    yield "GPU not known", profile(None, TF32), large, None
    yield "more than it can do", profile(A100, TF32, us=20.0, other=1.0), large, None
    yield "kernels that stand there twice", twice(profile(A100, TF32)), large, 156_000
    attention = "void pytorch_flash::flash_fwd_kernel<pytorch_flash::Flash_fwd_kernel_traits<64, 128, 128, 4> >"
    yield "attention", profile(A100, TF32, each_step=lambda rank: rank.launch(990.0, attention)), large, 156_000
    yield "much attention", profile(A100, TF32, each_step=lambda rank: rank.launch(1010.0, attention)), large, None
    yield "convolutions", profile(A100, TF32, each_step=lambda rank: rank.operate("aten::conv2d", None, None, 3000.0, TF32)), large, None


def report(traintrace, folder, by):
    """As JSON; CSV must say the same."""
    rows = run(traintrace, "report", folder, f"--by={by}", "--format=json")["rows"]
    done = subprocess.run([traintrace, "report", folder, f"--by={by}", "--format=csv"], capture_output=True, text=True, timeout=60, check=True)
    for row, line in zip(rows, csv.DictReader(io.StringIO(done.stdout)), strict=True):
        assert line["gemm_flops"] == ("" if row["gemm_flops"] is None else str(row["gemm_flops"])), line
        assert line["mfu_percent"] == ("" if row["mfu_percent"] is None else f"{row['mfu_percent']:.4f}"), line
    return rows


def check_figures(traintrace, folder, ranks, flops, peak):
    wrong = []
    rows = report(traintrace, folder, "rank")
    for row in rows:
        total = None if flops is None else STEPS * flops
        mfu = None if peak is None else round(100 * total / peak / row["window_ns"], 4)
        if row["gemm_flops"] != total or (row["mfu_percent"] is None) != (mfu is None):
            wrong.append(f"{row['gemm_flops']} operations, {row['mfu_percent']} %, not {total} and {mfu}")
        elif mfu is not None and abs(row["mfu_percent"] - mfu) > 0.00011:
            wrong.append(f"{row['mfu_percent']} %, not {mfu}")
    steps = [row for row in report(traintrace, folder, "step") if row["found_by"] == "marks"]
    if len(steps) != STEPS * ranks or len(rows) != ranks:
        wrong.append(f"{len(steps)} steps, {len(rows)} rows")
    for row in steps:
        mfu = None if peak is None else round(100 * flops / peak / row["gpu_duration_ns"], 4)
        unlike = row["gemm_flops"] != flops or (row["mfu_percent"] is None) != (mfu is None)
        if flops is not None and (unlike or (mfu is not None and abs(row["mfu_percent"] - mfu) > 0.00011)):
            wrong.append(f"step {row['step']}: {row['gemm_flops']} operations, {row['mfu_percent']} %, not {flops} and {mfu}")
    if flops is None and all(row["gemm_flops"] is not None for row in steps):
        wrong.append("operations of each step")
    return wrong


def all_figures(traintrace):
    wrong = []
    for name, jobs, flops, peak in figures():
        with tempfile.TemporaryDirectory(prefix="figures.") as folder, tempfile.TemporaryDirectory(prefix="imported.") as imported:
            for rank in jobs:
                rank.write(folder)
            subprocess.run([traintrace, "import", "kineto", folder, f"--out={imported}"], timeout=60, check=True)
            for where in (folder, imported):
                wrong += [f"{name}: {each}" for each in check_figures(traintrace, where, len(jobs), flops, peak)]
    return wrong


def main(traintrace):
    wrong = verdicts(traintrace) + all_figures(traintrace)
    print("\n".join(wrong) if wrong else "as expected")
    return 1 if wrong else 0


sys.exit(main(*sys.argv[1:]))
