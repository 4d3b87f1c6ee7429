"""Every setting that decides a point's result, in words: the values of the scenario, and the defaults for everything
else."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from gradwire.analysis.quantities import DIGITS, plain, quantity
from gradwire.analysis.report.pages import BY_DEFAULT, BY_SCENARIO, Setting
from gradwire.analysis.verdict.checks import VIRTUAL_CLOCK
from gradwire.documents import DocumentTable, DocumentValue
from gradwire.faults import InputFault
from gradwire.inside.point_protocol import TASK_FILE
from gradwire.runs.stored.stored_run import StoredRun
from gradwire.scenario.loading import Point
from gradwire.scenario.resolution.compilation import ResolvedPoint
from gradwire.scenario.resolution.transport_fit import is_grown
from gradwire.scenario.schema import PointSection
from gradwire.scenario.sections.costs import SourcedDuration, SourcedRate, SourcedShare, SourcedVariation

UNITS = {
    "fabric.rate": "bit/s",
    "fabric.gso": "bytes",
    "fabric.buffer": "bytes",
    "fabric.ecn": "bytes",
    "run.queue_sample": "s",
    "transport.buffer": "bytes",
    "transport.unsent": "bytes",
    "model.iteration_time": "s",
    "model.forward_time": "s",
    "run.time_limit": "s",
    "run.stall_limit": "s",
}
"""Units of keys whose names have none."""
SUFFIXES = {"_bytes_per_s": "bytes/s", "_bytes": "bytes", "_s": "s"}
"""Units at the ends of names, the longest first."""
COST_UNITS = {
    SourcedRate: "bytes/s",
    SourcedDuration: "s",
    SourcedVariation: "of the mean",
    SourcedShare: "of full speed",
}
"""Units of a scenario's costs by their types."""
NO_COST = {
    "compute_variation": "none: all workers take equally long",
    "message_latency": "0 s",
    "call_latency": "the device's, or free",
    "local_rate": "the device's, or free",
}
"""Meanings of costs that are left out, where it is not that they are free."""
OPTIONS = "strategy.options."
SOCKETS = ("transport.buffer", "transport.send_ends", "transport.unsent")
"""Settings of sockets that strategies and defaults decide if the scenario does not."""


def settings_of(point: Point) -> dict[str, Setting]:
    """A point's settings by their keys, strategy's options included.

    Where this version does not know the point's strategy or model any more, or the strategy is in a file whose code is
    not run to read a run folder, what these would decide is left out.
    """
    section = point.section
    said = dict(_flat(section.model_dump(exclude_defaults=True)))
    found = {f"defined.{key}": Setting(text, BY_SCENARIO) for key, text in section.defined.in_words().items()}
    for key, value in _flat(section.model_dump(exclude={"defined"})):
        if not key.startswith((OPTIONS, "costs.")) and key != "strategy.options":
            found[key] = Setting(_in_words(key, value), BY_SCENARIO if key in said else BY_DEFAULT)
    return {**found, **_costs(section), **_resolved(section, found)}


def exact_settings(section: PointSection) -> dict[str, str]:
    """A point's settings by their keys, as its section has them: two texts are equal if and only if the values are."""
    found = {f"defined.{key}": text for key, text in section.defined.in_words().items()}
    return found | {key: _exactly(key, value) for key, value in _flat(section.model_dump(exclude={"defined"}))}


def _exactly(key: str, value: DocumentValue) -> str:
    text = _in_words(key, value)
    is_rounded = isinstance(value, float) and float(f"{value:.{DIGITS}g}") != value
    return f"{text} ({value!r})" if is_rounded else text


