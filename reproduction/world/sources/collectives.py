"""What scenarios of single collectives share: bus bandwidth, and settings of a call among machines."""

from __future__ import annotations

from collections.abc import Callable

GB = 1e9
LL_MOST_BYTES = 64 << 10
"""NCCL's protocol LL is for small calls, Simple for large ones; where it changes depends on the network. A size between
the two kinds of rows here."""
LL_NVLINK, SIMPLE_NVLINK = "0.6us", "3.4us"
"""NCCL, src/graph/tuning.cc (hwLat): ring by NVLink."""


def busbw_GBps(ranks: int, size_bytes: float) -> Callable[[float], float]:  # noqa: N802 (GB/s)
    """Bus bandwidth of an all-reduce from its seconds, as nccl-tests define it."""
    return lambda time_s: 2 * (ranks - 1) / ranks * size_bytes / time_s / GB


def call_settings(machines: int, gpus: int, size_bytes: int, cards: int = 1) -> tuple[str, ...]:
    """Settings of a call among machines of `gpus` with so many cards.

    Channels are for cards: inside a machine each connection has the rate of NVLink to itself, so that several of a GPU
    would have it several times.
    """
    cards = cards if machines > 1 else 1
    return (
        f"cluster.workers={machines * gpus}",
        f"cluster.workers_per_host={gpus}",
        f"cluster.nics_per_host={cards}",
        f"strategy.options.size={size_bytes}B",
        f"costs.local_latency.value={LL_NVLINK if size_bytes <= LL_MOST_BYTES else SIMPLE_NVLINK}",
    )


def size_of(text: str) -> int:
    """Bytes of "64 MiB" and the like, binary and decimal."""
    number, unit = text.split()
    powers = {"B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "KB": 10**3, "MB": 10**6, "GB": 10**9}
    return round(float(number) * powers[unit])
