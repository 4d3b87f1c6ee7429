"""What a shell says of the network."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from gradwire.datatypes.fabric import Fabric, Topology
from gradwire.faults import InputFault
from gradwire.programs.inside.shell_job import echo_request
from gradwire.programs.program_protocol import NO_HOST, Change, Command, Execute, PingAll
from gradwire.programs.prompt_commands import Shell, Stopped, dump, intfs, links, links_between, net, nodes, ports
from gradwire.programs.transfer_rates import rate_words, transfer_rates
from gradwire.vm.session import KernelDied

FABRIC = Fabric(2, 10e9, Topology.LEAF_SPINE, leaves=2, spines=1)


def test_nodes_links_and_ports_are_those_of_the_fabric() -> None:
    assert nodes(FABRIC).splitlines()[1] == "c0 h1 h2 s1 s2 s3"
    assert next(links(FABRIC)) == "h1-eth0<->s1-eth1 (10gbit)"
    assert len(list(links(FABRIC))) == len(FABRIC.links())
    assert list(net(FABRIC))[:3] == ["h1 h1-eth0:s1-eth1", "h2 h2-eth0:s2-eth1", "s1 s1-eth1:h1-eth0 s1-eth2:s3-eth1"]
    assert list(dump(FABRIC, [70, 71]))[1:3] == [
        "<Host h2: h2-eth0:10.0.0.2 pid=71>",
        "<OVSSwitch s1: s1-eth1,s1-eth2>",
    ]


def test_a_host_without_a_process_is_a_bug() -> None:
    with pytest.raises(ValueError):
        list(dump(FABRIC, [70]))


def test_an_echo_request_has_the_right_checksum() -> None:
    request = echo_request(1, 2)
    total = sum(int.from_bytes(request[i : i + 2], "big") for i in range(0, len(request), 2))
    assert (total & 0xFFFF) + (total >> 16) == 0xFFFF


def test_ports_and_interfaces_are_those_of_each_node() -> None:
    assert next(iter(ports(FABRIC))) == "s1 s1-eth1:1 s1-eth2:2"
    assert list(intfs(FABRIC))[:3] == ["h1: h1-eth0", "h2: h2-eth0", "s1: s1-eth1,s1-eth2"]
    assert [link.a.interface for link in links_between(FABRIC, "s1", "h1")] == ["h1-eth0"]
    with pytest.raises(InputFault, match="no link between h1 and h2"):
        links_between(FABRIC, "h1", "h2")


class Answers:
    """Notes what a prompt asks for, and answers with iperf3's report."""

    def __init__(self) -> None:
        self.asked: list[Command] = []
        self.pids: Sequence[int] = (1, 2)
        self.virtual_s = 0.0

    def ask(self, command: Command) -> str:
        self.asked.append(command)
        self.virtual_s += 1.5
        return ""

    def open_window(self, name: str, host: int) -> str:
        return f"{name}: a window for host {host}"

    def heard(self, command: Execute) -> str:
        self.asked.append(command)
        return '{"end": {"sum_received": {"bits_per_second": 9.41e9}, "sum_sent": {"bits_per_second": 1e10}}}'


def typed(line: str, capsys: pytest.CaptureFixture[str]) -> tuple[list[Command], str]:
    """What a line asks for, and what it writes."""
    answers = Answers()
    shell = Shell(FABRIC, answers)
    shell.onecmd(shell.precmd(line))
    return answers.asked, capsys.readouterr().out


