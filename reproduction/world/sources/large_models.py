"""Large models: torchtitan's Llama 3.1, GPT-3 175B of Megatron-LM's paper, and PipeDream's pipelines."""

from __future__ import annotations

from collections.abc import Sequence

from gradwire.workloads.models import model
from reproduction.world.cells import By, Cell, Planned, Row, Source, Unexpressed, WhatIf, printed_value, unknown
from reproduction.world.sources.training import GPUS, NCCL_LATENCIES, given_time, number_in

TITAN, MEGATRON, PIPEDREAM = "torchtitan", "megatron_sc21", "pipedream"
TOKENS, BATCH, MACHINE = 8192, 2, 8
OTHER_KERNELS = (
    "compiled and float8 kernels take another compute time, which no device here has, and the source's one fitted row "
    "is of other kernels"
)
TOGETHER = "FSDP and tensor groups together are not in gradwire: `fsdp` has no tensor groups, and `megatron` shards no parameters"
STAGES = "405B has 126 blocks, which 8 stages do not divide: `megatron` wants equal stages"
TITAN_FITTED = ("8B FSDP", "8 GPUs")


TITAN_MODEL, TITAN_BLOCKS, TITAN_KEPT = "llama3-8b", 32, 4
"""Blocks of the model, and those of plans for several machines."""


def _share_of_block() -> float:
    """Of the model's operations."""
    layers = model(TITAN_MODEL).layers
    return sum(layer.flops for layer in layers if layer.name.startswith("block0/")) / sum(
        layer.flops for layer in layers
    )


def _titan_step(row: Row, gpus: int) -> Planned:
    alone_s = BATCH * TOKENS / printed_value(TITAN, row.what, "8 GPUs")
    cards = MACHINE if gpus > MACHINE else 1
    # All blocks in one machine; of a larger plan only some, and the others take what they compute.
    kept = TITAN_KEPT if gpus > MACHINE else TITAN_BLOCKS
    rest_s = alone_s * (TITAN_BLOCKS - kept) * _share_of_block()
    settings = (
        f"cluster.workers={gpus}",
        f"model.blocks={kept}",
        f"cluster.nics_per_host={cards}",
        f"strategy.options.algorithm={'two-level' if gpus > MACHINE else 'ring'}",
        *given_time(alone_s, f"{TITAN}: {row.what}, 8 GPUs, whose communication is taken to be hidden"),
    )
    return Planned("torchtitan", settings, lambda time_s: BATCH * TOKENS / (time_s + rest_s), by=By.ESTIMATE)


def titan_cell(row: Row) -> Cell:
    """The cell of a row of torchtitan."""
    if row.what.startswith("405B"):
        return Cell(Unexpressed(STAGES))
    if row.what.startswith("70B"):
        return Cell(Unexpressed(TOGETHER))
    if not row.what.startswith("8B"):
        raise unknown(row)
    if row.what == TITAN_FITTED[0]:
        planned = _titan_step(row, number_in(row, GPUS))
        return Cell(planned, "compute time" if row.setting == TITAN_FITTED[1] else "", series=row.what)
    if row.setting == "8 GPUs" or not GPUS.search(row.setting):
        return Cell(Unexpressed(OTHER_KERNELS), series=row.what)
    own = WhatIf("the compute time of its series' own row of 8 GPUs", _titan_step(row, number_in(row, GPUS)), True)
    return Cell(Unexpressed(OTHER_KERNELS), what_ifs=(own,), series=row.what)


def titan_further() -> Sequence[Row]:
    """The three programs of 8B on 8 to 128 GPUs."""
    programs = ("8B FSDP", "8B FSDP, compile", "8B FSDP, compile, float8")
    return [
        Row(TITAN, what, f"{gpus} GPUs", "throughput", "tokens/s/GPU")
        for what in programs
        for gpus in (8, 16, 32, 64, 128)
    ]


