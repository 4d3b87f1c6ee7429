"""All settings of a run's points as tables and lines: what is common to all, and what each point has of its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from gradwire.analysis.report.tables import TextTable

BY_SCENARIO, BY_DEFAULT = "scenario", "default"
"""Who decides a setting."""


@dataclass(frozen=True)
class Setting:
    """The value of a key of a scenario, as a point has it."""

    #: In words, with its unit.
    value: str
    #: BY_SCENARIO or BY_DEFAULT.
    by: str


Settings = Mapping[str, Setting]
"""A point's settings by their dotted keys."""


def common_settings(points: Sequence[Settings]) -> dict[str, Setting]:
    """The settings that all points have alike; those of the scenario come first."""
    first, *others = points or [{}]
    alike = {key: found for key, found in first.items() if all(point.get(key) == found for point in others)}
    return dict(sorted(alike.items(), key=lambda item: item[1].by != BY_SCENARIO))


def own_settings(points: Sequence[Settings]) -> list[dict[str, Setting]]:
    """What each point has besides the common settings."""
    common = common_settings(points)
    return [{key: found for key, found in point.items() if key not in common} for point in points]


def settings_table(points: Sequence[Settings]) -> TextTable:
    """One row per setting that all points have alike."""
    rows = tuple((key, found.value, found.by) for key, found in common_settings(points).items())
    tone = tuple("" if by == BY_SCENARIO else "quiet" for _, _, by in rows)
    title = "Settings of all points" if len(points) > 1 else "Settings"
    return TextTable(title, ("setting", "value", "set by"), rows, 2, tone)


def in_line(settings: Settings) -> str:
    """Settings in one line; a default is marked as such."""
    words = [
        f"{key} = {found.value}{' (default)' if found.by == BY_DEFAULT else ''}" for key, found in settings.items()
    ]
    return "; ".join(words)
