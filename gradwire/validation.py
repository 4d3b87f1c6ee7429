"""What pydantic finds wrong with input, as a key and a reason that a person can act on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def key_of(defect: Mapping[str, Any]) -> str:
    """The dotted key that an entry of `ValidationError.errors()` is about."""
    return ".".join(str(step) for step in defect["loc"])


def reason_of(defect: Mapping[str, Any]) -> str:
    """What is wrong with the value, without pydantic's prefix for messages of our own validators."""
    return str(defect["msg"]).removeprefix("Value error, ")
