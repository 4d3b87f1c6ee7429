"""TCP's first congestion window: all that a buffer holds where links are long and nothing is lost, and the kernel's own everywhere else."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gradwire.agents.connections import SocketOptions
from gradwire.datatypes.records import PlannedFault
from gradwire.inside.point import first_window_segments
from gradwire.network.fabric import Fabric

FABRIC = Fabric(hosts=2, rate_bps=25e9, faulty=True)
SOCKETS = SocketOptions(36 << 20, None, path_bytes=12_500_000)
DELAY = PlannedFault("far", "delay", 0, place="h1-eth0", value=1e-3)


def test_connections_begin_with_all_that_their_buffer_holds() -> None:
    assert first_window_segments(FABRIC, SOCKETS, [DELAY]) == 26_070
    assert 26_070 * FABRIC.mss_bytes() >= SOCKETS.buffer_bytes > 26_069 * FABRIC.mss_bytes()


@pytest.mark.parametrize(
    ("fabric", "sockets", "kinds"),
    [
        (FABRIC, replace(SOCKETS, path_bytes=0), []),
        (FABRIC, replace(SOCKETS, congestion="cubic"), ["delay"]),
        (replace(FABRIC, loss=0.01), SOCKETS, ["delay"]),
        (replace(FABRIC, gso_bytes=1514, buffer_bytes=100_000), SOCKETS, ["delay"]),
        (replace(FABRIC, ecn_bytes=300_000), SOCKETS, ["delay"]),
        *((FABRIC, SOCKETS, ["delay", kind]) for kind in ("loss", "link-down", "flapping", "switch-restart")),
    ],
)
def test_tcp_finds_out_by_itself_where_something_else_decides(
    fabric: Fabric, sockets: SocketOptions, kinds: list[str]
) -> None:
    faults = [replace(DELAY, kind=kind) for kind in kinds]
    assert first_window_segments(fabric, sockets, faults) == 0
