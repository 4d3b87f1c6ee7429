"""A point's captures: each is read once and cached as columns beside its file, with a dissector that knows the plan."""

from __future__ import annotations

import glob
import hashlib
import os
from pathlib import Path

from gradwire import PACKAGE
from gradwire.analysis.packets.dissector import dissector_text
from gradwire.analysis.packets.places import place_of
from gradwire.analysis.packets.reading import Capture, read_capture
from gradwire.datatypes.fabric import Fabric
from gradwire.datatypes.plan import Plan
from gradwire.datatypes.records import CAPTURE_FOLDER, PointRecord
from gradwire.faults import InputFault
from gradwire.files import replace_text
from gradwire.regular_files import CAPTURE_BYTES, opened

READERS = (
    "analysis/packets/reading.py",
    "datatypes/wire/trail.py",
    "datatypes/wire/headers.py",
    "datatypes/wire/framing.py",
    "datatypes/wire/datagrams.py",
)
"""Source files that decide how a capture is read."""


def read_captures(folder: Path, fabric: Fabric, record: PointRecord) -> list[Capture]:
    """The captures of the point in `folder`, in the order of its record. Raises InputFault for a file that is gone or not a capture."""
    captures = []
    for about in record.captures:
        if about.file in ("", "..") or Path(about.file).name != about.file:
            raise InputFault(
                f"{folder}: its record names the capture '{about.file}', which is not a name of a file in {CAPTURE_FOLDER}/"
            )
        path = folder / CAPTURE_FOLDER / about.file
        if not path.exists() and not path.is_symlink():
            raise InputFault(
                f"{path}: is gone, and the point's verdict depends on it; run the point again in another --out"
            )
        cache = path.with_suffix(f".{_readers_digest(path)}.npz")
        if not cache.exists():
            for old in path.parent.glob(f"{glob.escape(path.stem)}.*.npz"):
                old.unlink()
            read_capture(path, fabric.mtu_bytes, start_ns=record.capture_start_ns).save(cache)
        captures.append(Capture.load(cache))
    return captures


def _readers_digest(path: Path) -> str:
    """Digest of the capture file's identity and of the code that reads it."""
    with opened(path, CAPTURE_BYTES) as file:
        status = os.fstat(file.fileno())
    sources = "".join((PACKAGE / name).read_text() for name in READERS)
    return hashlib.sha256(f"{status.st_size} {status.st_mtime_ns} {sources}".encode()).hexdigest()[:8]


def write_dissector(folder: Path, plan: Plan, fabric: Fabric, record: PointRecord) -> None:
    """Writes gradwire.lua, the Wireshark dissector with the plan's names, beside the captures."""
    places = [place_of(fabric, about.port) for about in record.captures]
    between_switches = any(place.endpoint is None for place in places)
    named = (
        range(fabric.endpoints)
        if between_switches
        else {place.endpoint for place in places if place.endpoint is not None}
    )
    replace_text(folder / CAPTURE_FOLDER / "gradwire.lua", dissector_text(plan, fabric, named))
