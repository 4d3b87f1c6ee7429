"""A critical path as frames: the parts of its time, and its pieces in order."""

from __future__ import annotations

import pandas as pd

from gradwire.analysis.path.critical_path import PARTS, CriticalPath
from gradwire.analysis.path.tables import MEANING
from gradwire.analysis.path.walk import Kind


def parts_frame(path: CriticalPath) -> pd.DataFrame:
    """One row per kind of time: part, kind, duration_s, share and meaning. The durations sum to the iteration's time."""
    rows = [(part, kind) for part, kinds in PARTS.items() for kind in kinds if _is_told(kind, path)]
    return pd.DataFrame(
        {
            "part": pd.Categorical([part for part, _ in rows], categories=list(PARTS)),
            "kind": pd.Categorical([str(kind) for _, kind in rows]),
            "duration_s": [path.kinds_ns[kind] / 1e9 for _, kind in rows],
            "share": [path.kinds_ns[kind] / max(path.duration_ns, 1) for _, kind in rows],
            "meaning": [MEANING[kind] for _, kind in rows],
        }
    )


def _is_told(kind: Kind, path: CriticalPath) -> bool:
    """With a fabric, TRANSFER has no time of its own: it is divided into time on the line and sharing."""
    return kind is not Kind.TRANSFER or path.kinds_ns[kind] > 0


def segments_frame(path: CriticalPath) -> pd.DataFrame:
    """The path in order of time, one row per piece: what it is, its kind, start_s and end_s since the iteration's begin, and duration_s.

    Consecutive segments of one kind and about the same thing are one piece.
    """
    pieces = path.merged()
    begin_ns = pieces[0].segments[0].begin_ns if pieces else 0
    return pd.DataFrame(
        {
            "what": [piece.what for piece in pieces],
            "kind": pd.Categorical([str(piece.kind) for piece in pieces], categories=[str(kind) for kind in Kind]),
            "start_s": [(piece.segments[0].begin_ns - begin_ns) / 1e9 for piece in pieces],
            "end_s": [(piece.segments[-1].end_ns - begin_ns) / 1e9 for piece in pieces],
            "duration_s": [piece.duration_ns / 1e9 for piece in pieces],
        }
    )
