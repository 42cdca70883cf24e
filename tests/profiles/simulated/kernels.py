"""The kernels that a transformer launches, with the names that PyTorch's profiler writes."""
from dataclasses import dataclass


@dataclass(frozen=True)
class Kernel:
    name: str
    grid: tuple
    block: tuple
    microseconds: float
    operator: str


def elementwise(inner, arrays, grid, microseconds, operator):
    return Kernel(f"void at::native::vectorized_elementwise_kernel<4, at::native::{inner}, at::detail::Array<char*, {arrays}> >"
                  f"(int, at::native::{inner}, at::detail::Array<char*, {arrays}>)", (grid, 1, 1), (128, 1, 1), microseconds, operator)


def product(shape, stages, grid, threads, microseconds, order="tn"):
    return Kernel(f"ampere_bf16_s16816gemm_bf16_{shape}_ldg8_f2f_stages_{stages}_{order}", grid, (threads, 1, 1), microseconds, "aten::mm")


KERNELS = {
    "query_key_value": product("128x128", "32x5", (96, 16, 1), 128, 110),
    "attention": Kernel("void pytorch_flash::flash_fwd_kernel<Flash_fwd_kernel_traits<128, 128, 32, 4, false, false, cutlass::bfloat16_t> >"
                        "(pytorch_flash::Flash_fwd_params)", (16, 8, 32), (128, 1, 1), 90, "aten::_flash_attention_forward"),
    "projection": product("128x64", "64x4", (64, 16, 1), 128, 60),
    "wide": product("256x128", "64x3", (128, 8, 1), 256, 150),
    "gelu": elementwise("GeluCUDAKernelImpl(at::TensorIteratorBase&)::{lambda()#1}", 2, 32768, 35, "aten::gelu"),
    "narrow": product("128x256", "64x3", (32, 16, 1), 256, 140),
    "norm": Kernel("void at::native::(anonymous namespace)::vectorized_layer_norm_kernel<c10::BFloat16, float>(int, float, c10::BFloat16 const*, "
                   "c10::BFloat16 const*, c10::BFloat16 const*, float*, float*, c10::BFloat16*)", (8192, 1, 1), (32, 4, 1), 25,
                   "aten::native_layer_norm"),
    "add": elementwise("CUDAFunctor_add<c10::BFloat16>", 3, 16384, 20, "aten::add"),
    "input_gradient": product("128x128", "32x5", (96, 16, 1), 128, 120, "nt"),
    "weight_gradient": product("128x128", "32x5", (96, 16, 1), 128, 125, "nn"),
    "attention_backward": Kernel("void pytorch_flash::flash_bwd_dq_dk_dv_loop_seqk_parallel_kernel<Flash_bwd_kernel_traits<128, 64, 64, 8> >"
                                 "(pytorch_flash::Flash_bwd_params)", (32, 8, 32), (256, 1, 1), 210, "aten::_flash_attention_backward"),
    "gelu_backward": elementwise("GeluBackwardCUDAKernelImpl(at::TensorIteratorBase&)::{lambda()#1}", 3, 32768, 45, "aten::gelu_backward"),
    "norm_backward": Kernel("void at::native::(anonymous namespace)::layer_norm_grad_input_kernel_vectorized<c10::BFloat16, float>"
                            "(c10::BFloat16 const*, float const*)", (8192, 1, 1), (128, 1, 1), 40, "aten::native_layer_norm_backward"),
    "adam": Kernel("void at::native::(anonymous namespace)::multi_tensor_apply_kernel<at::native::(anonymous namespace)::"
                   "FusedOptimizerTensorListMetadata<4>, at::native::(anonymous namespace)::FusedAdamMathFunctor<float, 4> >"
                   "(at::native::TensorListMetadata)", (320, 1, 1), (512, 1, 1), 180, "aten::_fused_adamw_"),
    "loss": Kernel("void (anonymous namespace)::softmax_warp_forward<float, float, float, 10, true, false>(float*, float const*, int, int, int)",
                   (512, 1, 1), (128, 1, 1), 60, "aten::log_softmax"),
    "embedding": Kernel("void at::native::(anonymous namespace)::indexSelectLargeIndex<c10::BFloat16, long, unsigned int, 2, 2, -2, true>"
                        "(at::cuda::detail::TensorInfo<c10::BFloat16, unsigned int>)", (2048, 1, 1), (128, 1, 1), 30, "aten::embedding"),
    "expert": Kernel("void cutlass::Kernel2<cutlass_80_tensorop_bf16_s16816gemm_grouped_bf16_128x128_32x4_tn_align8>"
                     "(cutlass_80_tensorop_bf16_s16816gemm_grouped_bf16_128x128_32x4_tn_align8::Params)", (216, 1, 1), (128, 1, 1), 300,
                     "_grouped_mm"),
    "tiny": elementwise("MulFunctor<float>", 3, 8, 3, "aten::mul"),
}
FORWARD = ("norm", "query_key_value", "attention", "projection", "add", "norm", "wide", "gelu", "narrow", "add")
BACKWARD = ("input_gradient", "weight_gradient", "gelu_backward", "input_gradient", "weight_gradient", "norm_backward", "input_gradient",
            "attention_backward", "weight_gradient", "input_gradient", "norm_backward")


def nccl(what):
    return f"ncclDevKernel_{what}(ncclDevKernelArgsStorage<4096ul>)"


# Of each: the kernel, how PyTorch annotates it, the operator.
COLLECTIVES = {
    "allreduce": (nccl("AllReduce_Sum_bf16_RING_LL"), "all_reduce", "c10d::allreduce_"),
    "reduce_scatter": (nccl("ReduceScatter_Sum_bf16_RING_LL"), "_reduce_scatter_base", "c10d::_reduce_scatter_base_"),
    "_allgather_base": (nccl("AllGather_RING_LL"), "_all_gather_base", "c10d::_allgather_base_"),
    "all_to_allv": (nccl("SendRecv"), "all_to_all", "c10d::alltoall_base_"),
    "send": (nccl("SendRecv"), "send", "c10d::send"),
    "recv": (nccl("SendRecv"), "recv", "c10d::recv_"),
}
