"""Machines of 8 H100 in a cloud, with one card and plain sockets (TCP), or with a card for each GPU (TCPXO)."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from gradwire.runs.ccl_machines import TRANSPORTS
from gradwire.workloads.engines.nccl.chooser import LL, SIMPLE
from gradwire.workloads.engines.nccl.duration import BURST_BYTES, SOCKETS_S
from reproduction.world.cells import By, Called, Cell, Planned, Row, Source, WhatIf, unknown
from reproduction.world.sources.collectives import busbw_GBps, size_of
from reproduction.world.sources.training import NODES, number_in

NAME = "gke_a3"
GPUS = 8
MTU_BYTES = 8896
HOST_ROW = ("all-reduce 1 GiB busbw", "TCP, 2 nodes")
COMPUTE_ROW = ("DDP weak", "TCP, 1 node")
"""The two fitted rows: `BURST`, and the time of a step in `gke-training.toml`."""
BURST = f"{TRANSPORTS['tcp'].burst_s * 1e6:g}us"
"""What a host takes for each burst of up to 64 KiB, fitted on `HOST_ROW` (`gradwire.runs.ccl.TRANSPORTS`)."""
HOST_LINE_BPS = BURST_BYTES / TRANSPORTS["tcp"].burst_s * 8 * (MTU_BYTES + 38) / (MTU_BYTES - 52)
"""The line rate at which whole bursts leave; 52 bytes of an MTU are headers, and 38 around it are Ethernet's."""
CLOUD_LATENCY = "43us"
"""What a message takes between two machines of this cloud, a thread that wakes up for it included: half of a round trip of
netperf (TCP_RR, 50th percentile 86 us, one zone, internal addresses), as the provider's own tutorial prints it:
GoogleCloudPlatform/PerfKitBenchmarker, tutorials/beginner_walkthrough/README.md."""
LATENCY_OF_SERIES = f"{TRANSPORTS['tcp'].crossing_s * 1e6:g}us"
"""With this, the row of 8 bytes by TCP on 2 nodes takes its printed time."""
BY_ALGORITHM = re.compile(r"TCP, (?P<gpus>\d+) GPUs, (?P<algorithm>ring|tree), (?P<size>\d+ \w+)")


def _call(nodes: int, size: str, cards: int, unit: str, latency: str = CLOUD_LATENCY, algorithm: str = "") -> Called:
    options: list[tuple[str, str | int]] = [("machines", nodes), ("nic", "200gbit"), ("mtu_bytes", MTU_BYTES)]
    if cards == 1:
        options += [("nics", 1), ("transport", "tcp"), ("burst_cost", BURST)]
    options += [("latency", latency)]
    if algorithm:
        options += [("variables", f"NCCL_ALGO={algorithm.title()}")]
    return Called(tuple(options), size, _value(nodes, size, unit))


def _value(nodes: int, size: str, unit: str) -> Callable[[float], float]:
    return busbw_GBps(nodes * GPUS, size_of(size)) if unit == "GB/s" else lambda time_s: time_s * 1e3


def _training(row: Row, nodes: int) -> Planned:
    settings = [f"cluster.workers={nodes * GPUS}", f"cluster.workers_per_host={GPUS}"]
    if row.what.startswith("FSDP"):
        options = ("parameters=fp32", "gradients=fp32", "prefetch=0", "reshard_after_forward=false")
        settings += ["strategy.name=fsdp", *(f"strategy.options.{option}" for option in options)]
    settings += [f"fabric.rate={HOST_LINE_BPS / 1e6:.0f}mbit"]
    return Planned("gke-training", tuple(settings), lambda time_s: time_s * 1e3, by=By.ESTIMATE)


def cell(row: Row) -> Cell:
    """The cell of a row. Raises InputFault for one of another form."""
    fitted = {HOST_ROW: "host's rate", COMPUTE_ROW: "compute time"}.get((row.what, row.setting), "")
    if found := BY_ALGORITHM.fullmatch(row.setting):
        nodes, size, algorithm = int(found["gpus"]) // GPUS, found["size"], found["algorithm"]
        series = f"{algorithm} by TCP"
    else:
        nodes = number_in(row, NODES)
        if row.what.startswith(("DDP", "FSDP")) and row.setting.startswith("TCP, "):
            return Cell(_training(row, nodes), fitted, series=row.what.partition(",")[0])
        if not row.what.startswith("all-reduce"):
            raise unknown(row)
        size, algorithm = "8 B" if "8 bytes" in row.what else "1 GiB", ""
        series = f"{row.what}, {row.setting.partition(',')[0]}"
    cards = GPUS if row.setting.startswith("TCPXO") else 1
    planned = _call(nodes, size, cards, row.unit, algorithm=algorithm)
    what_ifs: tuple[WhatIf, ...] = ()
    is_latency_row = (row.what, row.setting) == ("all-reduce of 8 bytes", "TCP, 2 nodes")
    if nodes > 1 and not fitted and not is_latency_row:
        slower = _call(nodes, size, cards, row.unit, LATENCY_OF_SERIES, algorithm)
        text = f"the latency of the row of 8 bytes by TCP on 2 nodes, {LATENCY_OF_SERIES.removesuffix('us')} us"
        what_ifs = (WhatIf(text, slower, of_series=True),)
    return Cell(planned, fitted, what_ifs, series=series)


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
    for algorithm in ("ring", "tree"):
        for size in ("1 MB", "4 MB", "16 MB", "32 MB", "64 MB", "128 MB", "256 MB"):
            rows.append(Row(NAME, "busbw", f"TCP, 24 GPUs, {algorithm}, {size}", "busbw", "GB/s"))
    return rows


