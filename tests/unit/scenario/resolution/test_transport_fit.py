"""The buffers that a point's sockets have, and what is said before a run of those that do not fill its paths."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from gradwire.faults import InputFault
from gradwire.runs.estimation import without_effect
from gradwire.runs.plan_work import sockets_of
from gradwire.scenario.effective import used_settings
from gradwire.scenario.loading import Point, resolve
from gradwire.scenario.resolution.compilation import ResolvedPoint, compile_point
from gradwire.scenario.resolution.transport_fit import (
    congestion_keys,
    crowded_memory,
    is_grown,
    refuse_multicast,
    refuse_scaled,
    small_windows,
)
from gradwire.scenario.schema import PointSection
from gradwire.vm.machines import Clock
from tests.shared.parts import in_order, tells

BASE: dict[str, Any] = {
    "title": "far apart",
    "cluster": {"workers": 3},
    "fabric": {"rate": "25gbit"},
    "model": {"name": "one-layer", "layers": [{"name": "fc", "size": ["1MB"], "forward": "1ms", "backward": "1ms"}]},
    "strategy": {"name": "ring"},
}
MIB = 1 << 20


def point(delay: str = "", **transport: str) -> Point:
    faults = {f"far{host}": {"kind": "delay", "link": f"h{host}", "delay": delay} for host in (1, 2, 3) if delay}
    (found,) = resolve({**BASE, "transport": transport, "fault": faults}, "test.toml", "test").points
    return found


def of(wanted: Point) -> ResolvedPoint:
    return ResolvedPoint(wanted.section)


@pytest.mark.parametrize(
    ("wanted", "buffer_bytes"),
    [
        (point(), 4 * MIB),
        (point(buffer="256KiB"), MIB // 4),
        (point("1us"), 4 * MIB),
        (point("1ms"), 36 * MIB),
        (point("1ms", buffer="4MiB"), 4 * MIB),
    ],
    ids=["default", "asked for", "near", "far", "far, and asked for"],
)
def test_the_buffer_follows_the_longest_round_trip_unless_it_is_asked_for(wanted: Point, buffer_bytes: int) -> None:
    assert of(wanted).buffer_bytes == buffer_bytes


def said(wanted: Point) -> str:
    return small_windows(wanted.section, of(wanted).fabric)


def test_a_buffer_that_does_not_fill_the_path_is_warned_of_with_one_that_would() -> None:
    assert tells(said(point("1ms", buffer="4MiB")), "transport.buffer = 4MiB", "12.5 MB", "36MiB would do")


@pytest.mark.parametrize("wanted", [point(), point(buffer="64KiB"), point("1ms"), point("1ms", buffer="36MiB")])
def test_nothing_is_said_of_buffers_that_do(wanted: Point) -> None:
    assert said(wanted) == ""


def test_what_no_window_of_tcp_holds_is_said_whatever_the_buffer() -> None:
    assert tells(said(point("200ms")), "2,500 MB", "larger than 1GiB")


def test_sockets_that_together_may_hold_more_than_the_memory_are_told() -> None:
    far = point("10ms")
    assert crowded_memory(far.section, of(far).fabric, connections=100) == ""
    text = crowded_memory(far.section, of(far).fabric, connections=1000)
    assert tells(text, "1,000 connections", "358MiB each (transport.buffer)", "run.memory_mb = 3,072")


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


@pytest.mark.parametrize("congestion", ["dctcp", "dcqcn", "nscc"])
def test_controls_that_react_to_marks_need_them(congestion: str) -> None:
    (line,) = ResolvedPoint(section(fabric={"delay": "1us"}, congestion=congestion)).misfits
    assert tells(line, f"transport.congestion = '{congestion}':", "set fabric.ecn")
    assert ResolvedPoint(section(fabric={**MARKING, "delay": "1us"}, congestion=congestion)).misfits == ()


def test_windows_of_a_round_trip_need_one() -> None:
    (line,) = ResolvedPoint(section(fabric=MARKING, congestion="nscc")).misfits
    assert tells(line, "transport.congestion = 'nscc':", "set fabric.delay")
    one_link = {**MARKING, "link": {"h1": {"delay": "1us"}}}
    assert ResolvedPoint(section(fabric=one_link, congestion="nscc")).misfits == ()
    assert ResolvedPoint(section(congestion="swift")).misfits == ()


@pytest.mark.parametrize(
    ("congestion", "is_told"), [("dcqcn", True), ("nscc", True), ("swift", False), ("dctcp", False)]
)
def test_who_has_to_know_the_line_is_told(congestion: str, is_told: bool) -> None:
    wanted = section(fabric={**MARKING, "delay": "1us"}, congestion=congestion)
    assert (sockets_of(wanted, ResolvedPoint(wanted).fabric, Clock(), None).line_bytes_per_s > 0) is is_told


def test_dcqcn_has_the_marks_of_its_paper() -> None:
    wanted = section(fabric={"ecn": {}}, congestion="dcqcn")
    assert ResolvedPoint(wanted).misfits == ()
    fabric = ResolvedPoint(wanted).fabric
    assert (fabric.ecn_bytes, fabric.ecn_most_bytes, fabric.ecn_share) == (5_000, 200_000, 0.01)
    assert fabric.gso_bytes == 1514
    assert type(fabric).from_json(fabric.to_json()) == fabric
    line_bytes_per_s = sockets_of(wanted, fabric, Clock(), None).line_bytes_per_s
    assert line_bytes_per_s == round(fabric.rate_bps / 8 * 1448 / 1538)
    assert sockets_of(section(fabric=MARKING), fabric, Clock(), None).line_bytes_per_s == 0


def test_thresholds_of_red_are_in_order_and_for_all_links() -> None:
    with pytest.raises(ValidationError, match=in_order("kmax:", "kmin")):
        section(fabric={"ecn": {"kmin": "200KB"}})
    (line,) = ResolvedPoint(section(fabric={"ecn": {}, "link": {"h1": {"ecn": "50KB"}}})).misfits
    assert line.startswith("fabric.link.'h1'.ecn: fabric.ecn is")


def test_bursts_that_a_buffer_cannot_hold_are_a_misfit() -> None:
    (line,) = ResolvedPoint(section(fabric={**FINITE, "gso": "64KB"})).misfits
    assert tells(line, "fabric.buffer = 100000B:", "at least 4", "fabric.gso = 64000B")


def test_windows_cannot_be_divided() -> None:
    refuse_scaled(section(), 8)
    refuse_scaled(section(fabric=FINITE), 1)
    for wanted, told in (
        (section(fabric={**MARKING, "buffer": "100KB"}), "fabric.buffer = 100000B, fabric.ecn = 30000B"),
        (section(congestion="bbr"), "transport.congestion = 'bbr'"),
    ):
        with pytest.raises(InputFault, match=in_order(f"{told}:", "divided by 8")):
            refuse_scaled(wanted, 8)


def test_multicast_past_finite_buffers_is_refused_with_its_reason() -> None:
    finite, marking = section("multicast-ps", FINITE), section("multicast-ps", MARKING)
    with pytest.raises(InputFault, match=in_order("fabric.buffer = 100000B:", "'multicast-ps'")):
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


def stock(delay: str = "", **transport: str) -> Point:
    fabric = {**BASE["fabric"], "hosts": "stock-before-6.6", **({"delay": delay} if delay else {})}
    (found,) = resolve({**BASE, "fabric": fabric, "transport": transport}, "test.toml", "test").points
    return found


def test_the_kernel_grows_the_buffers_of_stock_hosts_unless_a_point_asks_for_others() -> None:
    for wanted, grown, each_bytes in (
        (stock(), True, 4 * MIB),
        (stock("1ms"), True, 4 * MIB),
        (stock(buffer="1MiB"), False, MIB),
    ):
        assert is_grown(wanted.section, of(wanted).fabric) is grown
        assert of(wanted).buffer_bytes == each_bytes
        sockets = sockets_of(wanted.section, of(wanted).fabric, Clock(), None)
        assert sockets.buffer_bytes == (0 if grown else each_bytes)
    assert not is_grown(point("1ms").section, of(point("1ms")).fabric)


def test_windows_of_stock_hosts_are_told_where_paths_hold_more() -> None:
    assert said(stock()) == said(stock("100us")) == ""
    assert tells(said(stock("1ms")), "fabric.hosts = 'stock-before-6.6':", "2.8 MB", "12.5 MB")


def test_stock_hosts_are_not_divided() -> None:
    refuse_scaled(stock().section, 1)
    with pytest.raises(InputFault, match=in_order("fabric.hosts = 'stock-before-6.6'", "divided by 2")):
        refuse_scaled(stock().section, 2)


def test_estimates_say_that_they_do_not_know_slow_starts() -> None:
    assert without_effect([point()]) == []
    (text,) = without_effect([stock(), stock("1ms")])
    assert "fabric.hosts = 'stock-before-6.6'" in text
