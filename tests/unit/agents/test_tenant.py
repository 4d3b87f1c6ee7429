"""Another tenant's flow, on the loopback interface."""

from __future__ import annotations

import socket
import threading

import pytest

from gradwire.agents.connections import HostEntry, SocketOptions
from gradwire.agents.tenant import Tenant
from gradwire.faults import MachineFault
from tests.shared.parts import in_order

pytestmark = pytest.mark.namespaces

HERE = "/proc/self/ns/net"
SOCKETS = SocketOptions(buffer_bytes=1 << 20, unsent_bytes=None)
BAND = 1


def tenant(payload_bps: float) -> Tenant:
    source, destination = (HostEntry(index, f"127.0.0.{1 + index}", HERE) for index in range(2))
    return Tenant(source, destination, payload_bps, BAND, SOCKETS)


def threads() -> list[str]:
    return [thread.name for thread in threading.enumerate()]


def test_a_flow_sends_until_its_end_and_is_then_gone() -> None:
    flow = tenant(1e9)
    assert "tenant" not in threads()
    flow.begin()
    while flow.sent_so_far() < 1 << 16:
        pass
    assert "tenant" in threads()
    flow.end()
    assert flow.sent_bytes >= 1 << 16
    assert "tenant" not in threads()


def test_a_flow_that_never_began_has_sent_nothing() -> None:
    flow = tenant(1e9)
    flow.end()
    assert flow.sent_bytes == 0


def test_a_flow_whose_receiver_is_gone_says_so() -> None:
    flow = tenant(1e9)
    flow.begin()
    flow._receiver.shutdown(socket.SHUT_RD)
    flow._thread.join()
    with pytest.raises(MachineFault, match=in_order("flow broke", "receiver")):
        flow.end()
