"""Reads how long devices worked on what scripts of PyTorch asked of them, from what gradwire/gpu_scripts left in their processes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path

import msgspec

from gradwire.gpus.invented_calls import Counted, lines_of
from gradwire.typed_json import decoded

MOST_SHOWN = 3


class DeviceUse(msgspec.Struct, frozen=True):
    """What one process had its device do."""

    #: Nanoseconds of kernels and copies, of all streams together. Collectives are not among them.
    busy_ns: Counted
    flops: Counted
    #: Most memory that tensors took at once.
    most_bytes: Counted
    #: Nanoseconds by operation, the longest first.
    operations: dict[str, Counted]
    #: Host of the process, or program and host.
    place: str = ""


def device_uses(files: Mapping[str, Path]) -> tuple[DeviceUse, ...]:
    """Those of all processes. files: by host, or program and host. Lines that are not as a process writes them are left out."""
    found = []
    for place, file in files.items():
        for line in lines_of(file):
            with suppress(msgspec.DecodeError):
                found.append(msgspec.structs.replace(decoded(line, DeviceUse), place=place))
    return tuple(found)


def use_text(uses: Iterable[DeviceUse]) -> str:
    """What a person is told of them; "" for none."""
    uses = list(uses)
    if not uses:
        return ""
    most = max(uses, key=lambda use: use.busy_ns)
    operations = Counter(most.operations).most_common(MOST_SHOWN)
    shares = ", ".join(
        f"{name.removeprefix('aten.')} {spent_ns / max(1, most.busy_ns):.0%}" for name, spent_ns in operations
    )
    return (
        f"GPU kernels took {most.busy_ns / 1e6:,.3f} ms on {most.place} ({shares}), "
        f"{most.flops / 1e12:,.3f} TFLOP, at most {max(use.most_bytes for use in uses) / 2**20:,.1f} MiB of tensors; "
        "at the data sheet's rates, and launches and the host's code take no time"
    )
