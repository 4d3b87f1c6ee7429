"""How many of the tokens the experts of each worker get."""

from __future__ import annotations

from gradwire.faults import InputFault
from gradwire.workloads.engines.parallel.segments import Segment


def shares_of_workers(segment: Segment, workers: int, skew: float | None) -> list[float] | None:
    """The share of the tokens' choices that falls on each of the workers that have a segment's experts; None: all shares are the same.

    skew: the share that falls on the first expert, the hottest; the others get the same of what is left. So the first worker is the
    hottest one, in every block and microbatch, whichever worker the tokens come from.

    Raises InputFault for a share that is less than an even one, or more than one expert can get when a token goes to several.
    """
    if skew is None:
        return None
    count = segment.experts
    if not 1 / count <= skew <= 1 / segment.per_token:
        raise InputFault(
            f"strategy.options.token_skew = {skew:g}: must be from 1/{count} (all {count} experts get as much) to 1/{segment.per_token} "
            f"(each token goes to {segment.per_token}, and each time to the hottest)"
        )
    other = (1 - skew) / (count - 1) if count > 1 else 0.0
    each = count // workers
    return [skew + (each - 1) * other, *[each * other] * (workers - 1)]


def least_share(segment: Segment, workers: int, skew: float | None) -> float:
    """The smallest of the workers' shares, as a multiple of an even one; 1 for a segment without experts that tokens are brought to."""
    shares = shares_of_workers(segment, workers, skew) if segment.routed_values else None
    return min(shares) * workers if shares else 1.0
