"""Whether a plan amplifies jitter: whether delays of messages cost it more than they last."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gradwire.analysis.fluid.estimate import Jitter
from gradwire.analysis.fluid.ideal import IdealRun

SEEDS = 3
"""Draws that are averaged. Of halving-doubling on 16 hosts, whose draws differ most, single ones are within a fifth of their mean."""
LEAST_INCREASE = 1e-3
"""Equal delays that make less than this of an iteration are hidden behind something else, and nothing is to be divided by them."""
AMPLIFIES = 2.0
"""From this factor on a plan is said to amplify jitter. Whoever waits for the slowest of many loses the longest delay and not the mean one,
which is half of it, so 2 is what a barrier costs. Rings and parameter servers have 0.7 to 1.3, a butterfly of 8 hosts has 1.7, and
halving-doubling has 1.1 on 4 hosts, 1.7 on 8 and 2.7 on 16."""


@dataclass(frozen=True)
class Amplification:
    """What random delays of messages do to a plan's iterations."""

    #: The longest delay; they are drawn evenly from 0 to this, anew for every message.
    most_delay_s: float
    #: Mean iteration time without delays, with equal delays of half the longest one, and with random ones.
    undelayed_s: float
    equal_s: float
    random_s: float

    @property
    def increase(self) -> float:
        """How much longer random delays make an iteration, as a share of its time without them."""
        return self.random_s / self.undelayed_s - 1

    @property
    def factor(self) -> float | None:
        """What random delays add over what equal ones of the same mean add; None where the equal ones add next to nothing.

        Equal delays add up along the longest chain of messages, and keep all ranks in step. So 1 says that jitter costs what one chain of
        messages loses, 2 what each step loses where all wait for the slowest, and 3 more than that: ranks get out of step, and what is
        early takes ports from what is late.
        """
        added_s = self.equal_s - self.undelayed_s
        return (self.random_s - self.undelayed_s) / added_s if added_s > LEAST_INCREASE * self.undelayed_s else None

    @property
    def is_amplified(self) -> bool:
        """Whether random delays cost far more than equal ones."""
        return self.factor is None or self.factor >= AMPLIFIES


def amplification(
    run: IdealRun, most_delay_s: float, whole_bytes: int = 0, undelayed_s: float | None = None
) -> Amplification:
    """Estimates a run without delays, with equal ones, and with random ones of SEEDS draws.

    whole_bytes: messages with less payload are delayed by as much less. undelayed_s: the first of these, if it is known. Raises
    InternalFault for a plan that gets stuck.
    """
    random_s = [run.time_s(jitter=Jitter(most_delay_s, seed), whole_bytes=whole_bytes) for seed in range(SEEDS)]
    return Amplification(
        most_delay_s=most_delay_s,
        undelayed_s=run.time_s() if undelayed_s is None else undelayed_s,
        equal_s=run.time_s(latency_s=most_delay_s / 2, whole_bytes=whole_bytes),
        random_s=float(np.mean(random_s)),
    )
