"""A run folder's captures: read once and then from a cache, given a dissector, and found by the name of their point."""

from __future__ import annotations

import hashlib
import os
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from gradwire import PACKAGE
from gradwire.agents.capture.recorder import PortFile
from gradwire.analysis.packets import captures
from gradwire.analysis.packets.capture_files import Capture, read_capture
from gradwire.analysis.packets.captures import read_captures, write_dissector
from gradwire.datatypes.records import CAPTURE_FOLDER, CaptureRecord, PointRecord
from gradwire.faults import InputFault
from gradwire.inside.point_protocol import read_json, write_json
from gradwire.network.fabric import Fabric
from tests.shared.captured_streams import Line, header
from tests.unit.runs.test_campaign import planned_runs, record

FABRIC = Fabric(hosts=2, rate_bps=1e9)
START_NS = 1_000_000_000


@pytest.fixture
def about(tmp_path: Path) -> PointRecord:
    """A record of one captured port, whose file is in the folder."""
    (tmp_path / CAPTURE_FOLDER).mkdir()
    packets = Line().packets([header(op, 4000) for op in range(9)], START_NS, [5000])
    file = PortFile((tmp_path / CAPTURE_FOLDER / "h1-eth0.pcapng").open("wb"), "h1-eth0", 1e9, 160)
    for packet in packets:
        file.write(packet)
    file.end(len(packets), 0)
    port = CaptureRecord("h1-eth0", "h1-eth0.pcapng", len(packets), len(packets), 0)
    return replace(record(4, 1), captures=(port,), capture_start_ns=START_NS)


def test_a_record_with_captures_comes_back_from_its_file(about: PointRecord, tmp_path: Path) -> None:
    write_json(tmp_path / "record.json", about)
    assert read_json(tmp_path / "record.json", PointRecord) == about


@pytest.fixture
def cached(tmp_path: Path) -> Path:
    """The user's cache, which is not there yet."""
    return tmp_path / "home" / "cache"


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """The files that are read as captures."""
    read: list[Path] = []

    def counted(path: Path, mtu_bytes: int, *, start_ns: int) -> Capture:
        read.append(path)
        return read_capture(path, mtu_bytes, start_ns=start_ns)

    monkeypatch.setattr(captures, "read_capture", counted)
    return read


def test_a_capture_is_read_once(about: PointRecord, tmp_path: Path, cached: Path, reads: list[Path]) -> None:
    (first,) = read_captures(tmp_path, FABRIC, about, cached)
    (again,) = read_captures(tmp_path, FABRIC, about, cached)
    assert len(reads) == 1
    np.testing.assert_array_equal(first.packets.time_ns, again.packets.time_ns)
    assert first.packets.time_ns[0] == 0, "from the agents' start on"
    assert [path.name for path in (tmp_path / CAPTURE_FOLDER).iterdir()] == ["h1-eth0.pcapng"]


