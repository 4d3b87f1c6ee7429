"""What a report says of a run that is off its estimate: sentences that go on after "x fluid is 1.164: "."""

from __future__ import annotations

from gradwire.analysis.agreement.causes import Cause, Deviation, Trial
from gradwire.analysis.quantities import quantity

SUBJECTS = {
    Cause.AGENTS: "late agents explain",
    Cause.START: "the first iteration explains",
    Cause.END: "the last iteration explains",
    Cause.ACKS: "ACKs explain",
    Cause.BURSTS: "bursts explain",
    Cause.SOCKETS: "sockets explain",
    Cause.SWITCHES: "switch queues explain",
    Cause.SKEW: "skew explains",
    Cause.DELAYS: "the links' delays explain",
    Cause.WINDOWS: "sockets' windows explain",
}


def rough(value: float, unit: str) -> str:
    """A quantity in two significant digits."""
    return quantity(float(f"{value:.2g}"), unit)


def unexplained(deviation: Deviation) -> str:
    """What to say where no cause was found."""
    return (
        f"no known effect explains the difference between {quantity(deviation.measured_s, 's')} measured and "
        f"{quantity(deviation.ideal_s, 's')} on an ideal network. Check this point before you trust it"
    )


def explained(deviation: Deviation, found: Trial) -> str:
    """What to say of a cause: how much it explains, what it is, and the times that show it."""
    measured, ideal, shown = (quantity(s, "s") for s in (deviation.measured_s, deviation.ideal_s, found.with_effect_s))
    begin, effect = SUBJECTS[found.cause], found.effect
    if found.is_bound:
        bound = f"At most, that makes {shown} of the {ideal} that an ideal network takes, and {measured} were measured"
        return f"{begin} it as far as can be told. {effect}. {bound}"
    if found.cause in (Cause.AGENTS, Cause.START, Cause.END):
        times = f"{measured} were measured, and an ideal network takes {ideal}"
    else:
        times = f"With that, an ideal network takes {shown} instead of {ideal}, and {measured} were measured"
    return f"{begin} {deviation.explained(found.with_effect_s):.0%} of the difference. {effect}. {times}"
