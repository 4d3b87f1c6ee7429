"""Tokens to experts and back, by DeepEP's kernels on machines of 8 H800."""

from __future__ import annotations

import re
from collections.abc import Sequence

from reproduction.world.cells import By, Cell, Planned, Row, Source, printed_value, unknown

NAME = "deepep"
HIDDEN, TOP, GPUS = 7168, 8, 8
TOKENS = {"normal kernels": 4096, "low latency": 128}
VALUE_BYTES = {"dispatch": 1, "combine": 2}
"""FP8 to the experts, BF16 back."""
SCALE_BYTES = HIDDEN // 128 * 4
"""Of the low-latency dispatch: a float32 for each 128 values, so that a dispatch is 7.57 MB as printed."""
NVLINK_GBPS = 8 * 20.6
"""Of a GPU each way: an H800 has 8 of the H100's 18 links (data sheets: 400 and 900 GB/s), and NCCL takes a link for 20.6
GB/s (src/graph/topo.h, `SM90_NVLINK_BW`), not for the 25 that are on the sheet."""
FITTED = ("low latency, dispatch", "EP8")
WHAT = re.compile(r"(normal kernels|low latency), (dispatch|combine)")


def call_bytes(kernel: str, direction: str) -> int:
    """What a GPU puts in: each token once for each of its experts."""
    scales = SCALE_BYTES if (kernel, direction) == ("low latency", "dispatch") else 0
    return TOKENS[kernel] * TOP * (HIDDEN * VALUE_BYTES[direction] + scales)


def call_s() -> float:
    """What a call takes apart from its bytes, such as launches and waits: what the fitted row has left."""
    bytes_s = (1 - 1 / GPUS) * call_bytes("low latency", "dispatch") / (NVLINK_GBPS * 1e9)
    return printed_value(NAME, *FITTED) / 1e6 - bytes_s


def cell(row: Row) -> Cell:
    """The cell of a row. Raises InputFault for one of another form."""
    found, ranks = WHAT.fullmatch(row.what), re.fullmatch(r"EP(\d+)", row.setting)
    if found is None or ranks is None:
        raise unknown(row)
    kernel, direction, count = found[1], found[2], int(ranks[1])
    size_bytes = call_bytes(kernel, direction)
    # At the bottleneck: what leaves for GPUs of other machines by its card; on one machine, for others by NVLink.
    leaving = 1 - GPUS / count if count > GPUS else 1 - 1 / count
    rate, apart_s = kernel == "normal kernels", call_s()
    settings = (
        f"cluster.workers={count}",
        f"cluster.workers_per_host={GPUS}",
        f"cluster.nics_per_host={GPUS if count > GPUS else 1}",
        f"strategy.options.size={size_bytes // count * count}B",
        f"strategy.options.algorithm={'direct' if count > GPUS else 'pairwise'}",
        f"costs.local_rate.value={NVLINK_GBPS:g}GB/s",
    )
    planned = Planned(
        "deepep-call",
        settings,
        (lambda time_s: leaving * size_bytes / (time_s + apart_s) / 1e9)
        if rate
        else (lambda time_s: (time_s + apart_s) * 1e6),
        by=By.ESTIMATE,
    )
    return Cell(planned, "time of a call" if (row.what, row.setting) == FITTED else "", series=row.what)


def further() -> Sequence[Row]:
    """Both kernels and directions among 8 to 128 GPUs."""
    rows = []
    for kernel, quantity, unit in (("normal kernels", "rate", "GB/s"), ("low latency", "time", "us")):
        for direction in ("dispatch", "combine"):
            for ranks in (8, 16, 32, 64, 128):
                rows.append(Row(NAME, f"{kernel}, {direction}", f"EP{ranks}", quantity, unit))
    return rows


DEEPEP = Source(
    name=NAME,
    title="DeepEP's kernels on machines of 8 H800",
    set_up=(
        "8 H800 for each machine, a card of 400 Gbit/s InfiniBand for each GPU. Normal kernels: 4096 tokens, hidden 7168, "
        "top-8 experts, FP8 to them, BF16 back, GB/s at the bottleneck. Low latency: 128 tokens."
    ),
    not_emulated="RDMA and GPUDirect (an ideal network stands in: 6.4 Tbit/s and more are beyond the virtual clock), the "
    "kernels themselves, and tokens that go to a machine once for several experts",
    constants=(
        f"NVLink {NVLINK_GBPS:g} GB/s in each direction: 8 links, at NCCL's rate for those of an H100 (src/graph/topo.h); a card "
        "50 GB/s",
        f"{call_s() * 1e6:.0f} us for each call apart from its bytes: fitted on low latency, dispatch, EP8",
        "experts are chosen evenly; every GPU sends to all others at once, or on one machine in turn, because there each "
        "connection has NVLink's rate to itself; messages have no latency",
    ),
    cell=cell,
    further=further,
)
