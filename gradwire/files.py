"""Files that are there whole or not at all."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A path beside `path` to write to; at the end of the block, what was written takes the place of `path`.

    Readers see the old file or the new one, and nothing in between, even where the writer is killed. When the block raises,
    `path` stays as it was, and what was written so far lies beside it until the next attempt.
    """
    partial = path.with_name(path.name + ".partial")
    yield partial
    partial.replace(path)
