"""What `py` and `px` find at the prompt of `gradwire shell`: the network and its nodes, with Mininet's names."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol


class Talk(Protocol):
    """What carries commands out."""

    def heard(self, node: str, line: str) -> str:
        """What a command line on a node writes. Raises InputFault if it cannot be run there."""

    def do(self, line: str) -> str:
        """What a command of the prompt writes."""


class Node:
    """A host or a switch."""

    def __init__(self, talk: Talk, name: str, address: str | None, mac: str | None, interfaces: Sequence[str]) -> None:
        self._talk, self._address, self._mac, self._interfaces = talk, address, mac, tuple(interfaces)
        self.name = name

    def __repr__(self) -> str:
        return f"<{'Switch' if self._address is None else 'Host'} {self.name}: {','.join(self._interfaces)}>"

    def __str__(self) -> str:
        return self.name

    def IP(self) -> str | None:  # noqa: N802 (Mininet's name)
        """Its IPv4 address; None for a switch."""
        return self._address

    def MAC(self) -> str | None:  # noqa: N802 (Mininet's name)
        """The address of its interface; None for a switch."""
        return self._mac

    def intfNames(self) -> list[str]:  # noqa: N802 (Mininet's name)
        """Its interfaces."""
        return list(self._interfaces)

    def cmd(self, *words: object) -> str:
        """Runs a command line and returns what it writes. Raises InputFault if it cannot be run."""
        return self._talk.heard(self.name, " ".join(map(str, words)))

    def cmdPrint(self, *words: object) -> str:  # noqa: N802 (Mininet's name)
        """The same, and shows it."""
        said = self.cmd(*words)
        print(said, end="")
        return said


class Net:
    """The network."""

    def __init__(self, talk: Talk, hosts: Sequence[Node], switches: Sequence[Node]) -> None:
        self._talk = talk
        self.hosts, self.switches = list(hosts), list(switches)
        self._nodes = {node.name: node for node in (*hosts, *switches)}

    def __iter__(self) -> Iterator[str]:
        return iter(self._nodes)

    def __len__(self) -> int:
        return len(self._nodes)

    def __contains__(self, name: object) -> bool:
        return name in self._nodes

    def __getitem__(self, name: str) -> Node:
        return self._nodes[name]

    def get(self, *names: str) -> Node | list[Node]:
        """The node of this name, or those of several. Raises KeyError for one that is not there."""
        found = [self._nodes[name] for name in names]
        return found[0] if len(found) == 1 else found

    def keys(self) -> list[str]:
        """All names."""
        return list(self._nodes)

    def values(self) -> list[Node]:
        """All nodes."""
        return list(self._nodes.values())

    def pingAll(self) -> str:  # noqa: N802 (Mininet's name)
        """What `pingall` writes."""
        return self._talk.do("pingall")

    def pingPair(self) -> str:  # noqa: N802 (Mininet's name)
        """What `pingpair` writes."""
        return self._talk.do("pingpair")

    def iperf(self, hosts: Sequence[Node] = (), l4Type: str = "TCP", udpBw: str = "10M") -> str:  # noqa: N803 (Mininet's names)
        """What `iperf` or `iperfudp` writes, between two hosts; by default between the first and the last."""
        ends = " ".join(str(host) for host in (hosts or (self.hosts[0], self.hosts[-1])))
        return self._talk.do(f"iperfudp {udpBw} {ends}" if l4Type.upper() == "UDP" else f"iperf {ends}")

    def configLinkStatus(self, a: str, b: str, status: str) -> str:  # noqa: N802 (Mininet's name)
        """Brings links down or up, as `link` does."""
        return self._talk.do(f"link {a} {b} {status}")
