"""Changes of queues, as the kernel would tell of them: the run's own, and those of somebody else at the same time."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from gradwire.netlink_messages import HEADER
from gradwire.network.fabric import Fabric
from gradwire.topo import queue_watch
from gradwire.topo.netlink.qdiscs import RTM_NEWQDISC, RTM_NEWTCLASS, TC_H_CLSACT, TC_MESSAGE
from gradwire.topo.queue_watch import QueueWatch

INDEX = 2
CLASS = (RTM_NEWTCLASS, INDEX, 0)


class BuiltStandIn:
    """Two hosts that are not built."""

    fabric = Fabric(hosts=2, rate_bps=1e9)

    def interface(self, port: Any) -> str:
        return str(port.interface)

    def namespace_of_port(self, _: Any) -> str:
        return ""


@contextmanager
def stay(_: str) -> Iterator[None]:
    yield


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[socket.socket]]:
    """Sockets through which the watch hears of each host's port, in order."""
    ends: list[socket.socket] = []

    def heard() -> socket.socket:
        near, far = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
        ends.append(far)
        return near

    monkeypatch.setattr(queue_watch, "_heard_socket", heard)
    monkeypatch.setattr(queue_watch, "network_namespace", stay)
    monkeypatch.setattr(queue_watch, "known_index", lambda _: INDEX)
    yield ends
    for end in ends:
        end.close()


@pytest.fixture
def watch(told: list[socket.socket]) -> Iterator[QueueWatch]:
    built: Any = BuiltStandIn()
    watching = QueueWatch(built)
    assert len(told) == 2
    yield watching
    watching.close()


def tell(end: socket.socket, *changes: tuple[int, int, int]) -> None:
    """Tells of changes in one datagram, as the kernel does of several: the kind of message, the index and the parent."""
    data = b""
    for kind, index, parent in changes:
        body = TC_MESSAGE.pack(0, index, 0x50001, parent, 0)
        data += HEADER.pack(HEADER.size + len(body), kind, 0, 0, 0) + body
    end.send(data)


def test_a_change_is_noted_for_good(watch: QueueWatch, told: list[socket.socket]) -> None:
    assert watch.changed() == ()
    tell(told[1], (RTM_NEWQDISC, INDEX, 0xFFFFFFFF))
    assert watch.changed() == ("h2-eth0",)
    assert watch.changed() == ("h2-eth0",)


def test_other_interfaces_and_filters_are_no_change(watch: QueueWatch, told: list[socket.socket]) -> None:
    tell(told[0], (RTM_NEWQDISC, INDEX + 1, 0), (RTM_NEWQDISC, INDEX, TC_H_CLSACT), (1, INDEX, 0))
    assert watch.changed() == ()


def test_what_the_run_changes_is_not_noted(watch: QueueWatch, told: list[socket.socket]) -> None:
    with watch.own("h1", 3):
        tell(told[0], CLASS, CLASS)
        tell(told[0], CLASS)
    assert watch.changed() == ()


@pytest.mark.parametrize("theirs", [1, 5])
def test_somebody_elses_change_at_the_same_time_is_noted(
    watch: QueueWatch, told: list[socket.socket], theirs: int
) -> None:
    with watch.own("h1", 2):
        tell(told[0], CLASS)
        tell(told[0], *([CLASS] * theirs))
        tell(told[0], CLASS)
    assert watch.changed() == ("h1-eth0",)


def test_commands_that_change_nothing_at_the_port_met_another_interface(watch: QueueWatch) -> None:
    with watch.own("h2", 1):
        pass
    assert watch.changed() == ("h2-eth0",)


def test_changes_before_and_at_other_hosts_are_not_the_runs_own(watch: QueueWatch, told: list[socket.socket]) -> None:
    tell(told[0], CLASS)
    with watch.own("h1", 1):
        tell(told[0], CLASS)
        tell(told[1], CLASS)
    assert watch.changed() == ("h1-eth0", "h2-eth0")
