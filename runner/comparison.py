"""`gradwire compare`: a model on a network, as a scenario with every strategy that can run there."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from gradwire.analysis.fluid.reach import within_reach
from gradwire.faults import InputFault
from gradwire.runner.compiling.ideal_times import ideal_times, rule_of
from gradwire.runner.compiling.processes import side_by_side
from gradwire.runner.planned import PlannedRun, plan_runs, virtual_clock
from gradwire.runner.stored.point_folders import folder_name
from gradwire.topo.fabric import Topology
from gradwire.workloads.definitions.inlining import inlined
from gradwire.workloads.definitions.schema import DefinedSection
from gradwire.workloads.lineup import (
    ITERATIONS,
    LEAVES,
    ORIGIN,
    SPINES,
    WARMUP,
    Contender,
    asked_options,
    check_options,
    lacking,
    lineup,
    refusal,
    shared_section,
    variants,
)
from gradwire.workloads.registry.catalogue import catalogue_of
from gradwire.workloads.scenario.loading import Scenario, resolve
from gradwire.workloads.scenario.schema import PointSection
from gradwire.workloads.scenario.settings import apply_setting
from gradwire.workloads.scenario.units import rate_text

GIVEN = "given"
"""Name of the device where the iteration time is given."""
REACH = 0.1
"""How far a run may be from its estimate before `--estimate-first` leaves out one that would have won. Of 40 random points, by the rules
that scenarios have by default, two were farther away: P3's slices, whose own rule in a comparison is another one (docs/estimate.md)."""
IN_NAMES = str.maketrans({"/": "_", **dict.fromkeys("[]\"' ")})
"""What names of folders have instead of characters that shells and paths take for something else; None: nothing."""


@dataclass(frozen=True)
class Question:
    """What is asked on the command line."""

    model: str
    workers: int
    rate: str
    device: str | None = None
    iteration_time: str | None = None
    servers: int | None = None
    leaf_spine: bool = False
    oversubscription: float | None = None
    #: Further `key=value` of a scenario.
    settings: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """Name of the run folder: the question in a few words."""
        words = [
            "compare",
            _stem(self.model),
            _stem(self.device or "") or self.iteration_time,
            f"{self.workers}",
            self.rate,
        ]
        words += [f"{self.servers}servers"] if self.servers else []
        words += [f"leaf-spine-{self.oversubscription or 1:g}"] if self._nested else []
        return "-".join(word.translate(IN_NAMES) for word in (*filter(None, words), *self.settings))

    @property
    def _nested(self) -> bool:
        return self.leaf_spine or self.oversubscription is not None

    def document(self) -> dict[str, Any]:
        """What the scenario says for all strategies, with a title. Raises InputFault for what is wrong whatever the strategy."""
        about = "Every strategy on one model and network. Adding gradients, copying and software cost nothing unless they are set."
        document: dict[str, Any] = {
            "about": about,
            "cluster": {"workers": self.workers},
            "fabric": {"rate": self.rate},
            "model": {"name": self.model, **({"device": self.device} if self.device else {})},
            "run": {"warmup": WARMUP, "iterations": ITERATIONS},
        }
        if self.iteration_time:
            source = {"iteration_time": self.iteration_time, "iteration_time_source": "given on the command line"}
            document["model"] |= source
        if self.servers is not None:
            document["cluster"]["servers"] = self.servers
        if self._nested:
            ratio = 1.0 if self.oversubscription is None else self.oversubscription
            shape = {"topology": "leaf-spine", "leaves": LEAVES, "spines": SPINES, "oversubscription": ratio}
            document["fabric"] |= shape
        document = _with_files(document)
        model = document["model"]
        model.setdefault("device", GIVEN if self.iteration_time else _first_device(document))
        for setting in self.settings:
            apply_setting(document, setting)
        document = _with_files(document)
        return {"title": _title(shared_section(document)), **document}


def _with_files(document: Mapping[str, Any]) -> dict[str, Any]:
    """The document with what its files say. Raises InputFault for files that are wrong."""
    found, lines = inlined(document, Path.cwd())
    if lines:
        raise InputFault("\n".join(f"{ORIGIN}: {line}" for line in lines))
    return found


def _first_device(document: Mapping[str, Any]) -> str:
    """The first device that has a time for the model."""
    catalogue = catalogue_of(DefinedSection.model_validate(document.get("defined", {})))
    return catalogue.devices_for(catalogue.model(document["model"]["name"]))[0]


def _stem(value: str) -> str:
    return Path(value).stem if value.endswith((".toml", ".json")) else value


def _title(shared: PointSection) -> str:
    """Model, cluster and network in a few words."""
    fabric, device = shared.fabric, shared.model.device or "made-up"
    words = f"{shared.model.name} on {shared.cluster.workers} x {device}, {rate_text(fabric.rate)}"
    return words + (f", leaf/spine {fabric.oversubscription:g}:1" if fabric.topology is Topology.LEAF_SPINE else "")


