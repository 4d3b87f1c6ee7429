"""Real hosts of a cloud with tc on their egress: Gloo as programs, and NCCL by its sockets or, on many hosts, as plans."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import product

from reproduction.world import gloo_rows, nccl_rows
from reproduction.world.cells import Cell, Planned, Row, Source, Timed, Unexpressed, unknown

NETEM_OVERHEAD = 9039 / 9015
"""A packet of 9,001 bytes is 9,015 for netem, which counts the Ethernet header, and 9,039 for a line of gradwire's,
which counts preamble, FCS and gap as well. So a rate of netem's is a line rate that is larger by as much."""
CLOUD_PORT_BPS = 10e9
"""The instance type's "up to 10 Gbit/s"."""
CLOUD_DELAY_S = 0.1e-3
"""Of the default network, from host to host: "about 0.1 ms"."""
NETEM_LINKS = 4
"""Links between two hosts where each has a leaf for itself, whose uplink stands in for the host's netem: what waits in netem no
longer counts as its socket's, and so TCP's small queues do not hold back what follows it, as they do in a host's port."""

WHAT = re.compile(r"(?P<library>gloo|nccl) (?P<call>[a-z0-9-]+), (?P<mib>\d+) MiB, (?P<hosts>\d+) hosts")
DELAY, RATE = re.compile(r"delay (?P<ms>[\d.]+) ms"), re.compile(r"rate (?P<gbit>[\d.]+) Gbit/s")
CALLS = ("all-reduce", "broadcast", "reduce", "p2p")

GLOO_MOST_HOSTS = 8
GLOO_TOO_MANY = (
    "real PyTorch with Gloo on 16 hosts wants 11 GiB of memory, and on 32 hosts 20 GiB, more than `gradwire reproduce` takes "
    f"by itself; `{gloo_rows.ALONE} --further --only ROW` runs one"
)
GLOO_COSTS = "what a host's kernel costs but for copies and wake-ups"
WIDE_AREA = (
    "a region's way out and an IPsec tunnel limit the rate, and neither limit is part of the set-up: a plan would only "
    "repeat an assumed rate"
)
NO_GPU = "PCIe between GPU and host, staging copies, what NCCL's threads cost a processor"


def settings_of(row: Row) -> tuple[str, ...]:
    """The scenario's settings for a row of NCCL's. Raises InputFault for one that is of another form."""
    found = WHAT.fullmatch(row.what)
    if found is None:
        raise unknown(row)
    call = (
        f"cluster.workers={found['hosts']}",
        f"strategy.options.collective={found['call']}",
        f"strategy.options.size={found['mib']}MiB",
    )
    if row.setting == "default":
        return call
    delay, rate = DELAY.search(row.setting), RATE.search(row.setting)
    if not (delay or rate):
        raise unknown(row)
    one_way_s = CLOUD_DELAY_S + (float(delay["ms"]) / 1e3 if delay else 0.0)
    line_bps = min(CLOUD_PORT_BPS, float(rate["gbit"]) * 1e9 * NETEM_OVERHEAD) if rate else CLOUD_PORT_BPS
    return (
        *call,
        "fabric.topology=leaf-spine",
        f"fabric.leaves={found['hosts']}",
        "fabric.spines=1",
        f"fabric.oversubscription={CLOUD_PORT_BPS / line_bps:.6g}",
        f"fabric.delay={one_way_s / NETEM_LINKS * 1e6:.0f}us",
    )


def cell(row: Row) -> Cell:
    """The cell of a row. Raises InputFault for one of another form."""
    if "Oregon" in row.what:
        return Cell(Unexpressed(WIDE_AREA))
    if row.what.startswith("gloo "):
        return _of_gloo(row)
    series = row.what.partition(",")[0]
    by_sockets = _row_of_sockets(row)
    if row.printed is not None or by_sockets.hosts <= nccl_rows.MOST_HOSTS:
        return Cell(nccl_rows.programs(by_sockets), not_emulated=NO_GPU, series=series)
    planned = Planned("tc-cluster-nccl", settings_of(row), lambda time_s: time_s * 1e3, Timed.CALL)
    return Cell(planned, not_emulated=NO_GPU, series=series)


def _row_of_sockets(row: Row) -> gloo_rows.Row:
    found = WHAT.fullmatch(row.what)
    if found is None or found["call"] not in CALLS:
        raise unknown(row)
    printed = float("nan") if row.printed is None else row.printed
    return gloo_rows.Row(found["call"], int(found["mib"]), int(found["hosts"]), row.setting, printed, "nccl")


def _of_gloo(row: Row) -> Cell:
    found = WHAT.fullmatch(row.what)
    if found is None or found["call"] not in CALLS:
        raise unknown(row)
    hosts, printed = int(found["hosts"]), float("nan") if row.printed is None else row.printed
    if hosts > GLOO_MOST_HOSTS:
        return Cell(Unexpressed(GLOO_TOO_MANY, program=True))
    of_gloo = gloo_rows.Row(found["call"], int(found["mib"]), hosts, row.setting, printed)
    return Cell(gloo_rows.programs(of_gloo), of_gloo.fitted, not_emulated=GLOO_COSTS, series=row.what.partition(",")[0])


