"""The all-reduce of BERT-Large's gradients, behind the backward pass, by number of machines and network."""

from __future__ import annotations

import re
from collections.abc import Sequence

from reproduction.world.cells import By, Cell, Planned, Row, Source, WhatIf, printed_value, unknown
from reproduction.world.sources.collectives import call_settings
from reproduction.world.sources.training import NCCL_LATENCIES

NAME = "bert_profile"
SIZE_BYTES = 2 * 336_000_000
"""336 M values of 16 bits."""
SETTING = re.compile(r"(?P<network>Ethernet|EDR), (?P<nodes>\d+) nodes, (?P<gpus>\d+) GPUs.*")
PAYLOAD = {"Ethernet": 1448 / 1538, "EDR": 4044 / 4134}
"""TCP's share of a line, at an MTU of 1500 and of 4096."""
LOCAL = {"Ethernet": "4.5GB/s", "EDR": "150GB/s"}
LOCAL_SOURCES = {
    "Ethernet": "NCCL 2.6 to 2.8, src/graph/topo.h: 9/12 of 6.0 GB/s between CPU sockets",
    "EDR": "data sheet of the V100: NVLink, 300 GB/s in both directions together",
}
FITTED = {
    "Ethernet": (
        "all-reduce; forward 35.71, backward 60.81, step 75.59 ms",
        "Ethernet, 16 nodes, 64 GPUs, batch 16, accumulation 1",
    ),
    "EDR": (
        "all-reduce; forward 32.81, backward 59.99, step 57.79 ms",
        "EDR, 8 nodes, 64 GPUs, batch 16, accumulation 1",
    ),
}
"""A row of each network; the first one fixes the host's rate for the source."""


def host_rate(network: str) -> str:
    """The line rate at which a ring over all GPUs would take the time that the network's row prints."""
    what, setting = FITTED[network]
    found = SETTING.fullmatch(setting)
    assert found is not None
    gpus = int(found["gpus"])
    bytes_per_s = 2 * (gpus - 1) / gpus * SIZE_BYTES / (printed_value(NAME, what, setting) / 1e3)
    return f"{bytes_per_s * 8 / PAYLOAD[network] / 1e6:.0f}mbit"


def cell(row: Row) -> Cell:
    """The cell of a row. Raises InputFault for one of another form."""
    found = SETTING.fullmatch(row.setting)
    if found is None or not row.what.startswith("all-reduce"):
        raise unknown(row)
    network, nodes, gpus = found["network"], int(found["nodes"]), int(found["gpus"])

    def planned(rate: str) -> Planned:
        settings = (
            *call_settings(nodes, gpus // nodes, SIZE_BYTES),
            f"fabric.rate={rate}",
            f"fabric.mtu_bytes={1500 if network == 'Ethernet' else 4096}",
            "strategy.options.element=2",
            f"costs.local_rate.value={LOCAL[network]}",
            f"costs.local_rate.source={LOCAL_SOURCES[network]}",
        )
        by = By.PACKETS if nodes > 1 else By.ESTIMATE
        return Planned("bert-call", settings, lambda time_s: time_s * 1e3, by=by)

    is_fitted = (row.what, row.setting) == FITTED["Ethernet"]
    main = planned(host_rate("Ethernet") if network == "Ethernet" else "100gbit")
    what_ifs: tuple[WhatIf, ...] = ()
    if network == "EDR" and nodes > 1 and (row.what, row.setting) != FITTED["EDR"]:
        what_ifs = (WhatIf("the host's rate of the EDR row of 8 nodes", planned(host_rate("EDR")), of_series=True),)
    if not is_fitted:
        what_ifs += (WhatIf("398 tensors reduced one by one", _by_tensor(main, nodes, gpus)),)
    return Cell(main, "host's rate" if is_fitted else "", what_ifs, series=network)


def _by_tensor(main: Planned, nodes: int, gpus: int) -> Planned:
    kept = tuple(setting for setting in main.settings if setting.startswith(("fabric.", "costs.local_rate")))
    machines = (f"cluster.workers={gpus}", f"cluster.workers_per_host={gpus // nodes}")
    return Planned("bert-tensors", (*machines, *kept), main.value, by=By.ESTIMATE)


def further() -> Sequence[Row]:
    """Both networks on 1 to 16 machines."""
    rows = []
    for network, gpus, most in (("Ethernet", 4, 16), ("EDR", 8, 8)):
        nodes = 1
        while nodes <= most:
            rows.append(Row(NAME, "all-reduce", f"{network}, {nodes} nodes, {nodes * gpus} GPUs", "all-reduce", "ms"))
            nodes *= 2
    return rows


BERT_PROFILE = Source(
    name=NAME,
    title="BERT-Large's all-reduce on Ethernet and EDR",
    set_up=(
        "V100, 336 M values in 16 bits, reduced behind the backward pass. Ethernet: 40 GbE, 4 GPUs for each machine, TCP, "
        "with an effective rate far below the line. EDR: 100 Gbit/s InfiniBand, 8 GPUs for each machine."
    ),
    not_emulated="RDMA and GPUDirect on EDR (TCP on a lossless network stands in), what a host's TCP costs, PCIe, tensors "
    "that are reduced one by one",
    constants=(
        "Ethernet: the host's rate is fitted on the row of 16 nodes; EDR: its line rate, not fitted",
        "inside a machine: on Ethernet 4.5 GB/s (NCCL, src/graph/topo.h, GPUs at two CPU sockets without NVLink); on "
        "EDR 150 GB/s (data sheet of the V100 with NVLink)",
        "a ring over all GPUs, machine by machine",
        NCCL_LATENCIES,
    ),
    cell=cell,
    further=further,
)
