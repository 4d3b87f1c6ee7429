"""GPUs by their data sheets, and the share of their peak rate that trainings of language models reached.

Rates are dense, of the precision in which language models are trained there: half of what a sheet prints with
sparsity. Links are to the other GPUs of a machine, in one direction: half of what a sheet prints for both, and none
where it does not say.
"""

from __future__ import annotations

from typing import NamedTuple

GIB = 1 << 30


class TrainingShare(NamedTuple):
    """A share of the peak rate that training reaches, and who says so."""

    efficiency: float
    source: str

    def assumed(self, of: str) -> TrainingShare:
        """The same share for another GPU, of which no source has one."""
        return TrainingShare(self.efficiency, f"assumed to be that of the {of}: {self.source}")


class DataSheet(NamedTuple):
    """A GPU's numbers."""

    name: str
    description: str
    flops_per_s: float
    #: The larger size if there are two.
    memory_bytes: float
    memory_bytes_per_s: float
    link_bytes_per_s: float | None
    share: TrainingShare


V100 = TrainingShare(0.30, "Megatron-LM, Shoeybi et al. 2019: 39 TFLOP/s, 30 % of the peak")
A100 = TrainingShare(0.44, "Narayanan et al. 2021, Table 1: 137 TFLOP/s a GPU for GPT 1.7 B, 44 % of the peak")
HOPPER = TrainingShare(0.40, "The Llama 3 Herd of Models, 2024, Table 4: 38 to 43 % model-FLOPs utilisation")
MI250X = TrainingShare(
    0.36, "Dash et al., Optimizing Distributed Training on Frontier, 2023: 36.14 % of the peak for 175 B parameters"
)

