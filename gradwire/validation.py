"""Turns pydantic's validation errors into keys and reasons that a person can act on."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, TypeVar

from pydantic import BaseModel

Model = TypeVar("Model", bound=BaseModel)


def key_of(defect: Mapping[str, Any]) -> str:
    """Returns the dotted key that an entry of `ValidationError.errors()` is about."""
    return ".".join(str(step) for step in defect["loc"])


def reason_of(defect: Mapping[str, Any]) -> str:
    """Describes what is wrong with the value, without the prefix that pydantic gives to messages of custom validators."""
    return str(defect["msg"]).removeprefix("Value error, ")


def validated(kind: type[Model], table: Mapping[str, Any]) -> Model:
    """Validates a table as it was written: "8" and true are no numbers, 1 is no true. Raises pydantic's ValidationError.

    That is how pydantic reads JSON strictly. Its strict reading of Python objects would also want enums and tuples, which no file has.
    """
    return kind.model_validate_json(json.dumps(table, default=str), strict=True)
