"""topology.txt of simulators on ns-3: HPCC's (https://github.com/alibaba-edu/High-Precision-Congestion-Control), which ASTRA-sim
and others took over, and SimAI's (https://github.com/aliyun/SimAI), which has servers of GPUs besides.

The first line has the numbers of nodes, switches and links; SimAI's has those of nodes, GPUs per server, NVLink switches, switches
and links, and the type of the GPUs. Then come the switches, and for each link `source destination rate delay error_rate`. All other nodes
are hosts. What NVLink switches join is inside of a server.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from gradwire.faults import InputFault
from gradwire.scenario.definitions.networks.network_form import Content, noted, refuse_many, shown
from gradwire.scenario.sections.network import NoteKind

HEADS = (
    "must begin with the numbers of nodes, switches and links, as HPCC's topology.txt, or of nodes, GPUs per server, NVLink "
    "switches, switches and links and the type of the GPUs, as SimAI's"
)
LINK = "must be source, destination, rate, delay and error rate, such as 0 8 100Gbps 0.001ms 0"
MOST_GPUS_PER_SERVER = 1024


def simulator_topology(path: Path, text: str) -> Content:
    """The content of a NetworkDefinition. Raises InputFault with the first line that is wrong."""
    try:
        return _TopologyReading(path, text).content()
    except _LineError as error:
        raise InputFault(f"{path}: {error}") from error


class _LineError(Exception):
    """A line that is wrong."""


class _TopologyReading:
    """Goes through a file once."""

    def __init__(self, path: Path, text: str) -> None:
        self._lines = [
            (number, words)
            for number, line in enumerate(text.splitlines(), 1)
            if (words := line.split()) and not words[0].startswith("#")
        ]
        self._nodes, self._per_server, self._nvlink_switches, switches, self._links = self._numbers()
        refuse_many(path, self._nodes, self._links)
        self._switch_ids, self._first_link = self._switches(self._nvlink_switches + switches)

    def content(self) -> Content:
        """The content of a NetworkDefinition."""
        inside = set(self._switch_ids[: self._nvlink_switches])
        outside = self._switch_ids[self._nvlink_switches :]
        names = {node: f"s{node}" for node in outside} | dict(self._hosts())
        links: list[Content] = []
        left_out = 0
        for number, (source, destination, rate, delay, error_rate) in self._link_lines():
            ends = [_whole(number, word, self._nodes - 1) for word in (source, destination)]
            if inside & set(ends):
                left_out += 1
                continue
            try:
                loss = float(error_rate)
            except ValueError as error:
                raise _LineError(f"line {number}: error rate {shown(error_rate)}: must be a share") from error
            links.append({"a": names[ends[0]], "b": names[ends[1]], "rate": rate, "delay": delay, "loss": loss})
        content: Content = {
            "hosts": [name for node, name in names.items() if node not in self._switch_ids],
            "switches": [names[node] for node in outside],
            "links": links,
        }
        notes = [noted(NoteKind.INSIDE, ["NVLink switches"], nodes=len(inside), links=left_out)] if inside else []
        behind = len(self._lines) - self._first_link - self._links
        if behind:  # HPCC's own example has some
            notes.append(noted(NoteKind.UNUSED, [f"{behind} lines behind the links that the first line counts"]))
        return {**content, "notes": notes} if notes else content

    def _numbers(self) -> tuple[int, int, int, int, int]:
        """Nodes, GPUs per server, NVLink switches, other switches, links."""
        number, words = self._lines[0] if self._lines else (1, [])
        if len(words) == 3 and all(map(str.isdecimal, words)):
            nodes, switches, links = (_whole(number, word) for word in words)
            return nodes, 1, 0, switches, links
        if len(words) == 6 and all(map(str.isdecimal, words[:5])):
            nodes, per_server, nvlink_switches, switches, links = (_whole(number, word) for word in words[:5])
            if not 1 <= per_server <= MOST_GPUS_PER_SERVER:
                raise _LineError(f"line {number}: {per_server} GPUs per server; must be 1 to {MOST_GPUS_PER_SERVER:,}")
            return nodes, per_server, nvlink_switches, switches, links
        raise _LineError(f"line {number}: {HEADS}")

    def _switches(self, count: int) -> tuple[list[int], int]:
        """The switches, which may be on several lines, and the number of lines up to their end."""
        found: list[int] = []
        place = 1
        while len(found) < count and place < len(self._lines):
            number, words = self._lines[place]
            found += [_whole(number, word, self._nodes - 1) for word in words[: count + 1]]
            place += 1
        if len(found) != count or len(set(found)) < count:
            raise _LineError(f"lists {len(set(found)):,} switches below its first line, which says {count:,}")
        return found, place

    def _hosts(self) -> Iterator[tuple[int, str]]:
        """Nodes that are not switches, with names: h0, or server.0.gpu.1 where a server has several."""
        switches = set(self._switch_ids)
        hosts = [node for node in range(self._nodes) if node not in switches]
        for place, node in enumerate(hosts):
            server, gpu = divmod(place, self._per_server)
            yield node, f"h{node}" if self._per_server == 1 else f"server.{server}.gpu.{gpu}"

    def _link_lines(self) -> Iterator[tuple[int, Sequence[str]]]:
        lines = self._lines[self._first_link : self._first_link + self._links]
        if len(lines) < self._links:
            raise _LineError(f"has {len(lines):,} lines of links; its first line says {self._links:,}")
        for number, words in lines:
            if len(words) != 5:
                raise _LineError(f"line {number}: {LINK}")
            yield number, words


def _whole(number: int, word: str, most: int = 10**6) -> int:
    """A whole number of at most so much. Raises _LineError."""
    if not (word.isdecimal() and word.isascii() and len(word) <= 7 and int(word) <= most):
        raise _LineError(f"line {number}: {shown(word)}: must be a whole number of 0 to {most:,}")
    return int(word)
