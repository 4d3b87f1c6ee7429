"""A run folder's captures: read once and then from a cache, given a dissector, and found by the name of their point."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from gradwire.agents.capture.recorder import PortFile
from gradwire.analysis.packets import captures
from gradwire.analysis.packets.captures import read_captures, write_dissector
from gradwire.analysis.packets.reading import Capture, read_capture
from gradwire.datatypes.fabric import Fabric
from gradwire.datatypes.records import CAPTURE_FOLDER, CaptureRecord, PointRecord
from gradwire.faults import InputFault
from gradwire.runs.point_protocol import read_json, write_json
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


def test_a_capture_is_read_once(about: PointRecord, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reads = []

    def counted(path: Path, mtu_bytes: int, *, start_ns: int) -> Capture:
        reads.append(path)
        return read_capture(path, mtu_bytes, start_ns=start_ns)

    monkeypatch.setattr(captures, "read_capture", counted)
    (first,) = read_captures(tmp_path, FABRIC, about)
    (again,) = read_captures(tmp_path, FABRIC, about)
    assert len(reads) == 1
    np.testing.assert_array_equal(first.packets.time_ns, again.packets.time_ns)
    assert first.packets.time_ns[0] == 0, "from the agents' start on"
    path = tmp_path / CAPTURE_FOLDER / "h1-eth0.pcapng"
    os.utime(path, ns=(path.stat().st_atime_ns, path.stat().st_mtime_ns + 1))
    read_captures(tmp_path, FABRIC, about)
    assert len(reads) == 2, "another file of the same name"
    assert len(list(path.parent.glob("*.npz"))) == 1


def test_a_capture_that_is_gone_is_missed(about: PointRecord, tmp_path: Path) -> None:
    (tmp_path / CAPTURE_FOLDER / "h1-eth0.pcapng").unlink()
    with pytest.raises(InputFault, match=r"h1-eth0\.pcapng: is gone"):
        read_captures(tmp_path, FABRIC, about)


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
