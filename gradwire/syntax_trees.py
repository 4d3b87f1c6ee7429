"""Syntax trees in processes with several threads.

CPython before 3.11.8 and 3.12.2 counts the depth of syntax trees for all threads together, and raises SystemError if
two make one at once (github.com/python/cpython/issues/106905). `ast.parse` makes one, and so does NumPy for the header
of each array (`ast.literal_eval`).
"""

import threading
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")
_TURN = threading.RLock()


def parsed(parse: Callable[[], T]) -> T:
    """Calls `parse`, which makes a syntax tree, in one thread at a time, and returns its result. Calls it once more if
    the thread of another library interfered."""
    with _TURN:
        try:
            return parse()
        except SystemError:
            return parse()
