"""The interface through which runs report while they go on. Who begins one decides how that is shown: gradwire/console/ shows it on a
terminal, and `Silent` shows nothing."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any, Protocol

from typing_extensions import TypeVar, override

from gradwire.inside.point_protocol import Event
from gradwire.runs.executing.executor import MachineWatcher
from gradwire.runs.expected_cost import TimeLeft
from gradwire.runs.judged import JudgedRun
from gradwire.runs.planned import PlannedRun
from gradwire.runs.planned_point import PlannedPoint

N_contra = TypeVar("N_contra", bound=PlannedPoint, default=PlannedRun, contravariant=True)
OnStep = Callable[[int, int, str], None]
"""Hears of a step of a build: the steps done, all steps, and the present one in words."""


class Watcher(MachineWatcher[N_contra], Protocol[N_contra]):
    """Hears how the points are getting on; called from several threads."""

    def ended(self, judged: JudgedRun[Any, Any]) -> None:
        """The point is done, one way or the other."""


class Working(Protocol):
    """Hears how far something is that takes a while."""

    def update(self, text: str) -> None:
        """Hears what is being done now."""

    def rest(self) -> None:
        """Gives up threads that it may have: a process with several threads must not fork."""


class Screen(Protocol):
    """Hears what a run has to tell."""

    def warn(self, warning: str) -> None:
        """Hears a warning, to be read before the results are trusted."""

    def note(self, line: str) -> None:
        """Hears a line about the run that is no warning, such as how many points are going to run."""

    def working(self, what: str) -> AbstractContextManager[Working]:
        """Hears at once what is being done, for this block, and then how far it is."""

    def building_kernel(self) -> AbstractContextManager[OnStep]:
        """Hears, for this block, of the steps in which the virtual-time kernel is built."""

    def running(
        self, points: int, expectation: TimeLeft, titles: Mapping[Path, str]
    ) -> AbstractContextManager[Watcher[Any]]:
        """Hears, for this block, how so many points are getting on. titles: words before a point's label, by the
        point's folder, if points are of several scenarios."""


class Silent(Screen):
    """A Screen that tells nobody."""

    @override
    def warn(self, warning: str) -> None:
        pass

    @override
    def note(self, line: str) -> None:
        pass

    @override
    def working(self, what: str) -> AbstractContextManager[Working]:
        return nullcontext(_Unheard())

    @override
    def building_kernel(self) -> AbstractContextManager[OnStep]:
        return nullcontext(lambda _done, _total, _text: None)

    @override
    def running(
        self, points: int, expectation: TimeLeft, titles: Mapping[Path, str]
    ) -> AbstractContextManager[Watcher[Any]]:
        return nullcontext(_Unheard())


class _Unheard(Working, Watcher[Any]):
    """Hears of work and of points, and does nothing."""

    @override
    def update(self, text: str) -> None:
        pass

    @override
    def rest(self) -> None:
        pass

    @override
    def started(self, planned: PlannedPoint) -> None:
        pass

    @override
    def heard(self, planned: PlannedPoint, event: Event) -> None:
        pass

    @override
    def ended(self, judged: JudgedRun[Any, Any]) -> None:
        pass
