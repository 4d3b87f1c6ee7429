"""Student's t distribution, from scipy, which is imported when it is first asked: that takes half a second or more, which
commands that print no interval do not need.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Float64 = npt.NDArray[np.float64]
Numbers = float | Float64 | npt.NDArray[np.int64]


def quantile(freedom: Numbers, probability: float) -> Float64:
    """Returns the value below which t lies with this probability, for these degrees of freedom."""
    from scipy import special  # noqa: PLC0415 (not scipy.stats, which takes longer still)

    return np.asarray(special.stdtrit(freedom, probability))


def chance_below(freedom: Numbers, value: Numbers) -> Float64:
    """Returns the probability that t is less than `value`."""
    from scipy import special  # noqa: PLC0415

    return np.asarray(special.stdtr(freedom, value))


def noncentral_chance_below(freedom: Numbers, noncentrality: Numbers, value: Numbers) -> Float64:
    """Returns the probability that a noncentral t is less than `value`."""
    from scipy import special  # noqa: PLC0415

    return np.asarray(special.nctdtr(freedom, noncentrality, value))
