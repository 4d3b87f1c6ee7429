"""`gradwire why` and `gradwire trace` for the folder of a `gradwire exec`, which has no points and no plan: the bytes
that ports carried, and each captured packet."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
from rich.console import RenderableType
from rich.text import Text

from gradwire.analysis.packets.capture_files import Packets, read_capture
from gradwire.analysis.port_traffic import ports_traffic
from gradwire.analysis.report.terminal_tables import TerminalTable
from gradwire.analysis.timeline.trace import Event
from gradwire.datatypes.records import CAPTURE_FOLDER
from gradwire.faults import InputFault
from gradwire.inside.program_protocol import TASK_FILE, how_it_ended
from gradwire.network.fabric import Fabric
from gradwire.programs.execution import SUMMARY_FILE, Summary
from gradwire.runs.listings import Timeline
from gradwire.runs.program_listings import BUSIEST_SHOWN, ports_table
from gradwire.runs.program_work import refuse_unsound
from gradwire.runs.stored.files import read_message, reading
from gradwire.runs.stored.run_folder import RUNS, SCENARIO_FILE
from gradwire.runs.stored.soundness import sound_fabric
from gradwire.runs.stored.symbolic_links import refuse_links

MOST_PACKETS = 1_000_000
"""Largest number of packets in a trace, which Perfetto shows: a line of 100 bytes each."""
REMEDY = "`gradwire exec` writes it anew"
NETWORK = 1
"""The process of a trace that stands for the network."""


class _Task(msgspec.Struct):
    """The part of task.json that is needed."""

    fabric: str


@dataclass(frozen=True)
class Executed:
    """The folder of a `gradwire exec`."""

    folder: Path

    @property
    def label(self) -> str:
        """Name of the folder."""
        return self.folder.resolve().name

    def summary(self) -> Summary:
        """Reads the summary of the programs' run. Raises InputFault for a file that cannot be read."""
        path, fabric = self.folder / SUMMARY_FILE, self.fabric()
        with reading(path, REMEDY):
            summary = read_message(path, Summary)
            refuse_unsound(summary, (), fabric)
        return summary

    def fabric(self) -> Fabric:
        """Reads the network that the programs ran on. Raises InputFault for a file that cannot be read."""
        path = self.folder / TASK_FILE
        with reading(path, REMEDY):
            return sound_fabric(read_message(path, _Task).fabric)


def executed_in(run: Path) -> Executed | None:
    """The `gradwire exec` whose folder is at a path, or of that name in runs/; None if none is. Raises InputFault for one of a Mininet
    script, of which nothing is counted, and for links in it."""
    for folder in (run, RUNS / run):
        if (folder / SCENARIO_FILE).exists():
            return None
        if (folder / SUMMARY_FILE).is_file() and (folder / TASK_FILE).is_file():
            refuse_links(folder)
            with reading(folder / TASK_FILE, REMEDY):
                if "script" in read_message(folder / TASK_FILE, dict[str, Any]):
                    raise InputFault(
                        f"{folder}: holds a run of a Mininet script, of which nothing is counted or captured; its outputs are "
                        f"in {folder / 'output'}, and `gradwire exec` and labs capture packets"
                    )
            return Executed(folder)
    return None


def refuse_point(executed: Executed, point: str, iteration: int | None) -> None:
    """Raises InputFault for options that only apply to other runs."""
    if point:
        raise InputFault(f"{executed.folder}: holds a run of `gradwire exec`, which has no points; leave {point!r} out")
    if iteration is not None:
        raise InputFault(f"--iteration {iteration}: programs have no iterations; leave it out")


def network_of(executed: Executed, *, every: bool) -> Iterator[RenderableType]:
    """Yields a report of the traffic that the network carried while the programs ran. every: whether it has all ports,
    or only those that carried most."""
    summary = executed.summary()
    report, counts = summary.report, summary.report.counts
    yield Text(f"{executed.label}: {report.duration_s:.6f} s of virtual time", style="bold")
    if summary.failed:
        yield Text(f"{summary.failed} {how_it_ended(summary.exit_status)}")
    yield TerminalTable(
        ports_table(ports_traffic(executed.fabric(), counts), report.duration_s, None if every else BUSIEST_SHOWN)
    )
    yield Text(f"{counts.tcp_retransmits:,} of {counts.tcp_segments_sent:,} TCP segments were sent again")
    yield Text(
        "Programs have no plan, so nobody knows what the network was waited for. `gradwire trace` shows captured packets."
    )


def packets_of(executed: Executed) -> Timeline:
    """Each captured packet, for as long as its port's line is busy with it. Raises InputFault where nothing was captured, or too much to be
    shown."""
    fabric = executed.fabric()
    rates_bps = {port.interface: rate_bps for port, rate_bps in fabric.ports()}
    files = sorted((executed.folder / CAPTURE_FOLDER).glob("*.pcapng"))
    files = [file for file in files if file.stem in rates_bps]
    if not files:
        raise InputFault(
            f"{executed.folder}: holds no captured packets, of which the trace of a `gradwire exec` consists; run it again with "
            "--capture h1, or all"
        )
    captures: dict[str, Packets] = {}
    count = 0
    for file in files:
        captures[file.stem] = read_capture(file, fabric.mtu_bytes, start_ns=0).packets
        count += len(captures[file.stem].time_ns)
        if count > MOST_PACKETS:  # the other files are not read: there may be any number
            raise InputFault(
                f"{executed.folder}: a trace shows {MOST_PACKETS:,} packets, and more were captured; open the files in "
                f"{executed.folder / CAPTURE_FOLDER} with Wireshark, or capture fewer ports"
            )
    begin_ns = min((int(packets.time_ns.min()) for packets in captures.values() if len(packets.time_ns)), default=0)
    events: list[Event] = [_named("process_name", 0, "network: packets")]
    for number, (port, packets) in enumerate(captures.items()):
        events += packet_events(port, packets, rates_bps[port], begin_ns, 2 * number + 1)
    return Timeline(executed.label, None, f"{count:,} packets", events)


def packet_events(port: str, packets: Packets, rate_bps: float, begin_ns: int, track: int) -> Iterator[Event]:
    """Yields a slice for each packet, on two tracks: packets that the port's device sends, and packets that it
    receives. A slice ends at the next one at the latest."""
    for is_sent, name in ((True, "sends"), (False, "receives")):
        yield _named("thread_name", track + (not is_sent), f"{port} {name}")
        chosen = packets.outbound == is_sent
        times_ns, sizes = packets.time_ns[chosen].tolist(), packets.line_bytes[chosen].tolist()
        frame_bytes = packets.frame_bytes[chosen].tolist()
        nexts_ns = [*times_ns[1:], None][: len(times_ns)]
        for at_ns, next_ns, line_bytes, shown in zip(times_ns, nexts_ns, sizes, frame_bytes, strict=True):
            busy_ns = line_bytes * 8 / rate_bps * 1e9
            if next_ns is not None:
                busy_ns = max(0, min(busy_ns, next_ns - at_ns))
            yield {
                "ph": "X",
                "name": f"{shown:,} bytes",
                "cat": "packet",
                "pid": NETWORK,
                "tid": track + (not is_sent),
                "ts": round((at_ns - begin_ns) / 1e3, 3),
                "dur": round(busy_ns / 1e3, 3),
            }


def _named(what: str, track: int, name: str) -> Event:
    return {"ph": "M", "name": what, "pid": NETWORK, "tid": track, "args": {"name": name}}
