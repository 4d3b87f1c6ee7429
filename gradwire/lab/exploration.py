"""Looks for a seed with which a trial fails: the way to a race that few orders of events show."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from gradwire.faults import Fault
from gradwire.lab.network import Network
from gradwire.lab.programs import LimitReached, ProgramFailed
from gradwire.lab.settings import Settings


@dataclass(frozen=True)
class Failure:
    """A trial that failed."""

    seed: int
    error: Exception
    #: The events in its lab.
    story: str

    def __str__(self) -> str:
        return f"seed {self.seed} fails: {self.error}\n{self.story}"


def explore(trial: Callable[[Network], object], seeds: Iterable[int], **settings: object) -> Failure | None:
    """Runs a trial in a fresh lab for each seed until one fails, and says with which; None if none does.

    trial: draws the network that it is given, runs programs on it, and raises an exception if something is wrong. With
    the same seed it does the same again. Raises the Fault of a trial whose lab cannot be.
    """
    for seed in seeds:
        with Network(Settings.of({**settings, "seed": seed})) as net:
            try:
                trial(net)
            except Exception as error:
                if isinstance(error, Fault) and not isinstance(error, ProgramFailed | LimitReached):
                    raise
                return Failure(seed, error, net.story())
    return None
