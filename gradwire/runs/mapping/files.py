"""The files of a map: its page, its chart, and every cell as CSV and JSON."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from gradwire.analysis.point_frames import write_csv
from gradwire.analysis.report.charts import save_chart
from gradwire.analysis.winners.chart import map_chart
from gradwire.analysis.winners.measured import MeasuredCell, judge_cell
from gradwire.analysis.winners.page import map_page
from gradwire.analysis.winners.winner_map import Axis, Place, WinnerMap
from gradwire.analysis.winners.words import conclusion, number_text
from gradwire.files import replace_text

PAGE, CHART, CSV, JSON = "map.html", "map", "map.csv", "map.json"
NOT_RUN = "Estimates are a model on an ideal network, and not runs; measured values are of runs by packets."


def cells_frame(found: WinnerMap, measured: Sequence[MeasuredCell] = ()) -> pd.DataFrame:
    """One row per cell and strategy. estimate_s is empty where a strategy cannot run, and measured_s where it was not
    measured or its run is invalid."""
    by_place = {cell.chosen.place: cell for cell in measured}
    x, y = found.axes
    rows = []
    for place in found.places:
        outcome, cell = found.outcomes.get(place), by_place.get(place)
        for name in found.strategies:
            time = found.times.get(place, {}).get(name)
            best = found.times[place][outcome.winner].iteration_s if outcome else None
            rows.append(
                {
                    x.key: x.texts[place[0]],
                    y.key: y.texts[place[1]],
                    "strategy": name,
                    "estimate_s": time.iteration_s if time else None,
                    "over_best": time.iteration_s / best if time and best else None,
                    "wins": bool(outcome and name in outcome.level),
                    "by_queues": time.by_queues if time else None,
                    "measured_s": cell.times_s.get(name) if cell else None,
                    "cell": judge_cell(found, cell).outcome if cell else "estimated",
                    "why_not": found.refused.get(place, {}).get(name, cell.invalid.get(name, "") if cell else ""),
                }
            )
    return pd.DataFrame(rows)


def map_json(found: WinnerMap, measured: Sequence[MeasuredCell] = ()) -> dict[str, Any]:
    """The whole map for programs."""
    by_place = {cell.chosen.place: cell for cell in measured}
    return {
        "title": found.title,
        "model": NOT_RUN,
        "conclusion": conclusion(found),
        "tie": found.tie,
        "axes": [_axis(axis) for axis in found.axes],
        "strategies": list(found.strategies),
        "left_out": dict(found.left_out),
        "warnings": list(found.warnings),
        "cells": [_cell(found, place, by_place.get(place)) for place in found.places],
        "borders": [
            {
                "along": found.axes[each.along].key,
                "between": [list(each.place), [each.place[0] + (each.along == 0), each.place[1] + (each.along == 1)]],
                "from": each.before,
                "to": each.after,
                "at": number_text(found.axes[each.along], each.number),
            }
            for each in found.crossings
        ],
    }


def _axis(axis: Axis) -> dict[str, Any]:
    return {"key": axis.key, "values": list(axis.texts), "numbers": list(axis.numbers), "log": axis.logarithmic}


def _cell(found: WinnerMap, place: Place, cell: MeasuredCell | None) -> dict[str, Any]:
    outcome = found.outcomes.get(place)
    row: dict[str, Any] = {
        "place": list(place),
        "estimates_s": {name: time.iteration_s for name, time in found.times.get(place, {}).items()},
        "fastest": list(outcome.level) if outcome else [],
        "lead": outcome.lead if outcome and len(outcome.order) > 1 else None,
        "doubtful": bool(outcome and outcome.doubtful),
        "refused": dict(found.refused.get(place, {})),
    }
    if cell is not None:
        judged = judge_cell(found, cell)
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
    folder: Path, found: WinnerMap, measured: Sequence[MeasuredCell] = (), run_folder: str = ""
) -> dict[str, Path]:
    """Writes map.html, map.png, map.svg, map.csv and map.json; their paths by what they are. run_folder: of the
    measured cells."""
    folder.mkdir(parents=True, exist_ok=True)
    replace_text(folder / PAGE, map_page(found, measured, run_folder))
    save_chart(map_chart(found, measured), folder, CHART)
    write_csv(folder / CSV, cells_frame(found, measured))
    replace_text(folder / JSON, json.dumps(map_json(found, measured), indent=1, allow_nan=False) + "\n")
    return {"map": folder / PAGE, "chart": folder / f"{CHART}.png", "cells": folder / CSV}
