"""Which networks that drop or mark, and which congestion controls, fit together with the rest of a point."""

from __future__ import annotations

from collections.abc import Iterable

from gradwire.datatypes.plan import Plan
from gradwire.faults import InputFault
from gradwire.scenario.schema import PointSection


def congestion_defects(section: PointSection) -> list[str]:
    """Describes keys that do not fit together, one line each."""
    if section.transport.congestion == "dctcp" and not section.fabric.ecn_bytes:
        return [
            "transport.congestion = 'dctcp': reacts to marks, and no port makes any: set fabric.ecn, such as \"100KB\" at 10 Gbit/s"
        ]
    return []


def congestion_keys(section: PointSection) -> list[str]:
    """What a point says of drops, marks and windows, as keys with their values; empty for a lossless network."""
    fabric, transport = section.fabric, section.transport
    said = {
        "fabric.buffer": f"{fabric.buffer_bytes}B" if fabric.buffer_bytes else "",
        "fabric.ecn": f"{fabric.ecn_bytes}B" if fabric.ecn_bytes else "",
        "transport.congestion": f"'{transport.congestion}'" if transport.congestion else "",
    }
    return [f"{key} = {value}" for key, value in said.items() if value]


def refuse_scaled(section: PointSection, scale: int) -> None:
    """Raises InputFault where bytes and rates are divided, for windows count packets, which stay as large as they are."""
    keys = congestion_keys(section)
    if keys and scale != 1:
        raise InputFault(
            f"{', '.join(keys)}: bytes and rates would be divided by {scale}, and windows would not, for they count packets, which stay "
            "as large as they are. Run undivided: without run.fidelity, with --scale 1 on the wall clock, or with fewer workers or a lower "
            "rate"
        )


def refuse_multicast(section: PointSection, plans: Iterable[Plan]) -> None:
    """Raises InputFault for multicast past finite buffers: its senders have no congestion control that would slow them down."""
    if section.fabric.buffer_bytes and any(plan.multicasts() for plan in plans):
        raise InputFault(
            f"fabric.buffer = {section.fabric.buffer_bytes}B: strategy '{section.strategy.name}' sends multicast, which is UDP without "
            'congestion control: its senders would overflow buffers again and again. Use fabric.buffer = "deep", or fabric.loss'
        )
