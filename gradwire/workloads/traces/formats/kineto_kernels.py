"""Which kernels communicate, by their names: NCCL's, whose sizes the profile says, and those of other libraries.

Others are recognised by the name of the function, without its types and parameters. What they move is not recorded:
`record_param_comms` is ProcessGroupNCCL's.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple

NCCL = 0
"""Number of NCCL, or of RCCL, which gives its kernels the same names."""
LONGEST_NAME = 4096
"""Characters of a kernel's name that are looked at; with all their types, names have hundreds."""


class Library(NamedTuple):
    """A library that communicates without NCCL."""

    name: str
    #: What the names of its functions contain.
    functions: re.Pattern[str]


def _library(name: str, functions: str) -> Library:
    return Library(name, re.compile(functions, re.IGNORECASE))


LIBRARIES = (
    # torch/csrc/distributed/c10d/symm_mem of PyTorch: CUDASymmetricMemoryOps.cu, nvshmem_extension.cu
    _library("PyTorch's symmetric memory", r"multimem_|(one|two)_shot_(all_)?reduce|exchangeSplitAndOffset|allToAllV"),
    # csrc/custom_all_reduce.cuh of vLLM; sgl-kernel of SGLang and AITER have the same names
    _library("the custom all-reduce of vLLM, SGLang or AITER", r"cross_device_reduce|reduce_scatter_cross_device"),
    # csrc/quickreduce/quick_reduce.h of vLLM
    _library("QuickReduce", r"quickreduce::|allreduce_prototype_(one|two)shot"),
    # csrc/kernels of deepseek-ai/DeepEP: intranode.cu, internode.cu, internode_ll.cu
    _library("DeepEP", r"deep_ep::"),
    # src/ops/dispatch_combine of ROCm/mori
    _library("MORI", r"mori::|Ep(Dispatch|Combine)\w*Kernel"),
    # src/device/launch of NVIDIA/nvshmem has what runs on a stream; ROCm/rocSHMEM
    _library("NVSHMEM or rocSHMEM", r"nvshmem|rocshmem|_on_stream_kernel"),
    # cpp/tensorrt_llm/kernels of NVIDIA/TensorRT-LLM: customAllReduceKernels.cu, communicationKernels; FlashInfer and
    # SGLang carry them as well, and torch's intra_node_comm.cu has the same names
    _library(
        "the all-reduce or all-to-all of TensorRT-LLM, FlashInfer or SGLang",
        r"(one|two)shotAllReduce|hybridCubeMeshAllReduce|allreduce_fusion|trtllm_\w*all_?(reduce|toall)|moeA2A",
    ),
    # transformer_engine/common/comm_gemm_overlap/userbuffers/userbuffers.cu of TransformerEngine
    _library("Userbuffers", r"userbuffers"),
    # microsoft/mscclpp
    _library("MSCCL++", r"mscclpp::"),
    # uxlfoundation/oneCCL
    _library("oneCCL", r"oneccl"),
    # The kind CUPTI_ACTIVITY_MEMCPY_KIND_PTOP: between the memories of two GPUs
    _library("copies between GPUs", r"^Memcpy PtoP"),
    # Those of yet others; not what Inductor fuses, whose names list all that was fused (triton_..._all_reduce_...)
    _library(
        "kernels named for collectives",
        r"^(?!.*\btriton_).*(all_?reduce|all_?gather|reduce_?scatter|all_?to_?all)",
    ),
)
"""Libraries by the names of their kernels; the first that matches counts. Their numbers begin behind NCCL's."""


def library_named(number: int) -> str:
    """The name of a library other than NCCL by its number."""
    return LIBRARIES[number - 1].name


@lru_cache(maxsize=4096)
def library_of(kernel: str) -> int:
    """Returns the number of the library of a kernel or a copy that communicates; -1 for one that computes."""
    if "nccl" in kernel[:64].lower() or "rccl" in kernel[:64].lower():
        return NCCL
    function = re.split("[<(]", kernel[:LONGEST_NAME].replace("(anonymous namespace)::", ""), maxsplit=1)[0]
    return next((number for number, other in enumerate(LIBRARIES, 1) if other.functions.search(function)), -1)