def plan_comparison(
    question: Question,
    chosen: Sequence[Contender],
    seeds: int,
    out: Path,
    jobs: int = 1,
    *,
    estimate_first: bool = False,
    on_done: Callable[[int, int], None] = lambda _done, _of: None,
) -> tuple[Scenario, list[PlannedRun]]:
    """The scenario of a question, and its points ready to run. Strategies that cannot run are in its `left_out`, with the reason.

    They are compiled in up to `jobs` processes; `on_done` hears how many are done, of how many. With `estimate_first`, those that cannot
    win by their estimates are left out too. Raises InputFault if no strategy can run, or for what is wrong whatever the strategy.
    """
    base = question.document()
    asked = asked_options(base)
    shared = shared_section(base)
    check_options(chosen, asked)
    left_out: dict[str, str] = {}
    faults: list[str] = []
    ready: dict[str, tuple[Contender, list[PlannedRun]]] = {}
    candidates = [variant for each in chosen for variant in variants(each, asked)]
    willing = []
    for contender in candidates:
        if reason := refusal(contender, shared):
            left_out[_name(contender, asked)] = reason
        else:
            willing.append(contender)
    attempt = partial(_attempted, base, seeds=seeds, out=out, asked=bool(asked))
    for number, (contender, result) in enumerate(
        zip(willing, side_by_side(attempt, willing, jobs), strict=True), start=1
    ):
        on_done(number, len(willing))
        if isinstance(result, InputFault):
            reason = str(result).removeprefix(f"{ORIGIN}: ")
            faults.append(reason)
            left_out[_name(contender, asked)] = reason
            continue
        ready[_name(contender, asked)] = result
    if estimate_first:
        left_out |= _beyond_reach({name: planned for name, (_, planned) in ready.items()}, jobs)
    # In the order of the question, whether told before compiling or by it.
    left_out = {name: left_out[name] for each in candidates if (name := _name(each, asked)) in left_out}
    able = [contender for name, (contender, _) in ready.items() if name not in left_out]
    if not able:
        # A reason that all of them have is given once; what one strategy would need besides does not help.
        reasons = dict.fromkeys(faults or left_out.values())
        raise InputFault(f"{ORIGIN}: no strategy can run: {'; '.join(reasons)}")
    for name in dict.fromkeys(contender.strategy for contender in able):
        left_out |= lacking(Contender(name, ""), asked)
    document = {**lineup(base, able, seeds), "left_out": left_out}
    scenario = resolve(document, ORIGIN, question.name)
    by_folder = {run.folder.name: run for _, planned in ready.values() for run in planned}
    return scenario, [by_folder[folder_name(point)] for point in scenario.points]


def _beyond_reach(ready: Mapping[str, Sequence[PlannedRun]], jobs: int) -> dict[str, str]:
    """The names of those that cannot win by their estimates, and why."""
    estimates_s = dict(zip(ready, side_by_side(_estimated_s, list(ready.values()), jobs), strict=True))
    least_s = min(estimates_s.values(), default=0.0)
    near = within_reach(estimates_s, REACH)
    return {
        name: f"not run: estimated at {estimate_s:.4g} s an iteration, {estimate_s / least_s:.2f} times the least of all"
        for name, estimate_s in estimates_s.items()
        if name not in near
    }


def _estimated_s(planned: Sequence[PlannedRun]) -> float:
    """Iteration time on the ideal network, of the fastest candidate and over all seeds."""
    return statistics.fmean(
        min(
            ideal_times(plan, run.fabric, rule_of(run.point.section.transport)).iteration_s
            for plan in run.plans.values()
        )
        for run in planned
    )


def _name(contender: Contender, asked: Mapping[str, Sequence[Any]]) -> str:
    """A contender's strategy, with what is asked of its options."""
    words = [f"{option}={contender.options[option]}" for option in asked if option in contender.options]
    return f"{contender.strategy} ({', '.join(words)})" if words else contender.strategy


def _attempted(
    base: Mapping[str, Any], contender: Contender, seeds: int, out: Path, asked: bool
) -> tuple[Contender, list[PlannedRun]] | InputFault:
    """A contender's points ready to run, or why it cannot."""
    try:
        return _planned(base, contender, seeds, out, asked)
    except InputFault as fault:
        return fault


def _planned(
    base: Mapping[str, Any], contender: Contender, seeds: int, out: Path, asked: bool
) -> tuple[Contender, list[PlannedRun]]:
    """A contender's points ready to run.

    An option that was asked for may make an order random, so two seeds are compiled to see whether their plans differ.
    """
    if asked and not contender.random:
        drawn = replace(contender, random=True)
        digests = [
            {label: plan.digest() for label, plan in run.plans.items()} for run in _plan_all(base, drawn, 2, out)
        ]
        contender = drawn if digests[0] != digests[-1] else contender
    return contender, _plan_all(base, contender, seeds, out)


def _plan_all(base: Mapping[str, Any], contender: Contender, seeds: int, out: Path) -> list[PlannedRun]:
    points = resolve(lineup(base, [contender], seeds), ORIGIN, ORIGIN).points
    return plan_runs(points, out, virtual_clock(points))
