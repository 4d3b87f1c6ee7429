"""What a scenario says of single hosts."""

from __future__ import annotations

import tomllib
from typing import Any

import pytest
from pydantic import ValidationError

from gradwire.faults import InputFault
from gradwire.network.fabric import Fabric
from gradwire.scenario.loading import resolve
from gradwire.scenario.program_scenarios import programs_of
from gradwire.scenario.resolution.compilation import ResolvedPoint
from gradwire.scenario.resolution.transport_fit import congestion_keys
from gradwire.scenario.sections.fabric import FabricSection, HostSection
from tests.shared.parts import tells

CONGESTION = "net.ipv4.tcp_congestion_control"
PLAN = """
title = "Hosts unlike each other"
[cluster]
workers = 3
[fabric]
rate = "10gbit"
[model]
name = "one-layer"
layers = [{ name = "fc", size = ["1MB"], forward = "1ms", backward = "1ms" }]
[strategy]
name = "ring"
"""
PROGRAMS = """
title = "Hosts unlike each other"
[cluster]
workers = 2
[fabric]
rate = "10gbit"
[program.x]
command = "true"
"""


def document(text: str) -> dict[str, Any]:
    return tomllib.loads(text)


def misfits(wanted: dict[str, Any]) -> tuple[str, ...]:
    (point,) = resolve(wanted, "x.toml", "x").points
    return ResolvedPoint(point.section).misfits


@pytest.mark.parametrize(
    "text",
    [
        'sysctl = {"net.ipv4.tcp_rmem" = "4096 65536 131072"}',
        'sysctl = {"net/ipv4/tcp_rmem" = [4096, 65536, 131072]}',
        "sysctl.net.ipv4.tcp_rmem = [4096, 65536, 131072]",
    ],
)
def test_keys_and_values_may_be_written_in_several_ways(text: str) -> None:
    section = HostSection.model_validate(document(text))
    assert section.setting("h1").sysctls == (("net.ipv4.tcp_rmem", "4096 65536 131072"),)


@pytest.mark.parametrize(
    ("sysctl", "words"),
    [
        ({"kernel.pid_max": "5"}, "is not a parameter of a host's network"),
        ({"net.ipv4": "5"}, "is not a parameter of a host's network"),
        ({"net.ipv4...tcp_ecn": "5"}, "is not a parameter of a host's network"),
        ({"net/../kernel/pid_max": "5"}, "is not a parameter of a host's network"),
        ({"net.ipv4.tcp_ecn": "1\n2"}, "one line of printable characters"),
        ({"net.ipv4.tcp_ecn": ""}, "at least 1 character"),
        ({"net.ipv4.tcp_ecn": 1.5}, "valid string"),
        ({}, "says nothing"),
        ("bbr", "valid dictionary"),
    ],
)
def test_what_is_not_a_parameter_of_the_network_is_refused(sysctl: Any, words: str) -> None:
    with pytest.raises(ValidationError, match=words):
        HostSection.model_validate({"sysctl": sysctl})


def test_plans_and_programs_have_them_in_their_network() -> None:
    added = {"h2": {"sysctl": {CONGESTION: "bbr"}}}
    plan, programs = document(PLAN), document(PROGRAMS)
    for each in (plan, programs):
        each["fabric"]["host"] = added
    (point,) = resolve(plan, "x.toml", "x").points
    assert ResolvedPoint(point.section).fabric.congestion_of_hosts == ("", "bbr", "")
    (other,) = programs_of(programs).points
    assert other.fabric.congestion_of_hosts == ("", "bbr")


def test_a_sweep_names_a_parameter_by_its_dots() -> None:
    swept = document(PLAN)
    swept["sweep"] = {f"fabric.host.all.sysctl.{CONGESTION}": ["cubic", "bbr"]}
    fabrics: list[Fabric] = [ResolvedPoint(point.section).fabric for point in resolve(swept, "x.toml", "x").points]
    assert [fabric.congestion_of_hosts[0] for fabric in fabrics] == ["cubic", "bbr"]


@pytest.mark.parametrize(
    ("extra", "key", "instead"),
    [
        ({}, "net.ipv4.tcp_rmem", "transport.buffer"),
        ({"transport": {"congestion": "cubic"}}, CONGESTION, "transport.congestion"),
    ],
)
def test_what_agents_set_for_each_socket_is_refused(extra: dict[str, Any], key: str, instead: str) -> None:
    wanted = {**document(PLAN), **extra}
    wanted["fabric"]["host"] = {"h1": {"sysctl": {key: "1"}}}
    (line,) = misfits(wanted)
    assert tells(line, f"fabric.host.'h1'.sysctl.'{key}':", instead)
    wanted["program"] = {"x": {"command": "true"}}  # whose sockets have it
    assert misfits(wanted) == ()


def test_a_host_that_is_not_there_is_refused_with_its_key() -> None:
    plan, programs = document(PLAN), document(PROGRAMS)
    for each in (plan, programs):
        each["fabric"]["host"] = {"h7": {"sysctl": {CONGESTION: "bbr"}}}
    (misfit,) = misfits(plan)
    assert tells(misfit, "fabric.host.'h7':", "h1 to h3")
    with pytest.raises(InputFault, match=r"fabric\.host\.'h7': no host"):
        programs_of(programs)


def test_no_cause_is_looked_for_where_tcp_is_set() -> None:
    wanted = document(PLAN)
    wanted["fabric"]["host"] = {"h1": {"sysctl": {CONGESTION: "bbr", "net.ipv4.ip_forward": "1"}}}
    (point,) = resolve(wanted, "x.toml", "x").points
    assert congestion_keys(point.section) == [f"fabric.host.'h1'.sysctl.'{CONGESTION}' = 'bbr'"]


def test_sections_without_hosts_are_as_before() -> None:
    assert FabricSection.model_validate({"rate": "1gbit"}).host_settings == ()
