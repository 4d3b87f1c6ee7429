"""Captures of a point, and where their ports are in the network. Each is read once and kept as columns in the user's
cache.

The folder gets a Wireshark dissector that knows the plan: it is preceded by the plan's names.

Nothing in a run folder stands for a capture but the capture: whoever made the folder could have written the columns as
well. The cache is the user's, and its files are named after the content of the capture."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Collection, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np

from gradwire import PACKAGE
from gradwire.analysis.bounds import transfers
from gradwire.analysis.packets.capture_files import Capture, read_capture
from gradwire.array_files import NOT_SUCH_AN_ARCHIVE
from gradwire.cache_files import saving_time
from gradwire.datatypes.plan import OpKind, Plan, Role
from gradwire.datatypes.records import CAPTURE_FOLDER, PointRecord
from gradwire.faults import InputFault, InternalFault
from gradwire.files import replace_text
from gradwire.network.fabric import Fabric
from gradwire.regular_files import CAPTURE_BYTES, CHUNK_BYTES, opened

READERS = (
    "analysis/packets/capture_files.py",
    "network/wire/trail.py",
    "network/wire/headers.py",
    "datatypes/wire/framing.py",
    "network/wire/datagrams.py",
)
"""Source files that decide how a capture is read."""
CACHED_CAPTURES = "captures"
"""Folder of captures in the cache."""
MOST_CACHED_BYTES = 2 << 30
"""Largest size of all captures in the cache; beyond it, those are removed that have not been used for longest. With a
row of 41 bytes per packet, this holds 50 million packets."""
DISSECTOR = Path(__file__).with_name("gradwire.lua")


@dataclass(frozen=True)
class PortLocation:
    """Location of a port in the fabric."""

    #: Interface name of the port.
    port: str
    #: The port at the other end of its link.
    far_port: str
    #: Index of the host or aggregator at its link; None between switches.
    endpoint: int | None
    #: Whether the port belongs to that endpoint.
    is_near: bool


def location_of(fabric: Fabric, port: str) -> PortLocation:
    """The place of a port by its interface name. Raises InternalFault if the fabric has no such port."""
    names = fabric.endpoint_names()
    for link in fabric.links():
        if port in (link.a.interface, link.b.interface):
            near = link.a.interface == port
            far = link.b if near else link.a
            endpoint = names.index(link.a.device) if link.a.device in names else None
            return PortLocation(port, far.interface, endpoint, near and endpoint is not None)
    raise InternalFault(f"a capture names port {port}, which the fabric does not have")


def read_captures(folder: Path, fabric: Fabric, record: PointRecord, cached: Path) -> list[Capture]:
    """The captures of the point in `folder`, in the order of its record.

    cached: folder of the user's cache for captures that were read before. It is made where it is needed.

    Raises InputFault for a file that is gone or not a capture.
    """
    captures = []
    for about in record.captures:
        if about.file in ("", "..") or Path(about.file).name != about.file:
            raise InputFault(
                f"{folder}: its record names the capture '{about.file}', which is not a name of a file in "
                f"{CAPTURE_FOLDER}/"
            )
        path = folder / CAPTURE_FOLDER / about.file
        if not path.exists() and not path.is_symlink():
            raise InputFault(
                f"{path}: is gone, and the point's verdict depends on it; run the point again in another --out"
            )
        captures.append(_read_once(path, fabric.mtu_bytes, record.capture_start_ns, cached))
    return captures


def _read_once(path: Path, mtu_bytes: int, start_ns: int, cached: Path) -> Capture:
    """The capture from the cache if a file of the same content was read
    before; otherwise from its file, and into the cache."""
    digest = _content_digest(path)
    columns = cached / f"{_key(digest, mtu_bytes, start_ns)}.npz"
    with suppress(*NOT_SUCH_AN_ARCHIVE):
        capture = Capture.load(columns)
        os.utime(columns)
        return capture
    capture = read_capture(path, mtu_bytes, start_ns=start_ns)
    if _content_digest(path) == digest:  # not what was in the file before it changed
        with saving_time(columns):
            cached.mkdir(parents=True, exist_ok=True)
            capture.save(columns)
            _make_room(cached, MOST_CACHED_BYTES)
    return capture


def _content_digest(path: Path) -> str:
    """SHA-256 of a capture file."""
    sha = hashlib.sha256()
    with opened(path, CAPTURE_BYTES, bounded=True) as file:
        while chunk := file.read(CHUNK_BYTES):
            sha.update(chunk)
    return sha.hexdigest()


def _key(content_digest: str, mtu_bytes: int, start_ns: int) -> str:
    """Name of the columns in the cache: a hash of everything that decides their contents."""
    text = f"{content_digest} {mtu_bytes} {start_ns} {_readers_digest()}"
    return hashlib.sha256(text.encode()).hexdigest()


@cache
def _readers_digest() -> str:
    return hashlib.sha256(
        "".join((PACKAGE / name).read_text(encoding="utf-8") for name in READERS).encode()
    ).hexdigest()


def _make_room(cached: Path, most_bytes: int) -> None:
    """Removes the columns that were not used for longest, until the others take no more than `most_bytes`."""
    states = [(path.stat(), path) for path in cached.glob("*.npz")]
    total_bytes = 0
    for state, path in sorted(states, key=lambda entry: -entry[0].st_mtime_ns):
        total_bytes += state.st_size
        if total_bytes > most_bytes:
            path.unlink(missing_ok=True)


def write_dissector(folder: Path, plan: Plan, fabric: Fabric, record: PointRecord) -> None:
    """Writes gradwire.lua, the Wireshark dissector with the plan's names, into the folder of the captures."""
    places = [location_of(fabric, about.port) for about in record.captures]
    between_switches = any(location.endpoint is None for location in places)
    named = (
        range(fabric.endpoints)
        if between_switches
        else {location.endpoint for location in places if location.endpoint is not None}
    )
    replace_text(folder / CAPTURE_FOLDER / "gradwire.lua", dissector_text(plan, fabric, named))


