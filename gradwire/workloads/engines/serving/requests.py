"""Requests to a model that is served: drawn at a rate, or read from a trace."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

import numpy as np

from gradwire.csv_files import read_csv
from gradwire.faults import InputFault

Arrivals = Literal["poisson", "even"]
MOST_REQUESTS = 100_000
MOST_TOKENS = 10_000_000
"""Longer prompts and answers than any model takes."""
COLUMNS = (
    ("arrival_s", "prompt_tokens", "output_tokens"),
    # Azure's public traces of LLM inference, 2023 and 2024 (github.com/Azure/AzurePublicDataset).
    ("TIMESTAMP", "ContextTokens", "GeneratedTokens"),
)
"""Names of the columns that a trace may have: when a request arrives, in seconds or as a date with a time, and the lengths of its prompt
and of its answer in tokens."""


@dataclass(frozen=True)
class Request:
    """A prompt, and how many tokens the answer has."""

    arrival_s: float
    prompt_tokens: int
    output_tokens: int


def drawn_requests(
    count: int, rate_per_s: float | None, arrivals: Arrivals, lengths: tuple[int, int], seed: int
) -> list[Request]:
    """Requests that are all as long: (prompt, answer) in tokens.

    rate_per_s: how many arrive per second, the first one at 0; None: all at once. arrivals: whether the times between them are drawn from
    the seed as a Poisson process has them, or are all the same.
    """
    between_s = np.full(count, 0.0 if rate_per_s is None else 1.0 / rate_per_s)
    if arrivals == "poisson":
        between_s *= np.random.default_rng(abs(seed)).exponential(size=count)
    arrival_s = np.concatenate([[0.0], np.cumsum(between_s[1:])])
    return [Request(float(at_s), *lengths) for at_s in arrival_s]


def recorded_requests(path: Path, count: int) -> list[Request]:
    """The first requests of a trace, at most `count`, by the times at which they arrived, the earliest at 0.

    Raises InputFault, with the file and the line, for what is not such a trace.
    """
    try:
        rows = read_csv(path)
    except OSError as error:
        raise InputFault(f"{path}: {error.strerror}") from error
    except ValueError as error:
        raise InputFault(f"{path}: {error}") from error
    names = next((names for names in COLUMNS if rows and set(names) <= set(rows[0])), None)
    if names is None:
        known = " or ".join(", ".join(names) for names in COLUMNS)
        raise InputFault(f"{path}: is not a trace of requests: must have a request, and the columns {known}")
    found = sorted(
        (_request(f"{path}: line {number}", names, row) for number, row in enumerate(rows, 2)),
        key=lambda request: request.arrival_s,
    )
    first_s = found[0].arrival_s
    return [Request(each.arrival_s - first_s, each.prompt_tokens, each.output_tokens) for each in found[:count]]


def _request(place: str, names: tuple[str, str, str], row: Mapping[str, str]) -> Request:
    at, prompt, output = names
    return Request(_seconds(place, at, row[at]), *(_tokens(place, name, row[name]) for name in (prompt, output)))


def _seconds(place: str, name: str, text: str) -> float:
    try:
        moment = datetime.fromisoformat(text) if "-" in text[1:] and ":" in text else None
        at_s = float(text) if moment is None else (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
    except ValueError:
        at_s = float("nan")
    if not abs(at_s) < 1e12:
        raise InputFault(
            f"{place}: {name} = '{text}': must be seconds, such as 1.5, or a date with a time, such as 2023-11-16 18:17:03.98"
        )
    return at_s


def _tokens(place: str, name: str, text: str) -> int:
    if not (text.isascii() and text.isdecimal() and len(text) <= 8 and 1 <= int(text) <= MOST_TOKENS):
        raise InputFault(f"{place}: {name} = '{text}': must be a whole number of tokens, from 1 to {MOST_TOKENS}")
    return int(text)