def _flat(table: DocumentTable, prefix: str = "") -> Iterator[tuple[str, DocumentValue]]:
    """Keys and values of a nested table, with dotted keys."""
    for key, value in table.items():
        if isinstance(value, dict) and value:
            yield from _flat(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value


def _in_words(key: str, value: DocumentValue) -> str:
    if value is None:
        return "unset"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | float):
        unit = UNITS.get(key) or next((unit for end, unit in SUFFIXES.items() if key.endswith(end)), "")
        # A seed is a name, whose thousands are not set apart.
        return str(value) if key == "run.seed" else quantity(value, unit) if unit else plain(value)
    if isinstance(value, list | tuple):
        return ", ".join(_in_words(key, item) for item in value) or "none"
    if isinstance(value, dict):
        return ", ".join(f"{name}: {_in_words(name, item)}" for name, item in value.items()) or "none"
    return str(value)


def _costs(section: PointSection) -> dict[str, Setting]:
    costs = {}
    for name, cost in section.costs:
        words = NO_COST.get(name, "free") if cost is None else quantity(cost.value, COST_UNITS[type(cost)])
        costs[f"costs.{name}"] = Setting(words, BY_DEFAULT if cost is None else BY_SCENARIO)
    return costs


def _resolved(section: PointSection, found: Mapping[str, Setting]) -> dict[str, Setting]:
    """The strategy's options, and the settings that the scenario leaves to the model, the strategy or the
    cluster."""
    point = ResolvedPoint(section)
    try:
        options = {
            f"{OPTIONS}{key}": Setting(
                _in_words(key, value), BY_SCENARIO if key in section.strategy.options else BY_DEFAULT
            )
            for key, value in point.options.model_dump().items()
        }
        servers = plain(point.job.cluster.servers) if point.strategy.needs_servers else "none: an allreduce"
        known = {
            "cluster.servers": servers,
            "model.batch": plain(point.job.batch),
            "fabric.classes": plain(point.fabric.classes),
            "fabric.gso": quantity(point.fabric.gso_bytes, "bytes"),
            "transport.buffer": _buffer_in_words(0 if is_grown(section, point.fabric) else point.buffer_bytes),
            "transport.send_ends": point.strategy.senders.rule,
            "transport.unsent": _unsent_in_words(point.unsent_bytes),
            "transport.congestion": section.congestion or "the kernel's default",
        }
    except InputFault:
        return {
            f"{OPTIONS}{key}": Setting(_in_words(key, value), BY_SCENARIO)
            for key, value in section.strategy.options.items()
        }
    left_open = {key: Setting(value, BY_DEFAULT) for key, value in known.items() if found[key].value == "unset"}
    return {**left_open, **options}


def as_recorded(settings: Mapping[str, Setting], stored: StoredRun) -> dict[str, Setting]:
    """Settings of a run. Those of sockets that the scenario leaves to defaults are taken from the run's task.

    Another version of gradwire may have had other defaults, and other strategies. What no task says is left out. On
    the wall clock, numbers in a task are divided, and left out too.
    """
    by_default = {key for key in SOCKETS if key in settings and settings[key].by == BY_DEFAULT}
    recorded: dict[str, str] = {}
    if (stored.folder / TASK_FILE).exists():
        task = stored.task()
        unsent_bytes = task.sockets.unsent_bytes
        recorded["transport.send_ends"] = "departure" if unsent_bytes is None else "buffered"
        if task.clock == VIRTUAL_CLOCK:
            recorded["transport.buffer"] = _buffer_in_words(task.sockets.buffer_bytes)
        if task.clock == VIRTUAL_CLOCK or unsent_bytes is None:
            recorded["transport.unsent"] = _unsent_in_words(unsent_bytes)
    kept = {key: setting for key, setting in settings.items() if key not in by_default or key in recorded}
    return {**kept, **{key: Setting(recorded[key], BY_DEFAULT) for key in by_default if key in recorded}}


def _buffer_in_words(buffer_bytes: int) -> str:
    return quantity(buffer_bytes, "bytes") if buffer_bytes else "as the hosts' kernel grows them"


def _unsent_in_words(unsent_bytes: int | None) -> str:
    return "nothing: messages are sent when they have left" if unsent_bytes is None else quantity(unsent_bytes, "bytes")
