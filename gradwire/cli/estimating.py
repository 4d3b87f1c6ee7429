"""The command that runs nothing and computes what an ideal network would give: `estimate`."""

from __future__ import annotations

import json
import time
from pathlib import Path

from gradwire.analysis.report.tables import rich_table
from gradwire.cli import terminal
from gradwire.runs.compiling.many_points import cores
from gradwire.runs.estimation import (
    check_send_ends,
    estimate_points,
    estimates_json,
    estimates_table,
    without_effect,
    write_estimates_csv,
)
from gradwire.runs.launch.place import refuse_unusable_file, writing
from gradwire.scenario.loading import Scenario


def estimate(scenario: Scenario, jobs: int | None, send_ends: str | None, out: Path | None, *, as_json: bool) -> None:
    """`gradwire estimate`."""
    check_send_ends(send_ends)
    if out:
        refuse_unusable_file(out)
    warnings = without_effect(scenario.points)
    for warning in warnings:
        terminal.screen().warn(warning)
    begun_s = time.perf_counter()
    status = terminal.errors.status("estimating")

    def on_done(count: int) -> None:
        status.update(f"estimating: {count} of {len(scenario.points)} points")
        # Not earlier: processes are forked before the first call, and must not be beside the status's thread.
        status.start()

    with terminal.interruptible("interrupted"):
        try:
            estimates = estimate_points(scenario.points, jobs or cores(), send_ends, on_done)
        finally:
            status.stop()
    took_s = time.perf_counter() - begun_s
    if out:
        with writing(out):
            out.parent.mkdir(parents=True, exist_ok=True)
            write_estimates_csv(out, estimates)
    if as_json:
        print(json.dumps(estimates_json(estimates, took_s, warnings), indent=1))
        return
    terminal.console.print(rich_table(estimates_table(scenario.title, estimates, took_s)))
    if out:
        terminal.name_files({"rows": out})
