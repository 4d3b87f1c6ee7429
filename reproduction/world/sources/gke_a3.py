"""Machines of 8 H100 in a cloud, with one card and plain sockets (TCP), or with a card for each GPU (TCPXO)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from reproduction.world.cells import By, Cell, Planned, Row, Source, WhatIf, unknown
from reproduction.world.sources.collectives import busbw_GBps, call_settings, size_of
from reproduction.world.sources.training import NCCL_LATENCIES, NODES, number_in

NAME = "gke_a3"
GPUS = 8
LATENCY_ROW = ("all-reduce of 8 bytes", "TCP, 2 nodes")
COMPUTE_ROW = ("DDP weak", "TCP, 1 node")
"""The two fitted rows: `costs.message_latency` of the scenarios, and the time of a step in `gke-training.toml`."""
BY_ALGORITHM = re.compile(r"TCP, (?P<gpus>\d+) GPUs, (?P<algorithm>ring|tree), (?P<size>\d+ \w+)")
ALGORITHMS = {"ring": "ring", "tree": "double-tree"}
GIB = 1 << 30


def _call(nodes: int, size_bytes: int, *, cards: int, algorithm: str, value: str) -> Planned:
    settings = (*call_settings(nodes, GPUS, size_bytes, cards), f"strategy.options.algorithm={algorithm}")
    if algorithm == "ring" and cards > 1 and nodes > 1:
        settings += (f"strategy.options.channels={cards}",)
    # With a card for each GPU, machines send more together than the virtual clock carries.
    by = By.PACKETS if nodes > 1 and cards == 1 else By.ESTIMATE
    to_unit = busbw_GBps(nodes * GPUS, size_bytes) if value == "GB/s" else lambda time_s: time_s * 1e3
    return Planned("gke-call", settings, to_unit, by=by)


def _training(row: Row, nodes: int) -> Planned:
    settings = [f"cluster.workers={nodes * GPUS}", f"cluster.workers_per_host={GPUS}"]
    if row.what.startswith("FSDP"):
        options = ("parameters=fp32", "gradients=fp32", "prefetch=0", "reshard_after_forward=false")
        settings += ["strategy.name=fsdp", *(f"strategy.options.{option}" for option in options)]
    by = By.PACKETS if nodes > 1 else By.ESTIMATE
    return Planned("gke-training", tuple(settings), lambda time_s: time_s * 1e3, by=by)


def cell(row: Row) -> Cell:
    """The cell of a row. Raises InputFault for one of another form."""
    fitted = {LATENCY_ROW: "time for a message", COMPUTE_ROW: "compute time"}.get((row.what, row.setting), "")
    if found := BY_ALGORITHM.fullmatch(row.setting):
        size_bytes, algorithm = size_of(found["size"]), ALGORITHMS[found["algorithm"]]
        planned = _call(int(found["gpus"]) // GPUS, size_bytes, cards=1, algorithm=algorithm, value=row.unit)
        return Cell(planned, series=f"{algorithm} by TCP")
    nodes = number_in(row, NODES)
    if row.what.startswith(("DDP", "FSDP")) and row.setting.startswith("TCP, "):
        return Cell(_training(row, nodes), fitted, series=row.what.partition(",")[0])
    if not row.what.startswith("all-reduce"):
        raise unknown(row)
    cards = GPUS if row.setting.startswith("TCPXO") else 1
    size_bytes = 8 if "8 bytes" in row.what else GIB
    # On two machines with a card for each GPU a tree, or two levels, puts half as many bytes on each card as a ring.
    algorithm = "two-level" if cards > 1 and nodes == 2 and size_bytes == GIB else "ring"
    planned = _call(nodes, size_bytes, cards=cards, algorithm=algorithm, value=row.unit)
    other = "ring" if algorithm == "two-level" else "two-level"
    other_planned = _call(nodes, size_bytes, cards=cards, algorithm=other, value=row.unit)
    what_ifs: tuple[WhatIf, ...] = ()
    if size_bytes == GIB and nodes > 1:
        free = replace(planned, settings=(*planned.settings, "costs.local_rate.value=1000000GB/s"))
        what_ifs = (
            WhatIf(f"the algorithm {other}", other_planned),
            WhatIf("no time inside machines, as if levels overlapped wholly", free),
        )
    return Cell(planned, fitted, what_ifs, series=f"{row.what}, {row.setting.partition(',')[0]}")


def further() -> Sequence[Row]:
    """Both networks on 1 to 4 machines, and both algorithms by size."""
    rows = []
    for nodes in (1, 2, 3, 4):
        text = f"{nodes} node{'s' if nodes > 1 else ''}"
        for network in ("TCP", "TCPXO"):
            rows.append(Row(NAME, "all-reduce 1 GiB busbw", f"{network}, {text}", "busbw", "GB/s"))
            rows.append(Row(NAME, "all-reduce of 8 bytes", f"{network}, {text}", "time", "ms"))
        for what in ("DDP", "FSDP"):
            rows.append(Row(NAME, f"{what}, 1,090,752,512 float32", f"TCP, {text}", "time", "ms"))
    for algorithm in ALGORITHMS:
        for size in ("1 MB", "4 MB", "16 MB", "32 MB", "64 MB", "128 MB", "256 MB"):
            rows.append(Row(NAME, "busbw", f"TCP, 24 GPUs, {algorithm}, {size}", "busbw", "GB/s"))
    return rows


GKE_A3 = Source(
    name=NAME,
    title="Machines of 8 H100 in a cloud",
    set_up=(
        "NVLink inside a machine. TCP: one card of 200 Gbit/s, plain sockets, NCCL 2.22. TCPXO: 8 cards of 200 Gbit/s. DDP "
        "and FSDP: 8 blocks 4096 to 16384 to 4096, 1,090,752,512 float32 parameters, 16 samples for each GPU, AdamW."
    ),
    not_emulated="GPUDirect and the protocol of TCPXO (an ideal network stands in), staging copies of sockets, NCCL's "
    "choice of algorithm and protocol by size, NVLink SHARP",
    constants=(
        "time for a message over the network: fitted on the all-reduce of 8 bytes, TCP, 2 nodes; a step's computation: "
        "fitted on DDP weak, TCP, 1 node",
        "a ring for each card; with a card for each GPU on two machines two levels, which put S on a machine's cards "
        "where a ring puts 2 S (N - 1) / N",
        "NVLink 450 GB/s in each direction: data sheet of the H100",
        "MTU 8896, the largest of this cloud",
        NCCL_LATENCIES,
    ),
    cell=cell,
    further=further,
)
