"""What tshark makes of a capture with gradwire's dissector."""

from __future__ import annotations

import subprocess
import xml.etree.ElementTree as ET
from pathlib import Path

OUTBOUND = 2


EVERY_SEGMENT = "tcp.no_subdissector_on_error:FALSE"
"""Without it, Wireshark shows a dissector no segment that came again or late."""


def dissected(capture: Path, script: Path) -> list[dict[str, str]]:
    """One dictionary a message, multicast datagram or report, in the capture's order: its fields, and the packet's frame and way."""
    command = ["tshark", "-X", f"lua_script:{script}", "-o", EVERY_SEGMENT, "-r", str(capture)]
    command += ["-Y", "gradwire", "-T", "pdml", "-J", "gradwire frame"]
    found: list[dict[str, str]] = []
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        packet: dict[str, str] = {}
        for _, element in ET.iterparse(process.stdout):
            if element.tag != "proto":
                continue
            fields = {field.get("name", ""): field.get("show", "") for field in element.iter("field")}
            if element.get("name") == "frame":
                packet = {"frame": fields["frame.number"], "way": fields.get("frame.packet_flags_direction", "0x0")}
            elif element.get("name") == "gradwire":
                named = {name.removeprefix("gradwire."): shown for name, shown in fields.items()}
                found.append({**packet, **named, "line": element.get("showname", "")})
        complaint = process.stderr.read().decode()
    assert process.returncode == 0, complaint
    assert "Lua" not in complaint, complaint
    return found


def messages(found: list[dict[str, str]]) -> list[dict[str, str]]:
    """Those that are messages."""
    return [fields for fields in found if "message" in fields]


def is_outbound(fields: dict[str, str]) -> bool:
    """Whether the packet left the port's device."""
    return int(fields["way"], 16) == OUTBOUND
