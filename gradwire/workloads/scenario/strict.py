"""Validation of what was written, as it was written."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, TypeVar

from pydantic import BaseModel

Model = TypeVar("Model", bound=BaseModel)


def validated(kind: type[Model], table: Mapping[str, Any]) -> Model:
    """Validates a table: "8" and true are not numbers, and 1 is not true. Raises pydantic's ValidationError.

    That is how pydantic reads JSON strictly. Its strict reading of Python objects would also want enums and tuples, which no file has.
    """
    return kind.model_validate_json(json.dumps(table, default=str), strict=True)
