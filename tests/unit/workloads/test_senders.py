"""What the senders of each strategy's system do, and that nothing else says it where a scenario does not."""

from __future__ import annotations

from pathlib import Path

import pytest

from gradwire.faults import InputFault
from gradwire.scenario.loading import load_scenario
from gradwire.scenario.schema import TransportSection
from gradwire.workloads.strategy import AS_THEY_LEAVE, GRPC, P3_CONSUMER, PS_LITE, SIMULATED, UNSENT_BYTES
from gradwire.workloads.strategy_registry import BUILT_IN
from tests.shared.parts import in_order

SCENARIOS = Path(__file__).resolve().parents[3] / "scenarios"
TENSORFLOW = {"vanilla", "partition-slicing", "geryon", "tictac", "tictac-slicing"}
NETOPS = {"netops-ps", "multicast-ps", "aggregation-ps", "multicast-aggregation-ps", "ring-multicast"}


def test_each_strategy_sends_as_its_system_does() -> None:
    of_others = dict.fromkeys(BUILT_IN, AS_THEY_LEAVE)
    mxnet = {"kvstore": PS_LITE, "p3": P3_CONSUMER, "p3-slicing": P3_CONSUMER}
    expected = of_others | dict.fromkeys(TENSORFLOW, GRPC) | dict.fromkeys(NETOPS, SIMULATED) | mxnet
    assert {name: strategy.senders for name, strategy in BUILT_IN.items()} == expected


@pytest.mark.parametrize(
    ("said", "senders", "unsent_bytes"),
    [
        ({}, AS_THEY_LEAVE, None),
        ({}, P3_CONSUMER, 256_000),
        ({}, GRPC, UNSENT_BYTES),
        ({"send_ends": "departure"}, P3_CONSUMER, None),
        ({"send_ends": "buffered"}, P3_CONSUMER, 256_000),
        ({"send_ends": "buffered"}, AS_THEY_LEAVE, UNSENT_BYTES),
        ({"send_ends": "buffered", "unsent": "64KB"}, AS_THEY_LEAVE, 64_000),
        ({"unsent": "64KB"}, P3_CONSUMER, 64_000),
    ],
)
def test_what_a_scenario_says_goes_before_the_strategy(
    said: dict[str, str], senders: object, unsent_bytes: int | None
) -> None:
    assert TransportSection.model_validate(said).unsent_bytes(senders) == unsent_bytes  # type: ignore[arg-type]


def test_a_bound_of_what_waits_is_refused_where_nothing_does() -> None:
    with pytest.raises(InputFault, match=in_order("transport.unsent = 64000B:", "transport.send_ends = 'buffered'")):
        TransportSection.model_validate({"unsent": "64KB"}).unsent_bytes(AS_THEY_LEAVE)


@pytest.mark.parametrize("name", sorted(path.stem for path in SCENARIOS.glob("*.toml")))
def test_papers_scenarios_do_not_depend_on_what_a_strategy_does_by_default(name: str) -> None:
    """They say it, or run strategies of which it was always true that messages are sent when they have left."""
    for point in load_scenario(SCENARIOS / f"{name}.toml").points:
        transport, senders = point.section.transport, BUILT_IN[point.section.strategy.name].senders
        if transport.send_ends is None:
            assert senders.unsent_bytes is None
        elif transport.unsent is None:
            assert senders.unsent_bytes in (None, UNSENT_BYTES)
