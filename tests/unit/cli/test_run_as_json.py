"""`gradwire run --json`: what is a number is one, and what only looks like one is a text."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from gradwire.cli.running import as_json_of

DIGEST = "12345678901234e5"
"""Sixteen hexadecimal digits that a reader of numbers takes for one."""


def test_points_and_figures_have_their_types(tmp_path: Path) -> None:
    points = pd.DataFrame(
        {"workers": [2], "iteration_time_s": [0.1 + 0.2], "ci95_s": [float("nan")], "plan_digest": [DIGEST]},
        index=pd.Index(["a-point"], name="point"),
    )
    (tmp_path / "figures.csv").write_text("host,rate_bps,verdict\r\nh1,9.5e9,valid\r\nh2,,valid\r\n")
    assert as_json_of(points, tmp_path) == {
        "folder": str(tmp_path),
        "points": [
            {
                "point": "a-point",
                "workers": 2,
                "iteration_time_s": 0.3,
                "ci95_s": None,
                "plan_digest": DIGEST,
            }
        ],
        "figures": [
            {"host": "h1", "rate_bps": 9.5e9, "verdict": "valid"},
            {"host": "h2", "rate_bps": None, "verdict": "valid"},
        ],
    }
