"""Queues that drop and mark, as tc is told of them."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from gradwire.faults import InputFault
from gradwire.network.fabric import Fabric
from gradwire.topo.tc import Classify, Shaper, averaged_packets, port_commands

FRAME_BYTES = 1514
PATCHED = Shaper(exact_timers=True, charges_frames=True)
FINITE = Fabric(hosts=4, rate_bps=10e9, classes=1, gso_bytes=FRAME_BYTES, buffer_bytes=100_000)
MARKING = replace(FINITE, ecn_bytes=30_280)


def queues(fabric: Fabric, *, bounded: bool = True, impaired: bool = False, rate_bps: float = 10e9) -> list[str]:
    """The commands that make queues of bands, without what they have alike."""
    commands = port_commands(
        "s1-eth1",
        rate_bps,
        fabric,
        has_prio=True,
        classify=Classify.SKB_PRIORITY,
        has_fq=True,
        shaper=PATCHED,
        impaired=impaired,
        bounded=bounded,
    )
    made = [" ".join(command).removeprefix("qdisc add dev s1-eth1 parent ") for command in commands]
    return [words for words in made if words.startswith(("1:", "1001", "100:1", "101:1"))]


def test_a_finite_buffer_is_a_fifo_that_counts_bytes_in_every_band() -> None:
    assert queues(FINITE) == ["1:1 bfifo limit 100000", "1:2 bfifo limit 100000"]


def test_hosts_keep_their_deep_and_fair_queues() -> None:
    assert all(" fq limit 100000 " in words for words in queues(MARKING, bounded=False))


def test_marks_are_made_at_one_threshold_and_only_the_buffer_drops() -> None:
    red = "red limit 100000 min 30280 max 30280 avpkt 1514 burst 20 bandwidth 10000000000bit probability 1 ecn nodrop"
    assert queues(MARKING) == [f"1:1 {red}", f"1:2 {red}"]


def test_red_has_two_lengths_and_the_share_below_the_second() -> None:
    red = replace(MARKING, ecn_bytes=5_000, ecn_most_bytes=80_000, ecn_share=0.01)
    assert " min 5000 max 80000 " in queues(red)[0]
    assert queues(red)[0].endswith(" probability 0.01 ecn nodrop")


def test_a_deep_queue_marks_and_never_drops() -> None:
    assert queues(replace(MARKING, buffer_bytes=0))[0].startswith("1:1 red limit 2147483647 min 30280 max 30280 ")


def test_a_port_without_a_rate_has_a_number_for_it() -> None:
    assert " bandwidth 34000000000bit " in queues(MARKING, rate_bps=math.inf)[0]


def test_faults_lose_and_delay_in_front_of_a_finite_buffer() -> None:
    made = queues(FINITE, impaired=True)
    assert made[0].startswith("1:1 handle 100: netem ")
    assert made[1] == "100:1 bfifo limit 100000"


@pytest.mark.parametrize("ecn_bytes", [6056, 7000, 30_000, 30_280, 98_410, 100_000, 1_000_000, 2**30])
def test_the_average_forgets_as_fast_as_tc_can_make_it(ecn_bytes: int) -> None:
    """By iproute2's tc_red_eval_ewma: the exponent is 1, so that half of the weight is the newest arrival's."""
    burst, packet_bytes = averaged_packets(ecn_bytes, FINITE.gso_bytes)
    left = burst + 1 - ecn_bytes / packet_bytes
    assert 1 <= left <= (1 - 0.5**burst) / 0.5


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"loss": 0.01}, "fabric.loss = 0.01: drops of a finite fabric.buffer could not be distinguished"),
        ({"ecn_bytes": 100_000}, "fabric.ecn = 100000B: nothing would be marked before it is dropped"),
        ({"gso_bytes": 65536}, "fabric.buffer = 100000B: must be at least 4 bursts of fabric.gso = 65536B"),
        ({"ecn_bytes": 6055}, "fabric.ecn = 6055B: must be at least 4 bursts of fabric.gso = 1514B"),
    ],
)
def test_what_does_not_fit_is_refused_by_key(changes: dict[str, float], told: str) -> None:
    with pytest.raises(InputFault, match=told.replace(".", r"\.")):
        replace(FINITE, **changes)  # type: ignore[arg-type]


def test_a_fabric_is_lossless_whose_switches_only_mark() -> None:
    assert not FINITE.is_lossless
    assert replace(MARKING, buffer_bytes=0).is_lossless
    assert not Fabric(4, 10e9).has_switch_queues