EXAMINED = (
    "**What 8 bytes go through.** For a NIC of this cloud (PCI vendor 0x1ae0), NCCL 2.22 takes four threads with a socket each "
    "(`ncclNetSocketGetNsockNthread`, src/transport/net_socket.cc). The proxy's thread sends a message's size by another "
    "socket, then signals one of the four, which sleeps (`pthread_cond_signal`, `persistentSocketThread`); the receiver's proxy "
    "polls for the size, then signals a thread likewise, which polls for the data. The sender's wakes "
    "up while the size is under way, and the receiver's while the data are, so that a message takes the network's latency and one wake-up.",
    "**What NCCL's sockets take themselves: measured, and a cause of trees that were too fast.** NCCL 2.28.9 with two and three ranks on "
    "one H100, in another provider's virtual machine, reached its ranks by sockets on the loopback interface "
    "(`benchmarks/host/nccl_sockets.cu`). On top of half a round trip of TCP between two threads that sleep, 8.3 us, and of NCCL's "
    "table, a message took 5 us by LL and 11 to 20 us by Simple, and a call 4 us. All of that goes, and some of the half round trip, where "
    "no threads are signalled (`NCCL_SOCKET_NTHREADS=0`: the call took 24 in place of 43 us by LL, 48 in place of 82 by Simple). Without "
    "this time, the tree of 4 MB had 5.06 GB/s (+11.5 %), and 8 bytes took 122 us (-30 %).",
    "**What is left of 8 bytes: the network.** They would need 63 us for a message on top of that, 20 us more than the provider's "
    "netperf, which is between two small machines, which carry 2 Gbit/s. A wake-up of a thread is in netperf, and took 5 to 7 us where "
    "it came every 50 to 200 us, and 15 to 21 us every ms (`benchmarks/host/wake_up.c`, on the same machine). So the network of "
    "a large machine or its card takes most of the 20 us, and nothing is added.",
    "**One constant for both: not possible.** The ring of 4 MB sends 1,472 messages from each machine and takes 5 us for each, one "
    "after the other. If 63 us of a message were a processor's time, it would have 0.08 GB/s (printed 1.01). With the row of "
    "8 bytes fitted in place of that of 1 GiB, this would have 45.7 GB/s (printed 23.7), and the ring 9.9.",
    "**With 20 us**, which nccl-tests have between two V100 without virtual machines (issue 82), 8 bytes take 87.6 us by TCP and 65.2 by "
    "TCPXO, and the tree of 4 MB has 5.17 GB/s.",
)
"""From NCCL's source, and by `gradwire ccl` with other `--latency` and `--burst-cost`."""

GKE_A3 = Source(
    name=NAME,
    title="Machines of 8 H100 in a cloud",
    set_up=(
        "NVLink inside a machine. TCP: one card of 200 Gbit/s, plain sockets, NCCL 2.22. TCPXO: 8 cards of 200 Gbit/s. DDP "
        "and FSDP: 8 blocks 4096 to 16384 to 4096, 1,090,752,512 float32 parameters, 16 samples for each GPU, AdamW."
    ),
    not_emulated="GPUDirect, the protocol of TCPXO and its plugin (an ideal network stands in), NVLink SHARP but for its "
    "rate, and a host's processors but for one constant",
    constants=(
        f"a host takes {BURST.removesuffix('us')} us for each burst of up to 64 KiB, one after the other: fitted on the "
        "all-reduce of 1 GiB, TCP, 2 nodes; a step's computation: fitted on DDP weak, TCP, 1 node",
        "calls by `gradwire ccl`: the algorithm, protocol and chunks that NCCL 2.22 chooses; copies through sockets by PCI "
        "Express at 48 GB/s (NCCL, src/graph/topo.cc, generation 5)",
        f"{CLOUD_LATENCY.removesuffix('us')} us for a message on top of NCCL's table, on both networks: half of a round trip of "
        "netperf (TCP_RR, median 86 us) between two small machines of one zone, as the provider's tutorial prints it "
        "(GoogleCloudPlatform/PerfKitBenchmarker, tutorials/beginner_walkthrough). It has the network, and one thread that "
        "wakes up for each message",
        f"by TCP, what NCCL's sockets take themselves: {SOCKETS_S[LL] * 1e6:g} us for a message by LL and {SOCKETS_S[SIMPLE] * 1e6:g} us "
        "by Simple, measured with NCCL on one H100",
        "by series: with the latency of the row of 8 bytes by TCP on 2 nodes",
        "DDP and FSDP: the same by estimate, on an ideal network of the rate that hosts have",
        "MTU 8896, the largest of this cloud",
    ),
    cell=cell,
    computes=lambda what: what.startswith(("DDP", "FSDP")),
    further=further,
    examined=EXAMINED,
)