def further() -> Sequence[Row]:
    """The tables' other cells: both libraries, each call and setting, and the numbers of hosts."""
    shaped = ("default", "delay 1 ms, rate 5 Gbit/s", "delay 5 ms, rate 2 Gbit/s", "delay 10 ms, rate 1 Gbit/s")
    delays, rates = ("delay 1 ms", "delay 5 ms", "delay 10 ms"), ("rate 5 Gbit/s", "rate 2 Gbit/s", "rate 1 Gbit/s")
    p2p = (*delays, *rates, *shaped)
    rows = [
        Row("tc_cluster", f"{library} p2p, 64 MiB, 2 hosts", setting, "time", "ms")
        for library, setting in product(("gloo", "nccl"), p2p)
    ]
    for library, call, hosts in product(("gloo", "nccl"), ("all-reduce", "broadcast", "reduce"), (2, 4, 8, 16, 32)):
        for setting in shaped:
            rows.append(Row("tc_cluster", f"{library} {call}, 128 MiB, {hosts} hosts", setting, "time", "ms"))
    return rows


EXAMINED = (
    "**Gloo, drops and windows: not the cause.** Where kernels took no time, in the all-reduce on 4 hosts with 5 ms and 2 "
    "Gbit/s, `tc -s` counted no drop on any host and TCP_INFO no retransmission. Windows fell to 15 to 30 packets in the pause, and from "
    "60 to 80 ms "
    "after the call's start held the 238 packets of Gloo's two segments; no sender then waited for a window or a buffer.",
    "**Gloo, what bounds a ring.** There, two segments of 1 MiB are under way at a time, so two of them take a round trip and the "
    "time of one: 14.4 ms after these first 80 ms, where 10.1 and 4.2 are due. The printed time means 15.0 ms.",
    "**Gloo, what decides how long a ring takes.** A receiver says that it is ready for a segment, and these messages wait in "
    "netem's queue behind the segments that its own host sends. When additions end, threads wake up and copies are done decides "
    "which of them wait: in a model of four hosts with a queue each and nothing else, two segments take 3.8 ms at 1 ms and 5 "
    "Gbit/s if no message waits, 5.5 ms if each does, and all between where these times vary; the printed all-reduce means some "
    "4.9 ms. In a run where such messages passed the data (prio below tbf in place of netem's rate, additions in no time), the "
    "reduce with 1 ms took 324 ms, and 361 ms where they queued.",
    "**Gloo, additions: not enough.** On an idle machine, where an addition of 1 MiB takes 0.16 ms, nearly all calls of the reduce "
    "with 1 ms take the shortest of its times: 376, 386 and 378 ms in the mean of eight (printed 406) where additions take 1, 1.5 and 2 "
    "times as long, and the all-reduce 460, 457 and 461 ms (485).",
    "**Gloo, wake-ups and copies: a cause.** Threads wake up as late as was measured in a cloud's machine (median 20 us, 90th "
    "percentile 35), and what is sent and received is copied at 42 Gbit/s (`reproduction/world/host_costs.c` has the sources). "
    "Then calls are of two kinds, and which of them come varies from run to run: of 24 calls of the reduce with 1 ms, 3 took 402 to "
    "442 ms with additions as here, and in two runs with 1.5 times their time 9 and 14 took 411 to 460 ms, the others 378 to 394 ms. "
    "Means are 383, 408 and 423 ms (printed 406), and of the all-reduce 473 ms and 480 to 492 ms (485). On the default network, "
    "neither changes much: 302 to 306 ms (reduce, printed 314) and 324 to 326 ms (all-reduce, 327).",
    "**NCCL, its connections: most of the errors that plans had.** Plans of the same calls, with one connection for each pair "
    "of hosts and windows that are never small, had -34.2 % (p2p with 10 ms), -24, -8, -20 and -22 % (broadcast), and -26, -11, "
    "-21 and -22 % (reduce). NCCL sends the parts of a slice by several connections, and the next slice when all of the last "
    "has been taken. Windows start anew after the pause, and grow apart: in the broadcast with 10 ms and 1 Gbit/s, the root's "
    "were 95 to 171 packets, and its round trips up to 118 ms, as netem's queue held parts of later slices; the second host "
    "passed each slice on and never had another one waiting.",
    "**NCCL, plans against the program.** On 8 hosts, broadcasts took 118.6, 279, 671 and 1304 ms as plans (default, 1, 5 and 10 ms) "
    "and 122.9, 270, 697 and 1263 ms by the program: -3.5, +3.3, -3.7 and +3.2 %. All-reduces took 384, 975 and 1942 ms (1, 5 and 10 "
    "ms), and 382, 966 and 1935: +0.3, +0.9 and +0.4 %. Calls vary: the program's broadcasts on 4 hosts with 1 ms took 259, 256, 250, "
    "244, 238, 236 and 235 ms one after the other (printed 243).",
    "**NCCL, what plans lacked.** With one connection and windows that are never small, plans of the broadcasts on 8 hosts took 230 and "
    "1188 ms with 1 and 10 ms, which are 15 and 6 % less than the program. With NCCL's connections and one slice at a time, but such "
    "windows, they took 236 and 1210 ms, and with Linux's own TCP and ACKs that wait behind data 252 and 1277: TCP, which starts anew "
    "after the pause, is most of it. As long as data waited in the host's own port, where TCP's small queues let parts of slices take "
    "turns, the all-reduce with 5 ms took 1106 ms for the program's 966; in a queue of its own, as netem's is, 974.",
    "**NCCL, estimates** know windows that are never small: on 8 hosts 115.5, 233, 593 and 1184 ms for broadcasts (-6, -14, -15 and "
    "-6 % of the program), and 384, 968 and 1934 ms for all-reduces (+0.5, +0.2 and 0 %), which have fewer bytes under way at a time.",
    "**NCCL, number of connections.** With 16 in place of 8 (the set-up has both), the p2p with 10 ms took 102 to 122 ms (119 to "
    "130 with 8, printed 113), and the broadcast 270 ms with 1 ms (262, 243), 713 with 5 ms (693, 710) and 1217 with 10 ms (1222, "
    "1441). On the default network without the cloud's limit of a connection, it took 115 ms, and 112 with 8 (144).",
    "**NCCL, the pause: not the cause of what is left.** Without a pause, the broadcast with 10 ms took 1240, 1257, 1267, 1367 "
    "and 1330 ms from the second call on (printed 1441), and 1282 to 1381 ms with 16 connections. But the reduce took 1192 to "
    "1234 ms (1457), the broadcast on the default network 114 ms (144), and the p2p with 10 ms 67 ms (113), which needs the "
    "pause. With pauses of 0.3 and 2 s, the broadcast with 10 ms took 1166 to 1232 ms.",
    "**NCCL, threads that wake up late: not the cause.** With 50 and 100 us before each slice is sent and before it is received, "
    "the broadcast on the default network took 115 and 114 ms (114 without, printed 144).",
    "**Gloo, its version: not the cause.** The all-reduce, reduce and broadcast of Gloo and their buffers are the same code "
    "in May 2021 and May 2025, but for names and formatting.",
)
"""Measured with the rows' scenarios and TCP_INFO every 2 ms; of Gloo, with `host_costs.c` where its wake-ups are named."""

