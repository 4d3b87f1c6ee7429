"""Geryon's Table II on lossless Ethernet, cell by cell, and on the queues without end that stand in for it otherwise.

    python -m benchmarks.lossless --geryon [--runs FOLDER]

Runs the 12 points of the paper's table twice, as its scenario is and with `fabric.lossless = {}`, and prints what each
takes. Nothing is judged by it: the reproduction and its score keep queues without end.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from gradwire.api.run import Run
from gradwire.api.running import run

SCENARIO = "geryon-table2"
HEAD = (
    "| model | strategy | efficiency, % | with pauses | time, s | with pauses | change | pauses | stood still, ms |",
    "|---|---|---|---|---|---|---|---|---|",
)


@dataclass(frozen=True)
class Cell:
    """A point of the table on both networks."""

    model: str
    strategy: str
    #: Scaling efficiency and time of an iteration, on queues without end and with pauses.
    efficiencies: tuple[float, float]
    times_s: tuple[float, float]
    #: With `fabric.lossless`, in the whole run: pauses of all ports and how long these stood still.
    pauses: int
    stood_still_s: float
    are_valid: bool

    def change(self) -> float:
        """By which share of itself the time changes."""
        return self.times_s[1] / self.times_s[0] - 1


def text_of(cell: Cell) -> str:
    """A line of the table."""
    cells = [
        cell.model,
        cell.strategy,
        *(f"{100 * efficiency:.2f}" for efficiency in cell.efficiencies),
        *(f"{time_s:.4f}" for time_s in cell.times_s),
        f"{100 * cell.change():+.2f} %",
        f"{cell.pauses:,}",
        f"{cell.stood_still_s * 1e3:,.0f}",
    ]
    return f"| {' | '.join(cells)} |"


def measured(folder: Path | None) -> Iterator[Cell]:
    """The cells; folder: where the two runs are kept, by default in runs/."""
    places = {name: None if folder is None else folder / name for name in ("deep", "lossless")}
    deep = run(SCENARIO, out=places["deep"])
    lossless = run(SCENARIO, set={"fabric.lossless": {}}, out=places["lossless"])
    return cells_of(deep, lossless)


def cells_of(deep: Run, lossless: Run) -> Iterator[Cell]:
    """The cells of two runs of the same points."""
    with_pauses = lossless.points.set_index(["model", "strategy"])
    for _, row in deep.points.iterrows():
        key = (row["model"], row["strategy"])
        other = with_pauses.loc[key]
        ports = lossless.ports(model=key[0], strategy=key[1])
        yield Cell(
            *key,
            (float(row["scaling_efficiency"]), float(other["scaling_efficiency"])),
            (float(row["iteration_time_s"]), float(other["iteration_time_s"])),
            int(ports["pauses"].sum()),
            float(ports["stopped_s"].sum()),
            bool(row["verdict"] == other["verdict"] == "valid"),
        )