def dissector_text(plan: Plan, fabric: Fabric, endpoints: Collection[int]) -> str:
    """Lua source for Wireshark with the plan's tensors, chunks and ranks, and its messages from or to `endpoints`."""
    return (
        "".join(f"{line}\n" for line in _names(plan, fabric, endpoints)) + "\n" + DISSECTOR.read_text(encoding="utf-8")
    )


def _names(plan: Plan, fabric: Fabric, endpoints: Collection[int]) -> Iterator[str]:
    hosts = fabric.endpoint_names()
    yield f"-- Names of plan {plan.digest()} ({lua_text(plan.name)})."
    yield "gradwire_names = {"
    yield "ranks = {"
    for rank, (role, host) in enumerate(zip(plan.rank_role.tolist(), plan.rank_host.tolist(), strict=True)):
        name = f"rank {rank} ({Role(role).name.lower()} on {hosts[host]})"
        yield f"[{rank}]={lua_text(name)},"
    yield "},"
    yield "tensors = {"
    yield from (f"[{tensor}]={lua_text(name)}," for tensor, name in enumerate(plan.tensors))
    yield "},"
    yield "-- chunk: tensor's slice, of how many"
    yield "chunks = {"
    yield from (f"[{chunk}]={{{slice_},{slices}}}," for chunk, (slice_, slices) in enumerate(slices_of(plan)))
    yield "},"
    yield "-- message: how it is combined, order in its send queue"
    yield "messages = {"
    yield from _messages(plan, endpoints)
    yield "}}"


def slices_of(plan: Plan) -> list[tuple[int, int]]:
    """For each chunk: the number of its slice, counted from 1, and the number of slices of its tensor."""
    counts = np.bincount(plan.chunk_tensor, minlength=len(plan.tensors))
    before: dict[int, int] = {}
    slices = []
    for tensor in plan.chunk_tensor.tolist():
        before[tensor] = before.get(tensor, 0) + 1
        slices.append((before[tensor], int(counts[tensor])))
    return slices


def _messages(plan: Plan, endpoints: Collection[int]) -> Iterator[str]:
    ops, moved = plan.ops, transfers(plan)
    here = np.isin(moved.src, list(endpoints)) | np.isin(moved.dst, list(endpoints))
    recvs = np.flatnonzero(ops.kind == OpKind.RECV)
    combine = np.zeros(len(ops), dtype=np.int64)
    combine[ops.message[recvs]] = ops.combine[recvs]
    for op in np.unique(moved.op[here]).tolist():
        yield f"[{op}]={{{combine[op]},{ops.order[op]}}},"


def lua_text(text: str) -> str:
    """A string literal of Lua; special characters are written as the numbers of their bytes."""
    plain = (chr(byte) if 32 <= byte < 127 and chr(byte) not in '"\\' else f"\\{byte:03d}" for byte in text.encode())
    return f'"{"".join(plain)}"'
