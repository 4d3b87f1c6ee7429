"""Hostile captures: damaged pcap and pcapng files."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from random import Random

from scapy.layers.l2 import Ether
from scapy.utils import PcapWriter

from gradwire.agents.capture import recorder
from gradwire.analysis.packets.capture_files import read_capture
from gradwire.faults import InputFault
from tests.hostile.damage import damaged
from tests.hostile.limits import Outcome, outcome
from tests.shared.captured_streams import Line, header

PACKETS = tuple(Line().packets([header(op, 3000) for op in range(6)], 10**6, [4000]))


def _pcap(folder: Path) -> bytes:
    path = folder / "sound.pcap"
    with PcapWriter(str(path), nano=True) as writer:
        for packet in PACKETS:
            frame = Ether(bytes(packet.data))
            frame.time = packet.time_ns / 1e9
            writer.write(frame)
    return path.read_bytes()


@cache
def sound_pcapng() -> bytes:
    blocks = [recorder.section_block("gradwire"), recorder.interface_block("h1-eth0", "port", 160, 1e10)]
    blocks += [
        recorder.packet_block(one.time_ns, bytes(one.data)[:160], len(one.data), 1, ("note",)) for one in PACKETS
    ]
    return b"".join(blocks)


def tried(number: int, folder: Path) -> Outcome:
    """Reads the capture of this number."""
    random = Random(f"capture/{number}")
    path = folder / "hostile.pcapng"
    sound = sound_pcapng() if random.random() < 0.6 else _pcap(folder)
    content = damaged(sound, random)
    path.write_bytes(damaged(content, random) if random.random() < 0.2 else content)
    address = random.choice(("10.0.0.1", None))
    return outcome(lambda: read_capture(path, 1500, address=address), (InputFault,))
