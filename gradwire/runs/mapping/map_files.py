"""The files of a map: its page, its chart, and every cell as CSV and JSON."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from gradwire.analysis.point_frames import write_frame
from gradwire.analysis.report.charts import save_chart
from gradwire.analysis.winners.chart import map_chart
from gradwire.analysis.winners.measured import MeasuredCell, judge_cell
from gradwire.analysis.winners.page import map_page
from gradwire.analysis.winners.winner_map import Axis, Place, WinnerMap
from gradwire.analysis.winners.words import conclusion, number_text
from gradwire.documents import Document
from gradwire.files import as_one_set, replace_text

PAGE, CHART, CSV, JSON = "map.html", "map", "map.csv", "map.json"
NOT_RUN = "Estimates are a model on an ideal network, and not runs; measured values are of runs by packets."


def cells_frame(winner_map: WinnerMap, measured: Sequence[MeasuredCell] = ()) -> pd.DataFrame:
    """One row per cell and strategy. estimate_s is empty where a strategy cannot run, and measured_s where it was not
    measured or its run is invalid."""
    by_place = {cell.chosen.place: cell for cell in measured}
    x, y = winner_map.axes
    rows = []
    for place in winner_map.places:
        outcome, cell = winner_map.outcomes.get(place), by_place.get(place)
        for name in winner_map.strategies:
            time = winner_map.times.get(place, {}).get(name)
            best = winner_map.times[place][outcome.winner].iteration_s if outcome else None
            rows.append(
                {
                    x.key: x.texts[place[0]],
                    y.key: y.texts[place[1]],
                    "strategy": name,
                    "estimate_s": time.iteration_s if time else None,
                    "interpolated": bool(time and time.is_between),
                    "over_best": time.iteration_s / best if time and best else None,
                    "wins": bool(outcome and name in outcome.level),
                    "by_queues": time.by_queues if time else None,
                    "measured_s": cell.times_s.get(name) if cell else None,
                    "cell": judge_cell(winner_map, cell).outcome if cell else "estimated",
                    "why_not": winner_map.refused.get(place, {}).get(name, cell.invalid.get(name, "") if cell else ""),
                }
            )
    return pd.DataFrame(rows)


def map_json(winner_map: WinnerMap, measured: Sequence[MeasuredCell] = ()) -> Document:
    """The whole map for programs."""
    by_place = {cell.chosen.place: cell for cell in measured}
    return {
        "title": winner_map.title,
        "model": NOT_RUN,
        "conclusion": conclusion(winner_map),
        "tie": winner_map.tie,
        "axes": [_axis(axis) for axis in winner_map.axes],
        "strategies": list(winner_map.strategies),
        "left_out": dict(winner_map.left_out),
        "warnings": list(winner_map.warnings),
        "cells": [_cell(winner_map, place, by_place.get(place)) for place in winner_map.places],
        "borders": [
            {
                "along": winner_map.axes[border.along].key,
                "between": [
                    list(border.place),
                    [border.place[0] + (border.along == 0), border.place[1] + (border.along == 1)],
                ],
                "from": border.before,
                "to": border.after,
                "at": number_text(winner_map.axes[border.along], border.number),
            }
            for border in winner_map.crossings
        ],
    }


def _axis(axis: Axis) -> Document:
    return {"key": axis.key, "values": list(axis.texts), "numbers": list(axis.numbers), "log": axis.logarithmic}


def _cell(winner_map: WinnerMap, place: Place, cell: MeasuredCell | None) -> Document:
    outcome = winner_map.outcomes.get(place)
    row: Document = {
        "place": list(place),
        "estimates_s": {name: time.iteration_s for name, time in winner_map.times.get(place, {}).items()},
        "interpolated": [name for name, time in winner_map.times.get(place, {}).items() if time.is_between],
        "fastest": list(outcome.level) if outcome else [],
        "lead": outcome.lead if outcome and len(outcome.order) > 1 else None,
        "doubtful": bool(outcome and outcome.doubtful),
        "refused": dict(winner_map.refused.get(place, {})),
    }
    if cell is not None:
        judged = judge_cell(winner_map, cell)
        row["measured"] = {
            "why": cell.chosen.why,
            "times_s": dict(cell.times_s),
            "invalid": dict(cell.invalid),
            "outcome": judged.outcome,
            "fastest": judged.fastest,
            "text": judged.text,
        }
    return row


def write_map(
    folder: Path, winner_map: WinnerMap, measured: Sequence[MeasuredCell] = (), run_folder: str = ""
) -> dict[str, Path]:
    """Writes map.html, map.png, map.svg, map.csv and map.json; returns their paths by kind. run_folder: of the measured
    cells."""
    with as_one_set(folder):
        replace_text(folder / PAGE, map_page(winner_map, measured, run_folder))
        save_chart(map_chart(winner_map, measured), folder, CHART)
        write_frame(folder / CSV, cells_frame(winner_map, measured))
        replace_text(folder / JSON, json.dumps(map_json(winner_map, measured), indent=1, allow_nan=False) + "\n")
    return {"map": folder / PAGE, "chart": folder / f"{CHART}.png", "cells": folder / CSV}
