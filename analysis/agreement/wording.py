"""What a report says of a run that is off its estimate."""

from __future__ import annotations

from gradwire.analysis.agreement.causes import Cause, Deviation, Trial
from gradwire.analysis.report.quantities import quantity

SUBJECTS = {
    Cause.AGENTS: "Late agents explain",
    Cause.START: "The first iteration explains",
    Cause.ACKS: "ACKs explain",
    Cause.BURSTS: "Bursts explain",
    Cause.SOCKETS: "Sockets explain",
    Cause.SWITCHES: "Switch queues explain",
    Cause.SKEW: "Skew explains",
}


def rough(value: float, unit: str) -> str:
    """A quantity in two significant digits."""
    return quantity(float(f"{value:.2g}"), unit)


def off_in_words(deviation: Deviation) -> str:
    """How far a run is from its estimate: the beginning of a sentence."""
    measured, ideal = quantity(deviation.measured_s, "s"), quantity(deviation.ideal_s, "s")
    return f"{measured} an iteration, {deviation.ratio:.3f} times the {ideal} on an ideal network"


def unexplained(deviation: Deviation) -> str:
    """What to say where no cause was found."""
    return f"{off_in_words(deviation)}, and no known effect explains the difference: check this point before you trust it"


def explained(deviation: Deviation, found: Trial) -> str:
    """What to say of a cause: how much it explains, what it is, and the estimate that shows it."""
    begin = f"{off_in_words(deviation)}. {SUBJECTS[found.cause]}"
    estimate = quantity(found.with_effect_s, "s")
    if found.is_bound and not deviation.is_explained(found.with_effect_s):
        return f"{begin} it, as far as can be told: {found.effect}. If all did, an iteration would take {estimate}"
    shown = "" if found.cause in (Cause.AGENTS, Cause.START) else f". With that, the estimate is {estimate}"
    return f"{begin} {deviation.explained(found.with_effect_s):.0%} of the difference: {found.effect}{shown}"