TC_CLUSTER = Source(
    name="tc_cluster",
    title="Hosts of a cloud with tc on their egress",
    set_up=(
        'One V100 for each host, "up to 10 Gbit/s", about 0.1 ms, MTU 9001; tc netem with a delay and a rate on every '
        "host's egress. Torch 1.9, float32, a barrier before each call, maximum over ranks. NCCL over sockets, with 8 "
        "or 16 connections to a neighbour."
    ),
    not_emulated="PCIe, staging copies, what hosts' kernels cost (of Gloo's, all but copies and wake-ups), and what other tenants of "
    "the cloud send",
    constants=(
        'line rate 10 Gbit/s and one way 0.1 ms: the set-up; some 5 Gbit/s "a flow" does not bind 8 or 16 connections',
        f"a rate of netem's times {NETEM_OVERHEAD:.4f}: it counts a packet of MTU 9001 without preamble, FCS and gap",
        f"Gloo: a pause of {gloo_rows.PAUSE_S:g} s between calls, in which windows halve, fitted on p2p with a delay of 10 ms; "
        f"{gloo_rows.FLOW_GBPS:g} Gbit/s for each connection: the set-up",
        f"Gloo: additions take the CPU time that the machine of the run counts, times {gloo_rows.CPU_TIME:g} (run.cpu_time), fitted on the "
        "all-reduce with a delay of 1 ms: 0.24 ms for 1 MiB, by a machine that takes 0.16 ms. Two rows ran at a time, on a core each. "
        "The reduce with 1 ms, which counts as predicted, was looked at as well when 1.5 was chosen",
        "Gloo: threads wake up, and data is copied, in times that were measured elsewhere (`reproduction/world/host_costs.c`): 20 us in "
        "the median, and 42 Gbit/s",
        f"NCCL, printed rows and others of 2 to {nccl_rows.MOST_HOSTS} hosts: by a program that does with its connections what NCCL "
        "2.7.8 does (torch 1.9 has that version), on Linux's own TCP: files and lines are named in "
        "`reproduction/world/nccl_ranks.py`. A pause of "
        f"{nccl_rows.PAUSE_S:g} s, which Gloo's p2p with 10 ms wants where kernels take no time, as here; 8 "
        "connections for each of 2 rings, and one ring for p2p",
        'NCCL, other cells by packets: the plan that `algorithm = "nccl"` makes for two channels of eight connections each, on '
        "hosts with Linux's own TCP, after the same pause; one call behind a first one",
    ),
    cell=cell,
    further=further,
    examined=EXAMINED,
)
