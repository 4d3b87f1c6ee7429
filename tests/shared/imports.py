"""What a source imports, by its text alone."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from functools import cache


@cache  # several rules ask it of the same sources
def imported_names(source: str) -> frozenset[str]:
    """Dotted names of every import; `from a import b` gives both a and a.b, for b may be a module."""
    return names_imported_by(ast.walk(ast.parse(source)))


def names_imported_by(nodes: Iterable[ast.AST]) -> frozenset[str]:
    """The same, of the nodes of a source."""
    found: set[str] = set()
    for node in nodes:
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found |= {node.module} | {f"{node.module}.{alias.name}" for alias in node.names}
    return frozenset(found)
