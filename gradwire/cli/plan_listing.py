"""The output of `gradwire plan`: settings, and compiled plans or the programs that would run."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence

from rich.markup import escape

from gradwire.analysis.link_loads import lines_in_words
from gradwire.analysis.quantities import quantity
from gradwire.runs.planned import PlannedRun
from gradwire.runs.planned_programs import PlannedPrograms
from gradwire.runs.stored.spines import find_loaded_lines
from gradwire.scenario.effective import common_settings, used_settings
from gradwire.scenario.loading import Point, origin_named
from gradwire.scenario.resolution.compilation import ResolvedPoint
from gradwire.scenario.resolution.transport_fit import is_grown
from gradwire.workloads.plan_summary import summary_lines
from gradwire.workloads.units import SIZE, rate_text


def find_shared_settings(points: Sequence[Point]) -> dict[str, str]:
    """Finds the settings that all points have alike, defaults included. Raises InputFault for options that their strategy
    does not take."""
    return common_settings([_find_settings_of(point) for point in points])


def _find_settings_of(point: Point) -> dict[str, str]:
    with origin_named(point):
        return _find_settings(point.resolved)


def _find_settings(point: ResolvedPoint) -> dict[str, str]:
    """Every setting of a point, with the buffer of its sockets where the scenario leaves that to its network."""
    used = used_settings(point.section, point.options)
    if point.section.transport.buffer is not None or is_grown(point.section, point.fabric):
        return used
    return used | {"transport.buffer": SIZE.text(point.buffer_bytes)}


def leave_out_defaults(shared: Mapping[str, str], point: Point) -> dict[str, str]:
    """Returns those of the settings that all points share, of which this is one, that are not as they would be by default."""
    given = used_settings(point.section, point.resolved.options, defaults=False)
    return {key: text for key, text in shared.items() if key in given}


def describe_settings(shared: Mapping[str, str], points: int, *, defaults: bool) -> Iterator[str]:
    """Yields settings that all points share, a line for each section, in rich's markup. defaults: whether those that are as
    they would be by default are among them."""
    whose = "the point" if points == 1 else f"all {points} points"
    yield f"[bold]settings of {whose}[/bold], {'defaults included' if defaults else 'without defaults, which -v shows'}"
    for section, members in itertools.groupby(shared.items(), key=lambda setting: setting[0].partition(".")[0]):
        yield f"  {escape(f'[{section}]')} {escape(_join((key.partition('.')[2], text) for key, text in members))}"


def _join(settings: Iterable[tuple[str, str]]) -> str:
    return ", ".join(f"{key} = {text}" for key, text in settings)


def _tell_when_sent(unsent_bytes: int | None) -> str:
    """Sentence that says when a message counts as sent."""
    if unsent_bytes is None:
        return "a message is sent when its last byte has left the host"
    return f"a message is sent when no more than {quantity(unsent_bytes, 'bytes')} of its connection wait unsent"


def _describe_jobs(planned: PlannedRun) -> Iterator[str]:
    """A line for each of several jobs."""
    resolved = planned.point.resolved
    names = planned.fabric.host_names()
    for entry in next(iter(planned.plans.values())).jobs:
        job, hosts = resolved.jobs[entry.name], resolved.hosts_of_jobs[entry.name]
        many = f", {entry.iterations} of its iterations in one of the plan" if entry.iterations > 1 else ""
        yield (
            f"job '{entry.name}': {job.section.model.name} by {job.strategy.name} on {', '.join(names[host] for host in hosts)}; computes "
            f"{entry.compute_s:.4f} s per iteration{many}"
        )


def describe_plans(planned: PlannedRun, shared: Mapping[str, str], *, digests: bool) -> Iterator[str]:
    """Yields a point with the settings that not all points share, and its compiled plans, on request with digests, in rich's
    markup."""
    resolved = planned.point.resolved
    chosen, job = resolved.strategy, resolved.job
    used = _find_settings(resolved)
    own = {key: text for key, text in used.items() if key not in shared}
    if resolved.jobs:
        yield f"[bold]{escape(planned.label)}[/bold]  {len(resolved.jobs)} jobs"
    else:
        yield f"[bold]{escape(planned.label)}[/bold]  {escape(chosen.summary)} [dim]({escape(chosen.source)})[/dim]"
    if own:
        yield f"  its own settings: {escape(_join(own.items()))}"
    for line in (
        _describe_jobs(planned)
        if resolved.jobs
        else (f"compute {job.compute_s:.4f} s per iteration: {job.compute.source}",)
    ):
        yield f"  {escape(line)}"
    yield f"  {escape(_tell_when_sent(planned.unsent_bytes))}"
    yield f"  iterations: {planned.window.warmup} of warm-up, {planned.window.iterations} measured"
    if planned.division.number > 1:
        yield (
            f"  bytes and rates are divided by {planned.division.number}: off by up to {planned.division.error:.2%} of "
            "the iteration time"
        )
    for label, plan in planned.plans.items():
        yield f"  plan '{escape(label)}'{f', digest {plan.digest()}' if digests else ''}"
        for line in summary_lines(plan, planned.fabric):
            yield f"    {escape(line)}"
        if lines := lines_in_words(find_loaded_lines(plan, planned.fabric)):
            yield f"    lines between switches: {escape(lines)}"


def describe_programs(planned: PlannedPrograms) -> Iterator[str]:
    """Yields a point of programs, which have no plan: where each would run, and when, in rich's markup."""
    fabric = planned.fabric
    yield f"[bold]{escape(planned.label)}[/bold]: {fabric.hosts} hosts at {rate_text(fabric.rate_bps)}"
    for name, program in planned.point.programs.items():
        hosts = ", ".join(fabric.host_names()[host] for host in planned.point.hosts_of(program))
        when = f" after {program.start:g} s" if program.start else ""
        yield f"  {escape(name)} on {hosts}{when}: {escape(program.command)}"
