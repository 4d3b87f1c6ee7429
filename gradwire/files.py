"""Files that are written completely or not at all."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yields a path beside `path` to write to. At the end of the block, the file written there replaces `path`.

    Readers see the old file or the new one and nothing in between, even if the writer is killed. If the block raises, `path` stays as it
    was, and the partial file stays beside it until the next attempt.
    """
    partial = path.with_name(path.name + ".partial")
    yield partial
    partial.replace(path)
