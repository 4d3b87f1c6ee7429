"""What a finished run is reported with: its printed cells, its constants, its own speed, and the ranking if it has one."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rich.console import RenderableType

from gradwire.analysis.compare import PrintedCell, cells_of_claims
from gradwire.analysis.points import write_points_csv
from gradwire.analysis.report.ranking import rank
from gradwire.analysis.report.report import report
from gradwire.analysis.report.tables import Constant
from gradwire.run.outcome import Outcome
from gradwire.run.stored.outcomes import StoredOutcome
from gradwire.workloads.lineup import FAMILIES, PARTIAL
from gradwire.workloads.scenario.loading import Scenario
from gradwire.workloads.scenario.schema import SourcedDuration, SourcedRate, SourcedVariation


def printed_cells(scenario: Scenario) -> list[PrintedCell]:
    """The values of a paper that a scenario has beside its points: its own, and the claims that it names. Raises InputFault."""
    own = [PrintedCell(**cell.model_dump()) for cell in scenario.printed]
    return [*own, *cells_of_claims(scenario.printed_claims)]


def report_run(scenario: Scenario, outcomes: Sequence[Outcome | StoredOutcome], folder: Path) -> RenderableType:
    """Writes the report of a run into its folder; returns what a terminal shows of it."""
    rows = [outcome.result for outcome in outcomes]
    write_points_csv(folder / "points.csv", rows)
    return report(
        folder,
        rows,
        printed_cells(scenario),
        scenario.title,
        _constants(outcomes),
        [outcome.verdict for outcome in outcomes],
        labels=scenario.labels,
        notes=[*_naming_notes(outcomes), *_speed_notes(outcomes)],
        ranking=rank(rows, FAMILIES, PARTIAL, scenario.left_out) if scenario.chart == "ranking" else None,
    )


UNITS = {SourcedRate: "bytes/s", SourcedDuration: "s", SourcedVariation: "of the mean"}
"""Of costs, by what they are."""


def _constants(outcomes: Sequence[Outcome | StoredOutcome]) -> list[Constant]:
    """Every constant that the results rest on, once."""
    constants: dict[tuple[str, str], Constant] = {}
    for outcome in outcomes:
        section, compute = outcome.point.section, outcome.computation
        device = f" on {section.model.device}" if section.model.device else ""
        name = f"iteration of {section.model.name}{device}, alone"
        found = [Constant(name, round(compute.iteration_s, 4), "s", compute.source)]
        for cost_name, cost in section.costs:
            if cost is not None:
                found.append(Constant(cost_name.replace("_", " "), cost.value, UNITS[type(cost)], cost.source))
        for constant in found:
            constants[constant.name, str(constant.value)] = constant
    return list(constants.values())


def _naming_notes(outcomes: Sequence[Outcome | StoredOutcome]) -> list[str]:
    older = sum(isinstance(outcome, StoredOutcome) and outcome.by_words for outcome in outcomes)
    if not older:
        return []
    return [
        f"run by another version of gradwire: {older} of {len(outcomes)} points, whose folders were found by the parameters in their "
        "names; all other settings are taken to be those of scenario.toml"
    ]


def _speed_notes(outcomes: Sequence[Outcome | StoredOutcome]) -> list[str]:
    speeds = [outcome.speed for outcome in outcomes if outcome.speed]
    if not speeds:
        return []
    payload = sum(speed.payload_bytes for speed in speeds)
    replay_s = sum(speed.replay_s for speed in speeds)
    slowest = max(speed.first_byte_s for speed in speeds)
    mean = sum(speed.first_byte_s for speed in speeds) / len(speeds)
    return [
        f"speed: boot to first byte {mean:.1f} s (slowest {slowest:.1f} s); {payload / 1e9:.0f} GB of emulated payload at "
        f"{payload / replay_s / 1e9:.2f} GB/s of one core; {sum(speed.total_s for speed in speeds):.0f} core seconds in all"
    ]
