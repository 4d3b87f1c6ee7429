"""The account of memory beside published runs that fitted, that did not, and whose memory is printed."""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest

from gradwire.documents import Document
from gradwire.scenario.loading import resolve
from gradwire.workloads.called_strategy import state_bytes_of
from gradwire.workloads.divisions.job_memory import job_memory
from gradwire.workloads.divisions.memory import Memory
from gradwire.workloads.job import Cluster
from gradwire.workloads.strategy import ADAM_BYTES
from gradwire.workloads.strategy_registry import strategy

GIB = 1 << 30
ZERO = "Rajbhandari et al., ZeRO, SC 2020"
TITAN = "https://github.com/pytorch/torchtitan, docs/performance.md"
LLAMA = "The Llama 3 Herd of Models, 2024, table 4 and section 3.3.2"
META = {"tensor": 8, "stages": 16, "microbatches": 16, "replica_batch": 16, "first_blocks": 7, "last_blocks": 7}
DEEPSEEK = {"stages": 16, "experts": 64, "microbatches": 120, "replica_batch": 120, "last_blocks": 1}
MEGATRON = {"sharded_optimizer": True, "sequence_parallel": True}


class PublishedRun(NamedTuple):
    """A run, and whether it fitted."""

    source: str
    model: str
    gpus: int
    strategy: str
    options: dict[str, Any]
    batch: int
    memory_gib: float
    fits: bool


RUNS = {
    "GPT-2 of 1.5 B by DDP": PublishedRun(
        f"{ZERO}, section 1: DP runs out of 32 GB beyond 1.4 B", "gpt2-xl", 64, "ddp", {}, 4, 32, False
    ),
    "GPT-3 175B, activations computed again": PublishedRun(
        "Narayanan et al., SC 2021, section 5.4: tensor 8, pipeline 12, A100 of 80 GB",
        "gpt3-175b",
        1536,
        "megatron",
        {"tensor": 8, "stages": 12, "microbatches": 96, "replica_batch": 96, "recompute": "full"},
        1,
        80,
        True,
    ),
    "GPT-3 175B, attention alone computed again": PublishedRun(
        "Korthikanti et al., 2022, table 3: tensor 8, pipeline 8, interleaved by 3, A100 of 80 GB",
        "gpt3-175b",
        64,
        "megatron",
        {"tensor": 8, "stages": 8, "chunks": 3, "microbatches": 64, "replica_batch": 64, **MEGATRON},
        1,
        80,
        True,
    ),
    "Llama 3 405B": PublishedRun(LLAMA, "llama3-405b", 16384, "megatron", {**META, **MEGATRON}, 1, 80, True),
    "Llama 3 8B, selective recomputation": PublishedRun(
        f"{TITAN}: 82.4 GiB with selective recomputation, H100 of 96 GB; without it is left out here",
        "llama3-8b",
        8,
        "fsdp",
        {},
        2,
        82.4,
        False,
    ),
    "Llama 3 8B, a sample each": PublishedRun(
        f"{TITAN}: 64 A100 of 80 GB, selective recomputation", "llama3-8b", 64, "fsdp", {}, 1, 80, True
    ),
    "Llama 3 70B, all activations computed again": PublishedRun(
        f"{TITAN}: 64 A100 of 80 GB, with full recomputation",
        "llama3-70b",
        64,
        "fsdp",
        {"recompute": "full"},
        1,
        80,
        True,
    ),
    "Llama 3 70B needs recomputation": PublishedRun(
        f"{TITAN}: 64 A100 of 80 GB, with full recomputation alone", "llama3-70b", 64, "fsdp", {}, 1, 80, False
    ),
    "Llama 3.1 405B by FSDP alone": PublishedRun(
        f"{TITAN}: out of memory on 128 H100 of 94 GB", "llama3-405b", 128, "fsdp", {}, 1, 94, False
    ),
    "DeepSeek-V3 keeps not all activations": PublishedRun(
        "DeepSeek-V3 Technical Report, 2024, section 3.2.3: normalisations and up-projections computed again, activations in FP8",
        "deepseek-v3",
        2048,
        "megatron",
        {**DEEPSEEK, "sharded_optimizer": True},
        1,
        80,
        False,
    ),
    "DeepSeek-V3, all computed again": PublishedRun(
        "DeepSeek-V3 Technical Report, 2024, section 3.2: pipeline 16, experts 64, ZeRO-1, H800 of 80 GB",
        "deepseek-v3",
        2048,
        "megatron",
        {**DEEPSEEK, "sharded_optimizer": True, "recompute": "full"},
        1,
        80,
        True,
    ),
}


def memory(run: PublishedRun) -> Memory:
    document: Document = {
        "title": "published",
        "cluster": {"workers": run.gpus, "workers_per_host": 8},
        "fabric": {"rate": "400gbit"},
        "model": {"name": run.model, "device": "h100", "batch": run.batch},
        "strategy": {"name": run.strategy, "options": run.options},
    }
    (point,) = resolve(document, "test", "test").points
    return job_memory(point.resolved.job, point.resolved.strategy, point.resolved.options)


@pytest.mark.parametrize("run", RUNS.values(), ids=RUNS)
def test_what_fitted_fits_and_what_did_not_does_not(run: PublishedRun) -> None:
    assert (memory(run).total_bytes <= run.memory_gib * GIB) == run.fits


@pytest.mark.parametrize(
    ("name", "printed_gb"),
    [("ddp", 120.0), ("zero1", 31.4), ("zero2", 16.6), ("fsdp", 1.88)],
)
def test_states_are_those_of_zeros_table_1(name: str, printed_gb: float) -> None:
    """7.5 billion parameters on 64 GPUs (Rajbhandari et al., SC 2020, table 1)."""
    chosen = strategy(name)
    each = ADAM_BYTES if name == "ddp" else state_bytes_of(chosen, Cluster(64), chosen.options())
    assert 7.5 * each == pytest.approx(printed_gb, rel=0.01)


def test_experts_are_divided_among_replicas() -> None:
    """Each of eight GPUs has one expert of eight, all states of it, and an eighth of what the optimizer keeps of the rest."""
    run = PublishedRun("", "mixtral-8x7b", 8, "megatron", {"experts": 8, "sharded_optimizer": True}, 1, 80, False)
    expert = 32 * 3 * 4096 * 14336
    rest = 46_702_792_704 - 8 * expert
    needed = memory(run)
    assert needed.weights_bytes == pytest.approx(2 * (rest + expert))
    assert needed.gradients_bytes == pytest.approx(4 * (rest + expert))
    assert needed.optimizer_bytes == pytest.approx(12 * (rest / 8 + expert))
