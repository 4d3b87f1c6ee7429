"""Prepares a question to run: a scenario with all contenders that can run there, and the others with the reason why
they cannot."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from gradwire.analysis.fluid.reach import within_reach
from gradwire.faults import InputFault
from gradwire.runs.comparing.questions import AnyQuestion
from gradwire.runs.comparing.whole import refuse_too_large
from gradwire.runs.compiling.ideal_times import held_rule, ideal_times
from gradwire.runs.compiling.many_points import side_by_side
from gradwire.runs.planned import PlannedRun, plan_runs, refuse_coarse, virtual_clock
from gradwire.runs.stored.run_folder import folder_name
from gradwire.scenario.contenders import (
    ORIGIN,
    Contender,
    asked_options,
    check_options,
    lacking,
    lineup,
    refusal,
    shared_section,
    variants,
)
from gradwire.scenario.loading import Scenario, resolve
from gradwire.scenario.resolution.transport_fit import buffer_bytes

REACH = 0.1
"""Largest difference between a run and its estimate for which `--estimate-first` leaves out no strategy that would have
won, as a share. Of the 27 strategies with ResNet-50 on 4 workers at 10 Gbit/s none is farther away than 5.5 %
(docs/estimate.md)."""


def plan_comparison(
    question: AnyQuestion,
    chosen: Sequence[Contender],
    seeds: int,
    out: Path,
    jobs: int = 1,
    *,
    estimate_first: bool = False,
    on_done: Callable[[int, int], None] = lambda _done, _of: None,
) -> tuple[Scenario, list[PlannedRun]]:
    """The scenario of a question, and its points ready to run. Strategies that cannot run are in its `left_out`, with
    the reason.

    They are compiled in up to `jobs` processes; `on_done` hears how many are done, of how many. With `estimate_first`,
    those that cannot win by their estimates are left out too. Raises InputFault if no strategy can run, or for what is
    wrong whatever the strategy.
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
    """Contenders that cannot win by their estimates, with the reason in words."""
    estimates_s = dict(zip(ready, side_by_side(_estimated_s, list(ready.values()), jobs), strict=True))
    least_s = min(estimates_s.values(), default=0.0)
    faults = any(run.point.section.fault for planned in ready.values() for run in planned)
    on = " on a network without the faults" if faults else ""
    near = within_reach(estimates_s, REACH)
    return {
        name: f"not run: estimated at {estimate_s:.4g} s per iteration{on}, {estimate_s / least_s:.2f} times the least "
        "of all"
        for name, estimate_s in estimates_s.items()
        if name not in near
    }


def _estimated_s(planned: Sequence[PlannedRun]) -> float:
    """Estimated iteration time, of the fastest candidate and over all seeds."""

    def estimated_s(run: PlannedRun) -> float:
        rule = held_rule(run.unsent_bytes, run.fabric, buffer_bytes(run.point.section, run.fabric))
        return min(ideal_times(plan, run.fabric, rule).iteration_s for plan in run.plans.values())

    return statistics.fmean(map(estimated_s, planned))


def _name(contender: Contender, asked: Mapping[str, Sequence[Any]]) -> str:
    """A contender's strategy, with the options that tell it from other contenders of the same strategy."""
    telling = dict.fromkeys([*contender.told_by, *asked])
    words = [f"{option}={contender.options[option]}" for option in telling if option in contender.options]
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
    clock = virtual_clock(points)
    planned = plan_runs(points, out, clock)
    refuse_too_large(points[0].section, max(len(plan.ops) for plan in planned[0].plans.values()))
    for run in planned:
        refuse_coarse(run)
    return planned
