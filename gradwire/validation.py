"""Turns pydantic's validation errors into keys and reasons that a person can act on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def key_of(defect: Mapping[str, Any]) -> str:
    """Returns the dotted key that an entry of `ValidationError.errors()` is about."""
    return ".".join(str(step) for step in defect["loc"])


def reason_of(defect: Mapping[str, Any]) -> str:
    """Describes what is wrong with the value, without the prefix that pydantic gives to messages of custom validators."""
    return str(defect["msg"]).removeprefix("Value error, ")