def test_the_cache_knows_a_capture_by_its_content(
    about: PointRecord, tmp_path: Path, cached: Path, reads: list[Path]
) -> None:
    """Neither its date and size nor its name: both are the choice of whoever made the folder."""
    (first,) = read_captures(tmp_path, FABRIC, about, cached)
    path = tmp_path / CAPTURE_FOLDER / "h1-eth0.pcapng"
    status = path.stat()
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns + 1))
    read_captures(tmp_path, FABRIC, about, cached)
    assert len(reads) == 1, "the same content at another time"
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2] + content[len(content) // 2 :].replace(b"\0\0\0", b"\1\0\0", 1))
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert path.stat().st_size == status.st_size
    with suppress(InputFault):
        read_captures(tmp_path, FABRIC, about, cached)
    assert len(reads) == 2, "other content of the same size and date"
    path.write_bytes(content)
    (later,) = read_captures(tmp_path, FABRIC, replace(about, capture_start_ns=START_NS - 5), cached)
    assert later.packets.time_ns[0] == first.packets.time_ns[0] + 5
    assert len(reads) == 3, "with times from another origin"


def test_columns_in_a_run_folder_do_not_stand_for_its_capture(
    about: PointRecord, tmp_path: Path, cached: Path, reads: list[Path]
) -> None:
    """Somebody gives a folder with a capture, and beside it the columns of another one under all names that the cache may have."""
    (sound,) = read_captures(tmp_path, FABRIC, about, cached)
    forged = replace(sound, packets=replace(sound.packets, time_ns=sound.packets.time_ns + 1_000_000))
    folder, foreign = tmp_path / CAPTURE_FOLDER, tmp_path / "other" / "cache"
    names = {path.name for path in cached.glob("*.npz")} | {f"h1-eth0.{digest(folder)}.npz"}
    for name in names:
        forged.save(folder / name)
    reads.clear()
    (capture,) = read_captures(tmp_path, FABRIC, about, foreign)
    assert reads == [folder / "h1-eth0.pcapng"]
    np.testing.assert_array_equal(capture.packets.time_ns, sound.packets.time_ns)


def digest(folder: Path) -> str:
    """What named the columns when they were beside the capture: its size and date, and the code that reads it."""
    status = (folder / "h1-eth0.pcapng").stat()
    sources = "".join((PACKAGE / name).read_text() for name in captures.READERS)
    return hashlib.sha256(f"{status.st_size} {status.st_mtime_ns} {sources}".encode()).hexdigest()[:8]


def test_a_damaged_or_missing_cache_is_no_obstacle(about: PointRecord, tmp_path: Path, cached: Path) -> None:
    (first,) = read_captures(tmp_path, FABRIC, about, cached)
    (columns,) = cached.iterdir()
    columns.write_bytes(columns.read_bytes()[:100])
    (again,) = read_captures(tmp_path, FABRIC, about, cached)
    np.testing.assert_array_equal(first.packets.time_ns, again.packets.time_ns)
    nowhere = tmp_path / "file"
    nowhere.write_text("")
    assert len(read_captures(tmp_path, FABRIC, about, nowhere / "cache")) == 1


def test_the_cache_forgets_what_was_not_used_for_longest(
    about: PointRecord, tmp_path: Path, cached: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read_captures(tmp_path, FABRIC, about, cached)
    (oldest,) = cached.iterdir()
    os.utime(oldest, ns=(0, 0))
    monkeypatch.setattr(captures, "MOST_CACHED_BYTES", 2 * oldest.stat().st_size)
    for origin_ns in (START_NS - 1, START_NS - 2):
        read_captures(tmp_path, FABRIC, replace(about, capture_start_ns=origin_ns), cached)
    assert len(list(cached.iterdir())) == 2
    assert not oldest.exists()


def test_a_capture_that_is_gone_is_missed(about: PointRecord, tmp_path: Path, cached: Path) -> None:
    (tmp_path / CAPTURE_FOLDER / "h1-eth0.pcapng").unlink()
    with pytest.raises(InputFault, match=r"h1-eth0\.pcapng: is gone"):
        read_captures(tmp_path, FABRIC, about, cached)


def test_the_dissector_is_written_with_the_names_of_what_passes(about: PointRecord, tmp_path: Path) -> None:
    point, _ = planned_runs(tmp_path)
    plan = next(iter(point.plans.values()))
    write_dissector(tmp_path, plan, FABRIC, about)
    text = (tmp_path / CAPTURE_FOLDER / "gradwire.lua").read_text()
    assert "(worker on h1)" in text
    assert plan.tensors[0] in text
    between = replace(about, captures=(replace(about.captures[0], port="s1-eth2"),))
    write_dissector(tmp_path, plan, FABRIC, between)
    assert len((tmp_path / CAPTURE_FOLDER / "gradwire.lua").read_text().splitlines()) <= len(text.splitlines())
