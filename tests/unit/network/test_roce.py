"""What RoCEv2 takes on a line, checked against header sizes added up by hand."""

from __future__ import annotations

import pytest

from gradwire.network.roce import (
    least_latency_s,
    message_line_bytes,
    packet_line_bytes,
    path_mtu_bytes,
    payload_share,
)


@pytest.mark.parametrize(("mtu_bytes", "payload_bytes"), [(1500, 1024), (4175, 2048), (4176, 4096), (9000, 4096)])
def test_full_packets_are_those_of_rxe(mtu_bytes: int, payload_bytes: int) -> None:
    assert path_mtu_bytes(mtu_bytes) == payload_bytes


def test_a_packet_has_82_bytes_besides_its_payload_which_is_padded() -> None:
    assert packet_line_bytes(1024) == 1024 + 14 + 20 + 8 + 12 + 4 + 24
    assert packet_line_bytes(1) == packet_line_bytes(4)


def test_only_the_first_packet_of_a_write_has_an_address() -> None:
    assert message_line_bytes(4096, 1500, is_write=False) == 4 * 1106
    assert message_line_bytes(4096, 1500, is_write=True) == 4 * 1106 + 16
    assert message_line_bytes(0, 1500, is_write=False) == 82
    assert payload_share(1 << 20, 1500) == pytest.approx(1024 / 1106, rel=1e-4)


def test_switches_forward_a_packet_once_they_have_it() -> None:
    two_links = [1e9, 1e9]
    assert least_latency_s(1024, 1500, two_links, is_write=False) == pytest.approx(2 * 8 * 1106 / 1e9)
    assert least_latency_s(4096, 1500, two_links, is_write=False) == pytest.approx(5 * 8 * 1106 / 1e9)
    assert least_latency_s(1024, 1500, [1e9, 2e9], is_write=False, delay_s=1e-6) == pytest.approx(
        8 * 1106 / 1e9 * 1.5 + 1e-6
    )
