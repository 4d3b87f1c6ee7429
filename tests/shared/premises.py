"""Premises of explanations: each one is broken on purpose."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import FunctionType, ModuleType
from typing import Any

import pytest

from reproduction.scoring.explanations import Unexplained, explained_claims

Argue = Callable[..., str]


@dataclass(frozen=True)
class Case:
    """A function that argues, numbers from which it explains, and changes of them: each breaks another of its premises."""

    argue: Argue
    numbers: Mapping[str, Any]
    breaks: Sequence[Mapping[str, Any]]

    @property
    def name(self) -> str:
        """The function's."""
        return self.argue.__name__


def check_case(case: Case) -> None:
    """Fails unless the numbers are explained, and every premise of the function breaks once."""
    assert case.argue(**case.numbers)
    expected = set()
    for change in case.breaks:
        with pytest.raises(Unexplained) as broken:
            case.argue(**{**case.numbers, **change})
        assert broken.value.seen
        expected.add(_premise_line(broken.value))
    assert len(expected) == inspect.getsource(case.argue).count("premise("), (
        f"{case.name}: not every premise was broken"
    )


def _premise_line(broken: BaseException) -> int:
    """Where the premise is stated that was broken: the line of the call in the function that argues."""
    frames = inspect.getinnerframes(broken.__traceback__) if broken.__traceback__ else []
    return frames[-2].lineno


def check_coverage(modules: Sequence[ModuleType], cases: Sequence[Case]) -> None:
    """Fails unless every function of the modules that states a premise has its case, and every bound explanation uses such a function."""
    arguing = {name for module in modules for name, member in vars(module).items() if _states_premises(member, module)}
    assert {case.name for case in cases} == arguing
    names = {module.__name__ for module in modules}
    for claim, explain in explained_claims().items():
        if explain.__module__ in names:
            assert _reached(explain) & arguing, f"{claim}: {explain.__name__} rests on no premise"


def _states_premises(member: object, module: ModuleType) -> bool:
    own = isinstance(member, FunctionType) and member.__module__ == module.__name__
    return own and "premise" in member.__code__.co_names  # type: ignore[attr-defined]


def _reached(explain: Callable[..., object]) -> set[str]:
    """Names that a function uses, and those that functions of its own module use in turn."""
    reached: set[str] = set()
    waiting = [explain]
    while waiting:
        function = waiting.pop()
        for name in set(function.__code__.co_names) - reached:
            reached.add(name)
            member = function.__globals__.get(name)
            if isinstance(member, FunctionType) and member.__module__ == explain.__module__:
                waiting.append(member)
    return reached
