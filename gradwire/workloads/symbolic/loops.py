"""Loops over arrays from one source, run in two ways: by Python, or compiled to machine code by numba.

To load numba and machine code takes a second, which small plans do not need. Compiling takes some seconds of one core,
once; numba keeps the machine code next to the source, or in its cache.
"""

from __future__ import annotations

from collections.abc import Callable
from types import FunctionType
from typing import Any, TypeVar, cast

Function = TypeVar("Function", bound=Callable[..., Any])


class Loops:
    """The loops of a module, which may call each other.

    They use arrays, tuples of arrays and numbers, and make no array.
    """

    def __init__(self) -> None:
        self._functions: list[FunctionType] = []
        self._compiled: dict[str, Any] = {}

    def __call__(self, function: Function) -> Function:
        """Takes a function in, and leaves it as it is."""
        assert isinstance(function, FunctionType)
        self._functions.append(function)
        return function

    def in_code(self, function: Function) -> Function:
        """The function in machine code, which is compiled at its first call."""
        if not self._compiled:
            self._compile()
        return cast(Function, self._compiled[function.__name__])

    def _compile(self) -> None:
        """Compiles copies of the functions to machine code. The copies find one another by the module's names, so that
        none calls a function in Python."""
        names = dict(self._functions[0].__globals__)
        for function in self._functions:
            copy = FunctionType(function.__code__, names, function.__name__)
            self._compiled[function.__name__] = names[function.__name__] = _in_code(copy)


def _in_code(function: FunctionType) -> Any:
    import numba  # noqa: PLC0415 (a second that few plans need)
    from numba.core.cpu import CPUTargetOptions  # noqa: PLC0415

    # No counting of references to arrays, which no function here makes or drops: whatever is passed on would cost ten
    # times as much. numba does not document the option.
    options: dict[str, Any] = {"_nrt": False} if hasattr(CPUTargetOptions, "_nrt") else {}
    try:
        return numba.njit(cache=True, **options)(function)
    except RuntimeError:  # numba has no folder that it may write to
        return numba.njit(**options)(function)