TORCHTITAN = Source(
    name=TITAN,
    title="Llama 3.1 on machines of 8 H100",
    set_up="H100, 8 for each machine, 400 Gbit/s for each GPU; Llama 3.1, sequences of 8192 tokens, 2 for each GPU.",
    not_emulated="RDMA and GPUDirect (an ideal network stands in), float8 and compiled kernels, and how much slower a "
    "kernel is while a collective runs on the same GPU",
    constants=(
        "a step's computation: fitted on 8B FSDP, 8 GPUs, as if all its communication were hidden",
        "collectives in two levels beyond a machine, so that every card carries its share",
        f"beyond a machine {TITAN_KEPT} of {TITAN_BLOCKS} blocks, which keep their times; the others take what they compute",
        "parameters gathered in bf16, gradients reduced in fp32: torchtitan's default",
        NCCL_LATENCIES,
    ),
    cell=titan_cell,
    computes=lambda _: True,
    further=titan_further,
)

LAYERS, WIDTH, WORDS, SEQUENCE, SAMPLES = 96, 12288, 51200, 2048, 1536
KEPT = 2
"""Blocks of `megatron-zero3.toml`."""
PTD = (
    "tensor, pipeline and data groups of 175B: 384 microbatches through 96 blocks are more than 16 million ops, and a plan "
    "may have 8 million"
)


def flop_of_blocks(blocks: int, samples: int) -> float:
    """Operations of a step of so many blocks, as the paper counts them: 96 s h^2 (1 + s / 6 h) for each, with a second
    forward pass; what is outside of blocks left out."""
    return 96 * samples * SEQUENCE * blocks * WIDTH**2 * (1 + SEQUENCE / (6 * WIDTH))


def megatron_cell(row: Row) -> Cell:
    """The cell of a row of Megatron-LM's paper."""
    if "PTD-P" in row.what:
        return Cell(Unexpressed(PTD))
    gpus = number_in(row, GPUS)
    batch = SAMPLES // gpus
    rate = 0.44 * 312e12
    seconds = flop_of_blocks(LAYERS, batch) / rate
    settings = (
        f"cluster.workers={gpus}",
        f"model.batch={batch}",
        *given_time(seconds, "device a100: 0.44 of 312 TFLOP/s, operations as the paper counts them"),
    )
    # Of the blocks that are not kept, each takes what it computes.
    flop, rest_s = flop_of_blocks(LAYERS, batch), seconds * (LAYERS - KEPT) / LAYERS
    planned = Planned("megatron-zero3", settings, lambda time_s: flop / (time_s + rest_s) / 1e12, by=By.ESTIMATE)
    return Cell(planned, series=row.what)


MEGATRON_SC21 = Source(
    name=MEGATRON,
    title="GPT-3 175B on machines of 8 A100",
    set_up="DGX A100, 8 cards of 200 Gbit/s InfiniBand for each machine; GPT-3 175B, sequences of 2048, 1536 in a batch.",
    not_emulated="RDMA and GPUDirect (an ideal network stands in), memory, and how much slower a kernel is while a "
    "collective runs on the same GPU",
    constants=(
        "137 TFLOP/s for each GPU: device a100 (`gradwire devices`), of the same paper's Table 1, not fitted",
        f"{KEPT} of 96 blocks, which keep their times; the others take what they compute",
        "collectives in two levels, so that every card carries its share",
        NCCL_LATENCIES,
    ),
    cell=megatron_cell,
    computes=lambda _: True,
)


def pipedream_cell(_: Row) -> Cell:
    """The cell of a row of PipeDream."""
    return Cell(
        Unexpressed(
            "pipelines whose replicated stages exchange weights of several versions and never flush (1F1B without a flush) "
            "are not in gradwire: `megatron` flushes after each step"
        )
    )


PIPEDREAM_SOURCE = Source(
    name=PIPEDREAM,
    title="Pipelines with replicated stages",
    set_up="A: Titan X, 25 GbE; B: V100, 10 GbE; 1F1B with replicated stages and without a flush.",
    not_emulated="the schedule itself",
    constants=(),
    cell=pipedream_cell,
    computes=lambda _: True,
)
