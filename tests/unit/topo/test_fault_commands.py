"""What a link is like under several faults, and the commands that bring it there and back."""

from __future__ import annotations

import math

from gradwire.datatypes.records import PlannedFault
from gradwire.network.fabric import Fabric, Port, Topology
from gradwire.topo.fault_commands import (
    LinkState,
    NetworkCommands,
    find_controller,
    forget_rules,
    impaired_ports,
    leave_controller,
    link_at,
    link_commands,
    links_of,
    state_of,
)
from gradwire.topo.tc import Classify, Shaper, port_commands
from gradwire.topo.wiring import Naming

PATCHED = Shaper(exact_timers=True, charges_frames=True)
FABRIC = Fabric(hosts=2, rate_bps=10e9, classes=1)
CUT = PlannedFault("cut", "link-down", 0, place="h1-eth0")
LOSS = PlannedFault("loss", "loss", 0, place="s1-eth1", value=0.5)
DELAY = PlannedFault("delay", "delay", 0, place="h1-eth0", value=0.002)
RATE = PlannedFault("rate", "rate", 0, place="h1-eth0", value=5e9)
BOOT = PlannedFault("boot", "switch-restart", 0, place="s1", duration_ns=1)
LINK = link_at(FABRIC, "h1-eth0")


def commands(before: LinkState, after: LinkState, fabric: Fabric = FABRIC, own_loss: float = 0.0) -> NetworkCommands:
    return link_commands(
        link_at(fabric, "h1-eth0"), before, after, Naming(fabric, "g"),
        shaper=PATCHED, has_seed=True, own_loss=lambda _: own_loss,
    )  # fmt: skip


def test_a_state_follows_from_all_faults_at_the_link_and_from_no_other() -> None:
    assert state_of(FABRIC, LINK, []) == LinkState(True, 0.0, 0.0, math.inf)
    assert state_of(FABRIC, LINK, [CUT, BOOT]).is_up is False
    assert state_of(FABRIC, LINK, [LOSS, LOSS, DELAY, RATE, DELAY]) == LinkState(True, 0.75, 0.004, 5e9)
    assert state_of(FABRIC, link_at(FABRIC, "h2-eth0"), [CUT, LOSS]) == LinkState()


def test_a_switch_has_all_its_links() -> None:
    fabric = Fabric(hosts=4, rate_bps=10e9, topology=Topology.LEAF_SPINE, leaves=2, spines=1)
    assert {link.a.interface for link in links_of(fabric, BOOT)} == {"h1-eth0", "h2-eth0", "s1-eth3"}
    assert links_of(fabric, PlannedFault("c", "controller-restart", 0)) == []


def test_a_link_is_cut_at_the_switch_and_mended_there() -> None:
    down = commands(LinkState(), LinkState(is_up=False))
    assert down == NetworkCommands({"": [["link", "set", "gs1-eth1", "down"]]}, {})
    assert commands(LinkState(is_up=False), LinkState()).ip == {"": [["link", "set", "gs1-eth1", "up"]]}
    assert commands(LinkState(), LinkState()) == NetworkCommands({}, {})


def test_losses_and_delays_are_put_into_every_band_of_both_ends() -> None:
    changed = commands(LinkState(), LinkState(loss=0.01, delay_s=0.002))
    assert [" ".join(words) for words in changed.tc["h1"]] == [
        "qdisc change dev h1-eth0 parent 1:1 handle 100: netem limit 10000000 delay 2000us loss 1.000000% seed 17",
        "qdisc change dev h1-eth0 parent 1:2 handle 101: netem limit 10000000 delay 2000us loss 1.000000% seed 18",
    ]
    assert [" ".join(words)[:46] for words in changed.tc[""]] == [
        "qdisc change dev gs1-eth1 parent 1:1 handle 10",
        "qdisc change dev gs1-eth1 parent 1:2 handle 10",
    ]
    undone = commands(LinkState(loss=0.01), LinkState())
    assert " ".join(undone.tc["h1"][0]).endswith("netem limit 10000000 seed 17")


def test_what_the_fabric_loses_itself_stays() -> None:
    undone = commands(LinkState(loss=0.5), LinkState(), own_loss=0.25)
    assert "loss 25.000000%" in " ".join(undone.tc["h1"][0])
    assert "loss 62.500000%" in " ".join(commands(LinkState(), LinkState(loss=0.5), own_loss=0.25).tc[""][0])


def test_the_rate_is_that_of_the_shapers_class_and_comes_back_as_it_was_built() -> None:
    slower = commands(LinkState(), LinkState(rate_bps=5e9))
    assert " ".join(slower.tc["h1"][0]).startswith(
        "class change dev h1-eth0 parent 5: classid 5:1 htb rate 5000000000bit "
    )
    built = port_commands(
        "h1-eth0", 10e9, FABRIC, has_prio=True, classify=Classify.SKB_PRIORITY, has_fq=True, shaper=PATCHED
    )
    (back,) = commands(LinkState(rate_bps=5e9), LinkState()).tc["h1"]
    assert ["class", "add", *back[2:]] in built


def test_ports_that_lose_or_delay_have_netem_in_front_of_their_fair_queues() -> None:
    assert impaired_ports(FABRIC, [CUT, RATE, BOOT]) == frozenset()
    assert impaired_ports(FABRIC, [LOSS, DELAY]) == {Port("h1", 0), Port("s1", 1)}
    lines = [
        " ".join(command)
        for command in port_commands(
            "h1-eth0", 10e9, FABRIC, has_prio=True, classify=Classify.SKB_PRIORITY, has_fq=True, shaper=PATCHED, impaired=True
        )
    ]  # fmt: skip
    assert "qdisc add dev h1-eth0 parent 1:1 handle 100: netem limit 10000000" in lines
    assert any(line.startswith("qdisc add dev h1-eth0 parent 100:1 fq ") for line in lines)


def test_a_switch_that_restarts_leaves_its_controller_forgets_and_finds_it_again() -> None:
    naming = Naming(FABRIC, "g")
    assert leave_controller("s1", naming) == [["ovs-vsctl", "--timeout=30", "del-controller", "gs1"]]
    assert forget_rules("s1", naming) == [
        ["ovs-ofctl", "--timeout=30", "-O", "OpenFlow13", "del-flows", "gs1"],
        ["ovs-ofctl", "--timeout=30", "-O", "OpenFlow13", "del-groups", "gs1"],
    ]
    (words,) = find_controller("s1", naming, 6653)
    assert words[:5] == ["ovs-vsctl", "--timeout=30", "--id=@gs1", "create", "Controller"]
    assert words[-3:] == ["Bridge", "gs1", "controller=@gs1"]