DATA_SHEETS = (
    DataSheet(
        "v100",
        "NVIDIA V100 SXM2, fp16 tensor cores (data sheet: 125 TFLOP/s)",
        *(125e12, 32 * GIB, 900e9, 150e9, V100),
    ),
    DataSheet(
        "a100",
        "NVIDIA A100 SXM, bf16 dense (data sheet: 312 TFLOP/s)",
        *(312e12, 80 * GIB, 2.039e12, 300e9, A100),
    ),
    DataSheet(
        "h100",
        "NVIDIA H100 SXM, bf16 dense (data sheet: 989 TFLOP/s)",
        *(989e12, 80 * GIB, 3.35e12, 450e9, HOPPER),
    ),
    DataSheet(
        "h200",
        "NVIDIA H200 SXM, bf16 dense (data sheet: 989 TFLOP/s), with the H100's processor",
        *(989e12, 141e9, 4.8e12, 450e9, HOPPER.assumed("H100")),
    ),
    DataSheet(
        "b200",
        "NVIDIA B200 SXM, bf16 dense (data sheet of HGX B200: 36 PFLOP/s of eight, with sparsity, of which half is "
        "dense)",
        *(2250e12, 180e9, 8e12, 900e9, HOPPER.assumed("H100")),
    ),
    DataSheet(
        "b300",
        "NVIDIA B300 SXM, bf16 dense (data sheet of HGX B300: 36 PFLOP/s of eight, with sparsity, of which half is "
        "dense; fp8 4500 TFLOP/s; DGX B300: 2.3 TB of eight)",
        *(2250e12, 288e9, 8e12, 900e9, HOPPER.assumed("H100")),
    ),
    DataSheet(
        "gb200",
        "NVIDIA GB200, one of its two GPUs, bf16 dense (data sheet of GB200 NVL72: 360 PFLOP/s of 72, with sparsity, "
        "of which half is dense; fp8 5000 TFLOP/s; 13.4 TB of 72)",
        *(2500e12, 186e9, 8e12, 900e9, HOPPER.assumed("H100")),
    ),
    DataSheet(
        "h800",
        "NVIDIA H800 SXM, bf16 dense (data sheet: 989 TFLOP/s; fp8 1979), the H100 with NVLink of 400 GB/s",
        *(989e12, 80 * GIB, 3.35e12, 200e9, HOPPER.assumed("H100")),
    ),
    DataSheet(
        "h20",
        "NVIDIA H20 SXM, bf16 dense (data sheet: 148 TFLOP/s; fp8 296, tf32 74, fp32 44)",
        *(148e12, 96 * GIB, 4e12, 450e9, HOPPER.assumed("H100")),
    ),
    DataSheet(
        "p100",
        "NVIDIA P100 SXM2, fp32, without tensor cores (data sheet: 10.6 TFLOP/s; fp16 21.2)",
        *(10.6e12, 16 * GIB, 732e9, 80e9, V100.assumed("V100")),
    ),
    DataSheet(
        "t4",
        "NVIDIA T4, fp16 tensor cores (data sheet: 65 TFLOP/s; fp32 8.1), on PCIe 3.0",
        *(65e12, 16 * GIB, 320e9, 16e9, V100.assumed("V100")),
    ),
    DataSheet(
        "a10",
        "NVIDIA A10, bf16 dense (data sheet: 125 TFLOP/s; tf32 62.5, fp32 31.2), on PCIe 4.0",
        *(125e12, 24 * GIB, 600e9, 32e9, A100.assumed("A100")),
    ),
    DataSheet(
        "a30",
        "NVIDIA A30, bf16 dense (data sheet: 165 TFLOP/s; tf32 82, fp32 10.3), with NVLink of 200 GB/s",
        *(165e12, 24 * GIB, 933e9, 100e9, A100.assumed("A100")),
    ),
    DataSheet(
        "a40",
        "NVIDIA A40, bf16 dense (data sheet: 149.7 TFLOP/s; tf32 74.8, fp32 37.4), on PCIe 4.0",
        *(149.7e12, 48 * GIB, 696e9, 32e9, A100.assumed("A100")),
    ),
    DataSheet(
        "l4",
        "NVIDIA L4, bf16 dense (data sheet: 242 TFLOP/s with sparsity, of which half is dense; fp8 242.5, fp32 30.3), on "
        "PCIe 4.0",
        *(121e12, 24 * GIB, 300e9, 32e9, HOPPER.assumed("H100")),
    ),
    DataSheet(
        "l40s",
        "NVIDIA L40S, bf16 dense (data sheet: 362 TFLOP/s; fp8 733, tf32 183, fp32 91.6), on PCIe 4.0",
        *(362.05e12, 48 * GIB, 864e9, 32e9, HOPPER.assumed("H100")),
    ),
    DataSheet(
        "rtx4090",
        "NVIDIA GeForce RTX 4090, bf16 dense with fp32 sums (Ada's white paper: 165.2 TFLOP/s; fp8 330.3, fp32 82.6)",
        *(165.2e12, 24 * GIB, 1008e9, None, HOPPER.assumed("H100")),
    ),
    DataSheet(
        "rtx6000-ada",
        "NVIDIA RTX 6000 Ada, bf16 dense (data sheet: 1457 TFLOP/s of fp8 with sparsity, of which a quarter is this; "
        "fp32 91.1), on PCIe 4.0",
        *(364.25e12, 48 * GIB, 960e9, 32e9, HOPPER.assumed("H100")),
    ),
    DataSheet(
        "mi250x",
        "AMD Instinct MI250X, both of its dies, bf16 (data sheet: 383 TFLOP/s; fp32 95.7 in matrices, 47.9 else), with eight links "
        "of 100 GB/s. Frameworks see each die as a GPU",
        *(383e12, 128 * GIB, 3.2768e12, 400e9, MI250X),
    ),
    DataSheet(
        "mi300x",
        "AMD Instinct MI300X, bf16 dense (data sheet: 1307.4 TFLOP/s; fp8 2614.9, tf32 653.7, fp32 163.4), with seven links of "
        "128 GB/s to the others of a machine",
        *(1307.4e12, 192 * GIB, 5.3e12, 448e9, HOPPER.assumed("H100")),
    ),
)
