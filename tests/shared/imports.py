"""What a source imports, by its text alone."""

from __future__ import annotations

import ast
from functools import cache


@cache  # several rules ask it of all sources
def imported_names(source: str) -> frozenset[str]:
    """Dotted names of every import; `from a import b` gives both a and a.b, for b may be a module."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found |= {node.module} | {f"{node.module}.{alias.name}" for alias in node.names}
    return frozenset(found)


def imported_packages(source: str) -> set[str]:
    """Their first parts."""
    return {name.partition(".")[0] for name in imported_names(source)}
