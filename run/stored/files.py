"""Files that a run left, read back; what is wrong with one of them is one message that names it and says what to do."""

from __future__ import annotations

import json
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from gradwire.agents.records import OpLog, PointRecord
from gradwire.analysis.packets.captures import read_captures
from gradwire.analysis.packets.reading import Capture
from gradwire.analysis.verdict.verdict import Verdict
from gradwire.faults import InputFault
from gradwire.run.point import Task
from gradwire.topo.fabric import Fabric
from gradwire.workloads.plan import Plan

DAMAGED = (json.JSONDecodeError, UnicodeDecodeError, zipfile.BadZipFile, zlib.error, EOFError)
"""What a file raises that ends too early or was overwritten."""
OTHERWISE_WRITTEN = (KeyError, TypeError, AttributeError, ValueError)
"""What a whole file raises that holds other fields or values than this version writes."""


@contextmanager
def reading(path: Path, mend: str = "") -> Iterator[None]:
    """Around what reads `path`, a file of a point's folder unless `mend` says how else to get a new one. Raises InputFault."""
    remedy = (
        mend or f"remove the folder {_kept_in(path)}, and the next `gradwire run` or `gradwire reproduce` runs it anew"
    )
    try:
        yield
    except OSError as error:
        raise InputFault(f"{path}: cannot be read: {error.strerror or error}; {remedy}") from error
    except DAMAGED as error:
        raise InputFault(f"{path}: is damaged: {error}; {remedy}") from error
    except OTHERWISE_WRITTEN as error:
        told = f"{type(error).__name__}: {error}"
        raise InputFault(f"{path}: was made by another version of gradwire, or changed ({told}); {remedy}") from error


def _kept_in(path: Path) -> Path:
    """The folder of a point's file; that in the store where a run folder only has a link."""
    return path.parent.resolve() if path.parent.is_symlink() else path.parent


def load_task(folder: Path) -> Task:
    """What the point in `folder` was to do. Raises InputFault, as all that follow do."""
    with reading(folder / "task.json"):
        return Task.load(folder)


def load_plan(folder: Path, task: Task, label: str) -> Plan:
    """The plan of a task with this label."""
    with reading(folder / "task.json"):
        path = folder / dict(task.plans)[label]
    with reading(path):
        return Plan.load(path)


def load_log(folder: Path) -> OpLog:
    """What every op did."""
    with reading(folder / "ops.npz"):
        return OpLog.load(folder / "ops.npz")


def load_record(folder: Path) -> PointRecord:
    """How the run went."""
    with reading(folder / "record.json"):
        return PointRecord.load(folder / "record.json")


def load_captures(folder: Path, fabric: Fabric, record: PointRecord) -> list[Capture]:
    """The captured packets, in the record's order."""
    with reading(folder / "capture"):
        return read_captures(folder, fabric, record)


def load_verdict(folder: Path) -> Verdict:
    """What was last judged of the point."""
    path = folder / "verdict.json"
    ended = (folder / "completed.json").exists()
    with reading(path, "`gradwire report` of the run folder writes it anew" if ended else ""):
        return Verdict.load(path)
