"""The points of a map: a scenario's strategies at each value of two of its keys."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from gradwire.analysis.winners.winner_map import Axis, Place
from gradwire.documents import Document, DocumentTable, DocumentValue
from gradwire.faults import InputFault
from gradwire.scenario.contenders import PARTIAL, contenders
from gradwire.scenario.limits import MOST_POINTS
from gradwire.scenario.loading import Point, Scenario, load_scenario, resolve, scenario_of
from gradwire.scenario.overrides import set_key, setting_words, value_of_setting
from gradwire.scenario.scenario_files import scenario_path
from gradwire.scenario.schema import StrategySection

NOT_POINTS = ("sweep", "cases", "chart", "left_out", "printed", "printed_claims", "notes", "title", "about", "labels")
"""Keys of a scenario that say what is compared and with what, which a map decides itself."""
TRAINS_ELSE = "does not send all gradients of each step, and so trains something else"
STRATEGY = "strategy"


@dataclass(frozen=True)
class Grid:
    """The axes, strategies and points of a map, before anything is estimated."""

    title: str
    #: The scenario's, for files.
    name: str
    axes: tuple[Axis, Axis]
    #: Name, and the strategy's table of a scenario.
    strategies: Mapping[str, DocumentTable]
    #: The scenario without its sweeps.
    document: DocumentTable
    origin: str
    #: Every cell that can be, and each strategy's point in it.
    points: Mapping[Place, Mapping[str, Point]]
    #: Reasons why cells are impossible.
    impossible: Mapping[Place, str] = field(default_factory=dict)
    left_out: Mapping[str, str] = field(default_factory=dict)

    def cases_at(self, place: Place, names: Sequence[str]) -> dict[str, list[DocumentValue]]:
        """A cell and some of its strategies as a case of a scenario."""
        values: dict[str, list[DocumentValue]] = {
            axis.key: [value_of_setting(axis.texts[number])] for axis, number in zip(self.axes, place, strict=True)
        }
        return {**values, STRATEGY: [dict(self.strategies[name]) for name in names]}


def grid_of(
    source: Path | Mapping[str, object],
    axes: tuple[Axis, Axis],
    settings: Sequence[str] = (),
    chosen: Sequence[str] = (),
) -> Grid:
    """The grid of a scenario, a path or a content, over two keys.

    chosen: strategies by name; those that the scenario sweeps have its options, and others what `compare` gives them.
    None: all that it sweeps. Raises InputFault for what is wrong with the scenario, an axis or a strategy.
    """
    firsts = [f"{axis.key}={axis.texts[0]}" for axis in axes]
    scenario = _loaded(source, [*settings, *firsts])
    _refuse_other_sweeps(scenario)
    strategies, left_out = _strategies(scenario.points, chosen)
    document = {key: copy.deepcopy(each) for key, each in scenario.document.items() if key not in NOT_POINTS}
    origin = scenario.points[0].origin
    points, impossible = _points(document, axes, strategies, origin)
    unset = scenario.unset_document or scenario.document
    title = str(unset.get("title", scenario.name))
    if settings:
        title += f", with {', '.join(map(setting_words, settings))}"
    return Grid(title, scenario.name, axes, strategies, document, origin, points, impossible, left_out)


def _loaded(source: Path | Mapping[str, object], settings: Sequence[str]) -> Scenario:
    if isinstance(source, Mapping):
        return scenario_of(source, settings)
    return load_scenario(scenario_path(source), settings)


def _refuse_other_sweeps(scenario: Scenario) -> None:
    """Raises InputFault if points differ in anything but their strategy, or are of several jobs."""
    if any(point.section.job for point in scenario.points):
        raise InputFault(f"{scenario.points[0].origin}: has several jobs; a map is of strategies for one job")
    rest = {point.section.model_copy(update={STRATEGY: _NOBODY}).model_dump_json() for point in scenario.points}
    if len(rest) == 1:
        return
    varied = [
        key
        for key in dict.fromkeys(key for point in scenario.points for key in point.parameters)
        if key not in (STRATEGY, "options") and len({point.parameters.get(key) for point in scenario.points}) > 1
    ]
    raise InputFault(
        f"{scenario.points[0].origin}: a map is over two keys and strategies, and the scenario also varies "
        f"{', '.join(varied) or 'other keys'}; give each one value with --set, or make it an axis with --over"
    )


_NOBODY = StrategySection(name="-")


def _strategies(points: Sequence[Point], chosen: Sequence[str]) -> tuple[dict[str, DocumentTable], dict[str, str]]:
    """The strategies of a map with their tables, and those that are left out with the reason. Raises InputFault."""
    swept = [(point.section.strategy.name, point.section.strategy.options) for point in points]
    if chosen:
        known = {name for name, _ in swept}
        others = (
            {each.strategy: dict(each.options) for each in contenders([n for n in chosen if n not in known])}
            if (set(chosen) - known)
            else {}
        )
        swept = [pair for name in dict.fromkeys(chosen) for pair in _tables_of(name, swept, others)]
    left_out = {name: TRAINS_ELSE for name, _ in swept if name in PARTIAL}
    kept = [(name, options) for name, options in swept if name not in PARTIAL]
    tables: dict[str, DocumentTable] = {
        _name(name, options, kept): {"name": name, "options": dict(options)} for name, options in kept
    }
    if len(tables) < 2:
        without = f" besides {', '.join(left_out)}, which train something else" if left_out else ""
        raise InputFault(
            f"{points[0].origin}: a map compares strategies, and there is only {', '.join(tables) or 'none'}{without}; "
            'sweep them ("strategy.name" = ["ring", "p3"]), or give --strategies ring,p3'
        )
    return tables, left_out


def _tables_of(
    name: str, swept: Sequence[tuple[str, Document]], others: Mapping[str, Document]
) -> list[tuple[str, Document]]:
    return [pair for pair in swept if pair[0] == name] or [(name, others[name])]


def _name(name: str, options: DocumentTable, among: Sequence[tuple[str, DocumentTable]]) -> str:
    """A strategy's name, with the options that distinguish it from others of the same name."""
    same = [each for other, each in among if other == name]
    told = [key for key in options if any(each.get(key) != options[key] for each in same)]
    return f"{name} ({', '.join(f'{key}={options[key]}' for key in told)})" if told else name


