"""How packets of programs are marked at their host's port."""

from __future__ import annotations

from gradwire.topo.tc import batch_text, marking_commands, priority_line


def test_each_band_has_filters_that_write_its_dscp_and_mend_the_checksum() -> None:
    lines = batch_text(marking_commands("h1-eth0", [1, 3])).splitlines()
    assert lines == [
        "qdisc add dev h1-eth0 clsact",
        "filter add dev h1-eth0 egress protocol ip prio 2 basic match meta(priority eq 65538) "
        "action pedit ex munge ip dsfield set 0xb4 retain 0xfc pipe action csum ip4h",
        "filter add dev h1-eth0 egress protocol ipv6 prio 18 basic match meta(priority eq 65538) "
        "action pedit ex munge offset 0 u16 set 0x0b40 retain 0x0fc0",
        "filter add dev h1-eth0 egress protocol ip prio 4 basic match meta(priority eq 65540) "
        "action pedit ex munge ip dsfield set 0x9c retain 0xfc pipe action csum ip4h",
        "filter add dev h1-eth0 egress protocol ipv6 prio 20 basic match meta(priority eq 65540) "
        "action pedit ex munge offset 0 u16 set 0x09c0 retain 0x0fc0",
    ]


def test_a_cgroup_is_told_the_tc_class_of_the_band() -> None:
    assert priority_line("h1-eth0", 1) == "h1-eth0 65538"
