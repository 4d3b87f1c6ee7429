"""Options that a command does not have and that are keys of a scenario: `gradwire run --workers 4`."""

from __future__ import annotations

from typing import Any

MOST_KEYS = 3
"""Number of keys with the same last part up to which they are suggested."""


def suggest_keys(error: Exception) -> None:
    """Rewrites an error about an option that does not exist, if a key of a scenario has its name and the command takes
    keys: then that is meant, and no option that is spelt alike."""
    option, context = getattr(error, "option_name", ""), getattr(error, "ctx", None)
    if not option or context is None or not _takes_keys(context.command):
        return
    if keys := _keys_called(option.lstrip("-").replace("-", "_")):
        meant: Any = error
        meant.possibilities = None
        meant.message = f"No such option: {option}. A key of the scenario is set by {' or '.join(f'--set {key}=...' for key in keys)}"


def _takes_keys(command: Any) -> bool:
    return any("--set" in parameter.opts for parameter in command.params)


def _keys_called(name: str) -> list[str]:
    from gradwire.scenario.explanations import dotted_keys
    from gradwire.scenario.loading import KNOWN_BY
    from gradwire.scenario.schema import PointSection

    if name in KNOWN_BY:
        return [KNOWN_BY[name]]
    found = [key for key in dotted_keys(PointSection) if key.rpartition(".")[2] == name]
    return found if len(found) <= MOST_KEYS else []
