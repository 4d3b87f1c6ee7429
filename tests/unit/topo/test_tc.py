import math
from dataclasses import replace

import pytest

from gradwire.faults import InputFault
from gradwire.network.fabric import Fabric, socket_priority
from gradwire.topo.tc import Classify, Shaper, batch_text, class_of_band, port_commands

WALL, PATCHED = (Shaper(exact_timers=is_virtual, charges_frames=is_virtual) for is_virtual in (False, True))
FABRIC = Fabric(hosts=4, rate_bps=10e9, classes=2)


def lines(
    fabric: Fabric = FABRIC,
    *,
    has_prio: bool = True,
    classify: Classify = Classify.SKB_PRIORITY,
    shaper: Shaper = WALL,
    **loss: float,
) -> list[str]:
    commands = port_commands(
        "h1-eth0",
        fabric.rate_bps,
        fabric,
        has_prio=has_prio,
        classify=classify,
        has_fq=False,
        shaper=shaper,
        **loss,  # type: ignore[arg-type]
    )
    return [" ".join(command) for command in commands]


def test_strict_priority_with_sch_prio_word_for_word() -> None:
    assert lines() == [
        "qdisc add dev h1-eth0 root handle 5: htb default 1",
        "class add dev h1-eth0 parent 5: classid 5:1 htb rate 9843953186bit burst 65536 cburst 65536 quantum 65536",
        "qdisc add dev h1-eth0 parent 5:1 handle 1: prio bands 3 priomap 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0",
        "qdisc add dev h1-eth0 parent 1:1 pfifo limit 100000",
        "qdisc add dev h1-eth0 parent 1:2 pfifo limit 100000",
        "qdisc add dev h1-eth0 parent 1:3 pfifo limit 100000",
    ]


def test_a_kernel_that_charges_frames_has_the_rate_of_the_line() -> None:
    assert lines(shaper=PATCHED)[1] == (
        "class add dev h1-eth0 parent 5: classid 5:1 htb rate 10000000000bit overhead 24 mpu 84 burst 2500 cburst 2500 quantum 65536"
    )
    assert PATCHED.rate_words(FABRIC, math.inf) == WALL.rate_words(FABRIC, math.inf) == ["rate", "1000000000000bit"]


def test_htb_classes_stand_in_for_sch_prio() -> None:
    text = lines(has_prio=False)
    assert text[0] == "qdisc add dev h1-eth0 root handle 1: htb default 1"
    assert " rate 9843953186bit ceil 9843953186bit " in text[1]
    for band in range(3):
        assert f"parent 1:ff classid 1:{band + 1} htb rate 8000bit ceil 9843953186bit" in text[2 + band]
        assert text[2 + band].endswith(f" prio {band}")
        assert text[5 + band] == f"qdisc add dev h1-eth0 parent 1:{band + 1} pfifo limit 100000"


def test_minor_numbers_are_hexadecimal_as_tc_reads_them() -> None:
    text = lines(replace(FABRIC, classes=15))
    assert text[-1] == "qdisc add dev h1-eth0 parent 1:10 pfifo limit 100000"
    assert " prio bands 16 " in text[2]


@pytest.mark.parametrize("has_prio", [True, False])
def test_userspace_datapath_reads_the_band_from_the_dscp(has_prio: bool) -> None:
    plain, filtered = lines(has_prio=has_prio), lines(has_prio=has_prio, classify=Classify.DSCP)
    assert filtered[: len(plain)] == plain
    match = "filter add dev h1-eth0 parent 1: protocol ip prio 1 u32 match ip dsfield"
    assert filtered[len(plain) :] == [
        f"{match} 0xc0 0xfc flowid 1:1",
        f"{match} 0xb4 0xfc flowid 1:2",
        f"{match} 0xa8 0xfc flowid 1:3",
    ]


def test_more_bands_than_htb_orders_are_rejected() -> None:
    assert lines(replace(FABRIC, classes=7), has_prio=False)
    with pytest.raises(InputFault, match="7 classes"):
        lines(replace(FABRIC, classes=8), has_prio=False)
    assert lines(replace(FABRIC, classes=8), has_prio=True)


def test_loss_takes_the_place_of_every_fifo_and_leaves_the_shaper_alone() -> None:
    assert lines(loss=0.0025)[:3] == lines()[:3]
    assert lines(loss=0.0025)[3:] == [
        f"qdisc add dev h1-eth0 parent 1:{b} netem limit 100000 loss 0.250000%" for b in (1, 2, 3)
    ]
    assert all(line.endswith(" loss 0.250000% seed 7") for line in lines(loss=0.0025, netem_seed=7)[3:])


def test_rates_that_32_bits_do_not_hold_are_written_in_full() -> None:
    assert " rate 98439531860bit " in lines(replace(FABRIC, rate_bps=100e9))[1]


def test_burst_forgives_what_the_clock_needs() -> None:
    assert FABRIC.burst_bytes(10e9, exact_timers=True) == 2500
    assert FABRIC.burst_bytes(1e9, exact_timers=True) == 1514
    assert FABRIC.burst_bytes(10e9, exact_timers=False) == 65536
    assert replace(FABRIC, gso_bytes=65_000).burst_bytes(10e9, exact_timers=False) == 65536


def test_a_socket_names_the_same_class_as_set_queue() -> None:
    assert [socket_priority(band) for band in (0, 2)] == [0x10001, 0x10003]
    assert [class_of_band(band) for band in (0, 2, 15)] == ["1:1", "1:3", "1:10"]


def test_batch_text_is_one_command_a_line() -> None:
    assert batch_text([["link", "set", "lo", "up"], ["x"]]) == "link set lo up\nx\n"


@pytest.mark.parametrize("word", ["", "two words", "a#b", "new\nline", "quo'te"])
def test_batch_text_rejects_words_that_a_batch_file_would_split(word: str) -> None:
    with pytest.raises(ValueError, match="batch file"):
        batch_text([["link", word]])
