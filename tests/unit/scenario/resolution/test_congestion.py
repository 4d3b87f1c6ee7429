"""Networks that drop and mark in scenarios: their keys, what follows from them, and what does not fit together."""

from __future__ import annotations

from typing import Any

import pytest

from gradwire.faults import InputFault
from gradwire.scenario.effective import used_settings
from gradwire.scenario.resolution.compilation import ResolvedPoint, compile_point
from gradwire.scenario.resolution.congestion import congestion_keys, refuse_multicast, refuse_scaled
from gradwire.scenario.schema import PointSection


def section(strategy: str = "kvstore", fabric: dict[str, Any] | None = None, **transport: str) -> PointSection:
    return PointSection.model_validate(
        {
            "cluster": {"workers": 4},
            "fabric": {"rate": "10gbit", **(fabric or {})},
            "model": {
                "name": "one-layer",
                "layers": [{"name": "fc", "size": ["1MB"], "forward": "1ms", "backward": "1ms"}],
            },
            "strategy": {"name": strategy},
            "transport": transport,
        }
    )


FINITE = {"buffer": "100KB"}
MARKING = {"buffer": "deep", "ecn": "30KB"}


def test_nothing_drops_or_marks_by_default() -> None:
    fabric = ResolvedPoint(section()).fabric
    assert (fabric.buffer_bytes, fabric.ecn_bytes, fabric.gso_bytes) == (0, 0, 65536)
    assert section().congestion == ""
    assert congestion_keys(section()) == []


@pytest.mark.parametrize("keys", [FINITE, MARKING])
def test_hosts_send_frame_by_frame_past_queues_that_drop_or_mark(keys: dict[str, str]) -> None:
    assert ResolvedPoint(section(fabric=keys)).fabric.gso_bytes == 1514
    assert ResolvedPoint(section(fabric={**keys, "mtu_bytes": 1400})).fabric.gso_bytes == 1414
    assert ResolvedPoint(section(fabric={**keys, "gso": "6KB"})).fabric.gso_bytes == 6000


@pytest.mark.parametrize("keys", [FINITE, MARKING])
def test_cubic_is_asked_for_where_nothing_else_is(keys: dict[str, str]) -> None:
    assert section(fabric=keys).congestion == "cubic"
    assert section(fabric=keys, congestion="bbr").congestion == "bbr"
    assert section(congestion="reno").congestion == "reno"


def test_dctcp_needs_marks() -> None:
    (line,) = ResolvedPoint(section(congestion="dctcp")).misfits
    assert line.startswith("transport.congestion = 'dctcp': reacts to marks, and no port makes any: set fabric.ecn")
    assert ResolvedPoint(section(fabric=MARKING, congestion="dctcp")).misfits == ()


def test_bursts_that_a_buffer_cannot_hold_are_a_misfit() -> None:
    (line,) = ResolvedPoint(section(fabric={**FINITE, "gso": "64KB"})).misfits
    assert line.startswith("fabric.buffer = 100000B: must be at least 4 bursts of fabric.gso = 64000B")


def test_windows_cannot_be_divided() -> None:
    refuse_scaled(section(), 8)
    refuse_scaled(section(fabric=FINITE), 1)
    for wanted, told in (
        (section(fabric={**MARKING, "buffer": "100KB"}), "fabric.buffer = 100000B, fabric.ecn = 30000B"),
        (section(congestion="bbr"), "transport.congestion = 'bbr'"),
    ):
        with pytest.raises(InputFault, match=f"{told}: bytes and rates would be divided by 8"):
            refuse_scaled(wanted, 8)


def test_multicast_past_finite_buffers_is_refused_with_its_reason() -> None:
    finite, marking = section("multicast-ps", FINITE), section("multicast-ps", MARKING)
    with pytest.raises(
        InputFault, match="strategy 'multicast-ps' sends multicast, which is UDP without congestion control"
    ):
        refuse_multicast(finite, compile_point(finite).plans.values())
    refuse_multicast(marking, compile_point(marking).plans.values())
    refuse_multicast(section(fabric=FINITE), compile_point(section(fabric=FINITE)).plans.values())


def test_sizes_are_shown_as_a_scenario_may_say_them() -> None:
    wanted = section(fabric={**MARKING, "buffer": "100KB"})
    used = used_settings(wanted, ResolvedPoint(wanted).options)
    assert (used["fabric.buffer"], used["fabric.ecn"]) == ("100kB", "30kB")
    assert (used["fabric.gso"], used["transport.congestion"]) == ("unset", "unset")
    plain = used_settings(section(), ResolvedPoint(section()).options)
    assert (plain["fabric.buffer"], plain["fabric.ecn"]) == ("deep", "off")
