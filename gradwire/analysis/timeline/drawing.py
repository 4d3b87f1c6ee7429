"""One iteration in axes that are given: what each rank computes, adds, sends and receives, and when."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from matplotlib.axes import Axes
from matplotlib.patches import Patch

from gradwire.analysis.iterations import iteration_ends_ns
from gradwire.analysis.logged import LoggedOps
from gradwire.analysis.names import Names
from gradwire.analysis.report.charts import PALETTE
from gradwire.analysis.timeline.tracks import Slice, Track, Tracks
from gradwire.datatypes.plan import Plan
from gradwire.datatypes.records import OpLog
from gradwire.faults import InputFault

DOES = {"compute": "computes", "reduce": "adds", "send": "sends", "receive": "receives"}
"""Categories of tracks that are drawn, and what their ranks do."""
FORWARD, BACKWARD = "#7FCFB5", PALETTE[2]
"""Of what is computed: the forward pass in a lighter shade than all else."""
COLORS = {"compute": BACKWARD, "reduce": PALETTE[3], "send": PALETTE[0], "receive": PALETTE[1]}
HAIRLINE_PT = 0.5
"""Outline of every slice: a message that the kernel took at once, in no time, would not be seen without."""
HEIGHT = 0.8
"""Of a row, where rows are 1 apart."""


def draw_timeline(axes: Axes, plan: Plan, log: OpLog, iteration: int) -> None:
    """Draws an iteration: a row for what each rank computes, adds, sends and receives, the first on top, over milliseconds since its begin.

    A message is sent from its first to its last byte handed to the kernel, and received from its header to its last byte. The vertical line
    is the iteration's end; what belongs to it and comes later is drawn as well. Raises InputFault for an iteration that the log lacks.
    """
    logged = LoggedOps.of(plan, log)
    if not 0 <= iteration < logged.iterations:
        raise InputFault(f"iteration {iteration}: the run has iterations 0 to {logged.iterations - 1}")
    begin_ns, end_ns = iteration_ends_ns(plan, log, iteration + 1)[iteration:].tolist()
    tracks = Tracks(logged, iteration, begin_ns, end_ns)
    rows = list(_rows([*tracks.streams(), *tracks.sends(), *tracks.receives()], Names(plan), len(plan.rank_role)))
    for place, (_, category, slices) in enumerate(rows):
        spans_ms = [_span_ms(piece, begin_ns) for piece in slices]
        colors = [FORWARD if piece.name.startswith("forward ") else COLORS[category] for piece in slices]
        below = place - HEIGHT / 2
        axes.broken_barh(spans_ms, (below, HEIGHT), facecolors=colors, edgecolors=colors, linewidth=HAIRLINE_PT)
    axes.axvline((end_ns - begin_ns) / 1e6, color="#777777", linewidth=0.8, linestyle="--")
    axes.set_yticks(range(len(rows)), [label for label, *_ in rows])
    axes.set_ylim(len(rows) - 0.4, -0.6)
    axes.set_xlim(left=0)
    axes.set_xlabel(f"Time in iteration {iteration} (ms); dashed: its end")
    drawn = {category for _, category, _ in rows}
    keys = [Patch(color=FORWARD, label="forward"), Patch(color=BACKWARD, label="backward")]
    keys += [Patch(color=COLORS[name], label=word) for name, word in DOES.items() if name in drawn - {"compute"}]
    axes.legend(handles=keys, loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=len(keys), frameon=False)


def _rows(tracks: Sequence[Track], names: Names, ranks: int) -> Iterator[tuple[str, str, list[Slice]]]:
    """Label, category and slices of each row, rank by rank, in the order of DOES."""
    for rank in range(ranks):
        for category, word in DOES.items():
            slices = [
                piece for track in tracks if (track.rank, track.category) == (rank, category) for piece in track.slices
            ]
            if slices:
                yield f"{names.rank(rank)} {word}", category, slices


def _span_ms(piece: Slice, begin_ns: int) -> tuple[float, float]:
    """Begin and length; what began before the iteration is cut off there."""
    begin = max(piece.begin_ns, begin_ns)
    return (begin - begin_ns) / 1e6, (piece.end_ns - begin) / 1e6
