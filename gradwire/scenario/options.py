"""The options of strategies: validated, and what is wrong with them in words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from gradwire.faults import InputFault
from gradwire.scenario.explanations import close, requirement, shown, validated
from gradwire.validation import reason_of
from gradwire.workloads.fields import kind_at
from gradwire.workloads.strategy import Options, Strategy

KEY = "strategy.options"


def validated_options(chosen: Strategy, table: Mapping[str, Any]) -> Options:
    """The options of a strategy as its function takes them. Raises InputFault with one line per option that is wrong."""
    try:
        return validated(chosen.options, table)
    except ValidationError as error:
        raise InputFault("\n".join(_lines(chosen, table, error).values())) from error


def option_defects(chosen: Strategy, table: Mapping[str, Any]) -> dict[str, str]:
    """One line for each option that is wrong, by its name; by "" what is wrong with several together."""
    try:
        validated(chosen.options, table)
    except ValidationError as error:
        return _lines(chosen, table, error)
    return {}


def _lines(chosen: Strategy, table: Mapping[str, Any], error: ValidationError) -> dict[str, str]:
    lines: dict[str, str] = {}
    for defect in error.errors():
        name = str(defect["loc"][0]) if defect["loc"] else ""
        lines.setdefault(name, _line(chosen, table, name, defect))
    return lines


def _line(chosen: Strategy, table: Mapping[str, Any], name: str, defect: Any) -> str:
    known = list(chosen.options.model_fields)
    if not name:
        return f"{KEY} of '{chosen.name}': {reason_of(defect)}"
    key = f"{KEY}.{name}"
    if defect["type"] == "extra_forbidden":
        return f"{key}: '{chosen.name}' has no such option; {close(name, known)}it has {', '.join(known) or 'none'}"
    expected = kind_at(chosen.options, [name])
    if defect["type"] == "missing":
        return f"{key}: missing; '{chosen.name}' needs {expected.words if expected else 'it'}"
    value = table.get(name)
    wanted = requirement(expected, defect, value, may_be_swept=True)
    return f"{key} = {shown(value)}: {wanted} (an option of '{chosen.name}')"