@pytest.mark.parametrize(
    ("line", "asked"),
    [
        ("link s1 h1 down", [Change("link-down", "h1-eth0", is_out=True)]),
        ("link h1 s1 up", [Change("link-down", "h1-eth0", is_out=False)]),
        ("switch s2 stop", [Change("switch-restart", "s2", is_out=True)]),
        ("pingpair", [PingAll(hosts=(0, 1))]),
        ("pingallfull", [PingAll(is_full=True)]),
        ("sh ls -l", [Execute(NO_HOST, "ls -l", background=False)]),
        ("noecho h2 vi", [Execute(1, "vi", background=False)]),
        ("c0 ps", [Execute(NO_HOST, "ps", background=False)]),
        ("# h1 ls", []),
    ],
)
def test_words_of_mininet_ask_for_what_they_mean(
    line: str, asked: list[Command], capsys: pytest.CaptureFixture[str]
) -> None:
    assert typed(line, capsys) == (asked, "")


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("link s1 h1", "usage: link A B up|down"),
        ("link s1 h1 sideways", "usage: link"),
        ("switch h1 stop", "h1: no such switch; there are s1 s2 s3"),
        ("iperf h1", "usage: iperf [H1 H2]"),
        ("iperf h1 h1", "h1 to h1: give two hosts"),
        ("iperf h1 h9", "h9: no such host; hosts are h1 to h2"),
        ("dpctl", "usage: dpctl"),
        ("source", "usage: source FILE"),
        ("source nowhere", "error reading file nowhere: No such file"),
        ("source /dev/zero", "error reading file /dev/zero: is a device"),
        ("source a\0b", "error reading file a"),
        ("source ~nobody-of-this-name/file", "error reading file ~nobody-of-this-name/file: "),
        ("xterm h2", "h2: a window for host 1"),
        ("gterm s1", f"s1: a window for host {NO_HOST}"),
        ("xterm", "usage: xterm NODE..."),
        ("xterm h9", "h9: no such node"),
        ("x h1 wireshark", "reach no display"),
        ("py 1 / 0", "ZeroDivisionError: division by zero"),
        ("px h1.cmd(", "SyntaxError"),
        ("py h1.IP(), net.switches", "('10.0.0.1', [<Switch s1: s1-eth1,s1-eth2>"),
        ("py h9", "NameError"),
        ("time h1 ls", "*** Elapsed time: 1.500000 secs"),
        ("help link", "link A B up|down"),
    ],
)
def test_wrong_lines_are_told_and_the_next_may_come(line: str, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert said in typed(line, capsys)[1]


def test_iperf_shows_what_was_received_and_sent(capsys: pytest.CaptureFixture[str]) -> None:
    (serve, ask), said = typed("iperfudp 5M h2 h1", capsys)
    assert isinstance(serve, Execute)
    assert isinstance(ask, Execute)
    assert (serve.host, serve.background, ask.host) == (0, True, 1)
    assert "-u -b 5M" in ask.line
    assert ask.line.endswith("-c 10.0.0.1")
    assert said.splitlines()[1] == "*** Results: ['5M', '9.41 Gbits/sec', '10.0 Gbits/sec']"


def test_a_file_of_commands_is_carried_out_to_its_exit(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").write_text("h1 a\n# h1 b\n\nexit\nh1 c\n")
    asked, _ = typed(f"source {tmp_path / 'file'}", capsys)
    assert asked == [Execute(0, "a", background=False)]


def test_a_file_that_carries_out_itself_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "file"
    path.write_text(f"h1 a\nsource {path}\nh1 b\n")
    asked, said = typed(f"source {path}", capsys)
    assert "carries out itself" in said
    assert asked == [Execute(0, "a", background=False), Execute(0, "b", background=False)]


class Ends(Answers):
    """A network that a program has stopped for good, or whose kernel is dead."""

    def __init__(self, error: Exception) -> None:
        super().__init__()
        self._error = error

    def ask(self, command: Command) -> str:
        raise self._error

    def heard(self, command: Execute) -> str:
        raise self._error


@pytest.mark.parametrize("line", ["h1 loop", 'py h1.cmd("loop")', "time h1 loop"])
@pytest.mark.parametrize("error", [Stopped("no virtual time has passed"), KernelDied("the kernel died")])
def test_a_network_that_is_over_ends_the_prompt(line: str, error: Exception) -> None:
    with pytest.raises(type(error), match=str(error)):
        Shell(FABRIC, Ends(error)).onecmd(line)


@pytest.mark.parametrize(
    ("report", "said"),
    [
        ('{"error": "unable to connect"}', "iperf3: unable to connect"),
        ("", "iperf3 wrote no result: nothing"),
        ("[]", "wrote no result"),
        ('{"end": {"sum": {}}}', "wrote no result"),
    ],
)
def test_what_is_not_a_report_says_so(report: str, said: str) -> None:
    with pytest.raises(InputFault, match=said):
        transfer_rates(report)


def test_rates_have_three_digits() -> None:
    assert [rate_words(rate) for rate in (9.411e9, 94.2e9, 951.4e6, 12.0, 0.0)] == [
        "9.41 Gbits/sec",
        "94.2 Gbits/sec",
        "951 Mbits/sec",
        "12.0 bits/sec",
        "0.00 bits/sec",
    ]