def _points(
    document: DocumentTable, axes: tuple[Axis, Axis], strategies: Mapping[str, DocumentTable], origin: str
) -> tuple[dict[Place, dict[str, Point]], dict[Place, str]]:
    """Each cell's points, and why some cells cannot be. Raises InputFault if none can."""
    x, y = axes
    if (count := len(x.texts) * len(y.texts) * len(strategies)) > MOST_POINTS:
        raise InputFault(
            f"--over: {len(x.texts)} x {len(y.texts)} cells of {len(strategies)} strategies are {count:,} points; must "
            f"be at most {MOST_POINTS:,}: take fewer steps"
        )
    names = list(strategies)
    tables = [dict(strategies[name]) for name in names]
    sweep: dict[str, DocumentValue] = {axis.key: [value_of_setting(text) for text in axis.texts] for axis in axes}
    found: dict[Place, dict[str, Point]] = {}
    try:
        whole = resolve({**_bare(document, tables[0]), "sweep": {**sweep, STRATEGY: tables}}, origin, origin).points
    except InputFault:
        whole = ()
    if len(whole) == count:
        ordered = iter(whole)
        for i in range(len(x.texts)):
            for j in range(len(y.texts)):
                found[i, j] = {name: next(ordered) for name in names}
        return found, {}
    return _cell_by_cell(document, axes, names, tables, origin)


def _cell_by_cell(
    document: DocumentTable, axes: tuple[Axis, Axis], names: Sequence[str], tables: Sequence[Document], origin: str
) -> tuple[dict[Place, dict[str, Point]], dict[Place, str]]:
    """Resolves the points of each cell on its own. Returns them, and the reasons why other cells are impossible, such
    as workers that do not fill their machines. Raises InputFault if no cell is possible."""
    x, y = axes
    possible: dict[Place, dict[str, Point]] = {}
    impossible: dict[Place, str] = {}
    for i, first in enumerate(x.texts):
        for j, second in enumerate(y.texts):
            one = _bare(document, tables[0])
            for axis, text in ((x, first), (y, second)):
                set_key(one, axis.key, value_of_setting(text))
            try:
                points = resolve({**one, "sweep": {STRATEGY: tables}}, origin, origin).points
            except InputFault as fault:
                impossible[i, j] = str(fault).removeprefix(f"{origin}: ")
                continue
            possible[i, j] = dict(zip(names, points, strict=True))
    if not possible:
        raise InputFault(f"{origin}: {next(iter(impossible.values()))}")
    return possible, impossible


def _bare(document: DocumentTable, table: DocumentTable) -> Document:
    return {"title": "map", **copy.deepcopy(dict(document)), STRATEGY: dict(table)}
