"""Labs as their users have them: real programs, faults at a moment, limits, and the same again."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

import gradwire.lab
from gradwire.faults import Fault
from gradwire.lab import Host, LimitReached, Link, Network, ProgramFailed
from gradwire.vm.memory_addresses import fixed_addresses
from gradwire.vm.session import JobSession

pytestmark = [pytest.mark.kernel, pytest.mark.usefixtures("virtual_kernel")]

MOMENT_LATE_S = 2e-6
"""What a program that polls takes until it leaves the CPU (vm/patches/6.12/turns.patch). Where none does, it is three
readings of the clock, which take 16 ns each."""


def two_hosts(net: Network) -> tuple[Host, Host, Link]:
    """Two hosts on a switch, with a round trip of 4 ms, and the second one's link."""
    first, second, s1 = net.host("ann"), net.host("bob"), net.switch("middle")
    net.link(first, s1, rate="100mbit", delay="1ms")
    return first, second, net.link(second, s1, rate="100mbit", delay="1ms")


def story(pause_s: float, packets: Path) -> tuple[object, ...]:
    """What a lab with faults, moments and a lot of output comes to. pause_s: of the wall clock, which nothing must
    notice."""
    came: list[float] = []
    with gradwire.lab.network(seed=5, packets=packets) as net:
        ann, bob, link = two_hosts(net)
        writer = ann.start("for i in 1 2 3; do head -c 100000 /dev/zero | base64; sleep 0.1; done")
        time.sleep(pause_s)  # the wall clock is what must not matter here

        def note() -> None:
            time.sleep(pause_s)
            came.append(net.now_s)

        net.at("900ms", note)
        link.lose("30%", at="1s", duration="1s")
        link.down(at="2.5s", duration="250ms")
        ping = bob.run("ping -q -i 0.02 -c 200 ann")  # more often than every 10 ms, it polls: 25 s of CPU time
        time.sleep(pause_s)
        echoed = bob.run(["cat"], stdin="input\n")
        assert bob.run("hostname; cat /sys/class/net/bob-eth0/operstate").stdout == "bob\nup\n"
        assert echoed.stdout == "input\n"
        assert bob.run(["test", "-d", str(packets.parent)]).returncode == 0  # in the machine's own /tmp
        memory = bob.run("grep MemTotal /proc/meminfo").stdout if fixed_addresses() else ""
        assert len(came) == 1
        assert -1e-12 < came[0] - 0.9 < MOMENT_LATE_S
        assert "Bad" not in ping.stderr
        ports = net.ports()
        assert ports["bob-eth0"].rate_bps == 1e8
        assert set(ports) == {"ann-eth0", "bob-eth0", "middle-eth1", "middle-eth2"}
        return ping.stdout, ping.ended_s, net.now_s, writer.result.ended_s, len(writer.stdout), ports, came, memory


def test_a_lab_repeats_to_the_nanosecond_however_long_python_thinks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = story(0.0, tmp_path / "one")
    monkeypatch.setattr(
        JobSession, "hold", lambda _: None
    )  # it looks for its next command thousands of times meanwhile
    again = story(0.3, tmp_path / "two")
    assert first == again
    lost = 200 - int(str(first[0]).split(" received")[0].split()[-1])
    assert 13 < lost < 38  # of 50 requests, 51 % are lost on one of the two ways; without a carrier none is sent
    for port in ("ann-eth0", "bob-eth0"):
        files = [tmp_path / name / f"{port}.pcapng" for name in ("one", "two")]
        assert files[0].read_bytes() == files[1].read_bytes()
        assert len(files[0].read_bytes()) > 200 * 98


def plan_in_the_past(net: Network) -> None:
    """Asks for a moment that is over."""
    net.sleep("1s")
    net.at("500ms", net.close)


Act = tuple[Callable[[Network, Host, Link], object], type[Fault], str]
REFUSED: list[Act] = [
    (lambda net, host, link: host.run("no-such-program -x"), Fault, "no-such-program: no such program"),
    (lambda net, host, link: host.run(["no-such"]), Fault, "no such program on the PATH"),
    (lambda net, host, link: host.run("echo why >&2; exit 3", check=True), ProgramFailed, "status 3\n  why"),
    (lambda net, host, link: host.run("sleep 100", timeout="1s"), LimitReached, "after 1 s of virtual time"),
    (lambda net, host, link: net.host("late"), Fault, "cannot be added"),
    (lambda net, host, link: plan_in_the_past(net), Fault, "is over"),
]
"""What a lab survives."""
ENDED: list[tuple[str, type[Fault], dict[str, object]]] = [
    ("while :; do sleep 0.001; done", LimitReached, {"wall_limit": "2s"}),
    ("while :; do :; done", Fault, {"stall_limit": "2s"}),
    ("b() { b | b & }; b; wait", Fault, {"process_limit": 60}),
]
"""Programs that end a lab at a limit, which the message names."""


def assert_gone(net: Network) -> None:
    with pytest.raises(Fault, match="has ended"):
        net.sleep(1)
    assert net._machine is None or not net._machine.folder.exists()


def test_what_is_refused_is_one_message_and_the_lab_goes_on() -> None:
    with gradwire.lab.network() as net:
        host, _, link = two_hosts(net)
        for act, kind, message in REFUSED:
            with pytest.raises(kind, match=message):
                act(net, host, link)
        assert host.run("hostname").stdout == "ann\n"
    assert_gone(net)


@pytest.mark.parametrize(("program", "kind", "settings"), ENDED, ids=[next(iter(each[2])) for each in ENDED])
def test_what_never_ends_is_ended_at_a_limit_and_leaves_nothing(
    program: str, kind: type[Fault], settings: dict[str, object]
) -> None:
    with gradwire.lab.network(**settings) as net:
        host, _, _ = two_hosts(net)
        with pytest.raises(kind, match="without end" if "process_limit" in settings else next(iter(settings))):
            host.run(program)
    assert_gone(net)


def test_a_switch_that_restarts_and_a_slower_link_are_felt() -> None:
    with gradwire.lab.network() as net:
        ann, bob, link = two_hosts(net)
        assert bob.run("ping -c 1 ann").returncode == 0
        link.delay("10ms", duration="1s")
        assert "time=24.0 ms" in bob.run("ping -c 1 ann").stdout
        net.sleep("2s")
        server = ann.start([sys.executable, "-m", "http.server", "80"])
        net.sleep("1s")
        assert server.is_running
        assert server.stop().returncode == 128 + 15
        with pytest.raises(LimitReached):
            bob.run("sleep 10", timeout="1s")
        assert bob.run("true").returncode == 0  # a virtual limit ends the wait, and not the lab
